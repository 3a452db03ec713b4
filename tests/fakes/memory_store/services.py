"""Services, their components and the fleet map in memory."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from controlplane.authorization import Visible
from controlplane.clusters.store import clusters as cluster_table
from controlplane.platform.ports import PageQuery
from controlplane.services.model.render_state import RenderState
from controlplane.services.model.service import (
    STATUS_FIELDS,
    Component,
    Service,
    StatusFields,
)
from controlplane.services.model.status_codes import ClusterMapRow
from controlplane.services.ports import ComponentStore, RenderStateStore, ServiceStore
from controlplane.services.store.tables import components, deployments, images, services
from core.spec.images import split_image
from core.spec.objects import ObjectRef
from tests.fakes.memory_store.columns import codec_of
from tests.fakes.memory_store.connection import MemoryConnection
from tests.fakes.memory_store.filters import every, listed, reached, visible_rows
from tests.fakes.memory_store.rows import MemoryReading, MemoryRows

_SEARCHED = ("name", "namespace")


class MemoryServices(MemoryRows[Service], ServiceStore):
    """Implements `ServiceStore`; each write of a field of the status writes the status code."""

    def __init__(self, connection: MemoryConnection) -> None:
        super().__init__(connection, services, Service, _SEARCHED)

    async def fleet_map(
        self, query: PageQuery, clusters: Collection[str] | None = None
    ) -> list[ClusterMapRow]:
        matches = listed(self._connection, services, _SEARCHED, query)
        codes: dict[str, str] = defaultdict(str)
        for row in sorted(self._connection.where(services, matches), key=lambda row: row["name"]):
            codes[row["cluster_id"]] += row["status_code"]
        is_narrow = bool(
            query.equals.keys() - {"deleted_at"} or query.text or query.tags or query.labels
        )
        is_visible = visible_rows(self._connection, cluster_table, query.visible)
        own = {row["id"] for row in self._connection.where(cluster_table, is_visible)}
        shown = [
            row
            for row in self._connection.where(cluster_table, lambda row: True)
            if row["deleted_at"] is None
            and (clusters is None or row["id"] in clusters)
            and (row["id"] in codes or (row["id"] in own and not is_narrow))
        ]
        tags = codec_of(cluster_table.c.tags).read
        return [
            ClusterMapRow(
                row["id"],
                row["handle"],
                row["name"] if row["id"] in own else row["handle"],
                row["project_id"] if row["id"] in own else None,
                row["pinged_at"],
                codes.get(row["id"], ""),
                tags(row["tags"]) if row["id"] in own else {},
            )
            for row in sorted(shown, key=lambda row: row["handle"])
        ]

    async def clusters_of(self, ids: Collection[str]) -> set[str]:
        rows = self._connection.rows(services)
        return {row["cluster_id"] for row in rows if row["id"] in ids}

    async def with_dependencies(self, visible: Visible, limit: int) -> list[Service]:
        is_visible = visible_rows(self._connection, services, visible)
        found = self._connection.where(services, is_visible)
        rows = sorted(
            (row for row in found if row["deleted_at"] is None), key=lambda row: row["id"]
        )
        having = [each for each in map(self._value, rows) if each.spec.dependencies]
        return having[:limit]

    async def changed_since(self, since: datetime, visible: Visible, limit: int) -> list[str]:
        changed = await self.since(("updated_at", "observed_at"), since, visible, limit)
        is_visible = visible_rows(self._connection, deployments, visible)
        is_removed = reached(["removed_at"], lambda at: at >= since)
        removed = self._connection.where(deployments, every([is_removed, is_visible]))
        return list(dict.fromkeys([*changed, *(row["service_id"] for row in removed)]))[:limit]

    async def change(self, id: str, **columns: Any) -> bool:
        return await super().change(id, **self._with_code(id, columns))

    async def change_each(self, changes: Mapping[str, Mapping[str, Any]]) -> None:
        coded = {id: self._with_code(id, columns) for id, columns in changes.items()}
        await super().change_each(coded)

    def _with_code(self, id: str, columns: Mapping[str, Any]) -> Mapping[str, Any]:
        if "status_code" in columns or columns.keys().isdisjoint(STATUS_FIELDS):
            return columns
        row = self._connection.row(services, id)
        if row is None:
            return columns
        stored = {name: codec_of(services.c[name]).read(row[name]) for name in STATUS_FIELDS}
        given = {name: columns[name] for name in STATUS_FIELDS if name in columns}
        return {**columns, "status_code": StatusFields(**{**stored, **given}).code.value}

    def _values(self, row: Service) -> dict[str, Any]:
        return {**super()._values(row), "status_code": row.status_code.value}


class MemoryRenderStates(MemoryReading[RenderState], RenderStateStore):
    """Implements `RenderStateStore` over the rows of services."""

    def __init__(self, connection: MemoryConnection) -> None:
        super().__init__(connection, services, RenderState)


class MemoryComponents(MemoryReading[Component], ComponentStore):
    """Implements `ComponentStore`."""

    def __init__(self, connection: MemoryConnection) -> None:
        super().__init__(connection, components, Component, ("name",))

    async def upsert(self, components: Iterable[Component]) -> None:
        added = {component.id: component for component in components}
        await self.forget(added)
        rows = [{name: getattr(c, name) for name in self._names} for c in added.values()]
        self._connection.insert(self._table, rows)
        known = {row["image"] for row in self._connection.rows(images)}
        found = {image for component in added.values() for image in component.images} - known
        for image in found:
            name, tag = split_image(image.lower())
            self._connection.insert(images, [{"image": image, "name": name, "tag": tag}])

    async def forget(self, ids: Collection[str]) -> None:
        self._connection.delete(self._table, [(id,) for id in ids])

    async def forget_service(self, service_id: str) -> None:
        found = self._connection.keys(self._table, lambda row: row["service_id"] == service_id)
        self._connection.delete(self._table, found)

    async def count_by_cluster(self, clusters: Collection[str]) -> dict[str, int]:
        rows = self._connection.where(self._table, lambda row: row["cluster_id"] in clusters)
        return dict(Counter(row["cluster_id"] for row in rows))

    async def objects(self, service_id: str) -> dict[str, ObjectRef]:
        found = self._connection.where(self._table, lambda row: row["service_id"] == service_id)
        return {
            row["id"]: ObjectRef(row["group"], "", row["kind"], row["namespace"], row["name"])
            for row in found
        }

    async def component_ids(self, services: Collection[str]) -> dict[str, set[str]]:
        found = defaultdict[str, set[str]](set)
        for row in self._connection.where(self._table, lambda row: row["service_id"] in services):
            found[row["service_id"]].add(row["id"])
        return found
