"""Frozen clusters: clusters in a frozen cluster group, which must not change."""

from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.model.selectors import Fleet
from controlplane.clusters.ports import ClusterGroupStore, ClusterStore
from controlplane.platform.ports import Transaction


async def check_not_frozen(tx: Transaction, cluster_id: str) -> None:
    """Conflict: the cluster is frozen. The message says by whom, why, and what to do."""
    groups = await tx[ClusterGroupStore].frozen()
    cluster = await tx[ClusterStore].peek(cluster_id) if groups else None
    for group in groups:
        if cluster is not None and group.contains(cluster):
            raise group.refusal(cluster)


async def frozen_clusters(tx: Transaction) -> dict[str, ClusterGroup]:
    """The frozen clusters by id, each with the group that freezes it."""
    groups = await tx[ClusterGroupStore].frozen()
    if not groups:
        return {}
    clusters: list[Cluster] = await tx[ClusterStore].all()
    return Fleet(tuple(clusters), tuple(groups)).frozen()
