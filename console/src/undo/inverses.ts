// Mutations that another one takes back: one table for all screens.
import { getOperationName, type AnyVariables, type Client, type TypedDocumentNode } from "urql";
import {
  AllowRevisionDocument,
  CreateGroupMemberDocument,
  DeleteGroupMemberDocument,
  DeleteViewDocument,
  DenyRevisionDocument,
  DisableUserDocument,
  FreezeClusterGroupDocument,
  LabelServiceDocument,
  PausePipelineDocument,
  ReleaseDocument,
  ResumePipelineDocument,
  RollbackDocument,
  SaveViewDocument,
  TagClusterDocument,
  UnfreezeClusterGroupDocument,
  UpdateClusterSourceDocument,
  UpdateConfigurationSourceDocument,
  UpdateServiceDocument,
  type SavedViewRowFragment,
} from "../api/generated";

/** Runs a mutation that takes back another one. */
export type Undo = (client: Client) => Promise<{ readonly error?: Error | undefined }>;

/** Result of a mutation, as urql gives it. */
export type Done = { readonly error?: unknown; readonly data?: unknown; readonly operation?: { readonly query: object; readonly variables: unknown } };

/** Fields of the resource before the change, as far as the screen knows them. */
type Before = {
  readonly status?: unknown;
  readonly pinnedSha?: string | null;
  readonly revision?: { readonly id: string } | null;
  readonly paused?: string | boolean | null;
  readonly frozenReason?: string | null;
  readonly reason?: string;
  readonly tags?: readonly { readonly name: string; readonly value: string }[];
  readonly manifest?: object;
};

type Inverse = (variables: never, before: Before, data: unknown) => Undo | null;

const request =
  <Data, Variables extends AnyVariables>(query: TypedDocumentNode<Data, Variables>, variables: Variables): Undo =>
  (client) =>
    client.mutation(query, variables).toPromise();

/** Name of a mutation: generated documents are texts, and urql parses them. */
const nameOf = (query: object | string): string => (typeof query === "string" ? /^\w+ (\w+)/.exec(query)?.[1] : getOperationName(query as TypedDocumentNode)) ?? "";

const rule = <Data, Variables extends AnyVariables>(query: TypedDocumentNode<Data, Variables>, inverse: (variables: Variables, before: Before, data: Data) => Undo | null) => [nameOf(query), inverse as Inverse] as const;

/** Inverse of an update that sets only one switch; null for one that sets more. */
function flipped<Variables extends { readonly id: string; readonly attributes: object }>(query: TypedDocumentNode<unknown, Variables>, field: string) {
  return rule(query, (variables) => {
    const { [field]: value, ...others } = variables.attributes as Readonly<Record<string, unknown>>;
    return typeof value === "boolean" && Object.keys(others).length === 0 ? request(query, { ...variables, attributes: { [field]: !value } }) : null;
  });
}

/** Applies the labels of a partial manifest. */
export async function applyLabels(client: Client, manifest: object): Promise<Done & { readonly error?: Error | undefined }> {
  const result = await client.mutation(LabelServiceDocument, { sources: [{ file: "labels", content: JSON.stringify(manifest) }] }).toPromise();
  const [problem] = result.data?.applyManifests.problems ?? [];
  return problem === undefined ? result : { error: new Error(problem.message) };
}

const attributesOf = ({ name, list, query, filters, columns, order, sharing, projectId }: SavedViewRowFragment) => ({ name, list, query, filters, columns, order, sharing, projectId });

const isPinned = ({ status, pinnedSha }: Before): boolean => status === "PINNED" || pinnedSha != null;

/** Inverses by the names of mutations. An inverse is null if the state before the change is unknown. */
export const INVERSES: ReadonlyMap<string, Inverse> = new Map([
  flipped(UpdateServiceDocument, "paused"),
  flipped(UpdateClusterSourceDocument, "suspended"),
  flipped(UpdateConfigurationSourceDocument, "suspended"),
  // A service that was pinned before would need the revision of that pin.
  rule(RollbackDocument, ({ id }, before) => (isPinned(before) ? null : request(ReleaseDocument, { id }))),
  rule(ReleaseDocument, ({ id }, { revision }) => (revision == null ? null : request(RollbackDocument, { id, revisionId: revision.id }))),
  rule(PausePipelineDocument, ({ id }) => request(ResumePipelineDocument, { id })),
  rule(ResumePipelineDocument, ({ id }, { paused }) => request(PausePipelineDocument, { id, reason: typeof paused === "string" ? paused : null })),
  rule(FreezeClusterGroupDocument, ({ id }) => request(UnfreezeClusterGroupDocument, { id })),
  rule(UnfreezeClusterGroupDocument, ({ id }, { frozenReason }) => request(FreezeClusterGroupDocument, { id, reason: frozenReason ?? null })),
  rule(DenyRevisionDocument, ({ revision }) => request(AllowRevisionDocument, { revision, projectId: null })),
  // A denial for one project is made elsewhere.
  rule(AllowRevisionDocument, ({ revision, projectId }, { reason }) => (projectId == null && reason !== undefined ? request(DenyRevisionDocument, { revision, reason }) : null)),
  rule(DisableUserDocument, ({ id, disabled }) => request(DisableUserDocument, { id, disabled: !disabled })),
  rule(CreateGroupMemberDocument, (variables) => request(DeleteGroupMemberDocument, variables)),
  rule(DeleteGroupMemberDocument, (variables) => request(CreateGroupMemberDocument, variables)),
  rule(TagClusterDocument, ({ id }, { tags }) => (tags === undefined ? null : request(TagClusterDocument, { id, tags: tags.map(({ name, value }) => ({ name, value })) }))),
  rule(LabelServiceDocument, (_, { manifest }) => (manifest === undefined ? null : (client) => applyLabels(client, manifest))),
  rule(SaveViewDocument, ({ id, attributes }, before, { saveView }) => {
    if (id == null) return saveView && request(DeleteViewDocument, { id: saveView.id });
    if (!("filters" in before)) return null;
    // Other attributes can need permissions that the change did not need.
    const changed = Object.entries(attributesOf(before as SavedViewRowFragment)).filter(([name]) => name in attributes);
    return request(SaveViewDocument, { id, attributes: Object.fromEntries(changed) });
  }),
  rule(DeleteViewDocument, (_, before) => ("filters" in before ? request(SaveViewDocument, { id: null, attributes: attributesOf(before as SavedViewRowFragment) }) : null)),
]);

/** Inverse of a mutation that succeeded; null without one. `before` is the resource before the change. */
export function inverseOf({ error, data, operation }: Done, before: unknown = null): Undo | null {
  if (error !== undefined || operation === undefined) return null;
  const inverse = INVERSES.get(nameOf(operation.query));
  return inverse?.(operation.variables as never, (before ?? {}), data) ?? null;
}

/** Runs several inverses; gives the first error. */
export const allOf =
  (undos: readonly Undo[]): Undo =>
  async (client) => {
    const results = await Promise.all(undos.map((undo) => undo(client)));
    return results.find(({ error }) => error !== undefined) ?? {};
  };
