import { DeleteSinkDocument, SinksDocument, TestSinkDocument, UpsertSinkDocument, type SinkConfigurationAttributes, type SinkRowFragment, type SinksQuery, type SinksQueryVariables, type SinkType } from "../api/generated";
import type { Action, FormField, Kind, Permission, Values } from "../manage/kind";
import { list, option, optional, options, text } from "../manage/values";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";

type Sink = SinkRowFragment;

const WRITE: Permission = { verb: "WRITE", kind: "NOTIFICATION" };
const TYPES = ["SLACK", "TEAMS", "WEBHOOK", "GITHUB", "GITLAB", "SYSLOG"] as const satisfies readonly SinkType[];
const AUDIT = ["CHANGE", "SIGN_IN", "REQUEST", "AGENT"] as const;

const FIELDS: readonly FormField[] = [
  { path: "name", title: "Name", note: "an existing name replaces that sink", required: true },
  { path: "type", title: "Type", of: TYPES },
  { path: "url", title: "URL", note: "encrypted; only the host is shown again; not for commit statuses", of: "secret" },
  { path: "repository", title: "Repository", note: "for commit statuses of GitHub and GitLab", choice: "repository" },
  { path: "token", title: "Token", note: "with permission to write commit statuses", of: "secret" },
  { path: "apiUrl", title: "API URL", note: "of a self-managed Git host" },
  { path: "project", title: "Project", note: "empty: the whole installation", choice: "project" },
  { path: "audit", title: "Audit log", note: "CHANGE, SIGN_IN, REQUEST, AGENT; only for sinks of the whole installation", of: "list" },
];

const typeOf = (values: Values): SinkType => TYPES.find((type) => type === text(values, "type")) ?? "SLACK";

export function configurationOf(values: Values): SinkConfigurationAttributes {
  const url = optional(values, "url");
  const type = typeOf(values);
  if (type === "GITHUB" || type === "GITLAB") return { commitStatus: { repositoryId: text(values, "repository"), token: optional(values, "token"), apiUrl: optional(values, "apiUrl") } };
  return { [type.toLowerCase()]: { url } };
}

const SAVE: Action<null> = {
  title: "Create sink",
  permission: WRITE,
  fields: FIELDS,
  initial: () => ({ type: TYPES[0] }),
  command: (values) => [
    ...["notifications", "set-sink", text(values, "name"), "--type", typeOf(values).toLowerCase()],
    ...(optional(values, "url") === null ? [] : ["--url-file", "url.txt"]),
    ...[...option("--repository", text(values, "repository")), ...(optional(values, "token") === null ? [] : ["--token-file", "token.txt"]), ...option("--api-url", text(values, "apiUrl"))],
    ...options("--audit", list(values, "audit").map((kind) => kind.toLowerCase().replace("_", "-"))),
  ],
  run: async (client, values) => {
    const audit = list(values, "audit").flatMap((word) => AUDIT.filter((kind) => kind === word.toUpperCase()));
    const attributes = { name: text(values, "name"), type: typeOf(values), projectId: optional(values, "project"), audit, configuration: configurationOf(values) };
    const { data, error } = await client.mutation(UpsertSinkDocument, { attributes }).toPromise();
    const secret = data?.upsertNotificationSink?.signingSecret;
    return { error, secret: secret == null ? null : { title: "Signing secret of the webhook", text: secret } };
  },
  done: "Sink saved",
};

const TEST: Action<Sink> = {
  title: "Send test message",
  permission: WRITE,
  consequence: ({ host }) => `Sends one message to ${host} now. The result is under Deliveries.`,
  command: (_, { name }) => ["notifications", "test-sink", name],
  run: (client, _, { id }) => client.mutation(TestSinkDocument, { id }).toPromise(),
  done: "Test message queued",
};

const DELETE: Action<Sink> = {
  title: "Delete sink",
  permission: WRITE,
  consequence: () => "Rules stop sending to this sink. Waiting messages to it are discarded.",
  typed: ({ name }) => name,
  command: (_, { name }) => ["notifications", "delete-sink", name],
  run: (client, _, { id }) => client.mutation(DeleteSinkDocument, { id }).toPromise(),
  done: "Sink deleted",
};

export const SINKS: Kind<SinksQuery, SinksQueryVariables, Sink> = {
  title: "Sinks",
  noun: ["sink", "sinks"],
  hint: "A sink receives events: a chat channel, a webhook, commit statuses of a repository, or syslog.",
  query: SinksDocument,
  variables: (filter) => filter,
  pick: ({ notificationSinks }) => notificationSinks,
  id: ({ id }) => id,
  name: ({ name }) => name,
  declared: ({ name }) => ({ kind: "NotificationSink", name }),
  columns: [
    ["Type", ({ type }) => type.toLowerCase()],
    ["Host", ({ host }) => host],
    ["State", ({ error, failures }) => (error === null && failures === 0 ? <Status state={STATES.ready} /> : <Status state={STATES.failed} detail={`${failures} in a row`} />)],
    ["Audit log", ({ audit }) => audit.map((kind) => kind.toLowerCase().replace("_", "-")).join(", ")],
  ],
  details: ({ error }) => (error === null ? null : <p className="status bad">{error}</p>),
  create: [SAVE],
  actions: [TEST, DELETE],
  follow: 5_000,
};
