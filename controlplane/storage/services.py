"""Services, their status codes, and the fleet map."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, case, func, literal, or_, select, union
from sqlalchemy.dialects.postgresql import aggregate_order_by

from controlplane.domain.access import Visible
from controlplane.domain.marks import ClusterMapRow, StatusCode
from controlplane.domain.services import Phase, Service
from controlplane.ports import PageQuery
from controlplane.storage import tables
from controlplane.storage.rows import SqlRows
from controlplane.storage.tables import services
from controlplane.storage.visibility import visible_rows

_K = tables.clusters.c
_SHOWN_BY = ("paused", "render_error", "digest", "observed", "sequence", "phase")


class SqlServices(SqlRows[Service]):
    """Service rows; each write of a column that the status code depends on also writes the code."""

    async def fleet_map(
        self, query: PageQuery, clusters: Collection[str] | None = None
    ) -> list[ClusterMapRow]:
        """Returns one row a cluster; a filter on services leaves out clusters without a match."""
        where = self._filtered(query)
        shown = [_K.deleted_at.is_(None), visible_rows(tables.clusters, query.visible)]
        if clusters is not None:
            where.append(services.c.cluster_id.in_(clusters))
            shown.append(_K.id.in_(clusters))
        marks = await self._marks(and_(*where))
        asked = select(*(_K[n] for n in _CLUSTER)).where(*shown)
        rows = await self._connection.execute(asked.order_by(_K.handle))
        is_narrow = bool(query.equals.keys() - {"deleted_at"} or query.text or query.tags)
        return [
            ClusterMapRow(id, handle, name, project, pinged, marks.get(id, ""), tags)
            for id, handle, name, project, pinged, tags in map(tuple, rows)
            if id in marks or not is_narrow
        ]

    async def clusters_of(self, ids: Collection[str]) -> set[str]:
        found = select(services.c.cluster_id).where(services.c.id.in_(ids)).distinct()
        return set((await self._connection.execute(found)).scalars())

    async def changed_since(self, moment: datetime, visible: Visible, most: int) -> list[str]:
        row, gone = services.c, tables.deployments.c
        changed = select(row.id).where(
            or_(row.updated_at >= moment, row.observed_at >= moment),
            visible_rows(services, visible),
        )
        removed = select(gone.service_id).where(
            gone.removed_at >= moment, visible_rows(tables.deployments, visible)
        )
        found = await self._connection.execute(union(changed, removed).limit(most))
        return list(found.scalars())

    async def _marks(self, where: ColumnElement[bool]) -> dict[str, str]:
        """Returns the status codes of each cluster's services, sorted by service name."""
        mark = services.c.mark
        if self._connection.dialect == "postgresql":
            ordered: Any = func.string_agg(mark, aggregate_order_by(literal(""), services.c.name))
            grouped = select(services.c.cluster_id, ordered).where(where)
        else:
            # SQLite concatenates in the order in which rows arrive.
            inner = select(services.c.cluster_id, mark.label("mark")).where(where)
            sorted_rows = inner.order_by(services.c.cluster_id, services.c.name).subquery()
            joined = func.group_concat(sorted_rows.c.mark, "")
            grouped = select(sorted_rows.c.cluster_id, joined)
        column = grouped.selected_columns[0]
        result = await self._connection.execute(grouped.group_by(column))
        return {id: joined for id, joined in map(tuple, result)}

    def _written(self, columns: Mapping[str, Any]) -> Mapping[str, Any]:
        if columns.keys().isdisjoint(_SHOWN_BY):
            return columns
        return {**columns, "mark": _mark(columns)}


_CLUSTER = ("id", "handle", "name", "project_id", "pinged_at", "tags")


def _mark(columns: Mapping[str, Any]) -> ColumnElement[str]:
    """Computes `Service.status` in SQL, for a row to which these columns are written."""
    paused, error, digest, observed, sequence, phase = (
        _value(columns[name], services.c[name]) if name in columns else services.c[name]
        for name in _SHOWN_BY
    )
    return case(
        (paused.is_(True), StatusCode.PAUSED.value),
        (error != "", StatusCode.FAILED.value),
        (digest.is_(None) | (observed < sequence), StatusCode.PROGRESSING.value),
        (or_(phase == Phase.FAILED, phase == Phase.DEGRADED), StatusCode.FAILED.value),
        (phase == Phase.HEALTHY, StatusCode.HEALTHY.value),
        (phase == Phase.APPLIED, StatusCode.SYNCED.value),
        (phase == Phase.AWAITING, StatusCode.AWAITING.value),
        else_=StatusCode.PROGRESSING.value,
    )


def _value(value: Any, column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Returns the new value of a column; a parameter if many rows share the statement."""
    return value if isinstance(value, ColumnElement) else literal(value, column.type)
