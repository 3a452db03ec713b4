"""Frozen clusters: clusters in a frozen cluster group, which must not change."""

from collections.abc import Collection

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


async def frozen_clusters(
    tx: Transaction, ids: Collection[str] | None = None
) -> dict[str, ClusterGroup]:
    """The frozen clusters by id, each with the group that freezes it; `ids`: only of these."""
    groups = await tx[ClusterGroupStore].frozen()
    if not groups:
        return {}
    stored = tx[ClusterStore]
    clusters: list[Cluster] = await (stored.all() if ids is None else stored.by_ids(ids))
    return Fleet(tuple(clusters), tuple(groups)).frozen()
