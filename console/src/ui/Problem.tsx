import type { CombinedError } from "urql";
import { codeOf } from "../api/client";
import { Link } from "wouter";
import "./problem.css";

const HEADS: Record<string, string> = { FORBIDDEN: "Not allowed.", NOT_FOUND: "Not there.", INVALID: "Not taken.", CONFLICT: "Not done." };

/** The form for the role that a refusal names. */
function askFor(refusal: string): string {
  const role = /needs role ([\w.-]+)/.exec(refusal)?.[1] ?? "";
  return `/access?tab=requests&role=${encodeURIComponent(role)}`;
}

/** Why something could not be shown or done, in the server's own sentence. */
export function Problem({ error }: { readonly error: CombinedError }) {
  const first = error.graphQLErrors[0];
  const code = codeOf(error);
  const text = first?.message ?? "The control plane did not answer. It is asked again by itself.";
  return (
    <div className="problem" role="alert">
      <strong>{HEADS[code] ?? "Not shown."}</strong>
      {text}
      {code === "FORBIDDEN" && (
        <p>
          Who has the role admin there, or everywhere, can give it; for some minutes, <Link href={askFor(text)}>ask for it</Link>.
        </p>
      )}
    </div>
  );
}
