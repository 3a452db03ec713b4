import {
  ApproveConfigurationSourceDocument,
  ConfigurationSourcesDocument,
  CreateConfigurationSourceDocument,
  DeleteConfigurationSourceDocument,
  SyncConfigurationSourceDocument,
  UpdateConfigurationSourceDocument,
  type ConfigurationSourceAttributes,
  type ConfigurationSourceResult,
  type ConfigurationSourcesQuery,
  type ConfigurationSourcesQueryVariables,
  type SourceRowFragment,
} from "../api/generated";
import type { Action, FormField, Kind, Permission, Values } from "../manage/kind";
import { suspensions } from "../manage/suspension";
import { flag, number, option, optional, text } from "../manage/values";
import { Age } from "../ui/Age";
import { STATES, type State } from "../ui/states";
import { Status } from "../ui/Status";
import { SourceDetails } from "./SourceDetails";

type Source = SourceRowFragment;

const WRITE: Permission = { verb: "WRITE", kind: "CONFIGURATION_SOURCE" };
const MODES = ["AUTOMATIC", "APPROVAL"] as const;
const DRIFT = ["REPORT", "HEAL", "IGNORE"] as const;
const RESULTS: Readonly<Record<ConfigurationSourceResult, State>> = {
  UNKNOWN: STATES.pending,
  SYNCED: STATES.current,
  OUT_OF_SYNC: STATES.outOfSync,
  AWAITING_APPROVAL: STATES.awaitingApproval,
  FAILED: STATES.failed,
};

const FIELDS: readonly FormField[] = [
  { path: "repository", title: "Repository", choice: "repository", required: true },
  { path: "ref", title: "Branch, tag or commit", required: true },
  { path: "folder", title: "Folder", note: "empty: the whole repository" },
  { path: "account", title: "Service account", note: "applies the manifests with its permissions", choice: "user", required: true },
  { path: "mode", title: "New commits", of: MODES },
  { path: "prune", title: "Delete resources that left the folder", of: "check" },
  { path: "budget", title: "Maximum deletions of one apply", of: "number" },
  { path: "drift", title: "Drift", note: "reaction to changes by other managers", of: DRIFT },
  { path: "interval", title: "Seconds between checks", of: "number" },
];

const attributesOf = (values: Values): ConfigurationSourceAttributes => ({
  repositoryId: text(values, "repository"),
  ref: text(values, "ref"),
  folder: text(values, "folder"),
  serviceAccountId: text(values, "account"),
  mode: MODES.find((mode) => mode === text(values, "mode")) ?? "AUTOMATIC",
  prune: flag(values, "prune"),
  deletionBudget: number(values, "budget") ?? 0,
  drift: DRIFT.find((policy) => policy === text(values, "drift")) ?? "REPORT",
  intervalSeconds: number(values, "interval"),
});

const words = (values: Values): readonly string[] => [
  ...option("--repository", text(values, "repository")),
  ...["--ref", text(values, "ref"), "--folder", text(values, "folder")],
  ...[...option("--service-account", text(values, "account")), "--mode", text(values, "mode").toLowerCase()],
  ...[flag(values, "prune") ? "--prune" : "--no-prune", ...option("--deletion-budget", number(values, "budget"))],
  ...["--drift", text(values, "drift").toLowerCase(), ...option("--interval", number(values, "interval"))],
];

const CREATE: Action<null> = {
  title: "Create configuration source",
  permission: WRITE,
  consequence: () => "Everybody who can push to this folder gets the permissions of the service account.",
  fields: [{ path: "name", title: "Name", required: true }, ...FIELDS, { path: "project", title: "Project", note: "empty: the default project", choice: "project" }],
  initial: () => ({ ref: "main", mode: "AUTOMATIC", drift: "REPORT", budget: 0, interval: 300 }),
  command: (values) => ["config-sources", "create", text(values, "name"), ...words(values), ...option("--project", text(values, "project"))],
  run: (client, values) => client.mutation(CreateConfigurationSourceDocument, { attributes: { ...attributesOf(values), name: text(values, "name"), projectId: optional(values, "project") } }).toPromise(),
  done: "Configuration source created",
};

const EDIT: Action<Source> = {
  title: "Edit",
  permission: WRITE,
  fields: FIELDS,
  initial: (source) => ({
    ...{ ref: source.ref, folder: source.folder, mode: source.mode, prune: source.prune, drift: source.drift },
    ...{ repository: source.repositoryUrl ?? "", account: source.serviceAccount ?? "", budget: source.deletionBudget, interval: source.intervalSeconds },
  }),
  command: (values, { name }) => ["config-sources", "update", name, ...words(values)],
  run: (client, values, { id }) => client.mutation(UpdateConfigurationSourceDocument, { id, attributes: attributesOf(values) }).toPromise(),
  done: "Configuration source changed",
};

const APPROVE: Action<Source> = {
  title: "Approve plan",
  permission: { verb: "APPROVE", kind: "CONFIGURATION_SOURCE" },
  consequence: ({ planSize, seenSha }) => `Applies ${String(planSize)} changes of commit ${(seenSha ?? "").slice(0, 10)}.`,
  when: ({ result, suspended }) => result === "AWAITING_APPROVAL" && !suspended,
  command: (_, { name, planDigest }) => ["config-sources", "approve", name, "--digest", planDigest ?? ""],
  run: (client, _, { id, planDigest }) => client.mutation(ApproveConfigurationSourceDocument, { id, digest: planDigest ?? "" }).toPromise(),
  done: "Plan approved",
};

const SYNC: Action<Source> = {
  title: "Sync",
  permission: WRITE,
  consequence: () => "Fetches the repository now, and applies the folder again.",
  fields: [{ path: "force", title: "Take over fields of other managers", of: "check" }],
  when: ({ suspended }) => !suspended,
  command: (values, { name }) => ["config-sources", "sync", name, ...(flag(values, "force") ? ["--force"] : [])],
  run: (client, values, { id }) => client.mutation(SyncConfigurationSourceDocument, { id, force: flag(values, "force") }).toPromise(),
  done: "Sync requested",
};

const suspension = suspensions<Source>({
  noun: "Configuration source",
  command: "config-sources",
  permission: WRITE,
  update: (client, id, suspended) => client.mutation(UpdateConfigurationSourceDocument, { id, attributes: { suspended } }).toPromise(),
});

const DELETE: Action<Source> = {
  title: "Delete",
  permission: WRITE,
  consequence: () => "Its resources stay. Nobody applies the folder any more.",
  typed: ({ name }) => name,
  command: (_, { name }) => ["config-sources", "delete", name],
  run: (client, _, { id }) => client.mutation(DeleteConfigurationSourceDocument, { id }).toPromise(),
  done: "Configuration source deleted",
};

export const SOURCES: Kind<ConfigurationSourcesQuery, ConfigurationSourcesQueryVariables, Source> = {
  title: "Configuration sources",
  noun: ["configuration source", "configuration sources"],
  hint: "A configuration source applies a folder of manifests in Git: clusters, services, roles and all other resources.",
  query: ConfigurationSourcesDocument,
  variables: (filter) => filter,
  pick: ({ configurationSources }) => configurationSources,
  id: ({ id }) => id,
  name: ({ name }) => name,
  declared: ({ name }) => ({ kind: "ConfigurationSource", name }),
  columns: [
    ["State", ({ result, suspended }) => <Status state={suspended ? STATES.suspended : RESULTS[result]} />],
    ["Folder", ({ folder, ref }) => `${folder || "/"} at ${ref}`],
    ["Applied", ({ appliedSha }) => <code>{(appliedSha ?? "").slice(0, 10)}</code>],
    ["Checked", ({ checkedAt }) => (checkedAt === null ? "never" : <Age at={checkedAt} />)],
  ],
  details: (source) => <SourceDetails source={source} />,
  create: [CREATE],
  actions: [APPROVE, SYNC, suspension.suspend("Stops applies and checks until you resume the source."), suspension.resume("Applies the folder now."), EDIT, DELETE],
  follow: 5_000,
};
