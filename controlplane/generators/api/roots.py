"""The part of the API for services in many clusters."""

import strawberry

from controlplane.clusters.api.groups import ClusterGroupMutation, ClusterGroupQuery
from controlplane.generators.api.global_services import GlobalMutation, GlobalQuery
from controlplane.generators.api.namespaces import NamespaceMutation, NamespaceQuery
from controlplane.generators.api.service_sets import SetMutation, SetQuery
from controlplane.services.api.components import ComponentQuery


@strawberry.type
class FleetQuery(GlobalQuery, SetQuery, NamespaceQuery, ClusterGroupQuery, ComponentQuery):
    """Queries of services in many clusters."""


@strawberry.type
class FleetMutation(GlobalMutation, SetMutation, NamespaceMutation, ClusterGroupMutation):
    """Mutations of services in many clusters."""
