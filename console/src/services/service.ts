import type { ServiceQuery } from "../api/generated";

export type Service = NonNullable<ServiceQuery["serviceDeployment"]>;
export type Component = Service["components"][number];

/** Component and the components that it owns. */
export type Branch = { readonly component: Component; readonly children: readonly Branch[] };

const URGENCY: readonly (string | null)[] = ["FAILED", null, "PENDING", "PAUSED", "RUNNING"];

/** Order of objects: those that fail or wait first. */
const byUrgency = (left: Component, right: Component) =>
  URGENCY.indexOf(left.state) - URGENCY.indexOf(right.state) || left.kind.localeCompare(right.kind) || left.name.localeCompare(right.name);

/**
 * Builds ownership trees. A component with a missing owner or a circular ownership becomes a root,
 * so that every reported component is shown.
 */
export function grow(components: readonly Component[]): readonly Branch[] {
  const byUid = new Map(components.flatMap((component) => (component.uid ? [[component.uid, component] as const] : [])));
  const owned = new Map<string, Component[]>();
  const roots: Component[] = [];
  for (const component of [...components].sort(byUrgency)) {
    const owner = component.ownerUid ? byUid.get(component.ownerUid) : undefined;
    if (owner?.uid == null || circular(component, byUid)) {
      roots.push(component);
      continue;
    }
    const known = owned.get(owner.uid);
    if (known === undefined) owned.set(owner.uid, [component]);
    else known.push(component);
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
