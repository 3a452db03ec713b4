// Scopes of roles as users write them: `project/shop`, `cluster/dev`, `service/dev/web`.
import { client } from "../api/client";
import { ScopeIdsDocument } from "../api/generated";

export const SCOPE_HINT = "everywhere, project/NAME, cluster/HANDLE or service/HANDLE/NAME";

/** Parses a scope into kind, cluster and name; null: invalid syntax. */
export function parseScope(text: string): readonly [kind: string, cluster: string, name: string] | null {
  const [kind = "", ...names] = text.split("/");
  if (names.includes("")) return null;
  const [first = "", second] = names;
  if (kind === "service") return names.length === 2 ? [kind, first, second ?? ""] : null;
  return (kind === "project" || kind === "cluster") && names.length === 1 ? [kind, "", first] : null;
}

/** Scope id for the API; null: not found. */
export async function scopeId(text: string): Promise<string | null> {
  if (text === "everywhere" || text === "installation") return "installation";
  const scope = parseScope(text);
  if (scope === null) return null;
  const [kind, cluster, name] = scope;
  const asked = { cluster, name, isProject: kind === "project", isCluster: kind === "cluster", isService: kind === "service" };
  const { data } = await client.query(ScopeIdsDocument, asked, { requestPolicy: "network-only" }).toPromise();
  const found = data?.project ?? data?.cluster ?? data?.serviceDeployment;
  return found == null ? null : `${kind}:${found.id}`;
}
