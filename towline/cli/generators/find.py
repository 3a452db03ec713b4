"""Finds cluster groups by the names that commands accept."""

from towline.cli.generators.generated import ClusterGroup, cluster_group
from towline.cli.shell.session import first_found
from towline.operations import GraphQLApi


def find_group(api: GraphQLApi, name: str) -> ClusterGroup:
    """Finds a cluster group by name."""
    return first_found(
        f"cluster group {name}",
        lambda: cluster_group(api, name=name),
        listed_by="cluster-groups list",
    )
