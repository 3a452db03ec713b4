import { DeleteRouterDocument, RoutersDocument, UpsertRouterDocument, type NotificationSeverity, type RouterRowFragment, type RoutersQuery, type RoutersQueryVariables } from "../api/generated";
import type { Action, FormField, Kind, Permission, Values } from "../manage/kind";
import { list, option, optional, options, text } from "../manage/values";

/** Router with the names of its sinks and its project. */
type Rule = RouterRowFragment & { readonly sinks: readonly string[]; readonly project: string };

const WRITE: Permission = { verb: "WRITE", kind: "NOTIFICATION" };
const SEVERITIES = ["INFO", "WARNING", "ERROR"] as const satisfies readonly NotificationSeverity[];

const FIELDS: readonly FormField[] = [
  { path: "name", title: "Name", note: "an existing name replaces that rule", required: true },
  { path: "events", title: "Events", note: "such as service.failed, service.* or *; separated by spaces", of: "list", required: true },
  { path: "severity", title: "Minimum severity", of: SEVERITIES },
  { path: "sinks", title: "Sinks", choice: "sink", many: true, required: true },
  { path: "clusters", title: "Only clusters", note: "an event must match one filter", choice: "cluster", many: true },
  { path: "regex", title: "Only subjects", note: "regular expression (RE2)" },
  { path: "labels", title: "Only labels", note: "such as env in (a,b),tier!=web; tags of clusters are labels" },
  { path: "project", title: "Project", note: "empty: the whole installation", choice: "project" },
];

const severityOf = (values: Values): NotificationSeverity => SEVERITIES.find((severity) => severity === text(values, "severity")) ?? "INFO";

/** A filter for each cluster and for the subject; labels restrict all of them. */
export function filtersOf(values: Values) {
  const filters = [...list(values, "clusters").map((clusterId) => ({ clusterId })), ...(optional(values, "regex") === null ? [] : [{ regex: text(values, "regex") }])];
  const labels = optional(values, "labels");
  if (labels === null) return filters;
  return filters.length === 0 ? [{ labels }] : filters.map((filter) => ({ ...filter, labels }));
}

const SAVE = {
  permission: WRITE,
  fields: FIELDS,
  command: (values: Values) => [
    ...["notifications", "set-router", text(values, "name"), ...options("--sink", list(values, "sinks")), ...options("--event", list(values, "events"))],
    ...["--severity", severityOf(values).toLowerCase(), ...option("--regex", text(values, "regex")), ...option("--selector", text(values, "labels"))],
  ],
  run: (client, values) =>
    client
      .mutation(UpsertRouterDocument, {
        attributes: {
          name: text(values, "name"),
          events: list(values, "events"),
          severity: severityOf(values),
          filters: filtersOf(values),
          projectId: optional(values, "project"),
          routerSinks: list(values, "sinks").map((sinkId) => ({ sinkId })),
        },
      })
      .toPromise(),
  done: "Rule saved",
} as const satisfies Omit<Action<unknown>, "title">;

const CREATE: Action<null> = { ...SAVE, title: "Create rule", initial: () => ({ severity: "WARNING", events: ["*"] }) };

const EDIT: Action<Rule> = {
  ...SAVE,
  title: "Edit rule",
  // The API finds a rule by its name.
  fields: FIELDS.filter(({ path }) => path !== "name"),
  initial: ({ name, events, severity, sinks, project, filters }) => ({
    ...{ name, events, severity, sinks, project },
    clusters: filters.flatMap(({ clusterId }) => (clusterId === null ? [] : [clusterId])),
    regex: filters.find(({ regex }) => regex !== null)?.regex ?? "",
    labels: filters.find(({ labels }) => labels !== null)?.labels ?? "",
  }),
};

const DELETE: Action<Rule> = {
  title: "Delete rule",
  permission: WRITE,
  consequence: () => "Its sinks no longer receive these events.",
  typed: ({ name }) => name,
  command: (_, { name }) => ["notifications", "delete-router", name],
  run: (client, _, { id }) => client.mutation(DeleteRouterDocument, { id }).toPromise(),
  done: "Rule deleted",
};

const nameIn = (edges: readonly { readonly node: { readonly id: string; readonly name: string } }[], id: string | null): string => (id === null ? "" : (edges.find(({ node }) => node.id === id)?.node.name ?? id));

export const RULES: Kind<RoutersQuery, RoutersQueryVariables, Rule> = {
  title: "Rules",
  noun: ["rule", "rules"],
  hint: "A rule selects events by name and severity and sends them to sinks.",
  query: RoutersDocument,
  variables: (filter) => filter,
  pick: ({ notificationRouters, notificationSinks, projects }) => ({
    pageInfo: notificationRouters.pageInfo,
    edges: notificationRouters.edges.map(({ node }) => ({ node: { ...node, sinks: node.sinkIds.map((id) => nameIn(notificationSinks.edges, id)), project: nameIn(projects.edges, node.projectId) } })),
  }),
  id: ({ id }) => id,
  name: ({ name }) => name,
  declared: ({ name }) => ({ kind: "NotificationRule", name }),
  columns: [
    ["Events", ({ events }) => events.join(", ")],
    ["Severity", ({ severity }) => (severity === "INFO" ? "all" : `${severity.toLowerCase()} and above`)],
    ["Sinks", ({ sinks }) => sinks.join(", ")],
    ["Project", ({ project }) => project || "all"],
  ],
  create: [CREATE],
  actions: [EDIT, DELETE],
};
