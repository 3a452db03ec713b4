"""Kinds of manifests: clusters, cluster groups and settings of agents."""

from collections.abc import Collection, Sequence

from controlplane.access.kinds import TargetedKind
from controlplane.authorization import Actor
from controlplane.clusters.model.agent_settings import AgentSettings
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.operations.agent_settings import (
    AgentSettingsChange,
    may_read_values,
)
from controlplane.clusters.operations.clusters import ClusterChange, Clusters
from controlplane.clusters.operations.groups import ClusterGroupChange
from controlplane.clusters.ports import AgentSettingsStore, ClusterGroupStore, ClusterStore
from controlplane.platform.kinds import OperatedKind, Placement
from controlplane.platform.parts import Columns, row_of
from controlplane.platform.ports import Transaction


class ClusterKind(TargetedKind[Cluster]):
    """Registered clusters. `towline clusters rotate-token` gives the deploy token of a new one."""

    name = "Cluster"
    change = ClusterChange
    port = ClusterStore
    model = Cluster
    hidden = ("handle", "project_id")
    rename = {"name": "display_name", "subjects": "bindings"}

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters

    async def named(
        self, tx: Transaction, names: Collection[str], scopes: Collection[str]
    ) -> Sequence[Cluster]:
        return await tx[ClusterStore].by_handles(names)

    def name_of(self, row: Cluster) -> str:
        return row.handle

    def is_declared(self, row: Cluster) -> bool:
        return row.ending_at is None

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        given = {"name": placement.name, **columns}
        given |= {"handle": placement.name, "project_id": placement.project_id}
        cluster, _ = await self._clusters.create(actor, row_of(ClusterChange, given))
        return cluster.id

    async def update(self, actor: Actor, row: Cluster, columns: Columns) -> None:
        await self._clusters.update(actor, row.id, row_of(ClusterChange, columns))

    async def delete(self, actor: Actor, row: Cluster) -> None:
        await self._clusters.delete(actor, row.id)


class ClusterGroupKind(OperatedKind[ClusterGroup]):
    """Cluster groups. A freeze is no part of the spec."""

    name = "ClusterGroup"
    change = ClusterGroupChange
    port = ClusterGroupStore
    model = ClusterGroup
    default_project = None
    hidden = ("name", "project_id")


class AgentSettingsKind(OperatedKind[AgentSettings]):
    """Settings of the agents of selected clusters."""

    name = "AgentSettings"
    change = AgentSettingsChange
    port = AgentSettingsStore
    model = AgentSettings
    has_project = False
    hidden = ("name",)
    references = {"Selector.groups": "ClusterGroup", "Selector.excluded": "Cluster"}

    def concealed(self, actor: Actor, row: AgentSettings) -> Collection[str]:
        """Returns the Helm values unless the actor may register clusters, as in the API."""
        return () if may_read_values(actor) else ("agent_values", "agent_values_templated")
