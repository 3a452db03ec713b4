"""Frozen clusters: clusters in a frozen cluster group, which must not change."""

from controlplane.domain.clustergroups import ClusterGroup
from controlplane.domain.clusters import Cluster
from controlplane.domain.selectors import Fleet
from controlplane.ports import Transaction


async def check_not_frozen(tx: Transaction, cluster_id: str) -> None:
    """Conflict: the cluster is frozen. The message says by whom, why, and what to do."""
    groups = await tx.cluster_groups.select(frozen=True)
    cluster = await tx.clusters.peek(id=cluster_id) if groups else None
    for group in groups:
        if cluster is not None and group.holds(cluster):
            raise group.refusal(cluster)


async def frozen_clusters(tx: Transaction) -> dict[str, ClusterGroup]:
    """The frozen clusters by id, each with the group that freezes it."""
    groups = await tx.cluster_groups.select(frozen=True)
    if not groups:
        return {}
    clusters: list[Cluster] = await tx.clusters.select()
    return Fleet(tuple(clusters), tuple(groups)).frozen()
