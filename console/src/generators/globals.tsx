import { useQuery } from "urql";
import {
  CreateGlobalDocument,
  DeleteGlobalDocument,
  GlobalsDocument,
  GlobalTargetsDocument,
  OverrideGlobalDocument,
  PreviewGlobalDocument,
  SyncGlobalDocument,
  UpdateGlobalDocument,
  type GlobalRowFragment,
  type GlobalServiceAttributes,
  type GlobalsQuery,
  type GlobalsQueryVariables,
} from "../api/generated";
import type { Action, Kind, Values } from "../manage/kind";
import { list, mapping, option, optional, options, pairs, pairWords, text } from "../manage/values";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Table } from "../ui/Table";
import { budgetOf, distroOf, Evaluated, GeneratedServices, initialOf, lifeOf, namesOf, policyOf, POLICY_FIELDS, PROJECT_FIELD, SELECTOR_FIELDS, selectorWords, shown, TEMPLATE_FIELDS, templateOf, WRITE, type Named } from "./shared";

type Global = GlobalRowFragment & Named;

const NAME = { path: "name", title: "Name", required: true };

const attributesOf = (values: Values): GlobalServiceAttributes => ({
  name: text(values, "name"),
  tags: pairs(values, "tags"),
  groupIds: list(values, "groups"),
  ignoreClusters: list(values, "ignored"),
  distro: distroOf(values),
  onDelete: policyOf(values, "onDelete"),
  deletionBudget: budgetOf(values),
  cascade: policyOf(values, "onLeave") === "DELETE" ? { delete: true } : { detach: true },
});

const created = (values: Values): GlobalServiceAttributes => ({ ...attributesOf(values), projectId: optional(values, "project"), template: templateOf(values) });

const CREATE: Action<null> = {
  title: "Create global service",
  permission: WRITE,
  fields: [NAME, ...TEMPLATE_FIELDS, ...SELECTOR_FIELDS, ...POLICY_FIELDS, PROJECT_FIELD],
  initial: () => ({ ref: "main", onLeave: "DETACH", onDelete: "DETACH", budget: 10 }),
  command: (values) => [
    ...["globals", "create", text(values, "name"), ...option("--repo", text(values, "repository")), ...option("--folder", text(values, "folder")), ...option("--ref", text(values, "ref"))],
    ...[...option("--namespace", text(values, "namespace")), ...options("--tag", pairWords(pairs(values, "tags")))],
  ],
  preview: async (client, values) => {
    const { data, error } = await client.query(PreviewGlobalDocument, { attributes: created(values) }).toPromise();
    return shown(data?.previewGlobalService, error);
  },
  run: (client, values) => client.mutation(CreateGlobalDocument, { attributes: created(values) }).toPromise(),
  done: "Global service created",
};

const EDIT: Action<Global> = {
  title: "Edit selection",
  permission: WRITE,
  consequence: () => "Services in clusters that no longer match leave by the policy.",
  fields: [NAME, ...SELECTOR_FIELDS, ...POLICY_FIELDS],
  initial: (global) => ({ name: global.name, ...initialOf(global) }),
  preview: async (client, values, { id }) => {
    const { data, error } = await client.query(PreviewGlobalDocument, { id, attributes: attributesOf(values) }).toPromise();
    return shown(data?.previewGlobalService, error);
  },
  run: (client, values, { id }) => client.mutation(UpdateGlobalDocument, { id, attributes: attributesOf(values) }).toPromise(),
  done: "Global service updated",
};

const OVERRIDE: Action<Global> = {
  title: "Override for a cluster",
  permission: WRITE,
  consequence: () => "Replaces all overrides of the cluster. Without values, the cluster follows the template again.",
  fields: [
    { path: "cluster", title: "Cluster", choice: "cluster", required: true },
    { path: "ref", title: "Branch, tag or commit" },
    { path: "folder", title: "Folder", note: "requires a branch, tag or commit" },
    { path: "set", title: "Values for templates", note: "name=value, separated by spaces", of: "list" },
    { path: "more", title: "More settings", note: "fields of the API such as helm, dryRun, paused", of: "yaml" },
  ],
  command: (values, { name }) => [
    ...["globals", "override", name, "--cluster", text(values, "cluster"), ...option("--ref", text(values, "ref")), ...option("--folder", text(values, "folder"))],
    ...options("--set", pairWords(pairs(values, "set"))),
  ],
  run: (client, values, { id, template }) => {
    const ref = optional(values, "ref");
    const git = ref === null ? null : { ref, folder: optional(values, "folder") ?? template?.git.folder ?? "" };
    const set = pairs(values, "set");
    return client.mutation(OverrideGlobalDocument, { id, clusterId: text(values, "cluster"), attributes: { git, configuration: set.length === 0 ? null : set, ...mapping(values, "more") } }).toPromise();
  },
  done: "Override saved",
};

function Targets({ id }: { readonly id: string }) {
  const [{ data, error }] = useQuery({ query: GlobalTargetsDocument, variables: { id } });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={3} />;
  const overridden = data.globalServiceClusters.filter(({ delta }) => delta.length > 0);
  return (
    <>
      <GeneratedServices services={data.globalServiceServices} />
      {overridden.length > 0 && (
        <Table label="Overrides" titles={["Cluster", "Field", "Template", "Here", "By"]}>
          {overridden.flatMap(({ id: key, cluster, delta, overriddenBy }) =>
            delta.map(({ field, inherited, effective }) => (
              <tr key={`${key} ${field}`}>
                <td>{cluster.handle}</td>
                <td>
                  <code>{field}</code>
                </td>
                <td className="wide">{inherited}</td>
                <td className="wide">{effective}</td>
                <td>{overriddenBy}</td>
              </tr>
            )),
          )}
        </Table>
      )}
    </>
  );
}

export const GLOBALS: Kind<GlobalsQuery, GlobalsQueryVariables, Global> = {
  title: "Global services",
  noun: ["global service", "global services"],
  hint: "A global service runs once in each matching cluster, such as an agent, a policy or a dashboard.",
  query: GlobalsDocument,
  variables: (filter) => filter,
  pick: ({ globalServices, clusterGroups, clusters }) => ({
    pageInfo: globalServices.pageInfo,
    edges: globalServices.edges.map(({ node }) => ({ node: { ...node, groups: namesOf(clusterGroups, node.selector.groupIds), ignored: namesOf(clusters, node.selector.ignoredClusterIds) } })),
  }),
  id: ({ id }) => id,
  name: ({ name }) => name,
  declared: ({ name }) => ({ kind: "GlobalService", name }),
  columns: [
    ["Clusters", selectorWords],
    ["Source", ({ template, service }) => (template === null ? `${service?.cluster?.handle ?? ""}/${service?.name ?? ""}` : `${template.git.folder} at ${template.git.ref}`)],
    ["State", ({ state }) => <Evaluated state={state} />],
    ["Project", ({ project }) => project?.name ?? "all"],
  ],
  details: ({ id }) => <Targets id={id} />,
  create: [CREATE],
  actions: [EDIT, OVERRIDE, ...lifeOf("global service", "globals", SyncGlobalDocument, DeleteGlobalDocument)],
  follow: 10_000,
};
