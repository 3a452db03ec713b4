import { useQuery } from "urql";
import {
  CreateSetDocument,
  DeleteSetDocument,
  PreviewSetDocument,
  SetServicesDocument,
  SetsDocument,
  SyncSetDocument,
  UpdateSetDocument,
  type GeneratorAttributes,
  type ServiceSetAttributes,
  type SetRowFragment,
  type SetsQuery,
  type SetsQueryVariables,
} from "../api/generated";
import type { Action, Kind, Values } from "../manage/kind";
import { list, number, optional, text } from "../manage/values";
import { counted } from "../text/counts";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { budgetOf, Evaluated, GeneratedServices, initialOf, lifeOf, namesOf, policyOf, POLICY_FIELDS, PROJECT_FIELD, SELECTOR_FIELDS, selectorOf, selectorWords, shown, TEMPLATE_FIELDS, templateOf, WRITE, type Named } from "./shared";

type ServiceSet = SetRowFragment & Named;

const NAME = { path: "name", title: "Name", required: true };

const GENERATORS = ["CLUSTERS", "FOLDERS", "MERGE_REQUESTS"] as const;

function generatorOf(values: Values): GeneratorAttributes | null {
  const repositoryId = text(values, "repository");
  if (text(values, "generator") === "FOLDERS") return { folders: { repositoryId, ref: text(values, "ref"), pattern: text(values, "pattern") } };
  if (text(values, "generator") === "MERGE_REQUESTS") return { requests: { repositoryId, labels: list(values, "labels"), limit: number(values, "limit") ?? 20, ttlHours: number(values, "ttl") } };
  return null;
}

const attributesOf = (values: Values): ServiceSetAttributes => ({
  name: text(values, "name"),
  selector: selectorOf(values),
  onLeave: policyOf(values, "onLeave"),
  onDelete: policyOf(values, "onDelete"),
  deletionBudget: budgetOf(values),
});

const created = (values: Values): ServiceSetAttributes => ({ ...attributesOf(values), projectId: optional(values, "project"), template: templateOf(values), generator: generatorOf(values) });

const CREATE: Action<null> = {
  title: "Create service set",
  permission: WRITE,
  consequence: () => "The template can contain ${cluster.handle}, ${folder.name}, ${request.number} and other placeholders.",
  fields: [
    NAME,
    { path: "generator", title: "One service per", of: GENERATORS },
    { path: "pattern", title: "Folders", note: "pattern such as apps/*; for folders" },
    { path: "labels", title: "Labels", note: "for merge requests", of: "list" },
    { path: "limit", title: "Maximum number of previews", note: "for merge requests", of: "number" },
    { path: "ttl", title: "Delete after hours without activity", note: "for merge requests", of: "number" },
    ...TEMPLATE_FIELDS,
    ...SELECTOR_FIELDS,
    ...POLICY_FIELDS,
    PROJECT_FIELD,
  ],
  initial: () => ({ generator: "CLUSTERS", ref: "main", onLeave: "DELETE", onDelete: "DELETE", budget: 10 }),
  preview: async (client, values) => {
    const { data, error } = await client.query(PreviewSetDocument, { attributes: created(values) }).toPromise();
    return shown(data?.previewServiceSet, error);
  },
  run: (client, values) => client.mutation(CreateSetDocument, { attributes: created(values) }).toPromise(),
  done: "Service set created",
};

const EDIT: Action<ServiceSet> = {
  title: "Edit selection",
  permission: WRITE,
  consequence: () => "Services in clusters that no longer match leave by the policy.",
  fields: [NAME, ...SELECTOR_FIELDS, ...POLICY_FIELDS],
  initial: (set) => ({ name: set.name, ...initialOf(set) }),
  preview: async (client, values, { id }) => {
    const { data, error } = await client.query(PreviewSetDocument, { id, attributes: attributesOf(values) }).toPromise();
    return shown(data?.previewServiceSet, error);
  },
  run: (client, values, { id }) => client.mutation(UpdateSetDocument, { id, attributes: attributesOf(values) }).toPromise(),
  done: "Service set updated",
};

function Services({ id }: { readonly id: string }) {
  const [{ data, error }] = useQuery({ query: SetServicesDocument, variables: { id } });
  if (error !== undefined && data == null) return <Problem error={error} />;
  return data == null ? <Skeleton lines={3} /> : <GeneratedServices services={data.serviceSetServices} />;
}

function sourceOf({ folders, items, requests }: ServiceSet): string {
  if (folders !== null) return `folders ${folders.pattern} at ${folders.ref}`;
  if (requests !== null) return `merge requests${requests.labels.length === 0 ? "" : ` with ${requests.labels.join(", ")}`}, at most ${requests.limit}`;
  return items === null ? "clusters" : counted(items.length, "item");
}

export const SETS: Kind<SetsQuery, SetsQueryVariables, ServiceSet> = {
  title: "Service sets",
  noun: ["service set", "service sets"],
  hint: "A service set creates services from clusters, folders, a list or open merge requests, such as previews.",
  query: SetsDocument,
  variables: (filter) => filter,
  pick: ({ serviceSets, clusterGroups, clusters }) => ({
    pageInfo: serviceSets.pageInfo,
    edges: serviceSets.edges.map(({ node }) => ({ node: { ...node, groups: namesOf(clusterGroups, node.selector.groupIds), ignored: namesOf(clusters, node.selector.ignoredClusterIds) } })),
  }),
  id: ({ id }) => id,
  name: ({ name }) => name,
  declared: ({ name }) => ({ kind: "ServiceSet", name }),
  columns: [
    ["One service per", sourceOf],
    ["Clusters", selectorWords],
    ["State", ({ state }) => <Evaluated state={state} />],
    ["Project", ({ project }) => project?.name ?? "all"],
  ],
  details: ({ id }) => <Services id={id} />,
  create: [CREATE],
  actions: [EDIT, ...lifeOf("service set", "sets", SyncSetDocument, DeleteSetDocument)],
  follow: 10_000,
};
