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

type Kind = { readonly kind: keyof typeof LISTS };

/** Page for a resource that does not exist or that the user may not read; both look the same. */
export function ResourceNotFound({ kind }: Kind) {
  const [list, all] = LISTS[kind];
  return (
    <section>
      <h1>{kind.charAt(0).toUpperCase() + kind.slice(1)} not found</h1>
      <p>
        It was deleted, or you do not have permission to read it. <Link href={list}>{all}</Link> or <Link href="/">go to the fleet</Link>.
      </p>
    </section>
  );
}

/** Replaces a page whose resource could not be loaded. */
export function ResourceError({ error, kind }: Kind & { readonly error: CombinedError }) {
  return codeOf(error) === "NOT_FOUND" ? <ResourceNotFound kind={kind} /> : <Problem error={error} />;
}
