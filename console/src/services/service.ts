import type { ServiceQuery } from "../api/generated";

export type Service = NonNullable<ServiceQuery["serviceDeployment"]>;
export type Component = Service["components"][number];

/** A component with those that it owns. */
export type Branch = { readonly component: Component; readonly children: readonly Branch[] };

const byName = (left: Component, right: Component) =>
  left.kind.localeCompare(right.kind) || left.name.localeCompare(right.name);

/**
 * Components as trees of ownership. One whose owner is not there, or that is its own ancestor,
 * stands at the top: nothing that was reported is left out.
 */
export function grow(components: readonly Component[]): readonly Branch[] {
  const byUid = new Map(components.flatMap((one) => (one.uid ? [[one.uid, one] as const] : [])));
  const owned = new Map<string, Component[]>();
  const roots: Component[] = [];
  for (const one of [...components].sort(byName)) {
    const owner = one.ownerUid ? byUid.get(one.ownerUid) : undefined;
    if (owner?.uid == null || circular(one, byUid)) roots.push(one);
    else owned.set(owner.uid, [...(owned.get(owner.uid) ?? []), one]);
  }
  const branch = (component: Component): Branch => ({
    component,
    children: (component.uid ? (owned.get(component.uid) ?? []) : []).map(branch),
  });
  return roots.map(branch);
}

function circular(start: Component, byUid: ReadonlyMap<string, Component>): boolean {
  const seen = new Set<Component>();
  for (let at: Component | undefined = start; at !== undefined; at = at.ownerUid ? byUid.get(at.ownerUid) : undefined) {
    if (seen.has(at)) return seen.has(start) && at === start;
    seen.add(at);
  }
  return false;
}
