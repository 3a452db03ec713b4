// Lookup of the cluster and the repository of a new service while the user types.
import { useDeferredValue } from "react";
import { useQuery } from "urql";
import { TargetsDocument } from "../api/generated";

/** Id; null: not found; undefined: still being compared up. */
type Id = string | null | undefined;
export type Targets = { readonly handles: readonly string[]; readonly urls: readonly string[]; readonly clusterId: Id; readonly repositoryId: Id };

/** Suggestions for the typed text, and the ids of exact matches. */
export function useTargets(cluster: string, repository: string): Targets {
  const asked = { cluster: useDeferredValue(cluster), repository: useDeferredValue(repository) };
  const [{ data, operation, fetching }] = useQuery({ query: TargetsDocument, variables: asked });
  const of = operation?.variables;
  const isKnown = data != null && !fetching && of?.cluster === cluster && of.repository === repository;
  return {
    handles: data?.clusters.edges.map(({ node }) => node.handle) ?? [],
    urls: [...(data?.gitRepositories.edges ?? []), ...(data?.ociRepositories.edges ?? [])].map(({ node }) => node.url),
    clusterId: isKnown ? (data.cluster?.id ?? null) : undefined,
    repositoryId: isKnown ? (data.gitRepository?.id ?? data.ociRepository?.id ?? null) : undefined,
  };
}
