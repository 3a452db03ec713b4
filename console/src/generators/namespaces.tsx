import { useQuery } from "urql";
import {
  CreateNamespaceDocument,
  DeleteNamespaceDocument,
  NamespacesDocument,
  NamespaceServicesDocument,
  SyncNamespaceDocument,
  UpdateNamespaceDocument,
  type ManagedNamespaceAttributes,
  type NamespaceRowFragment,
  type NamespacesQuery,
  type NamespacesQueryVariables,
} from "../api/generated";
import { Facts } from "../manage/Facts";
import type { Action, FormField, Kind, Values } from "../manage/kind";
import { optional, pairs, text } from "../manage/values";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { budgetOf, Evaluated, GeneratedServices, initialOf, lifeOf, namesOf, policyOf, POLICY_FIELDS, PROJECT_FIELD, SELECTOR_FIELDS, selectorOf, selectorWords, WRITE, type Named } from "./shared";

type Namespace = NamespaceRowFragment & Named;

const FIELDS: readonly FormField[] = [
  { path: "name", title: "Name", required: true },
  { path: "namespace", title: "Namespace", required: true },
  { path: "labels", title: "Labels", note: "name=value, separated by spaces", of: "list" },
  { path: "annotations", title: "Annotations", note: "name=value, separated by spaces", of: "list" },
  { path: "quota", title: "Quota", note: "such as pods=20 requests.cpu=4", of: "list" },
  ...SELECTOR_FIELDS,
  ...POLICY_FIELDS,
];

const jsonOf = (values: Values, name: string): string => JSON.stringify(Object.fromEntries(pairs(values, name).map(({ name: key, value }) => [key, value])));

const attributesOf = (values: Values): ManagedNamespaceAttributes => ({
  name: text(values, "name"),
  namespace: text(values, "namespace"),
  labels: jsonOf(values, "labels"),
  annotations: jsonOf(values, "annotations"),
  quota: pairs(values, "quota"),
  selector: selectorOf(values),
  onLeave: policyOf(values, "onLeave"),
  onDelete: policyOf(values, "onDelete"),
  deletionBudget: budgetOf(values),
});

const words = (map: Readonly<Record<string, unknown>>): string[] => Object.entries(map).map(([name, value]) => `${name}=${String(value)}`);

const CREATE: Action<null> = {
  title: "Create namespace",
  permission: WRITE,
  consequence: () => "Creates the namespace in all matching clusters and keeps its labels, annotations and quota.",
  fields: [...FIELDS, PROJECT_FIELD],
  initial: () => ({ onLeave: "DETACH", onDelete: "DETACH", budget: 10 }),
  run: (client, values) => client.mutation(CreateNamespaceDocument, { attributes: { ...attributesOf(values), projectId: optional(values, "project") } }).toPromise(),
  done: "Namespace created",
};

const EDIT: Action<Namespace> = {
  title: "Edit namespace",
  permission: WRITE,
  consequence: () => "Changes the namespace in all matching clusters.",
  fields: FIELDS,
  initial: (namespace) => ({ name: namespace.name, namespace: namespace.namespace, labels: words(namespace.labels), annotations: words(namespace.annotations), quota: words(namespace.quota), ...initialOf(namespace) }),
  run: (client, values, { id }) => client.mutation(UpdateNamespaceDocument, { id, attributes: attributesOf(values) }).toPromise(),
  done: "Namespace updated",
};

function Details({ namespace }: { readonly namespace: Namespace }) {
  const [{ data, error }] = useQuery({ query: NamespaceServicesDocument, variables: { id: namespace.id } });
  return (
    <>
      <Facts
        facts={[
          ["Labels", words(namespace.labels).join(", ")],
          ["Annotations", words(namespace.annotations).join(", ")],
          ["Quota", words(namespace.quota).join(", ")],
        ]}
      />
      {error !== undefined && data == null ? <Problem error={error} /> : data == null ? <Skeleton lines={3} /> : <GeneratedServices services={data.managedNamespaceServices} />}
    </>
  );
}

export const NAMESPACES: Kind<NamespacesQuery, NamespacesQueryVariables, Namespace> = {
  title: "Namespaces",
  noun: ["namespace", "namespaces"],
  hint: "A managed namespace exists in each matching cluster, with its labels, annotations and quota.",
  query: NamespacesDocument,
  variables: (filter) => filter,
  pick: ({ managedNamespaces, clusterGroups, clusters }) => ({
    pageInfo: managedNamespaces.pageInfo,
    edges: managedNamespaces.edges.map(({ node }) => ({ node: { ...node, groups: namesOf(clusterGroups, node.selector.groupIds), ignored: namesOf(clusters, node.selector.ignoredClusterIds) } })),
  }),
  id: ({ id }) => id,
  name: ({ name }) => name,
  declared: ({ name }) => ({ kind: "ManagedNamespace", name }),
  columns: [
    ["In the cluster", ({ namespace }) => namespace],
    ["Clusters", selectorWords],
    ["State", ({ state }) => <Evaluated state={state} />],
    ["Project", ({ project }) => project?.name ?? "all"],
  ],
  details: (namespace) => <Details namespace={namespace} />,
  create: [CREATE],
  actions: [EDIT, ...lifeOf("namespace", "namespaces", SyncNamespaceDocument, DeleteNamespaceDocument)],
  follow: 10_000,
};
