// Who hands values to a service, and whom it hands them to: the graph around one service.
import { client } from "../api/client";
import { FlowOfDocument, type FlowOfQuery } from "../api/generated";
import { serviceStatus } from "../services/status";
import type { Spot, Way } from "../ui/FlowGraph";

type Found = FlowOfQuery & { readonly id: string };
export type FlowPicture = { readonly spots: readonly Spot[]; readonly ways: readonly Way[]; readonly cut: boolean };

const MOST = 60;

async function ask(id: string): Promise<Found | null> {
  const { data } = await client.query(FlowOfDocument, { id }).toPromise();
  return data == null ? null : { ...data, id };
}

/** All that it imports from, also by way of others, and all in `below`; at most 60. Those that one may not see are left out. */
export async function around(id: string, below: readonly string[]): Promise<{ readonly found: readonly Found[]; readonly cut: boolean }> {
  const known = new Map<string, Found>();
  let wanted = [id, ...below];
  let cut = false;
  while (wanted.length > 0) {
    const room = MOST - known.size;
    cut ||= wanted.length > room;
    const asked = await Promise.all(wanted.slice(0, room).map(ask));
    const fresh = asked.filter((one) => one !== null);
    for (const one of fresh) known.set(one.id, one);
    const sources = fresh.flatMap(({ serviceFlow }) => serviceFlow.imports.map(({ sourceId }) => sourceId));
    wanted = known.size >= MOST ? [] : [...new Set(sources)].filter((one) => !known.has(one));
    if (fresh.length === 0) break;
  }
  return { found: [...known.values()], cut };
}

/** The same as boxes and ways; `centre` is the service that is looked at. */
export function pictured(centre: string, found: readonly Found[], cut: boolean): FlowPicture {
  const ids = new Set(found.map(({ id }) => id));
  const spots = found.map(({ id, serviceDeployment: service, serviceFlow }) => {
    const { tone, word } = serviceStatus(service?.status ?? "STALE");
    const problem = serviceFlow.problem !== null;
    return {
      id,
      title: service?.name ?? "a deleted service",
      note: service?.cluster?.handle ?? "",
      tone: problem ? ("bad" as const) : tone,
      word: problem ? "Cannot be had" : word,
      path: `/services/${id}?tab=values`,
      chosen: id === centre,
    };
  });
  const ways = found.flatMap(({ id, serviceFlow }) =>
    serviceFlow.imports
      .filter(({ sourceId }) => ids.has(sourceId))
      .map(({ alias, sourceId, export: name }) => ({ id: `${id} ${alias}`, from: sourceId, to: id, label: name === alias ? name : `${name} → ${alias}` })),
  );
  return { spots, ways, cut };
}
