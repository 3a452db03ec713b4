"""Kinds of manifests: clusters and cluster groups."""

from collections.abc import Collection, Sequence

from controlplane.access.kinds import BINDING_REFERENCES, concealed_subjects, subjects_of
from controlplane.authorization import Actor
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.operations.clusters import ClusterChange, Clusters
from controlplane.clusters.operations.groups import ClusterGroupChange, ClusterGroups
from controlplane.clusters.ports import ClusterGroupStore, ClusterStore
from controlplane.platform.kinds import Kind, Placement
from controlplane.platform.parts import Columns, column_values, row_of
from controlplane.platform.ports import Transaction


class ClusterKind(Kind[Cluster]):
    """Registered clusters. `towline clusters token` gives the deploy token of a new one."""

    name = "Cluster"
    change = ClusterChange
    port = ClusterStore
    model = Cluster
    hidden = ("handle", "project_id")
    rename = {"name": "display_name", "subjects": "bindings"}
    references = BINDING_REFERENCES

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

    def concealed(self, actor: Actor, row: Cluster) -> Collection[str]:
        return concealed_subjects(actor, row)

    async def values(self, tx: Transaction, rows: Sequence[Cluster]) -> Sequence[Columns]:
        subjects = await subjects_of(tx, rows)
        return [column_values(row) | {"subjects": subjects.get(row.id, {})} for row in rows]

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        given = {"name": placement.name, **columns}
        given |= {"handle": placement.name, "project_id": placement.project_id}
        cluster, _ = await self._clusters.create(actor, row_of(ClusterChange, given))
        return cluster.id

    async def update(self, actor: Actor, row: Cluster, columns: Columns) -> None:
        await self._clusters.update(actor, row.id, row_of(ClusterChange, columns))

    async def delete(self, actor: Actor, row: Cluster) -> None:
        await self._clusters.delete(actor, row.id)


class ClusterGroupKind(Kind[ClusterGroup]):
    """Cluster groups. A freeze is no part of the spec."""

    name = "ClusterGroup"
    change = ClusterGroupChange
    port = ClusterGroupStore
    model = ClusterGroup
    hidden = ("name", "project_id")

    def __init__(self, groups: ClusterGroups) -> None:
        self._groups = groups

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        given = columns | {"name": placement.name, "project_id": placement.project_id}
        return (await self._groups.create(actor, row_of(ClusterGroupChange, given))).id

    async def update(self, actor: Actor, row: ClusterGroup, columns: Columns) -> None:
        await self._groups.update(actor, row.id, row_of(ClusterGroupChange, columns))

    async def delete(self, actor: Actor, row: ClusterGroup) -> None:
        await self._groups.delete(actor, row.id)
