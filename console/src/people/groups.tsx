import { useQuery } from "urql";
import {
  CreateGroupDocument,
  CreateGroupMemberDocument,
  DeleteGroupDocument,
  DeleteGroupMemberDocument,
  GroupMembersDocument,
  GroupsDocument,
  UpdateGroupDocument,
  type GroupRowFragment,
  type GroupsQuery,
  type GroupsQueryVariables,
  type UserRowFragment,
} from "../api/generated";
import { Actions } from "../manage/Actions";
import type { Action, FormField, Kind, Permission, Values } from "../manage/kind";
import { flag, option, optional, text } from "../manage/values";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Table } from "../ui/Table";

type Group = GroupRowFragment;
type Member = { readonly group: Group; readonly user: UserRowFragment };

const ADMINISTER: Permission = { verb: "ADMINISTER", kind: "GROUP", everywhere: true };

const FIELDS: readonly FormField[] = [
  { path: "name", title: "Name", required: true },
  { path: "description", title: "Description" },
  { path: "global", title: "All users are members", of: "check" },
  { path: "issuer", title: "Identity provider", note: "URL of the issuer that manages the members; empty: managed here" },
];

const attributesOf = (values: Values) => ({ name: text(values, "name"), description: optional(values, "description"), global: flag(values, "global"), issuer: optional(values, "issuer") });

const CREATE: Action<null> = {
  title: "Create group",
  permission: ADMINISTER,
  fields: FIELDS,
  command: (values) => [
    ...["groups", "create", text(values, "name"), ...option("--description", text(values, "description"))],
    ...[...(flag(values, "global") ? ["--all-users"] : []), ...option("--issuer", text(values, "issuer"))],
  ],
  run: (client, values) => client.mutation(CreateGroupDocument, { attributes: attributesOf(values) }).toPromise(),
  done: "Group created",
};

const EDIT: Action<Group> = {
  title: "Edit group",
  permission: ADMINISTER,
  fields: FIELDS,
  initial: ({ name, description, global, issuer }) => ({ name, description: description ?? "", global: global ?? false, issuer: issuer ?? "" }),
  run: (client, values, { id }) => client.mutation(UpdateGroupDocument, { groupId: id, attributes: attributesOf(values) }).toPromise(),
  done: "Group updated",
};

const ADD: Action<Group> = {
  title: "Add member",
  permission: ADMINISTER,
  when: ({ global, issuer }) => global !== true && issuer === null,
  consequence: ({ name }) => `The user gets all roles of ${name}.`,
  fields: [{ path: "user", title: "User", choice: "user", required: true }],
  command: (values, { name }) => ["groups", "add", name, text(values, "user")],
  run: (client, values, { id }) => client.mutation(CreateGroupMemberDocument, { groupId: id, userId: text(values, "user") }).toPromise(),
  done: "Member added",
};

const REMOVE_MEMBER: Action<Member> = {
  title: "Remove member",
  permission: ADMINISTER,
  consequence: ({ group, user }) => `${user.email} loses the roles of ${group.name} at once, and sessions that depend on them end.`,
  command: (_, { group, user }) => ["groups", "remove", group.name, user.email],
  run: (client, _, { group, user }) => client.mutation(DeleteGroupMemberDocument, { groupId: group.id, userId: user.id }).toPromise(),
  done: "Member removed",
};

const DELETE: Action<Group> = {
  title: "Delete group",
  permission: ADMINISTER,
  consequence: () => "Its members lose the roles of the group at once.",
  typed: ({ name }) => name,
  command: (_, { name }) => ["groups", "delete", name],
  run: (client, _, { id }) => client.mutation(DeleteGroupDocument, { groupId: id }).toPromise(),
  done: "Group deleted",
};

function Members({ group }: { readonly group: Group }) {
  const [{ data, error }] = useQuery({ query: GroupMembersDocument, variables: { groupId: group.id }, pause: group.global === true });
  if (group.global === true) return <p className="quiet">All users are members.</p>;
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={2} />;
  if (data.groupMembers.length === 0) return <p className="quiet">No members.</p>;
  return (
    <Table label="Members" titles={["Member", "Name", ""]}>
      {data.groupMembers.map((user) => (
        <tr key={user.id}>
          <td>{user.email}</td>
          <td>{user.name}</td>
          <td>{group.issuer === null && <Actions actions={[REMOVE_MEMBER]} node={{ group, user }} />}</td>
        </tr>
      ))}
    </Table>
  );
}

export const GROUPS: Kind<GroupsQuery, GroupsQueryVariables, Group> = {
  title: "Groups",
  noun: ["group", "groups"],
  hint: "A role that is bound to a group applies to all its members.",
  query: GroupsDocument,
  variables: (filter) => filter,
  pick: ({ groups }) => groups,
  id: ({ id }) => id,
  name: ({ name }) => name,
  declared: ({ name }) => ({ kind: "Group", name }),
  columns: [
    ["Description", ({ description }) => description],
    ["Members", ({ global, issuer }) => (global === true ? "all users" : (issuer ?? "managed here"))],
  ],
  details: (group) => <Members group={group} />,
  create: [CREATE],
  actions: [ADD, EDIT, DELETE],
};

export const MEMBER_ACTIONS = [REMOVE_MEMBER];
