import type { CombinedError } from "urql";
import { Link } from "wouter";
import { codeOf } from "../api/client";
import { Problem } from "./Problem";

const LISTS = {
  cluster: ["/clusters", "All clusters"],
  gate: ["/pipelines", "All pipelines"],
  object: ["/search", "All objects"],
  pipeline: ["/pipelines", "All pipelines"],
  secret: ["/secrets", "All secrets"],
  service: ["/services", "All services"],
} as const;

type What = { readonly what: keyof typeof LISTS };

/** What an address names is not there, or one may not see it: both read alike. */
export function NotThere({ what }: What) {
  const [list, all] = LISTS[what];
  return (
    <section>
      <h1>No such {what}</h1>
      <p>
        It was deleted, or you may not see it. <Link href={list}>{all}</Link>, or <Link href="/">to the fleet</Link>.
      </p>
    </section>
  );
}

/** Instead of a page whose thing was not given: it is not there, or why it cannot be shown. */
export function NotShown({ error, what }: What & { readonly error: CombinedError }) {
  return codeOf(error) === "NOT_FOUND" ? <NotThere what={what} /> : <Problem error={error} />;
}
