import { Link } from "wouter";
import { ResourceList } from "../manage/ResourceList";
import { CLUSTER_GROUPS } from "./groups";

/** Cluster groups: members, freezes and agent upgrades. */
export function ClusterGroupsPage() {
  return (
    <>
      <p className="crumbs">
        <Link href="/clusters">Clusters</Link>
      </p>
      <ResourceList kind={CLUSTER_GROUPS} level={1} />
    </>
  );
}
