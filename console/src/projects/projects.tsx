import { Link } from "wouter";
import { CreateProjectDocument, DeleteProjectDocument, ProjectListDocument, RenameProjectDocument, type ProjectRowFragment, type ProjectListQuery, type ProjectListQueryVariables } from "../api/generated";
import type { Action, FormField, Kind, Values } from "../manage/kind";
import { option, optional, text } from "../manage/values";
import { counted } from "../text/counts";
import { Age } from "../ui/Age";

type Project = ProjectRowFragment;

const FIELDS: readonly FormField[] = [
  { path: "name", title: "Name", required: true },
  { path: "description", title: "Description" },
];

const attributesOf = (values: Values) => ({ name: text(values, "name"), description: optional(values, "description") });

const CREATE: Action<null> = {
  title: "Create project",
  permission: { verb: "WRITE", kind: "PROJECT", everywhere: true },
  consequence: () => "A new project has a fence without rules: it deploys nothing until the fence names sources and destinations.",
  fields: FIELDS,
  command: (values) => ["projects", "create", text(values, "name"), ...option("--description", text(values, "description"))],
  run: (client, values) => client.mutation(CreateProjectDocument, { attributes: attributesOf(values) }).toPromise(),
  done: "Project created",
};

const EDIT: Action<Project> = {
  title: "Rename project",
  permission: { verb: "WRITE", kind: "PROJECT" },
  consequence: () => "Role bindings and fences stay. Commands and manifests must use the new name.",
  fields: FIELDS,
  initial: ({ name, description }) => ({ name, description: description ?? "" }),
  run: (client, values, { id }) => client.mutation(RenameProjectDocument, { id, attributes: attributesOf(values) }).toPromise(),
  done: "Project updated",
};

const DELETE: Action<Project> = {
  title: "Delete project",
  permission: { verb: "ADMINISTER", kind: "PROJECT" },
  when: (project) => !project.default,
  consequence: () => "Deletes the project, its role bindings and its fence. A project with clusters, services, repositories or pipelines cannot be deleted.",
  typed: ({ name }) => name,
  command: (_, { name }) => ["projects", "delete", name],
  run: (client, _, { id }) => client.mutation(DeleteProjectDocument, { id }).toPromise(),
  done: "Project deleted",
};

/** Summary of a fence: its rules, and its limits if there are any. */
function fenceText({ unrestricted, sources, destinations, maxServices, maxObjects }: Project["fence"]): string {
  if (unrestricted) return "unrestricted";
  const limits = [maxServices > 0 && `at most ${counted(maxServices, "service")}`, maxObjects > 0 && `at most ${counted(maxObjects, "object")}`];
  return [counted(sources.length, "source"), counted(destinations.length, "destination"), ...limits.filter((text) => text !== false)].join(", ");
}

export const PROJECTS: Kind<ProjectListQuery, ProjectListQueryVariables, Project> = {
  title: "Projects",
  noun: ["project", "projects"],
  hint: "A project belongs to one team: its clusters, services, repositories and roles. Its fence limits sources and destinations.",
  query: ProjectListDocument,
  variables: (filter) => filter,
  pick: ({ projects }) => projects,
  id: ({ id }) => id,
  name: ({ name }) => name,
  declared: ({ name }) => ({ kind: "Project", name }),
  columns: [
    ["Description", ({ description }) => description],
    ["Fence", ({ fence }) => fenceText(fence)],
    ["Created", ({ insertedAt }) => <Age at={insertedAt} />],
  ],
  details: ({ name }) => (
    <p>
      <Link href={`/access?tab=fences&project=${encodeURIComponent(name)}`}>Fence</Link> · <Link href={`/access?tab=roles&q=${encodeURIComponent(name)}`}>Role bindings</Link> ·{" "}
      <Link href={`/services?q=${encodeURIComponent(`project:${name}`)}`}>Services</Link>
    </p>
  ),
  create: [CREATE],
  actions: [EDIT, DELETE],
};
