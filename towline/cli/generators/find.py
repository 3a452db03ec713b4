"""Finds cluster groups and definitions by the names that commands accept."""

from towline.cli.generators.generated import (
    ClusterGroup,
    GlobalService,
    Namespace,
    ServiceSet,
    cluster_group,
    global_service,
    namespace,
    service_set,
)
from towline.cli.shell.session import first_found
from towline.operations import GraphQLApi


def find_group(api: GraphQLApi, name: str) -> ClusterGroup:
    """Finds a cluster group by name."""
    return first_found(
        f"cluster group {name}",
        lambda: cluster_group(api, name=name),
        listed_by="cluster-groups list",
    )


def find_global_service(api: GraphQLApi, name: str) -> GlobalService:
    """Finds a global service by name."""
    return first_found(
        f"global service {name}", lambda: global_service(api, name=name), listed_by="globals list"
    )


def find_service_set(api: GraphQLApi, name: str) -> ServiceSet:
    """Finds a service set by name."""
    return first_found(
        f"service set {name}", lambda: service_set(api, name=name), listed_by="sets list"
    )


def find_namespace(api: GraphQLApi, name: str) -> Namespace:
    """Finds a managed namespace by name."""
    return first_found(
        f"managed namespace {name}", lambda: namespace(api, name=name), listed_by="namespaces list"
    )
