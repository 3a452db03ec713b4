import {
  CreateHelmRepositoryDocument,
  DeleteHelmRepositoryDocument,
  HelmRepositoriesDocument,
  SyncHelmRepositoryDocument,
  UpdateHelmRepositoryDocument,
  type HelmRepositoriesQuery,
  type HelmRepositoriesQueryVariables,
  type HelmRowFragment,
} from "../api/generated";
import type { Action, FormField, Kind, Permission } from "../manage/kind";
import { option, optional, text } from "../manage/values";
import { Age } from "../ui/Age";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";

const WRITE: Permission = { verb: "WRITE", kind: "REPOSITORY" };

const FIELDS: readonly FormField[] = [
  { path: "url", title: "URL", note: "https://… of a chart repository, or oci://… of a registry", required: true },
  { path: "username", title: "Username" },
  { path: "password", title: "Password or token", note: "stored encrypted; cannot be viewed again", of: "secret" },
];

const CREATE: Action<null> = {
  title: "Connect chart repository",
  permission: WRITE,
  fields: [...FIELDS, { path: "project", title: "Project", note: "empty: the default project", choice: "project" }],
  command: (values) => [
    ...["helm-repos", "create", text(values, "url"), ...option("--username", text(values, "username"))],
    ...[...(optional(values, "password") === null ? [] : ["--password-file", "password.txt"]), ...option("--project", text(values, "project"))],
  ],
  run: (client, values) =>
    client
      .mutation(CreateHelmRepositoryDocument, {
        attributes: { url: text(values, "url"), username: optional(values, "username"), password: optional(values, "password"), projectId: optional(values, "project") },
      })
      .toPromise(),
  done: "Chart repository connected",
};

const EDIT: Action<HelmRowFragment> = {
  title: "Edit chart repository",
  permission: WRITE,
  consequence: () => "Empty credentials stay as they are. For another host, enter the credentials again.",
  fields: FIELDS,
  initial: ({ url }) => ({ url }),
  command: (values, { url }) => [
    ...["helm-repos", "update", url, ...option("--url", text(values, "url")), ...option("--username", text(values, "username"))],
    ...(optional(values, "password") === null ? [] : ["--password-file", "password.txt"]),
  ],
  run: (client, values, { id }) => client.mutation(UpdateHelmRepositoryDocument, { id, attributes: { url: text(values, "url"), username: optional(values, "username"), password: optional(values, "password") } }).toPromise(),
  done: "Chart repository updated",
};

const SYNC: Action<HelmRowFragment> = {
  title: "Fetch now",
  permission: WRITE,
  consequence: () => "Resolves all version ranges again. Services that use a newer chart are rendered.",
  command: (_, { url }) => ["helm-repos", "sync", url],
  run: (client, _, { id }) => client.mutation(SyncHelmRepositoryDocument, { id }).toPromise(),
  done: "Fetch started",
};

const DELETE: Action<HelmRowFragment> = {
  title: "Remove chart repository",
  permission: WRITE,
  consequence: () => "Deletes the connection and its credentials. A repository that a service uses cannot be removed.",
  typed: ({ url }) => url,
  command: (_, { url }) => ["helm-repos", "delete", url],
  run: (client, _, { id }) => client.mutation(DeleteHelmRepositoryDocument, { id }).toPromise(),
  done: "Chart repository removed",
};

export const HELM_REPOSITORIES: Kind<HelmRepositoriesQuery, HelmRepositoriesQueryVariables, HelmRowFragment> = {
  title: "Helm and OCI repositories",
  noun: ["chart repository", "chart repositories"],
  hint: "A service can use a chart from a repository or a registry.",
  query: HelmRepositoriesDocument,
  variables: (filter) => filter,
  pick: ({ helmRepositories }) => helmRepositories,
  id: ({ id }) => id,
  name: ({ url }) => url,
  declared: ({ url }) => ({ kind: "HelmRepository", name: url }),
  columns: [
    ["State", ({ health, error }) => <Status state={health === null ? STATES.pending : health === "PULLABLE" ? STATES.ready : STATES.failed} detail={error ?? ""} />],
    ["Credentials", ({ hasCredentials }) => (hasCredentials ? "stored" : "none")],
    ["Last fetch", ({ polledAt }) => <Age at={polledAt} />],
  ],
  details: ({ charts }) =>
    charts.length === 0 ? (
      <p className="quiet">No service uses a chart of this repository yet.</p>
    ) : (
      <Table label="Charts" titles={["Chart", "Range", "Version", "Digest"]}>
        {charts.map(({ chart, range, version, digest }) => (
          <tr key={`${chart} ${range}`}>
            <td>{chart}</td>
            <td>{range}</td>
            <td>{version}</td>
            <td>
              <code>{digest.slice(0, 19)}</code>
            </td>
          </tr>
        ))}
      </Table>
    ),
  create: [CREATE],
  actions: [SYNC, EDIT, DELETE],
  follow: 5_000,
};
