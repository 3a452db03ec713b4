"""Freezes of clusters by cluster groups and by freeze keys, as far as the user may read them."""

from collections.abc import Callable

from core.errors import TowlineError
from towline.cli.clusters.find import find_cluster
from towline.cli.services.generated import (
    FreezableGroup,
    clusters_of_group,
    freezable_groups,
)
from towline.operations import GraphQLApi


def freeze_of(api: GraphQLApi, cluster_id: str) -> str:
    """Describes the freeze of a cluster; empty if there is none that the user may read.

    A freeze by a freeze key is an alarm of the agent, and other alarms are shown as well.
    """
    return _attempt(lambda: _freeze_of_groups(api, cluster_id)) or _attempt(
        lambda: find_cluster(api, cluster_id)["agentAlarm"] or ""
    )


def _attempt(read: Callable[[], str]) -> str:
    try:
        return read()
    except TowlineError:
        return ""


def _freeze_of_groups(api: GraphQLApi, cluster_id: str) -> str:
    frozen = (group for group in freezable_groups(api) if group["frozen"])
    return next((_describe(group) for group in frozen if _contains(api, group, cluster_id)), "")


def _contains(api: GraphQLApi, group: FreezableGroup, cluster_id: str) -> bool:
    return any(cluster["id"] == cluster_id for cluster in clusters_of_group(api, group["id"]))


def _describe(group: FreezableGroup) -> str:
    reason = f": {group['frozenReason']}" if group["frozenReason"] else ""
    return (
        f"{group['frozenBy'] or 'a user'} froze the cluster group {group['name']}{reason}; "
        f"commits wait until `towline cluster-groups unfreeze {group['name']}`"
    )
