"""Clusters that must stay as they are, because a group that they are in is frozen."""

from controlplane.domain.clustergroups import ClusterGroup
from controlplane.domain.clusters import Cluster
from controlplane.domain.selectors import Fleet
from controlplane.ports import Transaction


async def check_thawed(tx: Transaction, cluster_id: str) -> None:
    """Conflict: the cluster is frozen; says by whom, why, and what to do."""
    groups = await tx.cluster_groups.select(frozen=True)
    cluster = await tx.clusters.peek(id=cluster_id) if groups else None
    for group in groups:
        if cluster is not None and group.holds(cluster):
            raise group.refusal(cluster)


async def frozen_clusters(tx: Transaction) -> dict[str, ClusterGroup]:
    """All clusters that are frozen now, by id, with the group that says so."""
    groups = await tx.cluster_groups.select(frozen=True)
    if not groups:
        return {}
    clusters: list[Cluster] = await tx.clusters.select()
    return Fleet(tuple(clusters), tuple(groups)).frozen()
