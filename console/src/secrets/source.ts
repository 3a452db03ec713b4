import type { SecretAttributes, SecretRowFragment, SecretSourceAttributes, SecretSourceKind } from "../api/generated";
import { SECRET_SOURCES } from "../api/secretSources";
import { textOf } from "../ui/form";

type SourceField = {
  readonly name: Exclude<keyof SecretSourceAttributes, "kind">;
  readonly title: string;
  readonly note: string;
  readonly required: boolean;
  readonly maxLength?: number;
};

/** Form of one kind of external source. */
export type SourceForm = { readonly title: string; readonly fields: readonly SourceField[] };

/** Kinds of sources in the order of the form. */
export const SOURCE_KINDS = Object.keys(SECRET_SOURCES) as readonly SecretSourceKind[];

export function sourceFrom(form: FormData, kind: SecretSourceKind): SecretAttributes {
  const settings = SECRET_SOURCES[kind].fields.map(({ name }) => [name, textOf(form, name)] as const);
  return { source: { kind, ...Object.fromEntries(settings) } };
}

/** Store of a secret's value, such as `Vault kv / shop / password`. */
export function storeOf({ source }: Pick<SecretRowFragment, "source">): string {
  if (source === null) return "Towline (encrypted)";
  const path = [source.store, source.path, source.key].filter((part) => part !== null && part !== "");
  return `${SECRET_SOURCES[source.kind].title} ${path.join(" / ")}`;
}
