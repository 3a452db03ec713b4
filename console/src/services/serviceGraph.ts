// Graph of the services that depend on each other or share values.
import type { ServiceGraphQuery } from "../api/generated";
import { matching, type EdgeKind, type Graph } from "../topology/graph";
import { serviceState } from "../ui/states";

type Found = ServiceGraphQuery["serviceGraph"];
export type GraphService = Found["services"][number];
type Relation = Found["edges"][number];

/** Kinds of edges, with the style of the topology that each has. */
export const EDGES: Readonly<Record<Relation["kind"], EdgeKind>> = { IMPORT: "CONFIGURATION", DEPENDENCY: "CONTROL" };

/** Nodes and edges for the board; a service is left of those that need it. */
export function graphOfServices({ services, edges }: Found): Graph {
  const distinct = new Map(edges.map(({ sourceId, targetId, kind }) => [`${sourceId} ${targetId} ${kind}`, { from: sourceId, to: targetId, kind: EDGES[kind] }]));
  return {
    vertices: services.map(({ id, name, cluster, status, commitsBehind }) => ({ id, kind: cluster?.handle ?? "", name, state: serviceState(status, commitsBehind), outOfSync: false, members: [], owned: 0, isFolded: false })),
    edges: [...distinct.values()],
  };
}

/** Ids of the services that match a filter; null: all. */
export function litServices(graph: Graph, text: string, problemsOnly: boolean): ReadonlySet<string> | null {
  if (text.trim() === "" && !problemsOnly) return null;
  const found = matching(graph, text, false);
  return new Set(graph.vertices.filter(({ id, state: { tone } }) => found.has(id) && !(problemsOnly && (tone === "ok" || tone === "idle"))).map(({ id }) => id));
}

export type Related = { readonly service: GraphService; readonly values: readonly string[] };

/** Services at the other end of the edges of one service, each with the names of the values. */
export function relatedTo(id: string, { services, edges }: Found, kind: Relation["kind"], end: "sourceId" | "targetId"): readonly Related[] {
  const own = end === "sourceId" ? "targetId" : "sourceId";
  const values = new Map<string, string[]>();
  for (const edge of edges) if (edge[own] === id && edge.kind === kind) values.set(edge[end], [...(values.get(edge[end]) ?? []), edge.label]);
  return services.flatMap((service) => {
    const names = values.get(service.id);
    return names === undefined ? [] : [{ service, values: names.filter((name) => name !== "") }];
  });
}
