// Parts that all kinds of repositories in registries share: their form, actions and columns.
import type { Client } from "urql";
import type { Action, FormField, Kind, Outcome, Permission, Values } from "../manage/kind";
import { option, optional, text } from "../manage/values";
import { Age } from "../ui/Age";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";

const WRITE: Permission = { verb: "WRITE", kind: "REPOSITORY" };

type Row = { readonly id: string; readonly url: string; readonly health: "PULLABLE" | "FAILED" | null; readonly error: string | null; readonly polledAt: string | null; readonly hasCredentials: boolean };
type Attributes = { readonly url: string; readonly username: string | null; readonly password: string | null; readonly projectId?: string | null };

type Mutations = {
  readonly create: (client: Client, attributes: Attributes) => Promise<Outcome>;
  readonly update: (client: Client, id: string, attributes: Attributes) => Promise<Outcome>;
  readonly remove: (client: Client, id: string) => Promise<Outcome>;
  readonly sync: (client: Client, id: string) => Promise<Outcome>;
};

type Words = {
  /** Group of commands. */
  readonly group: string;
  readonly noun: string;
  /** The noun at the start of a sentence. */
  readonly title: string;
  /** Forms of its URL. */
  readonly url: string;
  /** Effect of a fetch. */
  readonly fetch: string;
};

const attributesOf = (values: Values): Attributes => ({ url: text(values, "url"), username: optional(values, "username"), password: optional(values, "password") });

const credentials = (values: Values): readonly string[] => [
  ...option("--username", text(values, "username")),
  ...(optional(values, "password") === null ? [] : ["--password-file", "password.txt"]),
];

/** Form, actions and columns of a kind. */
export function registryKind(words: Words, mutations: Mutations) {
  const { group, noun, title } = words;
  const fields: readonly FormField[] = [
    { path: "url", title: "URL", note: words.url, required: true },
    { path: "username", title: "Username" },
    { path: "password", title: "Password or token", note: "stored encrypted; cannot be viewed again", of: "secret" },
  ];
  const create: Action<null> = {
    title: `Connect ${noun}`,
    permission: WRITE,
    fields: [...fields, { path: "project", title: "Project", note: "empty: the default project", choice: "project" }],
    command: (values) => [...[group, "create", text(values, "url")], ...credentials(values), ...option("--project", text(values, "project"))],
    run: (client, values) => mutations.create(client, { ...attributesOf(values), projectId: optional(values, "project") }),
    done: `${title} connected`,
  };
  const edit: Action<Row> = {
    title: `Edit ${noun}`,
    permission: WRITE,
    consequence: () => "Empty credentials stay as they are. For another host, enter the credentials again.",
    fields,
    initial: ({ url }) => ({ url }),
    command: (values, { url }) => [...[group, "update", url], ...option("--url", text(values, "url")), ...credentials(values)],
    run: (client, values, { id }) => mutations.update(client, id, attributesOf(values)),
    done: `${title} updated`,
  };
  const sync: Action<Row> = {
    title: "Fetch now",
    permission: WRITE,
    consequence: () => words.fetch,
    command: (_, { url }) => [group, "sync", url],
    run: (client, _, { id }) => mutations.sync(client, id),
    done: "Fetch started",
  };
  const remove: Action<Row> = {
    title: `Remove ${noun}`,
    permission: WRITE,
    consequence: () => "Deletes the connection and its credentials. A repository that a service uses cannot be removed.",
    typed: ({ url }) => url,
    command: (_, { url }) => [group, "delete", url],
    run: (client, _, { id }) => mutations.remove(client, id),
    done: `${title} removed`,
  };
  const columns: Kind<never, never, Row>["columns"] = [
    ["State", ({ health, error }) => <Status state={health === null ? STATES.pending : health === "PULLABLE" ? STATES.ready : STATES.failed} detail={error ?? ""} />],
    ["Credentials", ({ hasCredentials }) => (hasCredentials ? "stored" : "none")],
    ["Last fetch", ({ polledAt }) => <Age at={polledAt} />],
  ];
  return { columns, create: [create], actions: [sync, edit, remove], id: ({ id }: Row) => id, name: ({ url }: Row) => url, follow: 5_000 };
}
