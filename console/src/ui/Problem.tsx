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

/** Error of a query or a mutation, with the server's message. */
export function Problem({ error }: { readonly error: CombinedError }) {
  const first = error.graphQLErrors[0];
  const code = codeOf(error);
  const text = first?.message ?? "The control plane did not respond. The console retries automatically.";
  return (
    <div className="problem" role="alert">
      <strong>{HEADS[code] ?? "Something went wrong."}</strong>
      {text}
      {code === "FORBIDDEN" && (
        <p>
          An administrator can grant you the role. You can also <Link href={requestPath(text)}>request temporary access</Link>.
        </p>
      )}
    </div>
  );
}
