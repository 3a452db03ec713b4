// Resources that a form field refers to: users type names, the API needs ids.
import type { Client, TypedDocumentNode } from "urql";
import {
  ClusterChoicesDocument,
  ClusterGroupChoicesDocument,
  ProjectChoicesDocument,
  RepositoryChoicesDocument,
  SecretChoicesDocument,
  ServiceNameChoicesDocument,
  SinkChoicesDocument,
  UserChoicesDocument,
} from "../api/generated";

export type Choice = { readonly id: string; readonly label: string };

type Source = (client: Client, q: string) => Promise<readonly Choice[]>;

type Edges<Node> = { readonly edges: readonly { readonly node: Node }[] };

function source<Data, Node>(document: TypedDocumentNode<Data, { q?: string | null }>, pick: (data: Data) => Edges<Node>, choice: (node: Node) => Choice): Source {
  return async (client, q) => {
    const { data } = await client.query(document, { q: q || null }).toPromise();
    return data == null ? [] : pick(data).edges.map(({ node }) => choice(node));
  };
}

const SOURCES = {
  project: source(ProjectChoicesDocument, (data) => data.projects, ({ id, name }) => ({ id, label: name })),
  cluster: source(ClusterChoicesDocument, (data) => data.clusters, ({ id, handle }) => ({ id, label: handle })),
  "cluster group": source(ClusterGroupChoicesDocument, (data) => data.clusterGroups, ({ id, name }) => ({ id, label: name })),
  repository: source(
    RepositoryChoicesDocument,
    (data) => ({ edges: [...data.gitRepositories.edges, ...data.ociRepositories.edges] }),
    ({ id, url }) => ({ id, label: url }),
  ),
  user: source(UserChoicesDocument, (data) => data.users, ({ id, email }) => ({ id, label: email })),
  secret: source(SecretChoicesDocument, (data) => data.secrets, ({ id, name }) => ({ id, label: name })),
  sink: source(SinkChoicesDocument, (data) => data.notificationSinks, ({ id, name }) => ({ id, label: name })),
  service: source(ServiceNameChoicesDocument, (data) => data.serviceDeployments, ({ id, name, cluster }) => ({ id, label: `${cluster?.handle ?? ""}/${name}` })),
} as const satisfies Record<string, Source>;

export type ChoiceKind = keyof typeof SOURCES;

/** Resources whose name contains a text. For a service as `cluster/name`, the list searches by its name. */
export const choicesOf = (client: Client, kind: ChoiceKind, text: string): Promise<readonly Choice[]> =>
  SOURCES[kind](client, kind === "service" ? (text.split("/").at(-1) ?? "") : text);

const ID = /^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$/;

/** Id of a resource by its exact name; null: not found. An id stands for itself. */
export async function idOf(client: Client, kind: ChoiceKind, label: string): Promise<string | null> {
  if (ID.test(label)) return label;
  const found = await choicesOf(client, kind, label);
  return found.find((choice) => choice.label === label)?.id ?? null;
}
