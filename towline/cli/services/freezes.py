"""Freezes of clusters by cluster groups, as far as the user may read the groups."""

from core.errors import TowlineError
from towline.cli.services.generated import (
    FreezableGroup,
    clusters_of_group,
    freezable_groups,
)
from towline.operations import GraphQLApi


def freeze_of(api: GraphQLApi, cluster_id: str) -> str:
    """Describes the freeze of a cluster; empty if there is none that the user may read."""
    try:
        frozen = [group for group in freezable_groups(api) if group["frozen"]]
        holding = [group for group in frozen if _contains(api, group, cluster_id)]
    except TowlineError:
        return ""
    return _describe(holding[0]) if holding else ""


def _contains(api: GraphQLApi, group: FreezableGroup, cluster_id: str) -> bool:
    return any(cluster["id"] == cluster_id for cluster in clusters_of_group(api, group["id"]))


def _describe(group: FreezableGroup) -> str:
    reason = f": {group['frozenReason']}" if group["frozenReason"] else ""
    return (
        f"{group['frozenBy'] or 'a user'} froze the cluster group {group['name']}{reason}; "
        f"commits wait until `towline cluster-groups unfreeze {group['name']}`"
    )
