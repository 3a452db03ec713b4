"""Kinds of manifests: clusters, cluster groups and settings of agents."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from controlplane.access.kinds import TargetedKind
from controlplane.authorization import Actor
from controlplane.clusters.model.agent_settings import AgentSettings
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.operations.agent_settings import AgentSettingsChange, may_read_values
from controlplane.clusters.operations.clusters import ClusterChange, Clusters
from controlplane.clusters.operations.groups import ClusterGroupChange, ClusterGroups
from controlplane.clusters.ports import AgentSettingsStore, ClusterGroupStore, ClusterStore
from controlplane.platform.kinds import KindWithOperations, OperatedKind, Placement
from controlplane.platform.names import LABEL_NAME
from controlplane.platform.parts import Columns, row_of
from controlplane.platform.ports import Transaction
from core.errors import Invalid


class ClusterKind(KindWithOperations[Cluster, Clusters], TargetedKind[Cluster]):
    """Registered clusters. `towline clusters rotate-token` gives the deploy token of a new one."""

    name = "Cluster"
    name_form = LABEL_NAME
    change = ClusterChange
    port = ClusterStore
    model = Cluster
    hidden = ("handle", "project_id")
    named_by = "handle"
    rename = {"name": "display_name", "subjects": "bindings"}

    async def by_names(
        self, tx: Transaction, names: Collection[str], scopes: Collection[str]
    ) -> Sequence[Cluster]:
        return await tx[ClusterStore].by_handles(names)

    def name_of(self, row: Cluster) -> str:
        return row.handle

    def is_declared(self, row: Cluster) -> bool:
        return row.ending_at is None

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        change = {"name": placement.name} | self.with_placement(placement, columns)
        cluster, _ = await self._operations.create(actor, row_of(ClusterChange, change))
        return cluster.id

    async def update(self, actor: Actor, row: Cluster, columns: Columns) -> None:
        await self._operations.update(actor, row.id, row_of(ClusterChange, columns))


@dataclass(frozen=True, slots=True)
class ClusterGroupSpec(ClusterGroupChange):
    """A cluster group with its freeze."""

    frozen: bool | None = None
    """True blocks all changes to services in the group. Default: false."""
    reason: str | None = None
    """Reason of the freeze. Limit: 1,000 characters."""


_FREEZE = ("frozen", "reason")


class ClusterGroupKind(KindWithOperations[ClusterGroup, ClusterGroups]):
    """Cluster groups, with their freezes."""

    name = "ClusterGroup"
    name_form = LABEL_NAME
    change = ClusterGroupSpec
    port = ClusterGroupStore
    model = ClusterGroup
    default_project = None
    hidden = ("name", "project_id")
    rename = {"reason": "freeze_reason"}
    concluding = _FREEZE

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        change = self.with_placement(placement, _without_freeze(columns))
        return (await self._operations.create(actor, row_of(ClusterGroupChange, change))).id

    async def update(self, actor: Actor, row: ClusterGroup, columns: Columns) -> None:
        if row.frozen and columns.get("frozen") is False:
            # Other fields of a frozen group cannot be changed.
            await self._operations.unfreeze(actor, row.id)
        if change := _without_freeze(columns):
            await self._operations.update(actor, row.id, row_of(ClusterGroupChange, change))

    async def conclude(self, actor: Actor, id: str, columns: Columns) -> None:
        """Freezes a group, or changes the reason."""
        row = await self._operations.get(actor, id)
        frozen, reason = columns.get("frozen", row.frozen), columns.get("reason", row.reason)
        if reason and not frozen:
            raise Invalid("needs frozen: true", field="freezeReason")
        if frozen and (frozen, reason) != (row.frozen, row.reason):
            await self._operations.freeze(actor, id, reason)


def _without_freeze(columns: Columns) -> Columns:
    return {name: value for name, value in columns.items() if name not in _FREEZE}


class AgentSettingsKind(OperatedKind[AgentSettings]):
    """Settings of the agents of selected clusters."""

    name = "AgentSettings"
    name_form = LABEL_NAME
    change = AgentSettingsChange
    port = AgentSettingsStore
    model = AgentSettings
    has_project = False
    hidden = ("name",)
    references = {"Selector.groups": "ClusterGroup", "Selector.excluded": "Cluster"}

    def hidden_fields(self, actor: Actor, row: AgentSettings) -> Collection[str]:
        """Returns the Helm values unless the actor may register clusters, as in the API."""
        return () if may_read_values(actor) else ("agent_values", "agent_values_templated")
