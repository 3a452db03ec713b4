// Operations on one service that change no definition, its secrets, and its copies.
import { Link } from "wouter";
import { CloneServiceDocument, ForceServiceDocument, ProceedServiceDocument, TerminateServiceDocument, UseSecretsDocument, type ServiceSecretsQuery } from "../api/generated";
import type { Action, Permission } from "../manage/kind";
import { number, optional, pairs, text } from "../manage/values";

export type Subject = { readonly id: string; readonly name: string; readonly namespace: string; readonly handle: string; readonly waiting: boolean };
type Use = ServiceSecretsQuery["serviceSecrets"][number];
export type Uses = { readonly subject: Subject; readonly uses: readonly Use[] };

const WRITE: Permission = { verb: "WRITE", kind: "SERVICE" };
const nameOf = ({ handle, name }: Subject): string => `${handle}/${name}`;

export const SERVICE_ACTIONS: readonly Action<Subject>[] = [
  {
    title: "Render and apply again",
    permission: WRITE,
    consequence: (subject) => `Renders ${nameOf(subject)} from its commit and applies all objects, even without changes. Hooks run again.`,
    run: (client, _, { id }) => client.mutation(ForceServiceDocument, { id }).toPromise(),
    done: "Sync started",
  },
  {
    title: "Skip dependencies once",
    permission: WRITE,
    when: ({ waiting }) => waiting,
    consequence: () => "The service proceeds once without waiting for its dependencies to become healthy.",
    run: (client, _, { id }) => client.mutation(ProceedServiceDocument, { id }).toPromise(),
    done: "Service proceeds",
  },
  {
    title: "Stop running sync",
    permission: WRITE,
    consequence: () => "Stops the sync with its hooks. Objects that are already applied stay; the next sync continues.",
    typed: ({ name }) => name,
    run: (client, _, { id }) => client.mutation(TerminateServiceDocument, { serviceId: id }).toPromise(),
    done: "Sync stopped",
  },
  {
    title: "Clone service",
    permission: WRITE,
    consequence: (subject) => `Creates a service with the settings of ${nameOf(subject)} in another cluster, or under another name.`,
    fields: [
      { path: "cluster", title: "Cluster", choice: "cluster", required: true },
      { path: "name", title: "Name", required: true },
      { path: "namespace", title: "Namespace", note: "empty: the same namespace" },
      { path: "set", title: "Values for templates", note: "name=value, separated by spaces; others stay", of: "list" },
    ],
    initial: ({ name, namespace }) => ({ name, namespace }),
    run: async (client, values, { id }) => {
      const attributes = { name: text(values, "name"), namespace: optional(values, "namespace"), configuration: pairs(values, "set") };
      const { data, error } = await client.mutation(CloneServiceDocument, { serviceId: id, clusterId: text(values, "cluster"), attributes }).toPromise();
      const clone = data?.cloneService;
      return { error, content: clone == null ? undefined : <Link href={`/services/${clone.id}`}>Open the new service</Link> };
    },
    done: "Service cloned",
  },
];

const kept = (uses: readonly Use[], without: string) =>
  uses.filter(({ name }) => name !== without).map(({ name, secretId, version, pinned }) => ({ name, secretId, version: pinned ? version : null }));

export const GIVE_SECRET: Action<Uses> = {
  title: "Give secret",
  permission: WRITE,
  consequence: ({ subject }) => `Templates of ${nameOf(subject)} can read the value by its name. You need the permission to use the secret.`,
  fields: [
    { path: "secret", title: "Secret", choice: "secret", required: true },
    { path: "name", title: "Name in templates", note: "replaces another secret with this name", required: true },
    { path: "version", title: "Version", note: "empty: follow the current version", of: "number" },
  ],
  command: (values, { subject, uses }) => [
    ...["secrets", "use", nameOf(subject), ...uses.filter(({ name }) => name !== text(values, "name")).map(({ name, secretName }) => `${name}=${secretName}`)],
    `${text(values, "name")}=${text(values, "secret")}`,
  ],
  run: (client, values, { subject, uses }) => {
    const given = { name: text(values, "name"), secretId: text(values, "secret"), version: number(values, "version") };
    return client.mutation(UseSecretsDocument, { serviceId: subject.id, uses: [...kept(uses, given.name), given] }).toPromise();
  },
  done: "Secret given",
};

export const takeSecret = (use: Use): Action<Uses> => ({
  title: "Take away",
  permission: WRITE,
  consequence: ({ subject }) => `${nameOf(subject)} can no longer read ${use.secretName}. Rendering fails if a template still uses ${use.name}.`,
  command: (_, { subject, uses }) => ["secrets", "use", nameOf(subject), ...uses.filter(({ name }) => name !== use.name).map(({ name, secretName }) => `${name}=${secretName}`)],
  run: (client, _, { subject, uses }) => client.mutation(UseSecretsDocument, { serviceId: subject.id, uses: kept(uses, use.name) }).toPromise(),
  done: "Secret taken away",
});
