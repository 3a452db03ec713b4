// Lookup of the services that a pipeline names.
import { useEffect, useState } from "react";
import { useQuery } from "urql";
import { client } from "../api/client";
import { PlacesDocument, ServiceByNameDocument } from "../api/generated";
import type { Choice } from "./definition";

type Ids = ReadonlyMap<string, string | null>;

async function idOf(title: string): Promise<readonly [string, string | null]> {
  const [cluster = "", ...rest] = title.split("/");
  const { data } = await client.query(ServiceByNameDocument, { cluster, name: rest.join("/") }).toPromise();
  return [title, data?.serviceDeployment?.id ?? null];
}

/** Existing services among `names`, written as `cluster/name`; skips the lookup of `known`. */
export function useServices(names: readonly string[], known: readonly Choice[]): readonly Choice[] {
  const [ids, setIds] = useState<Ids>(() => new Map(known.map(({ id, name }) => [name, id])));
  const wanted = names.filter((name) => !ids.has(name)).join("\n");
  useEffect(() => {
    if (wanted === "") return undefined;
    let cancelled = false;
    void Promise.all(wanted.split("\n").map(idOf)).then((found) => {
      if (!cancelled) setIds((before) => new Map([...before, ...found]));
    });
    return () => {
      cancelled = true;
    };
  }, [wanted]);
  return [...ids].flatMap(([name, id]) => (id === null ? [] : [{ id, name }]));
}

/** Services whose name contains a text, as `cluster/name`. */
export function useFound(text: string): readonly string[] {
  const q = text.trim();
  const [{ data }] = useQuery({ query: PlacesDocument, variables: { q }, pause: q === "" });
  return (data?.places ?? []).filter(({ kind }) => kind === "SERVICE").map(({ name, within }) => `${within ?? ""}/${name}`);
}
