// Conditions of lists of services.
import { useEffect, useMemo, useState } from "react";
import { useClient } from "urql";
import type { FleetFilter, ServiceState } from "../api/generated";
import { STATUSES } from "../fleet/statusCodes";
import { idOf, type ChoiceKind } from "../manage/choices";
import { serviceState } from "../ui/states";
import { parseQuery, type Conditions, type ParsedQuery } from "./conditions";

const words = (label: string): string => label.toLowerCase().replace(/\W+/g, "-");

/** State of a service as a word of the query language, such as `out-of-sync`. */
const STATE_WORDS: ReadonlyMap<string, ServiceState> = new Map(STATUSES.map((status) => [words(serviceState(status).label), status]));

export const SERVICE_CONDITIONS: Conditions = {
  state: { values: [...STATE_WORDS.keys()], example: "state:failed,out-of-sync" },
  cluster: { example: "cluster:prod-eu" },
  project: { example: "project:shop" },
  repository: { example: "repository:https://git.example.org/shop.git" },
  tag: { example: "tag:region=eu" },
  label: { example: "label:team=a,tier!=web" },
};

/** Label selector of conditions such as `label:team=a`; null without one. */
export const labelConditions = ({ values }: ParsedQuery): string | null => values["label"]?.join(",") ?? null;

/** Tags of a condition such as `tag:region=eu`. */
export const tagConditions = ({ values }: ParsedQuery): { name: string; value: string }[] =>
  (values["tag"] ?? []).map((tag) => {
    const [name = "", ...rest] = tag.split("=");
    return { name, value: rest.join("=") };
  });

const PLACES = ["cluster", "project", "repository"] as const satisfies readonly ChoiceKind[];

type Ids = { readonly key: string; readonly found: Readonly<Partial<Record<(typeof PLACES)[number], string>>>; readonly problems: readonly string[] };
const NONE: Ids = { key: "", found: {}, problems: [] };

/** Ids of the places that a query names. */
function useIds(parsed: ParsedQuery): Ids {
  const client = useClient();
  const [ids, setIds] = useState<Ids>(NONE);
  const key = JSON.stringify(PLACES.map((place) => parsed.values[place]?.[0] ?? ""));
  useEffect(() => {
    const names = JSON.parse(key) as readonly string[];
    let cancelled = false;
    const read = async () => {
      const pairs = await Promise.all(PLACES.map(async (place, index) => [place, names[index] ?? "", names[index] ? await idOf(client, place, names[index]) : ""] as const));
      if (cancelled) return;
      setIds({
        key,
        found: Object.fromEntries(pairs.flatMap(([place, , id]) => (id ? [[place, id]] : []))),
        problems: pairs.flatMap(([place, name, id]) => (id === null ? [`${place} ${name} not found`] : [])),
      });
    };
    if (names.some((name) => name !== "")) void read();
    return () => {
      cancelled = true;
    };
  }, [client, key]);
  if (PLACES.every((place) => parsed.values[place] === undefined)) return { ...NONE, key };
  return ids.key === key ? ids : { ...NONE, key: "" };
}

export type ServiceFilter = { readonly filter: FleetFilter; readonly problems: readonly string[]; readonly isReady: boolean };

/** Filter of services from a query in the URL and a selected state. */
export function useServiceFilter(q: string, status: string): ServiceFilter {
  const parsed = useMemo(() => parseQuery(q, SERVICE_CONDITIONS), [q]);
  const { key, found, problems } = useIds(parsed);
  const foundKey = JSON.stringify(found);
  const chip = STATUSES.find((known) => known === status);
  const filter = useMemo<FleetFilter>(() => {
    const states = (parsed.values["state"] ?? []).flatMap((word) => STATE_WORDS.get(word.toLowerCase()) ?? []);
    const all = chip === undefined ? states : [chip];
    const places = JSON.parse(foundKey) as Ids["found"];
    const tags = tagConditions(parsed);
    return {
      q: parsed.text || null,
      status: all.length === 0 ? null : all,
      ...(places.cluster === undefined ? {} : { clusterId: places.cluster }),
      ...(places.project === undefined ? {} : { projectId: places.project }),
      ...(places.repository === undefined ? {} : { repositoryId: places.repository }),
      ...(tags.length === 0 ? {} : { tags }),
      ...(parsed.values["label"] === undefined ? {} : { labels: labelConditions(parsed) }),
    };
  }, [parsed, chip, foundKey]);
  return { filter, problems: [...parsed.problems, ...problems], isReady: key !== "" };
}
