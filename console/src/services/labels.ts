// Operation that adds, changes and removes labels of services.
import type { Client } from "urql";
import { ServiceLabelsDocument } from "../api/generated";
import { refusalOf } from "../bulk/refusal";
import { commandLine, list, pairs, pairWords } from "../manage/values";
import { toYaml } from "../text/yaml";
import { applyLabels, inverseOf } from "../undo/inverses";
import type { ServiceOperation } from "./bulkOperations";

type Labels = Readonly<Record<string, string>>;
/** Parts of a manifest that label a resource. */
type Manifest = { readonly apiVersion: string; readonly kind: string; readonly metadata: { readonly name: string; readonly cluster?: string; readonly labels?: Labels } };

const wordsOf = (labels: Labels): string => pairWords(Object.entries(labels).map(([name, value]) => ({ name, value }))).sort().join(" ");

/** Labels after added and removed ones. */
export function relabeled(labels: Labels, added: readonly { readonly name: string; readonly value: string }[], removed: readonly string[]): Labels {
  const kept = Object.entries(labels).filter(([name]) => !removed.includes(name));
  return Object.fromEntries([...kept, ...added.map(({ name, value }) => [name, value] as const)]);
}

async function manifestOf(client: Client, name: string): Promise<Manifest> {
  const { data, error } = await client.query(ServiceLabelsDocument, { name }, { requestPolicy: "network-only" }).toPromise();
  if (data == null) throw error ?? new Error("the control plane did not answer");
  return JSON.parse(data.manifest) as Manifest;
}

export const labelServices = (client: Client, nameOf: ServiceOperation["name"]): ServiceOperation => ({
  title: "Label services",
  done: "labeled",
  noun: "service",
  consequence: "Lists, views and notification rules that select by label follow the change. The next apply of a manifest of the service replaces its labels.",
  key: ({ id }) => id,
  name: nameOf,
  fields: [
    { path: "add", title: "Add or change", note: "name=value, separated by spaces", of: "list" },
    { path: "remove", title: "Remove", note: "names, separated by spaces", of: "list" },
  ],
  plan: async (service, values) => {
    const refusal = await refusalOf(client, { verb: "WRITE", kind: "SERVICE" }, service.id);
    if (refusal !== null) return refusal;
    const { apiVersion, kind, metadata } = await manifestOf(client, nameOf(service));
    const labels = relabeled(metadata.labels ?? {}, pairs(values, "add"), list(values, "remove"));
    const [before, after] = [wordsOf(metadata.labels ?? {}), wordsOf(labels)];
    if (before === after) return { kind: "unchanged", reason: "It has these labels already." };
    // Without a spec, the apply changes no field of another manager.
    const withLabels = (given: Labels) => ({ apiVersion, kind, metadata: { ...metadata, labels: given } });
    return { kind: "ready", planned: { manifest: withLabels(labels), before: withLabels(metadata.labels ?? {}) }, changes: [{ field: "labels", before, after }] };
  },
  run: async ({ manifest = {}, before }) => {
    const result = await applyLabels(client, manifest);
    if (result.error !== undefined) throw result.error;
    return inverseOf(result, { manifest: before });
  },
  commands: (services, values) => services.map((service) => commandLine(["label", "service", nameOf(service), ...pairWords(pairs(values, "add")), ...list(values, "remove").map((name) => `${name}-`)])),
  yaml: (planned) => planned.map(({ manifest }) => toYaml(manifest)).join("---\n"),
});
