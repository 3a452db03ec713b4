// Actions of the page of a cluster.
import { DeleteClusterDocument, DeliverFreezeStatementDocument, UpdateClusterDocument, UpgradeAgentDocument, type ClusterQuery } from "../api/generated";
import type { Action, Permission } from "../manage/kind";
import { flag, pairs, pairWords, text } from "../manage/values";

type Cluster = NonNullable<ClusterQuery["cluster"]>;

const WRITE: Permission = { verb: "WRITE", kind: "CLUSTER" };

const EDIT: Action<Cluster> = {
  title: "Edit cluster",
  permission: WRITE,
  consequence: () => "Cluster groups, global services and service sets that select by tag follow the change at once.",
  fields: [
    { path: "handle", title: "Handle", note: "name in addresses and commands", required: true },
    { path: "name", title: "Name", required: true },
    { path: "tags", title: "Tags", note: "name=value, separated by spaces", of: "list" },
    { path: "protect", title: "Protect from deletion", of: "check" },
  ],
  initial: ({ handle, name, tags, protect }) => ({ handle, name, tags: pairWords(tags), protect }),
  run: (client, values, { id }) =>
    client.mutation(UpdateClusterDocument, { id, attributes: { handle: text(values, "handle"), name: text(values, "name"), tags: pairs(values, "tags"), protect: flag(values, "protect") } }).toPromise(),
  done: "Cluster updated",
};

const UPGRADE: Action<Cluster> = {
  title: "Upgrade agent",
  permission: WRITE,
  consequence: ({ agentVersion }) => `The agent has version ${agentVersion ?? "unknown"}. It rolls itself back if the upgrade fails.`,
  fields: [
    { path: "version", title: "Version", required: true },
    { path: "image", title: "Image", note: "with that version", required: true },
  ],
  run: (client, values, { id }) => client.mutation(UpgradeAgentDocument, { clusterId: id, version: text(values, "version"), image: text(values, "image") }).toPromise(),
  done: "Agent upgrade started",
};

const FREEZE: Action<Cluster> = {
  title: "Send freeze statement",
  permission: WRITE,
  consequence: () => "The agent obeys a statement that a freeze key of its cluster has signed. While frozen, it changes nothing and ends all requests of users. Only the holder of the key can thaw the cluster.",
  fields: [{ path: "statement", title: "Signed statement", note: "output of towline freeze --print or towline thaw --print", of: "long", required: true }],
  command: (_, { handle }) => ["freeze", "--key", "freeze.key", "--cluster", handle],
  run: (client, values, { id }) => client.mutation(DeliverFreezeStatementDocument, { clusterId: id, statement: text(values, "statement") }).toPromise(),
  done: "Statement sent to the agent",
};

const DELETE: Action<Cluster> = {
  title: "Delete cluster and its services",
  permission: WRITE,
  when: ({ protect }) => !protect,
  consequence: ({ handle }) => `The agent removes all services of ${handle} with their objects. Then Towline deletes the cluster and its tokens. This cannot be undone.`,
  typed: ({ handle }) => handle,
  command: (_, { handle }) => ["clusters", "delete", handle],
  run: (client, _, { id }) => client.mutation(DeleteClusterDocument, { id }).toPromise(),
  done: "Deletion started",
};

export const CLUSTER_ACTIONS: readonly Action<Cluster>[] = [EDIT, UPGRADE, FREEZE, DELETE];
