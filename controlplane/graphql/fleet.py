"""The part of the API for services in many clusters."""

import strawberry

from controlplane.graphql.clustergroups import ClusterGroupMutation, ClusterGroupQuery
from controlplane.graphql.components import ComponentQuery
from controlplane.graphql.globals import GlobalMutation, GlobalQuery
from controlplane.graphql.namespaces import NamespaceMutation, NamespaceQuery
from controlplane.graphql.sets import SetMutation, SetQuery


@strawberry.type
class FleetQuery(GlobalQuery, SetQuery, NamespaceQuery, ClusterGroupQuery, ComponentQuery):
    """Queries of services in many clusters."""


@strawberry.type
class FleetMutation(GlobalMutation, SetMutation, NamespaceMutation, ClusterGroupMutation):
    """Mutations of services in many clusters."""
