// Where a service can run and come from, found while somebody types, however many there are.
import { useDeferredValue } from "react";
import { useQuery } from "urql";
import { TargetsDocument } from "../api/generated";

/** An id; null: there is nothing of that name; undefined: that is not known yet. */
type Id = string | null | undefined;
export type Targets = { readonly handles: readonly string[]; readonly urls: readonly string[]; readonly clusterId: Id; readonly repositoryId: Id };

/** Clusters and repositories that fit to what is typed, and the ids of those of exactly these names. */
export function useTargets(cluster: string, repository: string): Targets {
  const asked = { cluster: useDeferredValue(cluster), repository: useDeferredValue(repository) };
  const [{ data, operation, fetching }] = useQuery({ query: TargetsDocument, variables: asked });
  const of = operation?.variables;
  const isKnown = data !== undefined && !fetching && of?.cluster === cluster && of.repository === repository;
  return {
    handles: data?.clusters.edges.map(({ node }) => node.handle) ?? [],
    urls: data?.gitRepositories.edges.map(({ node }) => node.url) ?? [],
    clusterId: isKnown ? (data.cluster?.id ?? null) : undefined,
    repositoryId: isKnown ? (data.gitRepository?.id ?? null) : undefined,
  };
}
