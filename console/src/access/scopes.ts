// The places where a role counts, as people name them: `project/shop`, `cluster/dev`, `service/dev/web`.
import { client } from "../api/client";
import { PlaceIdsDocument } from "../api/generated";

export const PLACES = "everywhere, project/NAME, cluster/HANDLE or service/HANDLE/NAME";

/** Kind, cluster and name of a place; null: it is not written like one. */
export function placeOf(text: string): readonly [kind: string, cluster: string, name: string] | null {
  const [kind = "", ...names] = text.split("/");
  if (names.includes("")) return null;
  const [first = "", second] = names;
  if (kind === "service") return names.length === 2 ? [kind, first, second ?? ""] : null;
  return (kind === "project" || kind === "cluster") && names.length === 1 ? [kind, "", first] : null;
}

/** The scope that a place means to the API; null: there is no such place here. */
export async function scopeOf(text: string): Promise<string | null> {
  if (text === "everywhere" || text === "installation") return "installation";
  const place = placeOf(text);
  if (place === null) return null;
  const [kind, cluster, name] = place;
  const asked = { cluster, name, isProject: kind === "project", isCluster: kind === "cluster", isService: kind === "service" };
  const { data } = await client.query(PlaceIdsDocument, asked, { requestPolicy: "network-only" }).toPromise();
  const found = data?.project ?? data?.cluster ?? data?.serviceDeployment;
  return found == null ? null : `${kind}:${found.id}`;
}
