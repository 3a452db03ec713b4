// Operations on several clusters at once.
import type { Client } from "urql";
import { TagClusterDocument, type ClusterRowFragment } from "../api/generated";
import type { Operation } from "../bulk/operation";
import { refusalOf } from "../bulk/refusal";
import { list, pairs, pairWords } from "../manage/values";
import { toYaml } from "../text/yaml";
import { inverseOf } from "../undo/inverses";

type Cluster = ClusterRowFragment;
type Tag = { readonly name: string; readonly value: string };
type Planned = { readonly handle: string; readonly tags: readonly Tag[] };

const wordsOf = (tags: readonly Tag[]): string => pairWords(tags).sort().join(" ");

/** Tags of a cluster after added and removed ones. */
export function retagged(tags: readonly Tag[], added: readonly Tag[], removed: readonly string[]): readonly Tag[] {
  const names = new Set([...added.map(({ name }) => name), ...removed]);
  return [...tags.filter(({ name }) => !names.has(name)).map(({ name, value }) => ({ name, value })), ...added];
}

/** Operation that adds, changes and removes tags of clusters. */
export const tagClusters = (client: Client): Operation<Cluster, Planned> => ({
  title: "Edit tags",
  done: "tagged",
  noun: "cluster",
  consequence: "Cluster groups, global services and service sets that select by tag follow the change at once.",
  key: ({ id }) => id,
  name: ({ handle }) => handle,
  fields: [
    { path: "add", title: "Add or change", note: "name=value, separated by spaces", of: "list" },
    { path: "remove", title: "Remove", note: "names, separated by spaces", of: "list" },
  ],
  plan: async (cluster, values) => {
    const refusal = await refusalOf(client, { verb: "WRITE", kind: "CLUSTER" }, cluster.id);
    if (refusal !== null) return refusal;
    const tags = retagged(cluster.tags, pairs(values, "add"), list(values, "remove"));
    const [before, after] = [wordsOf(cluster.tags), wordsOf(tags)];
    if (before === after) return { kind: "unchanged", reason: "It has these tags already." };
    return { kind: "ready", planned: { handle: cluster.handle, tags }, changes: [{ field: "tags", before, after }] };
  },
  run: async ({ tags }, cluster) => {
    const result = await client.mutation(TagClusterDocument, { id: cluster.id, tags: [...tags] }).toPromise();
    if (result.error !== undefined) throw result.error;
    return inverseOf(result, cluster);
  },
  commands: () => [],
  yaml: (planned) => planned.map(({ handle, tags }) => toYaml({ kind: "Cluster", metadata: { name: handle }, spec: { tags: Object.fromEntries(tags.map(({ name, value }) => [name, value])) } })).join("---\n"),
});
