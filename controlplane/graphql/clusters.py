"""Clusters, as the API shows them, and what clients that speak of providers expect of them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import strawberry
from strawberry.types.base import StrawberryOptional
from strawberry.types.lazy_type import LazyType

from controlplane.domain.clusters import AgentMode, Distribution
from controlplane.domain.clusters import Cluster as ClusterRow
from controlplane.domain.clusters import ClusterFacts as ClusterFactsRow
from controlplane.graphql.access import PolicyBinding, Project, bound
from controlplane.graphql.repositories import GitRepository
from controlplane.graphql.scalars import Map
from controlplane.usecases.rights import BindingView

# By name: services speak of clusters, and this is the only way back.
_SERVICE: Any = LazyType("ServiceDeployment", "controlplane.graphql.types")

strawberry.enum(Distribution, name="ClusterDistro")
strawberry.enum(AgentMode, name="AgentMode")


@strawberry.type
class Tag:
    name: str
    value: str


@strawberry.type
class DeprecatedApi:
    """An API that is still asked for; the Kubernetes release `removedIn` is without it."""

    group: str | None
    version: str
    resource: str
    removed_in: str


@strawberry.type
class ClusterFacts:
    """What the agent tells of a cluster; a number is null if it cannot be counted."""

    cpu_millis: float | None
    memory_bytes: float | None
    pod_capacity: int | None
    api_versions: list[str]
    deprecated_apis: list[DeprecatedApi]

    @classmethod
    def of(cls, facts: ClusterFactsRow) -> "ClusterFacts":
        return cls(
            cpu_millis=facts.cpu_millis or None,
            memory_bytes=facts.memory_bytes or None,
            pod_capacity=facts.pod_capacity or None,
            api_versions=list(facts.api_versions),
            deprecated_apis=[
                DeprecatedApi(
                    group=one.group or None,
                    version=one.version,
                    resource=one.resource,
                    removed_in=one.removed_in,
                )
                for one in facts.deprecated
            ],
        )


@strawberry.type
class ProviderCredential:
    """Clusters are registered, not created, here: there is never one."""

    id: strawberry.ID
    name: str
    namespace: str
    kind: str


@strawberry.type
class ClusterProvider:
    """Clusters are registered, not created, here: there is never one."""

    id: strawberry.ID
    name: str
    namespace: str
    cloud: str
    editable: bool | None
    deleted_at: datetime | None
    repository: GitRepository | None
    credentials: list[ProviderCredential | None] | None
    service: Any = strawberry.field(default=None, graphql_type=StrawberryOptional(_SERVICE))


@strawberry.type
class Taint:
    key: str
    value: str
    effect: str


@strawberry.type
class NodePool:
    """Nodes are their cluster's own affair: there is never one."""

    id: strawberry.ID
    name: str
    min_size: int
    max_size: int
    instance_type: str
    labels: Map | None
    taints: list[Taint | None] | None


@strawberry.type
class ClusterCondition:
    status: str | None
    type: str | None
    message: str | None
    reason: str | None


@strawberry.type
class ClusterStatus:
    """How the creation of a cluster goes; null for those that were registered."""

    conditions: list[ClusterCondition | None] | None


@strawberry.type
class Cluster:
    """A cluster. `pingedAt` is when its agent was last heard of: judge liveness by its age.

    `project` is null where none was asked for: it belongs to the default one. `deployToken`, where
    `cluster` is asked for it, is a new one each time. `provider`, `credential`, `nodePools` and
    `status` are of clusters that a control plane creates, which this one does not.
    """

    id: strawberry.ID
    name: str
    handle: str
    self_: bool = strawberry.field(name="self")
    version: str | None
    current_version: str | None
    distro: Distribution | None
    inserted_at: datetime
    updated_at: datetime
    pinged_at: datetime | None
    deleted_at: datetime | None
    protect: bool
    metadata: Map
    tags: list[Tag]
    kas_url: str | None
    agent_version: str | None
    agent_mode: AgentMode
    agent_alarm: str | None
    node_count: int | None
    facts: ClusterFacts
    deploy_token: str | None = None
    project: Project | None = None
    provider: ClusterProvider | None = None
    credential: ProviderCredential | None = None
    node_pools: list[NodePool | None] | None = None
    status: ClusterStatus | None = None
    read_bindings: list[PolicyBinding] = strawberry.field(default_factory=list)
    write_bindings: list[PolicyBinding] = strawberry.field(default_factory=list)

    @classmethod
    def of(
        cls,
        row: ClusterRow,
        deploy_token: str | None = None,
        project: Project | None = None,
        bindings: Sequence[BindingView] = (),
    ) -> "Cluster":
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
            tags=[Tag(name=name, value=value) for name, value in row.tags.items()],
            kas_url=f"/k8s/clusters/{row.handle}",
            agent_version=row.agent_version,
            agent_mode=row.mode,
            agent_alarm=row.alarm or None,
            node_count=row.nodes,
            facts=ClusterFacts.of(row.facts),
            deploy_token=deploy_token,
            project=project,
            node_pools=[],
            read_bindings=bound(bindings, row.target.scope, "viewer"),
            write_bindings=bound(bindings, row.target.scope, "editor"),
        )
