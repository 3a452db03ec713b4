// A service that is being written.
import type { Targets } from "./targets";

export type Draft = {
  readonly cluster: string;
  readonly repository: string;
  readonly ref: string;
  readonly folder: string;
  readonly name: string;
  readonly namespace: string;
};

const LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

/** What a text says of it; what is missing is empty. */
export function draftOf(value: Record<string, unknown>): Draft {
  const text = (name: keyof Draft) => (typeof value[name] === "string" ? value[name] : "");
  return { cluster: text("cluster"), repository: text("repository"), ref: text("ref"), folder: text("folder"), name: text("name"), namespace: text("namespace") };
}

/** Of a thing that is named: what there is to complain of. Nothing while its id is being looked up. */
function unnamed(what: string, name: string, id: string | null | undefined): readonly string[] {
  if (name === "") return [`choose a ${what}`];
  return id === null ? [`no ${what} ${name} here`] : [];
}

/** What it still lacks, each in a sentence. */
export function missing(draft: Draft, { clusterId, repositoryId }: Pick<Targets, "clusterId" | "repositoryId">): readonly string[] {
  return [
    ...unnamed("cluster", draft.cluster, clusterId),
    ...unnamed("repository", draft.repository, repositoryId),
    ...(draft.name === "" ? ["give it a name"] : []),
    ...(draft.namespace === "" ? ["give it a namespace"] : []),
    ...(draft.namespace === "" || LABEL.test(draft.namespace) ? [] : ["namespace: small letters, digits and -, 63 at most"]),
    ...(draft.ref === "" ? ["say what it follows: a branch, a tag or a commit"] : []),
  ];
}
