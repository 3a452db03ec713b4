import type { CombinedError } from "urql";
import { codeOf } from "../api/client";
import { Link } from "wouter";
import "./problem.css";

const HEADS: Record<string, string> = { FORBIDDEN: "Not allowed.", NOT_FOUND: "Not there.", INVALID: "Not taken.", CONFLICT: "Not done." };

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
          Who administers that place gives this right; for some minutes, <Link href="/access?tab=requests">ask for it</Link>.
        </p>
      )}
    </div>
  );
}
