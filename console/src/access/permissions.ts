// Permissions of a role as a grid of verbs and resource kinds.
import type { RoleFullFragment, ResourceKind, Verb } from "../api/generated";
import { ROLE } from "../api/inputs";

const named = (type: string): readonly string[] => ROLE.enums[type] ?? [];

/** All verbs of the schema. If the grid lacked one, saving a role would remove it. */
export const VERBS = named("Verb") as readonly Verb[];
export const KINDS = named("ResourceKind") as readonly ResourceKind[];

type Rule = RoleFullFragment["rules"][number];
export type Grid = ReadonlySet<string>;

const cell = (verb: Verb, kind: ResourceKind): string => `${verb} ${kind}`;
const orAll = <Item>(some: readonly Item[], every: readonly Item[]): readonly Item[] => (some.length === 0 ? every : some);

/** Cells of the rules; an empty list in a rule means all verbs or all kinds. */
export function gridOf(rules: readonly Rule[]): Grid {
  return new Set(rules.flatMap(({ verbs, kinds }) => orAll(verbs, VERBS).flatMap((verb) => orAll(kinds, KINDS).map((kind) => cell(verb, kind)))));
}

export const has = (grid: Grid, verb: Verb, kind: ResourceKind): boolean => grid.has(cell(verb, kind));

/** Toggles one cell. */
export function toggled(grid: Grid, verb: Verb, kind: ResourceKind): Grid {
  const next = new Set(grid);
  if (!next.delete(cell(verb, kind))) next.add(cell(verb, kind));
  return next;
}

/** Smallest set of rules for a grid: one rule for kinds with the same verbs, an empty list for "all". */
export function rulesOf(grid: Grid): Rule[] {
  const byVerbs = new Map<string, { readonly verbs: Verb[]; readonly kinds: ResourceKind[] }>();
  for (const kind of KINDS) {
    const verbs = VERBS.filter((verb) => has(grid, verb, kind));
    const known = byVerbs.get(verbs.join());
    if (known !== undefined) known.kinds.push(kind);
    else if (verbs.length > 0) byVerbs.set(verbs.join(), { verbs, kinds: [kind] });
  }
  return [...byVerbs.values()].map(({ verbs, kinds }) => ({
    verbs: verbs.length === VERBS.length ? [] : verbs,
    kinds: kinds.length === KINDS.length ? [] : kinds,
  }));
}
