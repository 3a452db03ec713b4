// Values of the form that creates a service.
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

/** Reads the form's values from YAML; a missing value becomes empty. */
export function draftOf(value: Record<string, unknown>): Draft {
  const text = (name: keyof Draft) => (typeof value[name] === "string" ? value[name] : "");
  return { cluster: text("cluster"), repository: text("repository"), ref: text("ref"), folder: text("folder"), name: text("name"), namespace: text("namespace") };
}

/** Problems of a cluster or repository that was named; none while its id is being compared up. */
function nameProblems(kind: string, name: string, id: string | null | undefined): readonly string[] {
  if (name === "") return [`${kind} is required`];
  return id === null ? [`${kind} ${name} not found`] : [];
}

/** Everything that is missing or invalid, one sentence each. */
export function missing(draft: Draft, { clusterId, repositoryId }: Pick<Targets, "clusterId" | "repositoryId">): readonly string[] {
  return [
    ...nameProblems("cluster", draft.cluster, clusterId),
    ...nameProblems("repository", draft.repository, repositoryId),
    ...(draft.name === "" ? ["name is required"] : []),
    ...(draft.namespace === "" ? ["namespace is required"] : []),
    ...(draft.namespace === "" || LABEL.test(draft.namespace) ? [] : ["namespace: use lowercase letters, digits and -; at most 63 characters"]),
    ...(draft.ref === "" ? ["branch, tag or commit is required"] : []),
  ];
}
