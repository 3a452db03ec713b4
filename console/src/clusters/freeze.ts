import type { ClusterQuery } from "../api/generated";

type Freeze = NonNullable<NonNullable<ClusterQuery["cluster"]>["freeze"]>;

/** Freeze of a cluster in words: who began it, why, and how it ends. */
export function freezeText({ by, reason, group }: Freeze): string {
  const groupText = group === null ? "a cluster group of this cluster" : `the cluster group ${group}`;
  return `${by} froze ${groupText}${reason === null ? "" : `: ${reason}`}. Changes wait until a user unfreezes the group.`;
}
