// A service that is being written.

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

/** What it still lacks, each in a sentence. */
export function missing(draft: Draft, clusters: readonly { readonly handle: string }[], repositories: readonly { readonly url: string }[]): readonly string[] {
  return [
    ...(clusters.some(({ handle }) => handle === draft.cluster) ? [] : [draft.cluster === "" ? "choose a cluster" : `no cluster ${draft.cluster} here`]),
    ...(repositories.some(({ url }) => url === draft.repository) ? [] : [draft.repository === "" ? "choose a repository" : `no repository ${draft.repository} here`]),
    ...(draft.name === "" ? ["give it a name"] : []),
    ...(LABEL.test(draft.namespace) ? [] : ["namespace: small letters, digits and -, 63 at most"]),
    ...(draft.ref === "" ? ["say what it follows: a branch, a tag or a commit"] : []),
  ];
}
