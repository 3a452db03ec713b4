// Graph of the services that one service imports values from and exports values to.
import { client } from "../api/client";
import { FlowOfDocument, type FlowOfQuery } from "../api/generated";
import { serviceState, STATES } from "../ui/states";
import type { GraphEdge, GraphNode } from "../ui/FlowGraph";

type Found = FlowOfQuery & { readonly id: string };
export type FlowPicture = { readonly nodes: readonly GraphNode[]; readonly edges: readonly GraphEdge[]; readonly cut: boolean };

const MAX_SERVICES = 60;

async function fetchFlow(id: string): Promise<Found | null> {
  const { data } = await client.query(FlowOfDocument, { id }).toPromise();
  return data == null ? null : { ...data, id };
}

/** Services that a service imports from, directly or through others, and those in `below`: at most 60. Leaves out those that the user may not read. */
export async function around(id: string, below: readonly string[]): Promise<{ readonly found: readonly Found[]; readonly cut: boolean }> {
  const known = new Map<string, Found>();
  let pending = [id, ...below];
  let cut = false;
  while (pending.length > 0) {
    const remaining = MAX_SERVICES - known.size;
    cut ||= pending.length > remaining;
    const responses = await Promise.all(pending.slice(0, remaining).map(fetchFlow));
    const fresh = responses.filter((service) => service !== null);
    for (const service of fresh) known.set(service.id, service);
    const sources = fresh.flatMap(({ serviceFlow }) => serviceFlow.imports.map(({ sourceId }) => sourceId));
    pending = known.size >= MAX_SERVICES ? [] : [...new Set(sources)].filter((source) => !known.has(source));
    if (fresh.length === 0) break;
  }
  return { found: [...known.values()], cut };
}

/** Nodes and edges of the graph; `centre` is the selected service. */
export function flowGraph(centre: string, found: readonly Found[], cut: boolean): FlowPicture {
  const ids = new Set(found.map(({ id }) => id));
  const nodes = found.map(({ id, serviceDeployment: service, serviceFlow }) => {
    return {
      id,
      title: service?.name ?? "deleted service",
      note: service?.cluster?.handle ?? "",
      state: serviceFlow.problem === null ? serviceState(service?.status ?? "") : STATES.unavailable,
      path: `/services/${id}?tab=values`,
      selected: id === centre,
    };
  });
  const edges = found.flatMap(({ id, serviceFlow }) =>
    serviceFlow.imports
      .filter(({ sourceId }) => ids.has(sourceId))
      .map(({ alias, sourceId, export: name }) => ({ id: `${id} ${alias}`, from: sourceId, to: id, label: name === alias ? name : `${name} → ${alias}` })),
  );
  return { nodes, edges, cut };
}
