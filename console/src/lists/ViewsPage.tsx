import { useQuery } from "urql";
import { Link, Redirect, useParams } from "wouter";
import { DeleteViewDocument, SavedViewDocument, SavedViewsDocument, SaveViewDocument, type SavedViewRowFragment, type SavedViewsQuery, type SavedViewsQueryVariables, type ViewSharing } from "../api/generated";
import { onePage, type Action, type Kind } from "../manage/kind";
import { ResourceList } from "../manage/ResourceList";
import { optional, text } from "../manage/values";
import { CopyButton } from "../ui/CopyButton";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { addressOf } from "./views";

type View = SavedViewRowFragment;

const SHARING: Readonly<Record<ViewSharing, string>> = { NOBODY: "nobody", PROJECT: "project", EVERYBODY: "everybody" };

const RENAME: Action<View> = {
  title: "Rename view",
  fields: [{ path: "name", title: "Name", required: true }],
  initial: ({ name }) => ({ name }),
  run: (client, values, { id }) => client.mutation(SaveViewDocument, { id, attributes: { name: text(values, "name") } }).toPromise(),
  done: "View renamed",
};

const SHARE: Action<View> = {
  title: "Share view",
  permission: { verb: "ADMINISTER", kind: "PROJECT" },
  consequence: () => "Users who may read the project, or all users, see the view and each later change of it. Their own permissions decide which rows they see.",
  fields: [
    { path: "sharing", title: "Shared with", of: Object.keys(SHARING) },
    { path: "project", title: "Project", choice: "project", note: "Only for PROJECT" },
  ],
  initial: ({ sharing, projectId }) => ({ sharing, project: projectId ?? "" }),
  run: (client, values, { id }) => {
    const sharing = text(values, "sharing") as ViewSharing;
    return client.mutation(SaveViewDocument, { id, attributes: { sharing, projectId: sharing === "PROJECT" ? optional(values, "project") : null } }).toPromise();
  },
  done: "Sharing changed",
};

const DELETE: Action<View> = {
  title: "Delete view",
  consequence: ({ sharing }) => (sharing === "NOBODY" ? "Deletes the view. The list stays." : "Deletes the view for all users who share it. The list stays."),
  command: (_, { id }) => ["views", "delete", id],
  run: (client, _, { id }) => client.mutation(DeleteViewDocument, { id }).toPromise(),
  done: "View deleted",
};

const VIEWS: Kind<SavedViewsQuery, SavedViewsQueryVariables, View> = {
  title: "Views",
  noun: ["view", "views"],
  hint: "A view has the filter, columns and order of a list. Save one in the menu View of a list.",
  query: SavedViewsDocument,
  variables: () => ({}),
  unfiltered: true,
  pick: ({ savedViews }) => onePage(savedViews),
  id: ({ id }) => id,
  name: ({ name }) => name,
  columns: [
    ["List", ({ list }) => list],
    ["Filter", ({ query, filters }) => [query, ...Object.entries(filters).map(([name, value]) => `${name}:${String(value)}`)].join(" ")],
    ["Shared with", ({ sharing }) => SHARING[sharing]],
    ["Owner", ({ own, owner }) => (own ? "you" : owner)],
  ],
  details: (view) => (
    <p>
      <Link href={addressOf(view)}>Open list</Link> <CopyButton text={`${location.origin}/views/${view.id}`} title="Copy link to the view" />
    </p>
  ),
  create: [],
  actions: [RENAME, SHARE, DELETE],
};

/** Own and shared views of all lists: rename, share, delete. */
export function ViewsPage() {
  return <ResourceList kind={VIEWS} level={1} />;
}

/** Opens the list of a view, so that a link shows the current definition of the view. */
export function ViewPage() {
  const { id } = useParams<{ id: string }>();
  const [{ data, error }] = useQuery({ query: SavedViewDocument, variables: { id } });
  if (error !== undefined) return <Problem error={error} />;
  return data?.savedView == null ? <Skeleton lines={12} /> : <Redirect to={addressOf(data.savedView)} replace />;
}
