// Description of a kind of resource; one list, one dialog and one detail panel serve all kinds.
import type { ReactNode } from "react";
import type { AnyVariables, Client, CombinedError, TypedDocumentNode } from "urql";
import type { ResourceKind, Verb } from "../api/generated";
import type { ListFilter } from "../lists/useListFilter";
import type { GateField } from "../pipelines/gatekinds";
import type { Done } from "../undo/inverses";
import type { Declared } from "./AsYaml";
import type { ChoiceKind } from "./choices";

export type Values = Readonly<Record<string, unknown>>;

/** Field of a dialog. A field with `choice` holds the name of a resource, or one name per line if `many`. */
export type FormField = Omit<GateField, "of"> & {
  readonly of?: GateField["of"];
  readonly choice?: ChoiceKind;
  readonly many?: boolean;
  readonly required?: boolean;
};

export type Permission = {
  readonly verb: Verb;
  readonly kind: ResourceKind;
  /** Only a role in the whole installation can grant it. */
  readonly everywhere?: boolean;
};

export type Outcome = Pick<Done, "data" | "operation"> & {
  readonly error?: CombinedError | undefined;
  /** Shown once in the dialog. */
  readonly secret?: { readonly title: string; readonly text: string } | null;
  readonly content?: ReactNode;
};

export type Action<Node> = {
  /** Verb and object, the label of the button. */
  readonly title: string;
  /** Absent: every user may do it, or only the server can tell. */
  readonly permission?: Permission;
  readonly fields?: readonly FormField[];
  readonly initial?: (node: Node) => Values;
  /** Effect of the action, in one or two sentences. */
  readonly consequence?: (node: Node) => string;
  /** Text that the user must type first. */
  readonly typed?: (node: Node) => string;
  readonly when?: (node: Node) => boolean;
  /** Words of the equivalent command after `towline`; the values have names, not ids. */
  readonly command?: (values: Values, node: Node) => readonly string[];
  /** Runs the action; fields with `choice` have ids here. */
  readonly run: (client: Client, values: Values, node: Node) => Promise<Outcome>;
  readonly preview?: (client: Client, values: Values, node: Node) => Promise<Outcome>;
  /** Message after success. */
  readonly done: string;
};

type Connection<Node> = {
  readonly edges: readonly { readonly node: Node }[];
  readonly pageInfo: { readonly hasNextPage: boolean; readonly endCursor: string | null };
};

export type Kind<Data, Variables extends AnyVariables, Node> = {
  readonly title: string;
  readonly noun: readonly [singular: string, plural: string];
  /** Empty state: purpose of the resource. */
  readonly hint: string;
  readonly query: TypedDocumentNode<Data, Variables>;
  readonly variables: (filter: ListFilter) => Omit<Variables, "after">;
  /** True if the list has no filter. */
  readonly unfiltered?: boolean;
  readonly pick: (data: Data) => Connection<Node>;
  readonly id: (node: Node) => string;
  readonly name: (node: Node) => string;
  /** Columns after the name. */
  readonly columns: readonly (readonly [title: string, cell: (node: Node) => ReactNode])[];
  /** Manifest of a resource; null: no manifest describes it. */
  readonly declared?: (node: Node) => Declared | null;
  readonly details?: (node: Node) => ReactNode;
  readonly create: readonly Action<null>[];
  readonly actions: readonly Action<Node>[];
  readonly follow?: number;
};

/** A complete list as a connection with one page. */
export const onePage = <Node>(nodes: readonly Node[]): Connection<Node> => ({
  edges: nodes.map((node) => ({ node })),
  pageInfo: { hasNextPage: false, endCursor: null },
});
