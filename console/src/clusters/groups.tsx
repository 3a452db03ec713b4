import { useQuery } from "urql";
import { Link } from "wouter";
import {
  ClusterGroupClustersDocument,
  ClusterGroupsDocument,
  CreateClusterGroupDocument,
  DeleteClusterGroupDocument,
  FreezeClusterGroupDocument,
  UnfreezeClusterGroupDocument,
  UpdateClusterGroupDocument,
  UpgradeAgentsDocument,
  type ClusterGroupRowFragment,
  type ClusterGroupsQuery,
  type ClusterGroupsQueryVariables,
} from "../api/generated";
import type { Action, FormField, Kind, Permission, Values } from "../manage/kind";
import { list, number, option, optional, options, pairs, pairWords, text } from "../manage/values";
import { Age } from "../ui/Age";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";

/** Cluster group with the handles of its listed clusters. */
type Group = ClusterGroupRowFragment & { readonly handles: readonly string[] };

const WRITE: Permission = { verb: "WRITE", kind: "CLUSTER" };

const FIELDS: readonly FormField[] = [
  { path: "name", title: "Name", required: true },
  { path: "description", title: "Description" },
  { path: "tags", title: "Tags", note: "clusters with all of these tags; name=value, separated by spaces", of: "list" },
  { path: "clusters", title: "Clusters", note: "in addition to those with the tags", choice: "cluster", many: true },
  { path: "maxChanging", title: "Maximum number of clusters that pipelines change at the same time", note: "0: no limit", of: "number" },
];

const attributesOf = (values: Values) => ({
  name: text(values, "name"),
  description: optional(values, "description"),
  tags: pairs(values, "tags"),
  clusterIds: list(values, "clusters"),
  maxChanging: number(values, "maxChanging") ?? 0,
});

const CREATE: Action<null> = {
  title: "Create cluster group",
  permission: WRITE,
  fields: [...FIELDS, { path: "project", title: "Project", note: "empty: clusters of all projects", choice: "project" }],
  command: (values) => [
    ...["cluster-groups", "create", text(values, "name"), ...options("--tag", pairWords(pairs(values, "tags"))), ...options("--cluster", list(values, "clusters"))],
    ...option("--max-changing", number(values, "maxChanging")),
  ],
  run: (client, values) => client.mutation(CreateClusterGroupDocument, { attributes: { ...attributesOf(values), projectId: optional(values, "project") } }).toPromise(),
  done: "Cluster group created",
};

const EDIT: Action<Group> = {
  title: "Edit cluster group",
  permission: WRITE,
  consequence: () => "Global services, service sets and stages that select the group follow the change at once.",
  fields: FIELDS,
  initial: ({ name, description, tags, handles, maxChanging }) => ({ name, description: description ?? "", tags: pairWords(tags), clusters: handles, maxChanging }),
  run: (client, values, { id }) => client.mutation(UpdateClusterGroupDocument, { id, attributes: attributesOf(values) }).toPromise(),
  done: "Cluster group updated",
};

const FREEZE: Action<Group> = {
  title: "Freeze",
  permission: WRITE,
  when: ({ frozen }) => !frozen,
  consequence: ({ name }) => `Pipelines and services change nothing in the clusters of ${name} until you end the freeze. Workloads continue.`,
  fields: [{ path: "reason", title: "Reason", note: "shown in every refused change", required: true }],
  command: (values, { name }) => ["cluster-groups", "freeze", name, ...option("--reason", text(values, "reason"))],
  run: (client, values, { id }) => client.mutation(FreezeClusterGroupDocument, { id, reason: optional(values, "reason") }).toPromise(),
  done: "Cluster group frozen",
};

const UNFREEZE: Action<Group> = {
  title: "End freeze",
  permission: WRITE,
  when: ({ frozen }) => frozen,
  consequence: ({ frozenReason }) => `Waiting changes start at once. Reason of the freeze: ${frozenReason ?? "none"}.`,
  command: (_, { name }) => ["cluster-groups", "unfreeze", name],
  run: (client, _, { id }) => client.mutation(UnfreezeClusterGroupDocument, { id }).toPromise(),
  done: "Freeze ended",
};

const UPGRADE: Action<Group> = {
  title: "Upgrade agents",
  permission: WRITE,
  consequence: () => "Upgrades the agents of all clusters in the group, except clusters with the tag towline-agent=keep. An agent rolls itself back if its upgrade fails.",
  fields: [
    { path: "version", title: "Version", required: true },
    { path: "image", title: "Image", note: "with that version", required: true },
    { path: "without", title: "Leave out", choice: "cluster", many: true },
  ],
  command: (values, { name }) => ["cluster-groups", "upgrade-agents", name, "--version", text(values, "version"), "--image", text(values, "image"), ...options("--exclude", list(values, "without"))],
  run: async (client, values, { id }) => {
    const variables = { groupId: id, version: text(values, "version"), image: text(values, "image"), without: list(values, "without") };
    const { data, error } = await client.mutation(UpgradeAgentsDocument, variables).toPromise();
    return { error, content: data == null ? undefined : <p>Upgrades started: {data.upgradeAgents.length.toLocaleString("en")}.</p> };
  },
  done: "Agent upgrades started",
};

const DELETE: Action<Group> = {
  title: "Delete cluster group",
  permission: WRITE,
  consequence: () => "Deletes the group, not its clusters. Definitions that select the group stop changing anything and report a problem.",
  typed: ({ name }) => name,
  command: (_, { name }) => ["cluster-groups", "delete", name],
  run: (client, _, { id }) => client.mutation(DeleteClusterGroupDocument, { id }).toPromise(),
  done: "Cluster group deleted",
};

function Members({ id }: { readonly id: string }) {
  const [{ data, error }] = useQuery({ query: ClusterGroupClustersDocument, variables: { id } });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={2} />;
  if (data.clusterGroupClusters.length === 0) return <p className="quiet">No clusters match.</p>;
  return (
    <Table label="Clusters of the group" titles={["Cluster", "Agent", "Last seen"]}>
      {data.clusterGroupClusters.map(({ id: key, handle, agentVersion, pingedAt }) => (
        <tr key={key}>
          <td>
            <Link href={`/clusters/${handle}`}>{handle}</Link>
          </td>
          <td>{agentVersion ?? "–"}</td>
          <td>
            <Age at={pingedAt} />
          </td>
        </tr>
      ))}
    </Table>
  );
}

export const CLUSTER_GROUPS: Kind<ClusterGroupsQuery, ClusterGroupsQueryVariables, Group> = {
  title: "Cluster groups",
  noun: ["cluster group", "cluster groups"],
  hint: "A group has clusters by tags or by name. Definitions and stages select it, and you can freeze it as a whole.",
  query: ClusterGroupsDocument,
  variables: (filter) => filter,
  pick: ({ clusterGroups, clusters }) => ({
    pageInfo: clusterGroups.pageInfo,
    edges: clusterGroups.edges.map(({ node }) => ({ node: { ...node, handles: node.clusterIds.map((id) => clusters.edges.find((edge) => edge.node.id === id)?.node.handle ?? id) } })),
  }),
  id: ({ id }) => id,
  name: ({ name }) => name,
  declared: ({ name }) => ({ kind: "ClusterGroup", name }),
  columns: [
    ["Description", ({ description }) => description],
    ["Tags", ({ tags }) => pairWords(tags).join(", ")],
    ["Listed clusters", ({ handles }) => handles.join(", ")],
    ["State", ({ frozen, frozenReason, frozenBy }) => (frozen ? <Status state={STATES.frozen} detail={`${frozenReason ?? "no reason"}${frozenBy === null ? "" : ` (${frozenBy})`}`} /> : <Status state={STATES.active} />)],
    ["Project", ({ project }) => project?.name ?? "all"],
  ],
  details: ({ id }) => <Members id={id} />,
  create: [CREATE],
  actions: [FREEZE, UNFREEZE, EDIT, UPGRADE, DELETE],
};
