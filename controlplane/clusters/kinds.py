"""Kinds of manifests: clusters and cluster groups."""

from collections.abc import Collection, Sequence

from controlplane.access.kinds import TargetedKind
from controlplane.authorization import Actor, Resource, ResourceKind, Verb
from controlplane.clusters.model.agent_settings import DeploymentSettings
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.operations.agent_settings import (
    DeploymentSettingsChange,
    DeploymentSettingsOperations,
)
from controlplane.clusters.operations.clusters import ClusterChange, Clusters
from controlplane.clusters.operations.groups import ClusterGroupChange
from controlplane.clusters.ports import ClusterGroupStore, ClusterStore, DeploymentSettingsStore
from controlplane.platform.kinds import ManifestKind, OperatedKind, Placement
from controlplane.platform.parts import Columns, row_of
from controlplane.platform.ports import Transaction
from core.errors import Invalid


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


class AgentSettingsKind(ManifestKind[DeploymentSettings]):
    """Settings for agent installations. There is one resource, with the name `global`."""

    name = "AgentSettings"
    change = DeploymentSettingsChange
    port = DeploymentSettingsStore
    model = DeploymentSettings
    has_project = False
    only_name = "global"

    def __init__(self, settings: DeploymentSettingsOperations) -> None:
        self._settings = settings

    async def named(
        self, tx: Transaction, names: Collection[str], scopes: Collection[str]
    ) -> Sequence[DeploymentSettings]:
        return await self.all(tx) if self.only_name in names else ()

    def name_of(self, row: DeploymentSettings) -> str:
        return self.only_name

    def target_of(self, row: DeploymentSettings) -> Resource:
        return Resource.whole(ResourceKind.INSTALLATION)

    def concealed(self, actor: Actor, row: DeploymentSettings) -> Collection[str]:
        """Returns the Helm values unless the actor may register clusters, as in the API."""
        is_reader = actor.may(Verb.WRITE, Resource.whole(ResourceKind.CLUSTER))
        return () if is_reader else ("agent_values", "agent_values_templated")

    async def values(
        self, tx: Transaction, rows: Sequence[DeploymentSettings]
    ) -> Sequence[Columns]:
        found = await super().values(tx, rows)
        return [columns | {"agent_values": columns["agent_values"] or ""} for columns in found]

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        if placement.name != self.only_name:
            raise Invalid(f"must be {self.only_name}", field="name")
        change = row_of(DeploymentSettingsChange, columns)
        return (await self._settings.change(actor, change)).id

    async def update(self, actor: Actor, row: DeploymentSettings, columns: Columns) -> None:
        await self._settings.change(actor, row_of(DeploymentSettingsChange, columns))

    async def delete(self, actor: Actor, row: DeploymentSettings) -> None:
        await self._settings.reset(actor)
