"""Clusters in the API, and the provider types that compatible clients expect."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

import strawberry
from strawberry.types.base import StrawberryOptional
from strawberry.types.lazy_type import LazyType

from controlplane.access.api.types import PolicyBinding, ProjectType
from controlplane.clusters.model.cluster import AgentMode, Distribution
from controlplane.clusters.model.cluster import Cluster as ClusterRow
from controlplane.clusters.model.groups import ClusterFreeze
from controlplane.platform.graphql.derive import Output, computed, output
from controlplane.platform.graphql.scalars import Map
from controlplane.repositories.api.repositories import GitRepository
from core.spec.facts import ClusterFacts, DeprecatedApi


def _lazy_type(name: str, module: str) -> StrawberryOptional:
    """Returns the nullable form of a type whose module imports this one."""
    reference: Any = LazyType(name, module)
    return StrawberryOptional(reference)


_SERVICE = _lazy_type("ServiceDeployment", "controlplane.services.api.types")
_SETTINGS = _lazy_type("EffectiveSettings", "controlplane.clusters.api.agent_settings")

strawberry.enum(
    Distribution, name="ClusterDistro", description="Kubernetes distribution of a cluster."
)
strawberry.enum(AgentMode, name="AgentMode")


class Tagged(Protocol):
    """A row with tags."""

    @property
    def tags(self) -> Mapping[str, str]: ...


@strawberry.type
class Tag:
    """A name and a value."""

    name: str
    """Name of the tag."""
    value: str
    """Value of the tag."""


def tags_of(row: Tagged) -> list[Tag]:
    """Returns the tags of a row."""
    return [Tag(name=name, value=value) for name, value in row.tags.items()]


@output(DeprecatedApi, nullable={"group"})
class DeprecatedApiType(Output[DeprecatedApi]):
    """A deprecated Kubernetes API that clients of the cluster still use."""


@output(
    ClusterFacts,
    rename={"deprecated_apis": "deprecated"},
    hide={"kubernetes_version", "distribution", "nodes", "token_expires_at"},
    nullable={"cpu_millis", "memory_bytes", "pod_capacity"},
)
class ClusterFactsType(Output[ClusterFacts]):
    """Facts about a cluster, reported by its agent. A number is null if it is unknown."""

    cpu_millis: float
    memory_bytes: float


@strawberry.type
class _ProviderObject:
    """An object of compatible clients that creates clusters."""

    id: strawberry.ID
    name: str
    """Name."""
    namespace: str
    """Namespace."""


@strawberry.type
class ProviderCredential(_ProviderObject):
    """Credential of a cluster provider. Never returned, since Towline registers clusters and does
    not create them."""

    kind: str
    """Kind."""


@strawberry.type
class ClusterProvider(_ProviderObject):
    """Cloud provider of clusters. Never returned, since Towline registers clusters and does not
    create them."""

    cloud: str
    """Name of the cloud."""
    editable: bool | None
    """True if the caller may edit the provider."""
    deleted_at: datetime | None
    repository: GitRepository | None
    """Repository of the provider."""
    credentials: list[ProviderCredential | None] | None
    """Credentials of the provider."""
    service: object = strawberry.field(default=None, graphql_type=_SERVICE)
    """Service of the provider."""


@strawberry.type
class Taint:
    """Taint of a node pool."""

    key: str
    """Key."""
    value: str
    """Value."""
    effect: str
    """Effect, such as `NoSchedule`."""


@strawberry.type
class NodePool:
    """Node pool of a cluster. Never returned, since Towline does not manage nodes."""

    id: strawberry.ID
    name: str
    """Name."""
    min_size: int
    """Minimum number of nodes."""
    max_size: int
    """Maximum number of nodes."""
    instance_type: str
    """Machine type."""
    labels: Map | None
    """Labels of the nodes."""
    taints: list[Taint | None] | None
    """Taints of the nodes."""


@strawberry.type
class ClusterCondition:
    """Condition of a cluster that is being created. Never returned."""

    status: str | None
    """Status of the condition."""
    type: str | None
    """Type of the condition."""
    message: str | None
    """Human-readable message."""
    reason: str | None
    """Reason code."""


@strawberry.type
class ClusterStatus:
    """Progress of the creation of a cluster. Never returned, since Towline registers clusters."""

    conditions: list[ClusterCondition | None] | None
    """Conditions of the cluster."""


@output(ClusterFreeze, nullable={"reason", "group"}, name="ClusterFreeze")
class ClusterFreezeType(Output[ClusterFreeze]):
    """Freeze of a cluster through its cluster group, until a user unfreezes the group."""


@output(
    ClusterRow,
    rename={
        "current_version": "kubernetes_version",
        "distro": "distribution",
        "node_count": "nodes",
        "agent_mode": "mode",
        "agent_alarm": "alarm",
    },
    hide={
        *("agent_instance", "acknowledged", "ending_at", "sealing_key", "project_id"),
        *("project_given", "kubernetes_uid", "bootstrap_token_id"),
    },
    nullable={"agent_alarm"},
)
class ClusterType(Output[ClusterRow]):
    """A registered Kubernetes cluster."""

    self_: bool = strawberry.field(name="self", default=False)
    """Always false. Present for compatibility."""
    deleted_at: datetime | None = computed(lambda row: row.ending_at or row.deleted_at)
    """Start of the deletion. Null if the cluster is not being deleted."""
    tags: list[Tag] = computed(tags_of)
    kas_url: str | None = computed(lambda row: f"/k8s/clusters/{row.handle}")
    """URL path of the cluster's Kubernetes API through the Kubernetes proxy."""
    deploy_token: str | None = None
    """Token for the agent. Set by `createCluster`, `rotateClusterToken` and the query `cluster`,
    which creates a new token on each read."""
    project: ProjectType | None = None
    """Project of the cluster. Null if none was set on registration; such a cluster belongs to the
    default project."""
    agent_settings: object = strawberry.field(default=None, graphql_type=_SETTINGS)
    """Settings of the agent. Null if none match. `agentValues` are empty for callers who may not
    register clusters."""
    freeze: ClusterFreezeType | None = None
    """Freeze through a cluster group, which blocks all changes to services of the cluster. Null if
    the cluster is not frozen."""
    provider: ClusterProvider | None = None
    """Always null. Present for compatibility."""
    credential: ProviderCredential | None = None
    """Always null. Present for compatibility."""
    node_pools: list[NodePool | None] | None = strawberry.field(default_factory=list)
    """Always empty. Present for compatibility."""
    status: ClusterStatus | None = None
    """Always null. Present for compatibility."""
    read_bindings: list[PolicyBinding] = strawberry.field(default_factory=list)
    """Users and groups with the role `viewer` on the cluster. Empty for callers without the role
    `editor` there."""
    write_bindings: list[PolicyBinding] = strawberry.field(default_factory=list)
    """Users and groups with the role `editor` on the cluster. Empty for callers without the role
    `editor` there."""
