// Rows of the map: live from the subscription, or at a point in time.
import { useCallback, useMemo, useState } from "react";
import { useQuery, useSubscription, type CombinedError } from "urql";
import { FleetAtDocument, FleetChangesDocument, FleetLastSeenDocument, type FleetChangesSubscription, type FleetFilter, type FleetLastSeenQuery, type MapRowFragment } from "../api/generated";
import { UNCACHED } from "../api/uncached";
import { LAST_SEEN_INTERVAL, useFollow } from "../live/useFollow";
import { letterOf } from "./statusCodes";

export type Fleet = {
  readonly rows: readonly MapRowFragment[] | undefined;
  readonly error: CombinedError | undefined;
  /** Number of changes since the map was first shown with the current filter. */
  readonly moves: number;
};

type Known = { readonly filter: string; readonly rows: ReadonlyMap<string, MapRowFragment>; readonly moves: number };

const byHandle = (left: MapRowFragment, right: MapRowFragment) => (left.handle < right.handle ? -1 : 1);

/** Applies a delta: sets its rows and removes those that are gone. */
export function merge(known: ReadonlyMap<string, MapRowFragment>, delta: FleetChangesSubscription["fleetDelta"]): ReadonlyMap<string, MapRowFragment> {
  const next = new Map(known);
  for (const id of delta.gone) next.delete(id);
  for (const row of delta.rows) next.set(row.id, row);
  return next;
}

const later = (left: string | null, right: string | null): string | null => ((left ?? "") < (right ?? "") ? right : left);

/** Rows with the newest time at which each agent was seen; the subscription sends it only with other changes. */
export function withLastSeen(rows: readonly MapRowFragment[], seen: FleetLastSeenQuery["fleetMap"]["rows"]): readonly MapRowFragment[] {
  const times = new Map(seen.map(({ id, pingedAt }) => [id, pingedAt]));
  return rows.map((row) => ({ ...row, pingedAt: later(row.pingedAt, times.get(row.id) ?? null) }));
}

/** Live map. The first message has all rows, also after a reconnect. */
export function useLiveFleet(filter: FleetFilter, paused: boolean): Fleet {
  const key = JSON.stringify(filter);
  const take = useCallback(
    (known: Known | undefined, { fleetDelta }: FleetChangesSubscription): Known => {
      if (known?.filter !== key) return { filter: key, rows: merge(new Map(), fleetDelta), moves: 0 };
      const hasMoved = fleetDelta.gone.length > 0 || fleetDelta.rows.some(({ id, services }) => known.rows.get(id)?.services !== services);
      return { filter: key, rows: merge(known.rows, fleetDelta), moves: known.moves + (hasMoved ? 1 : 0) };
    },
    [key],
  );
  const [{ data, error }] = useSubscription({ query: FleetChangesDocument, variables: { filter }, pause: paused, context: UNCACHED }, take);
  const [last, setLast] = useState<readonly MapRowFragment[] | undefined>();
  const [seen, refetch] = useQuery({ query: FleetLastSeenDocument, variables: { filter }, pause: paused, context: UNCACHED });
  useFollow(refetch, paused ? null : LAST_SEEN_INTERVAL);
  const times = seen.data?.fleetMap.rows;
  const rows = useMemo(() => (data == null ? undefined : withLastSeen([...data.rows.values()].sort(byHandle), times ?? [])), [data, times]);
  // Keep the old rows until the first message for a new filter arrives.
  if (rows !== undefined && rows !== last) setLast(rows);
  return { rows: rows ?? last, error, moves: data?.moves ?? 0 };
}

/** Map at a point in time, from the ledger; null: do not load. */
export function useFleetAt(at: string | null): Fleet {
  const [{ data, error }] = useQuery({ query: FleetAtDocument, variables: { at: at ?? "" }, pause: at === null, context: UNCACHED });
  const rows = useMemo(
    () =>
      data?.fleet.clusters
        .map(({ clusterId, cluster, services }) => ({
          id: clusterId,
          handle: cluster ?? "deleted cluster",
          name: cluster ?? "",
          projectId: null,
          pingedAt: data.fleet.at,
          tags: [],
          services: [...services]
            .sort((left, right) => ((left.service ?? "") < (right.service ?? "") ? -1 : 1))
            .map(({ statusCode }) => letterOf(statusCode))
            .join(""),
        }))
        .sort(byHandle),
    [data],
  );
  return { rows, error, moves: 0 };
}
