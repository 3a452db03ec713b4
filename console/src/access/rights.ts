// The rights of a role as a grid: which verbs for which kinds of things.
import type { RoleFullFragment, ThingKind, Verb } from "../api/generated";
import { ROLE } from "../api/inputs";

const named = (type: string): readonly string[] => ROLE.enums[type] ?? [];

/** All that there are in the schema: a right that the grid did not have would be lost to who edits a role. */
export const VERBS = named("Verb") as readonly Verb[];
export const KINDS = named("ThingKind") as readonly ThingKind[];

type Rule = RoleFullFragment["rules"][number];
export type Grid = ReadonlySet<string>;

const cell = (verb: Verb, kind: ThingKind): string => `${verb} ${kind}`;
const all = <One>(some: readonly One[], every: readonly One[]): readonly One[] => (some.length === 0 ? every : some);

/** The cells that rules stand for; an empty list means all of them. */
export function gridOf(rules: readonly Rule[]): Grid {
  return new Set(rules.flatMap(({ verbs, kinds }) => all(verbs, VERBS).flatMap((verb) => all(kinds, KINDS).map((kind) => cell(verb, kind)))));
}

export const has = (grid: Grid, verb: Verb, kind: ThingKind): boolean => grid.has(cell(verb, kind));

/** The grid with one cell the other way. */
export function turned(grid: Grid, verb: Verb, kind: ThingKind): Grid {
  const next = new Set(grid);
  if (!next.delete(cell(verb, kind))) next.add(cell(verb, kind));
  return next;
}

/** The fewest rules for a grid: kinds with the same verbs are one rule, what is everything is said as that. */
export function rulesOf(grid: Grid): Rule[] {
  const byVerbs = new Map<string, { readonly verbs: Verb[]; readonly kinds: ThingKind[] }>();
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
