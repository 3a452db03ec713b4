"""Freezes of clusters by cluster groups and by freeze keys."""

from core.errors import TowlineError
from towline.cli.clusters.find import find_cluster
from towline.cli.clusters.freezes import describe_freeze
from towline.cli.services.generated import ServiceDetails, ServiceDetailsFreeze
from towline.operations import GraphQLApi


def freeze_of(api: GraphQLApi, service: ServiceDetails) -> str:
    """Describes the freeze of a service's cluster; empty if there is none that the user may see.

    A freeze by a freeze key is an alarm of the agent, and other alarms are shown as well.
    """
    if service["freeze"]:
        return _describe(service["freeze"])
    return _alarm(api, service["cluster"]["id"]) if service["cluster"] else ""


def _alarm(api: GraphQLApi, cluster_id: str) -> str:
    try:
        return find_cluster(api, cluster_id)["agentAlarm"] or ""
    except TowlineError:
        return ""


def _describe(freeze: ServiceDetailsFreeze) -> str:
    group = freeze["group"]
    end = f"`towline cluster-groups unfreeze {group}`" if group else "a user unfreezes the group"
    return f"{describe_freeze(freeze)}; commits wait until {end}"
