import { Link } from "wouter";
import { ResourceList } from "../manage/ResourceList";
import { CLUSTER_SOURCES } from "./sources";

/** Cluster sources: objects of management clusters whose clusters are registered. */
export function ClusterSourcesPage() {
  return (
    <>
      <p className="crumbs">
        <Link href="/clusters">Clusters</Link>
      </p>
      <ResourceList kind={CLUSTER_SOURCES} level={1} />
    </>
  );
}
