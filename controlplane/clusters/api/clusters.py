"""Clusters in the API, and the provider types that compatible clients expect."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import strawberry
from strawberry.types.base import StrawberryOptional
from strawberry.types.lazy_type import LazyType

from controlplane.access.api.types import PolicyBinding, ProjectType, bindings_of
from controlplane.access.operations.roles import BindingView
from controlplane.clusters.model.cluster import AgentMode, Distribution
from controlplane.clusters.model.cluster import Cluster as ClusterRow
from controlplane.platform.graphql.scalars import Map
from controlplane.repositories.api.repositories import GitRepository
from core.spec.facts import ClusterFacts as ClusterFactsRow

# Lazily: the module of services imports this one.
_SERVICE: Any = LazyType("ServiceDeployment", "controlplane.services.api.types")

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


@strawberry.type
class DeprecatedApiType:
    """A deprecated Kubernetes API that clients of the cluster still use."""

    group: str | None
    """API group. Null for the core group."""
    version: str
    """API version."""
    resource: str
    """Resource, such as `ingresses`."""
    removed_in: str
    """Kubernetes release without this API, such as `1.25`."""


@strawberry.type
class ClusterFactsType:
    """Facts about a cluster, reported by its agent. A number is null if it is unknown."""

    cpu_millis: float | None
    """Allocatable CPU in millicores."""
    memory_bytes: float | None
    """Allocatable memory in bytes."""
    pod_capacity: int | None
    """Maximum number of pods."""
    api_versions: list[str]
    """API versions that the cluster serves, such as `apps/v1`."""
    deprecated_apis: list[DeprecatedApiType]
    """Deprecated APIs in use."""

    @classmethod
    def of(cls, facts: ClusterFactsRow) -> "ClusterFactsType":
        return cls(
            cpu_millis=facts.cpu_millis or None,
            memory_bytes=facts.memory_bytes or None,
            pod_capacity=facts.pod_capacity or None,
            api_versions=list(facts.api_versions),
            deprecated_apis=[
                DeprecatedApiType(
                    group=api.group or None,
                    version=api.version,
                    resource=api.resource,
                    removed_in=api.removed_in,
                )
                for api in facts.deprecated
            ],
        )


@strawberry.type
class ProviderCredential:
    """Credential of a cluster provider. Never returned, since Towline registers clusters and does
    not create them."""

    id: strawberry.ID
    name: str
    """Name."""
    namespace: str
    """Namespace."""
    kind: str
    """Kind."""


@strawberry.type
class ClusterProvider:
    """Cloud provider of clusters. Never returned, since Towline registers clusters and does not
    create them."""

    id: strawberry.ID
    name: str
    """Name."""
    namespace: str
    """Namespace."""
    cloud: str
    """Name of the cloud."""
    editable: bool | None
    """True if the caller may edit the provider."""
    deleted_at: datetime | None
    repository: GitRepository | None
    """Repository of the provider."""
    credentials: list[ProviderCredential | None] | None
    """Credentials of the provider."""
    service: Any = strawberry.field(default=None, graphql_type=StrawberryOptional(_SERVICE))
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


@strawberry.type
class ClusterType:
    """A registered Kubernetes cluster."""

    id: strawberry.ID
    name: str
    """Display name."""
    handle: str
    """Unique short name, used in URLs and commands."""
    self_: bool = strawberry.field(name="self")
    """Always false. Present for compatibility."""
    version: str | None
    """Kubernetes version that the registrant expects."""
    current_version: str | None
    """Kubernetes version that the agent reports."""
    distro: Distribution | None
    """Kubernetes distribution that the agent reports."""
    inserted_at: datetime
    updated_at: datetime
    pinged_at: datetime | None
    """Time of the last report of the agent. Null if it has never connected. Older than 5 minutes
    means offline."""
    deleted_at: datetime | None
    """Start of the deletion. Null if the cluster is not being deleted."""
    protect: bool
    """True if the cluster cannot be deleted."""
    metadata: Map
    """Free-form metadata of the user."""
    tags: list[Tag]
    """Tags, used by selectors."""
    kas_url: str | None
    """URL path of the cluster's Kubernetes API through the Kubernetes proxy."""
    agent_version: str | None
    """Version of the agent."""
    agent_mode: AgentMode
    """Source of the cluster's service definitions."""
    agent_alarm: str | None
    """Problem with the agent, such as two agents with the same token. Null if there is none."""
    node_count: int | None
    """Number of nodes."""
    facts: ClusterFactsType
    """Capacity and API versions."""
    deploy_token: str | None = None
    """Token for the agent. Set by `createCluster`, `rotateClusterToken` and the query `cluster`,
    which creates a new token on each read."""
    project: ProjectType | None = None
    """Project of the cluster. Null if none was set on registration; such a cluster belongs to the
    default project."""
    provider: ClusterProvider | None = None
    """Always null. Present for compatibility."""
    credential: ProviderCredential | None = None
    """Always null. Present for compatibility."""
    node_pools: list[NodePool | None] | None = None
    """Always empty. Present for compatibility."""
    status: ClusterStatus | None = None
    """Always null. Present for compatibility."""
    read_bindings: list[PolicyBinding] = strawberry.field(default_factory=list)
    """Users and groups with the role `viewer` on the cluster."""
    write_bindings: list[PolicyBinding] = strawberry.field(default_factory=list)
    """Users and groups with the role `editor` on the cluster."""

    @classmethod
    def of(
        cls,
        row: ClusterRow,
        deploy_token: str | None = None,
        project: ProjectType | None = None,
        bindings: Sequence[BindingView] = (),
    ) -> "ClusterType":
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            handle=row.handle,
            self_=False,
            version=row.version,
            current_version=row.kubernetes_version,
            distro=row.distribution,
            inserted_at=row.inserted_at,
            updated_at=row.updated_at,
            pinged_at=row.pinged_at,
            deleted_at=row.ending_at or row.deleted_at,
            protect=row.protect,
            metadata=Map(dict(row.metadata)),
            tags=tags_of(row),
            kas_url=f"/k8s/clusters/{row.handle}",
            agent_version=row.agent_version,
            agent_mode=row.mode,
            agent_alarm=row.alarm or None,
            node_count=row.nodes,
            facts=ClusterFactsType.of(row.facts),
            deploy_token=deploy_token,
            project=project,
            node_pools=[],
            read_bindings=bindings_of(bindings, row.target.scope, "viewer"),
            write_bindings=bindings_of(bindings, row.target.scope, "editor"),
        )
