import type { CombinedError } from "urql";
import "./problem.css";

/** Why something could not be shown or done, in the server's own sentence. */
export function Problem({ error }: { readonly error: CombinedError }) {
  const first = error.graphQLErrors[0];
  const text = first?.message ?? "The control plane did not answer. It is asked again by itself.";
  const code = first?.extensions["code"];
  return (
    <div className="problem" role="alert">
      <strong>{code === "FORBIDDEN" ? "Not allowed" : "Not shown"}</strong> {text}
    </div>
  );
}
