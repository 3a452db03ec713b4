"""Finds clusters by the names that commands accept."""

from towline.cli.clusters.generated import Cluster, cluster
from towline.cli.shell.session import first_found
from towline.operations import GraphQLApi


def find_cluster(api: GraphQLApi, name: str) -> Cluster:
    """Finds a cluster by handle, else by id."""
    return first_found(
        f"cluster {name}",
        lambda: cluster(api, handle=name),
        lambda: cluster(api, id=name),
        listed_by="clusters list",
    )


def find_cluster_id(api: GraphQLApi, name: str | None) -> str | None:
    """Id of a cluster, by handle or id; None without a name."""
    return find_cluster(api, name)["id"] if name else None
