// Fields in which an object in the cluster differs from Git, each with its owner.
import type { ComponentBlameQuery } from "../api/generated";

export type FieldOwner = ComponentBlameQuery["componentBlame"][number];

export type FieldDifference = {
  readonly pointer: string;
  /** Values as JSON; null: the field is missing. */
  readonly git: string | null;
  readonly cluster: string | null;
  readonly owner: FieldOwner | undefined;
};

const TOWLINE = "towline";

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> => typeof value === "object" && value !== null;

const escaped = (name: string): string => name.replaceAll("~", "~0").replaceAll("/", "~1");

const textOf = (value: unknown): string | null => (value === undefined ? null : JSON.stringify(value));

/** Fields that differ between two values. */
export function* differing(git: unknown, cluster: unknown, pointer: string): Generator<Omit<FieldDifference, "owner">> {
  if (isObject(git) && isObject(cluster) && Array.isArray(git) === Array.isArray(cluster)) {
    for (const name of new Set([...Object.keys(git), ...Object.keys(cluster)])) yield* differing(git[name], cluster[name], `${pointer}/${escaped(name)}`);
  } else if (textOf(git) !== textOf(cluster)) {
    yield { pointer, git: textOf(git), cluster: textOf(cluster) };
  }
}

/** Owner of a field: the nearest entry at, above or below it; another manager than Towline takes precedence. */
function ownerOf(pointer: string, owners: readonly FieldOwner[]): FieldOwner | undefined {
  const near = owners.filter(({ pointer: own }) => own === pointer || pointer.startsWith(`${own}/`) || own.startsWith(`${pointer}/`));
  const distance = ({ pointer: own }: FieldOwner) => Math.abs(own.length - pointer.length);
  return near.sort((left, right) => Number(left.manager === TOWLINE) - Number(right.manager === TOWLINE) || distance(left) - distance(right))[0];
}

/** Differences of two JSON texts; undefined: a text is no JSON. */
export function differencesOf(git: string, cluster: string, owners: readonly FieldOwner[]): readonly FieldDifference[] | undefined {
  try {
    return [...differing(JSON.parse(git), JSON.parse(cluster), "")].map((difference) => ({ ...difference, owner: ownerOf(difference.pointer, owners) }));
  } catch {
    return undefined;
  }
}
