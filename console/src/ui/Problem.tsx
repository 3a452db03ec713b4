import type { CombinedError } from "urql";
import { codeOf } from "../api/client";
import { Link } from "wouter";
import "./problem.css";

const HEADS: Record<string, string> = { FORBIDDEN: "Permission denied.", NOT_FOUND: "Not found.", INVALID: "Invalid input.", CONFLICT: "Conflict." };

/** Path of the request form for the role that an error names. */
function requestPath(message: string): string {
  const role = /needs role ([\w.-]+)/.exec(message)?.[1] ?? "";
  return `/access?tab=requests&role=${encodeURIComponent(role)}`;
}

/** Heading and message. An internal error has no message for users; its request id leads to the server's log. */
function wordsOf(error: CombinedError): readonly [heading: string, message: string] {
  const first = error.graphQLErrors[0];
  if (first === undefined) return ["Connection failed.", "The control plane did not respond. The console retries automatically."];
  const requestId = first.extensions["requestId"];
  if (typeof requestId === "string") return [`Something went wrong (request ${requestId}).`, "The log of the control plane has the details under this request ID."];
  return [HEADS[codeOf(error)] ?? "Something went wrong.", first.message];
}

/** Error of a query or a mutation. */
export function Problem({ error }: { readonly error: CombinedError }) {
  const [heading, message] = wordsOf(error);
  return (
    <div className="problem" role="alert">
      <strong>{heading}</strong>
      {message}
      {codeOf(error) === "FORBIDDEN" && (
        <p>
          An administrator can grant you the role. You can also <Link href={requestPath(message)}>request temporary access</Link>.
        </p>
      )}
    </div>
  );
}
