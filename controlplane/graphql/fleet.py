"""All of the API that is about services for many clusters."""

import strawberry

from controlplane.graphql.clustergroups import ClusterGroupMutation, ClusterGroupQuery
from controlplane.graphql.components import ComponentQuery
from controlplane.graphql.globals import GlobalMutation, GlobalQuery
from controlplane.graphql.namespaces import NamespaceMutation, NamespaceQuery
from controlplane.graphql.sets import SetMutation, SetQuery


@strawberry.type
class FleetQuery(GlobalQuery, SetQuery, NamespaceQuery, ClusterGroupQuery, ComponentQuery):
    """What can be asked of them."""


@strawberry.type
class FleetMutation(GlobalMutation, SetMutation, NamespaceMutation, ClusterGroupMutation):
    """What can be changed of them."""
