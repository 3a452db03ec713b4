import {
  ClusterSourcesDocument,
  CreateClusterSourceDocument,
  DeleteClusterSourceDocument,
  SyncClusterSourceDocument,
  UpdateClusterSourceDocument,
  type ClusterSourceAttributes,
  type ClusterSourceResult,
  type ClusterSourceRowFragment,
  type ClusterSourcesQuery,
  type ClusterSourcesQueryVariables,
} from "../api/generated";
import type { Action, FormField, Kind, Permission, Values } from "../manage/kind";
import { suspensions } from "../manage/suspension";
import { list, number, option, optional, options, pairs, pairWords, text } from "../manage/values";
import { Age } from "../ui/Age";
import { STATES, type State } from "../ui/states";
import { Status } from "../ui/Status";
import { SourceMembers } from "./SourceMembers";

type Source = ClusterSourceRowFragment;

const WRITE: Permission = { verb: "WRITE", kind: "CLUSTER" };
const INVENTORIES = ["CLUSTER_API", "CLUSTER_PROFILE"] as const;
const POLICIES = ["KEEP", "DELETE"] as const;
const RESULTS: Readonly<Record<ClusterSourceResult, State>> = {
  UNKNOWN: STATES.pending,
  SYNCED: STATES.current,
  INCOMPLETE: STATES.outOfSync,
  FAILED: STATES.failed,
};

const FIELDS: readonly FormField[] = [
  { path: "cluster", title: "Management cluster", choice: "cluster", required: true },
  { path: "account", title: "Service account", note: "reads the objects and registers the clusters with its permissions", choice: "user", required: true },
  { path: "inventory", title: "Objects", note: "clusters of Cluster API join by themselves", of: INVENTORIES },
  { path: "namespace", title: "Namespace", note: "empty: all namespaces" },
  { path: "selector", title: "Label selector", note: "such as env=prod; empty: all objects" },
  { path: "template", title: "Names of clusters", note: "from {name} and {namespace} of the object", required: true },
  { path: "tags", title: "Tags", note: "of all clusters; name=value, separated by spaces", of: "list" },
  { path: "labels", title: "Labels that become tags", note: "separated by spaces", of: "list" },
  { path: "gone", title: "Clusters of deleted objects", of: POLICIES },
  { path: "most", title: "Maximum number of clusters", of: "number" },
  { path: "deletions", title: "Maximum deletions at a time", of: "number" },
  { path: "interval", title: "Seconds between checks", of: "number" },
];

const attributesOf = (values: Values): ClusterSourceAttributes => ({
  clusterId: text(values, "cluster"),
  serviceAccountId: text(values, "account"),
  inventory: INVENTORIES.find((kind) => kind === text(values, "inventory")) ?? "CLUSTER_API",
  namespace: text(values, "namespace"),
  selector: text(values, "selector"),
  nameTemplate: text(values, "template"),
  tags: pairs(values, "tags"),
  tagLabels: list(values, "labels"),
  gone: POLICIES.find((policy) => policy === text(values, "gone")) ?? "KEEP",
  maxClusters: number(values, "most"),
  maxDeletions: number(values, "deletions"),
  intervalSeconds: number(values, "interval"),
});

const words = (values: Values): readonly string[] => [
  ...option("--cluster", text(values, "cluster")),
  ...option("--service-account", text(values, "account")),
  ...["--inventory", text(values, "inventory").toLowerCase().replace("_", "-"), "--namespace", text(values, "namespace"), "--objects", text(values, "selector")],
  ...["--name-template", text(values, "template"), ...options("--tag", pairWords(pairs(values, "tags"))), ...options("--tag-label", list(values, "labels"))],
  ...["--gone", text(values, "gone").toLowerCase(), ...option("--max-clusters", number(values, "most"))],
  ...[...option("--max-deletions", number(values, "deletions")), ...option("--interval", number(values, "interval"))],
];

const CREATE: Action<null> = {
  title: "Create cluster source",
  permission: WRITE,
  consequence: () => "Users who create such objects in the management cluster register clusters, and choose the tags that come from labels.",
  fields: [{ path: "name", title: "Name", required: true }, ...FIELDS, { path: "project", title: "Project", note: "empty: the default project", choice: "project" }],
  initial: () => ({ inventory: "CLUSTER_API", template: "{name}", gone: "KEEP", most: 1000, deletions: 5, interval: 60 }),
  command: (values) => ["cluster-sources", "create", text(values, "name"), ...words(values), ...option("--project", text(values, "project"))],
  run: (client, values) => client.mutation(CreateClusterSourceDocument, { attributes: { ...attributesOf(values), name: text(values, "name"), projectId: optional(values, "project") } }).toPromise(),
  done: "Cluster source created",
};

const EDIT: Action<Source> = {
  title: "Edit",
  permission: WRITE,
  fields: FIELDS,
  initial: (source) => ({
    ...{ cluster: source.cluster ?? "", account: source.serviceAccount ?? "", inventory: source.inventory, namespace: source.namespace ?? "", selector: source.selector ?? "" },
    ...{ template: source.nameTemplate, tags: pairWords(source.tags), labels: source.tagLabels, gone: source.gone },
    ...{ most: source.maxClusters, deletions: source.maxDeletions, interval: source.intervalSeconds },
  }),
  command: (values, { name }) => ["cluster-sources", "update", name, ...words(values)],
  run: (client, values, { id }) => client.mutation(UpdateClusterSourceDocument, { id, attributes: attributesOf(values) }).toPromise(),
  done: "Cluster source changed",
};

const SYNC: Action<Source> = {
  title: "Sync",
  permission: WRITE,
  consequence: () => "Reads the objects now.",
  when: ({ suspended }) => !suspended,
  command: (_, { name }) => ["cluster-sources", "sync", name],
  run: (client, _, { id }) => client.mutation(SyncClusterSourceDocument, { id }).toPromise(),
  done: "Sync requested",
};

const suspension = suspensions<Source>({
  noun: "Cluster source",
  command: "cluster-sources",
  permission: WRITE,
  update: (client, id, suspended) => client.mutation(UpdateClusterSourceDocument, { id, attributes: { suspended } }).toPromise(),
});

const DELETE: Action<Source> = {
  title: "Delete",
  permission: WRITE,
  consequence: () => "Its clusters stay registered. Clusters that have not joined get no agent any more.",
  typed: ({ name }) => name,
  command: (_, { name }) => ["cluster-sources", "delete", name],
  run: (client, _, { id }) => client.mutation(DeleteClusterSourceDocument, { id }).toPromise(),
  done: "Cluster source deleted",
};

export const CLUSTER_SOURCES: Kind<ClusterSourcesQuery, ClusterSourcesQueryVariables, Source> = {
  title: "Cluster sources",
  noun: ["cluster source", "cluster sources"],
  hint: "A cluster source registers the clusters that objects of Cluster API or of the Cluster Inventory API in a management cluster describe.",
  query: ClusterSourcesDocument,
  variables: (filter) => filter,
  pick: ({ clusterSources }) => clusterSources,
  id: ({ id }) => id,
  name: ({ name }) => name,
  declared: ({ name }) => ({ kind: "ClusterSource", name }),
  columns: [
    ["State", ({ result, suspended }) => <Status state={suspended ? STATES.suspended : RESULTS[result]} />],
    ["Management cluster", ({ cluster }) => cluster ?? "–"],
    ["Objects", ({ inventory, namespace, selector }) => [inventory === "CLUSTER_API" ? "Cluster" : "ClusterProfile", namespace === null ? "" : `in ${namespace}`, selector ?? ""].filter(Boolean).join(" ")],
    ["Checked", ({ checkedAt }) => (checkedAt === null ? "never" : <Age at={checkedAt} />)],
  ],
  details: (source) => <SourceMembers source={source} />,
  create: [CREATE],
  actions: [SYNC, suspension.suspend("Registers and changes no cluster until you resume the source."), suspension.resume("Reads the objects now."), EDIT, DELETE],
  follow: 5_000,
};
