"""Services, their components and the fleet map in the database."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, func, literal, or_, select, union
from sqlalchemy.dialects import postgresql, sqlite

from controlplane.authorization import Visible
from controlplane.clusters import store as clusters_store
from controlplane.platform.parts import Columns
from controlplane.platform.ports import PageQuery
from controlplane.platform.store.rows import SqlReading, SqlRows, TableRows, chunks, tables
from controlplane.platform.store.transaction import Repositories
from controlplane.platform.store.visibility import visible_rows
from controlplane.services.model.render_state import RenderState
from controlplane.services.model.service import (
    STATUS_FIELDS,
    Component,
    DryRunResult,
    Revision,
    Service,
    ServiceSource,
    StatusFields,
)
from controlplane.services.model.status_codes import ClusterMapRow
from controlplane.services.ports import (
    ComponentStore,
    PlanStore,
    RenderStateStore,
    RevisionStore,
    ServiceSourceStore,
    ServiceStore,
)
from controlplane.services.store.tables import (
    components,
    deployments,
    images,
    plans,
    revisions,
    service_sources,
    services,
)
from core.spec.images import split_image
from core.spec.objects import ObjectRef

_BATCH = 200
_K = clusters_store.clusters.c


class SqlServices(SqlRows[Service], ServiceStore):
    """Service rows; each write of a field that determines the status code writes the code."""

    async def fleet_map(
        self, query: PageQuery, clusters: Collection[str] | None = None
    ) -> list[ClusterMapRow]:
        """Returns one row a cluster; a filter on services leaves out clusters without a match.

        A shared cluster shows its handle to who sees a service there, and nothing else of it.
        """
        where = self._filtered(query)
        is_visible = visible_rows(clusters_store.clusters, query.visible)
        is_used = _K.id.in_(select(services.c.cluster_id).where(*where))
        conditions = [_K.deleted_at.is_(None), or_(is_visible, is_used)]
        if clusters is not None:
            where.append(services.c.cluster_id.in_(clusters))
            conditions.append(_K.id.in_(clusters))
        codes = await self._status_codes(and_(*where))
        statement = select(*(_K[n] for n in _CLUSTER), is_visible).where(*conditions)
        rows = await self._connection.execute(statement.order_by(_K.handle))
        is_narrow = bool(
            query.equals.keys() - {"deleted_at"} or query.text or query.tags or query.labels
        )
        return [
            ClusterMapRow(id, handle, name, project, pinged, codes.get(id, ""), tags)
            if is_whole
            else ClusterMapRow(id, handle, handle, None, pinged, codes[id])
            for id, handle, name, project, pinged, tags, is_whole in map(tuple, rows)
            if id in codes or (is_whole and not is_narrow)
        ]

    async def clusters_of(self, ids: Collection[str]) -> set[str]:
        cluster_ids = select(services.c.cluster_id).where(services.c.id.in_(ids)).distinct()
        return set((await self._connection.execute(cluster_ids)).scalars())

    async def with_dependencies(self, visible: Visible, limit: int) -> list[Service]:
        row = services.c
        matches = and_(
            row.deleted_at.is_(None), row.dependencies != (), visible_rows(services, visible)
        )
        return await self._fetch(self._rows.where(matches).order_by(row.id).limit(limit))

    async def changed_since(self, since: datetime, visible: Visible, limit: int) -> list[str]:
        row, deployment = services.c, deployments.c
        changed = select(row.id).where(
            or_(row.updated_at >= since, row.observed_at >= since),
            visible_rows(services, visible),
        )
        removed = select(deployment.service_id).where(
            deployment.removed_at >= since, visible_rows(deployments, visible)
        )
        ids = await self._connection.execute(union(changed, removed).limit(limit))
        return list(ids.scalars())

    async def _status_codes(self, where: ColumnElement[bool]) -> dict[str, str]:
        """Returns the status codes of each cluster's services, sorted by service name.

        Both databases concatenate in the order in which rows arrive: an index gives them sorted.
        """
        rows = select(services.c.cluster_id, services.c.status_code).where(where)
        sorted_rows = rows.order_by(services.c.cluster_id, services.c.name).subquery().c
        is_postgres = self._connection.dialect == "postgresql"
        join = func.string_agg if is_postgres else func.group_concat
        codes = select(sorted_rows.cluster_id, join(sorted_rows.status_code, ""))
        result = await self._connection.execute(codes.group_by(sorted_rows.cluster_id))
        return dict(map(tuple, result.all()))

    async def put(self, row: Service) -> None:
        await self._put_later(row)

    async def change(self, id: str, **columns: object) -> bool:
        coded = await self._with_status_codes({id: columns})
        return await super().change(id, **coded[id])

    async def change_each(self, changes: Mapping[str, Mapping[str, object]]) -> None:
        await super().change_each(await self._with_status_codes(changes))

    async def _with_status_codes(
        self, changes: Mapping[str, Mapping[str, object]]
    ) -> Mapping[str, Mapping[str, object]]:
        """Adds the status code to changes of fields that determine it.

        Locks all rows in the order of ids, as all bulk writers do: another writer of a row would
        compute its code from fields that are no longer stored.
        """
        if not any(_changes_status_code(columns) for columns in changes.values()):
            return changes
        table = self._table.c
        statement = select(table.id, *(table[name] for name in STATUS_FIELDS)).order_by(table.id)
        statement, coded = statement.with_for_update(key_share=True), dict(changes)
        for chunk in chunks(sorted(changes)):
            for row in await self._connection.execute(statement.where(table.id.in_(chunk))):
                id, *values = row
                if _changes_status_code(changes[id]):
                    stored_fields = dict(zip(STATUS_FIELDS, values, strict=True))
                    coded[id] = {
                        **changes[id],
                        "status_code": _status_code({**stored_fields, **changes[id]}),
                    }
        return coded

    def _values(self, row: Service) -> Columns:
        return {**super()._values(row), "status_code": row.status_code.value}


def _changes_status_code(columns: Mapping[str, object]) -> bool:
    """True if a write of these columns changes the status code and does not contain it."""
    return "status_code" not in columns and not columns.keys().isdisjoint(STATUS_FIELDS)


def _status_code(columns: Columns) -> str:
    return StatusFields(**{name: columns[name] for name in STATUS_FIELDS}).code.value


_CLUSTER = ("id", "handle", "name", "project_id", "pinged_at", "tags")


class SqlRenderStates(SqlReading[RenderState], RenderStateStore):
    """Implements `RenderStateStore` over the rows of services."""


class SqlComponents(SqlReading[Component], ComponentStore):
    """The inventory on a connection."""

    async def upsert(self, components: Iterable[Component]) -> None:
        rows = [
            {name: getattr(component, name) for name in self._names} for component in components
        ]
        if not rows:
            return
        dialect = self._connection.dialect
        dialect_insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
        statement = dialect_insert(self._table)
        changed = {name: statement.excluded[name] for name in self._names if name != "id"}
        statement = statement.on_conflict_do_update(index_elements=["id"], set_=changed)
        for start in range(0, len(rows), _BATCH):
            await self._connection.execute(statement, rows[start : start + _BATCH])
        await self._add_images({image for row in rows for image in row["images"]}, dialect_insert)

    async def _add_images(self, names: Collection[str], dialect_insert: Any) -> None:
        """Stores each image once, so that search compares versions without scanning its users.

        Clusters report the same images at the same time: one common order prevents deadlocks.
        """
        rows = [
            dict(zip(("image", "name", "tag"), (image, *split_image(image.lower())), strict=True))
            for image in sorted(names)
        ]
        if rows:
            await self._connection.execute(dialect_insert(images).on_conflict_do_nothing(), rows)

    async def forget(self, ids: Collection[str]) -> None:
        for chunk in chunks(ids):
            await self._connection.execute(delete(self._table).where(self._table.c.id.in_(chunk)))

    async def forget_service(self, service_id: str) -> None:
        await self._connection.execute(
            delete(self._table).where(self._table.c.service_id == service_id)
        )

    async def count_by_cluster(self, clusters: Collection[str]) -> dict[str, int]:
        column, counts = self._table.c.cluster_id, {}
        for chunk in chunks(clusters):
            counted = select(column, func.count()).where(column.in_(chunk)).group_by(column)
            counts |= dict(map(tuple, await self._connection.execute(counted)))
        return counts

    async def objects(self, service_id: str) -> dict[str, ObjectRef]:
        row = self._table.c
        columns = (row.id, row.group, literal(""), row.kind, row.namespace, row.name)
        statement = select(*columns).where(row.service_id == service_id)
        return {id: ObjectRef(*parts) for id, *parts in await self._connection.execute(statement)}

    async def component_ids(self, services: Collection[str]) -> dict[str, set[str]]:
        column, ids_by_service = self._table.c.service_id, defaultdict[str, set[str]](set)
        for chunk in chunks(services):
            statement = select(column, self._table.c.id).where(column.in_(chunk))
            for row in await self._connection.execute(statement):
                ids_by_service[row.service_id].add(row.id)
        return ids_by_service


REPOSITORIES: Repositories = {
    **tables(
        TableRows(ServiceSourceStore, service_sources, ServiceSource),
        TableRows(RevisionStore, revisions, Revision, ("sha", "subject")),
        TableRows(PlanStore, plans, DryRunResult),
    ),
    ServiceStore: lambda tx: SqlServices(tx.connection, services, Service, ("name", "namespace")),
    RenderStateStore: lambda tx: SqlRenderStates(tx.connection, services, RenderState),
    ComponentStore: lambda tx: SqlComponents(tx.connection, components, Component, ("name",)),
}
