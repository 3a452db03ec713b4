"""The ledger, and a table with one row a deployment, updated with each append.

Reports over a million ledger rows read the deployment table. It has about a fifth of the rows, each
with the times that the metrics need.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from operator import attrgetter
from typing import Any

import orjson
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    DateTime,
    Executable,
    Float,
    Text,
    and_,
    bindparam,
    cast,
    func,
    literal,
    or_,
    select,
    true,
    tuple_,
    type_coerce,
)
from sqlalchemy import update as sql_update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.sql.dml import Update

from controlplane.authorization import Visible
from controlplane.clusters.store import clusters
from controlplane.platform.store.columns import among
from controlplane.platform.store.rows import SqlLog, SqlReading
from controlplane.platform.store.transaction import Repositories
from controlplane.platform.store.visibility import label_values, rows_with_label, visible_rows
from controlplane.reports.model.dora import (
    Deployment,
    DeploymentCounts,
    DoraMetrics,
    ReportPeriod,
    nearest_rank,
    period_edges,
)
from controlplane.reports.model.spans import EndedDeployment
from controlplane.reports.ports import DeploymentStore, DesiredBetween, ReportFilter
from controlplane.services.model.ledger import LedgerEntry, LedgerPosition, LedgerStage
from controlplane.services.store.tables import deployments, ledger, services

DESIRED_STAGES = (LedgerStage.RENDERED, LedgerStage.PROMOTED, LedgerStage.ROLLED_BACK)
MILESTONES = {
    LedgerStage.OFFERED: "offered_at",
    LedgerStage.APPLIED: "applied_at",
    LedgerStage.FAILED: "failed_at",
    LedgerStage.DEGRADED: "failed_at",
    LedgerStage.HEALTHY: "healthy_at",
}
FAILURE_STAGES = (LedgerStage.FAILED, LedgerStage.DEGRADED)
_PERCENTILES = (0.5, 0.9)
MAP_COLUMNS = (
    *("service_id", "sequence", "cluster_id", "stage", "sha"),
    *("desired_at", "applied_at", "healthy_at", "failed_at", "restored_at"),
)
"""Columns that the fleet map of a moment reads; other fields have their defaults."""
_T = deployments.c
_SAME = and_(_T.service_id == bindparam("service"), _T.sequence == bindparam("at_sequence"))
_MOMENT = bindparam("moment", type_=_T.desired_at.type)
_BEFORE = and_(_T.service_id == bindparam("service"), _T.sequence < bindparam("at_sequence"))
_REVERTED = (
    sql_update(deployments)
    .where(_BEFORE, _T.replaced_at.is_(None))
    .values(replaced_at=_MOMENT, reverted_at=_MOMENT)
)
_REPLACED = (
    sql_update(deployments).where(_BEFORE, _T.replaced_at.is_(None)).values(replaced_at=_MOMENT)
)
_LATER = deployments.alias()
_ENDED_LATER = (
    sql_update(deployments)
    .where(_SAME, _T.replaced_at.is_(None))
    .values(
        replaced_at=select(func.min(_LATER.c.desired_at))
        .where(
            _LATER.c.service_id == bindparam("service"),
            _LATER.c.sequence > bindparam("at_sequence"),
        )
        .scalar_subquery()
    )
)
"""Ends a deployment that was recorded after the ones that replaced it."""
_ENDED_EARLIER = (
    sql_update(deployments)
    .where(_BEFORE, or_(_T.replaced_at.is_(None), _T.replaced_at > _MOMENT))
    .values(replaced_at=_MOMENT)
)
_REMOVED = (
    sql_update(deployments)
    .where(_T.service_id == bindparam("service"), _T.removed_at.is_(None))
    .values(removed_at=_MOMENT)
)


@cache
def _stage_reached_update(column: str, dialect: str) -> Update:
    """Stores the first time of a stage; for health, also the duration since the commit."""
    values: dict[str, object] = {column: _MOMENT}
    if column == "healthy_at":
        values["lead_s"] = _seconds(dialect, _T.committed_at, _MOMENT)
    return sql_update(deployments).where(_SAME, _T[column].is_(None)).values(values)


@cache
def _failures_restored_update(dialect: str) -> Update:
    """Ends all failures of a service up to this time."""
    return (
        sql_update(deployments)
        .where(
            _T.service_id == bindparam("service"), _T.failed_at <= _MOMENT, _T.restored_at.is_(None)
        )
        .values(restored_at=_MOMENT, restore_s=_seconds(dialect, _T.failed_at, _MOMENT))
    )


def _seconds(dialect: str, start: object, end: Any) -> ColumnElement[float]:
    if dialect == "postgresql":
        return cast(func.extract("epoch", end - start), Float)
    days = func.julianday(end) - func.julianday(start)
    return cast(func.round(days * 86_400, 3), Float)


class LedgerWithDeployments(SqlLog[LedgerEntry]):
    """Ledger rows; each append updates the deployments in the same transaction."""

    async def append(self, entries: Iterable[LedgerEntry]) -> None:
        added = list(entries)
        await super().append(added)
        dialect = self._connection.dialect
        await self._start_deployments(
            [entry for entry in added if entry.stage in DESIRED_STAGES and entry.sequence]
        )
        for stage, column in MILESTONES.items():
            await self._run_for_entries(
                _stage_reached_update(column, dialect),
                _entries_at_stage(stage, added),
                "at_sequence",
            )
        await self._run_for_entries(
            _failures_restored_update(dialect), _entries_at_stage(LedgerStage.HEALTHY, added)
        )
        await self._run_for_entries(_REMOVED, _entries_at_stage(LedgerStage.REMOVED, added))

    async def _start_deployments(self, entries: Sequence[LedgerEntry]) -> None:
        """Starts new desired states; the previous ones are replaced or reverted."""
        if not entries:
            return
        is_postgres = self._connection.dialect == "postgresql"
        insert = (postgresql.insert if is_postgres else sqlite.insert)(deployments)
        rows = [begun_deployment(entry) for entry in entries]
        await self._connection.execute(insert.on_conflict_do_nothing(), rows)
        late = [entry for entry in entries if entry.detail.get("late")]
        for round_entries in _rounds_by_service(entry for entry in entries if entry not in late):
            await self._run_for_entries(
                _REVERTED, _entries_at_stage(LedgerStage.ROLLED_BACK, round_entries), "at_sequence"
            )
            await self._run_for_entries(_REPLACED, round_entries, "at_sequence")
        for statement in (_ENDED_LATER, _ENDED_EARLIER) if late else ():
            await self._run_for_entries(statement, late, "at_sequence")

    async def _run_for_entries(
        self, statement: Any, entries: Iterable[LedgerEntry], *sequence_parameters: str
    ) -> None:
        """Runs a statement with service and time of each entry.

        All transactions write rows in the order of services, so that no two wait for each other.
        """
        rows = [
            {
                "service": entry.service_id,
                "moment": entry.at,
                **dict.fromkeys(sequence_parameters, entry.sequence),
            }
            for entry in sorted(entries, key=attrgetter("service_id"))
        ]
        if rows:
            await self._connection.execute(statement, rows)


def _entries_at_stage(stage: LedgerStage, entries: Iterable[LedgerEntry]) -> list[LedgerEntry]:
    return [entry for entry in entries if entry.stage is stage]


def _rounds_by_service(entries: Iterable[LedgerEntry]) -> list[list[LedgerEntry]]:
    """Returns the first entry of each service, then the second ones, which replace the first."""
    rounds: list[list[LedgerEntry]] = []
    counts: Counter[str] = Counter()
    for entry in entries:
        if counts[entry.service_id] == len(rounds):
            rounds.append([])
        rounds[counts[entry.service_id]].append(entry)
        counts[entry.service_id] += 1
    return rounds


def begun_deployment(entry: LedgerEntry) -> dict[str, Any]:
    """Returns the row of a new desired state."""
    return {
        "service_id": entry.service_id,
        "sequence": entry.sequence,
        "cluster_id": entry.cluster_id,
        "project_id": entry.project_id,
        "stage": entry.stage,
        "sha": entry.sha,
        "revision_id": entry.revision_id,
        "actor": entry.actor,
        "desired_at": entry.at,
        "committed_at": _parse_time(entry.detail.get("committed_at")),
        "fetched_at": _parse_time(entry.detail.get("fetched_at")),
    }


class SqlDeployments(SqlReading[Deployment]):
    """Implements `DeploymentStore`."""

    async def at(
        self, moment: datetime, within: ReportFilter, visible: Visible, limit: int
    ) -> list[Deployment]:
        was_desired = and_(
            _T.desired_at <= moment,
            or_(_T.replaced_at.is_(None), _T.replaced_at > moment),
            or_(_T.removed_at.is_(None), _T.removed_at > moment),
        )
        if self._connection.dialect == "sqlite":
            # One index finds the rows; only these rows are read.
            keys = select(_T.service_id, _T.sequence).where(was_desired)
            was_desired = tuple_(_T.service_id, _T.sequence).in_(keys)
        # For a whole fleet only the displayed columns.
        rows = await self._connection.execute(
            select(*(_T[name] for name in MAP_COLUMNS))
            .where(was_desired, *self._filter_terms(within, visible))
            .order_by(_T.cluster_id, _T.service_id)
            .limit(limit)
        )
        return [Deployment(**dict(zip(MAP_COLUMNS, row, strict=True))) for row in rows]

    async def service_names(self, ids: Collection[str]) -> dict[str, str]:
        return await self._texts_by_id(services.c.name, ids)

    async def cluster_handles(self, ids: Collection[str]) -> dict[str, str]:
        return await self._texts_by_id(clusters.c.handle, ids)

    async def label_values(self, key: str, visible: Visible, limit: int) -> list[str]:
        statement = label_values(services, key, visible, self._connection.dialect).limit(limit)
        return [value for (value,) in await self._connection.execute(statement)]

    async def _texts_by_id(self, column: Column[str], ids: Collection[str]) -> dict[str, str]:
        id = column.table.c.id
        is_named = among(id, ids, self._connection.dialect)
        rows = await self._connection.execute(select(id, column).where(is_named))
        return dict(map(tuple, rows.all()))

    async def deployments_of_commit(self, sha: str, visible: Visible) -> list[Deployment]:
        begins_with = (_T.sha >= sha, _T.sha < f"{sha}g")
        statement = self._rows.where(*begins_with, *self._filter_terms(ReportFilter(), visible))
        return await self._fetch(statement.order_by(_T.service_id, _T.sequence))

    async def newest(
        self, within: ReportFilter, visible: Visible, limit: int, between: DesiredBetween
    ) -> list[Deployment]:
        statement = self._rows.where(*self._filter_terms(within, visible))
        if between.since is not None:
            statement = statement.where(_T.desired_at >= between.since)
        if between.until is not None:
            statement = statement.where(_T.desired_at < between.until)
        return await self._fetch(statement.order_by(_T.desired_at.desc()).limit(limit))

    async def edge(self) -> LedgerPosition:
        found = await self._connection.execute(_EDGES[self._connection.dialect])
        last, oldest, newest = tuple[Any, ...](found.one())
        return LedgerPosition(last or 0, oldest, newest)

    async def ended(self, after: int, until: int, limit: int) -> tuple[int, list[EndedDeployment]]:
        inside = ledger.c.id.between(after + 1, until)
        rows = await self._connection.execute(
            select(ledger.c.id).where(inside).order_by(ledger.c.id).limit(limit)
        )
        ids = [id for (id,) in rows]
        last = ids[-1] if len(ids) == limit else max(after, until)
        first = or_(
            and_(ledger.c.stage == LedgerStage.HEALTHY, ledger.c.at == _T.healthy_at),
            and_(ledger.c.stage.in_(FAILURE_STAGES), ledger.c.at == _T.failed_at),
        )
        same = and_(_T.service_id == ledger.c.service_id, _T.sequence == ledger.c.sequence)
        found = await self._connection.execute(
            self._rows.add_columns(services.c.name, clusters.c.handle, services.c.repository_id)
            .select_from(ledger.join(deployments, same))
            .join(services, services.c.id == _T.service_id)
            .join(clusters, clusters.c.id == _T.cluster_id)
            .where(ledger.c.id > after, ledger.c.id <= last, first)
            .order_by(ledger.c.id)
        )
        width = len(self._names)
        return last, [
            EndedDeployment(Deployment(*row[:width]), *row[width:]) for row in map(tuple, found)
        ]

    async def figures(
        self,
        since: datetime,
        until: datetime,
        within: ReportFilter,
        visible: Visible,
        period: ReportPeriod | None = None,
    ) -> DoraMetrics:
        inside = and_(*self._filter_terms(within, visible))
        where = and_(_T.desired_at >= since, _T.desired_at < until, inside)
        parts = await self._counts_by_period(inside, since, until, period)
        counts = DeploymentCounts(
            sum(part.begun for part in parts),
            sum(part.healthy for part in parts),
            sum(part.failed for part in parts),
        )
        ranks = await self._percentiles(where)
        return DoraMetrics(since, until, counts, *ranks, tuple(parts) if period else ())

    async def _counts_by_period(
        self,
        inside: ColumnElement[bool],
        since: datetime,
        until: datetime,
        period: ReportPeriod | None,
    ) -> list[DeploymentCounts]:
        edges = period_edges(since, until, period)
        is_postgres = self._connection.dialect == "postgresql"
        counted = (_by_ranges if is_postgres else _by_ranges_on_sqlite)(inside, edges)
        counts_by_number = {
            number: DeploymentCounts(*counts)
            for number, *counts in await self._connection.execute(counted)
        }
        return [
            counts_by_number.get(number, DeploymentCounts()) for number in range(len(edges) - 1)
        ]

    async def _percentiles(self, where: ColumnElement[bool]) -> list[float | None]:
        """Returns p50 and p90 of lead and restore times, by nearest rank."""
        columns = (_T.lead_s, _T.restore_s)
        if self._connection.dialect == "postgresql":
            # Both ranks in one aggregate: PostgreSQL sorts each column once.
            parts = literal(_PERCENTILES, ARRAY(Float))
            ranked = [
                type_coerce(func.percentile_disc(parts).within_group(column), ARRAY(Float))
                for column in columns
            ]
            (row,) = await self._connection.execute(select(*ranked).where(where))
            return [rank for ranks in row for rank in ranks or (None,) * len(_PERCENTILES)]
        # All numbers in one text: much faster than a row for each.
        texts = [func.json_group_array(column).filter(column.is_not(None)) for column in columns]
        (row,) = await self._connection.execute(select(*texts).where(where))
        values = [sorted(orjson.loads(text)) for text in row]
        return [
            times[nearest_rank(len(times), part)] if times else None
            for times in values
            for part in _PERCENTILES
        ]

    def _filter_terms(self, within: ReportFilter, visible: Visible) -> list[ColumnElement[bool]]:
        terms = [visible_rows(deployments, visible)]
        if within.service_id:
            terms.append(_T.service_id == within.service_id)
        if within.cluster_id:
            terms.append(_T.cluster_id == within.cluster_id)
        if within.project_id:
            terms.append(_T.project_id == within.project_id)
        if within.repository_id:
            is_used = services.c.repository_id == within.repository_id
            terms.append(_T.service_id.in_(select(services.c.id).where(is_used)))
        if within.labels:
            dialect = self._connection.dialect
            labelled = [rows_with_label(services, label, dialect) for label in within.labels]
            terms.append(_T.service_id.in_(select(services.c.id).where(*labelled)))
        return terms


def _snapshot_transaction(edge: str) -> ColumnElement[int]:
    """Returns a transaction number of the statement's snapshot; see PostgreSQL, 9.27."""
    snapshot = getattr(func, f"pg_snapshot_{edge}")(func.pg_current_snapshot())
    return cast(cast(snapshot, Text), BigInteger)


_LAST = func.max(ledger.c.id)
_EDGES = {
    "postgresql": select(_LAST, _snapshot_transaction("xmin"), _snapshot_transaction("xmax")),
    # One writer at a time: no other transaction can be pending.
    "sqlite": select(_LAST, literal(0), literal(0)),
}
_COUNTS = (
    func.count(),
    func.count(_T.healthy_at),
    func.count(func.coalesce(_T.failed_at, _T.reverted_at)),
)


def _by_ranges(inside: ColumnElement[bool], edges: Sequence[datetime]) -> Executable:
    """Counts each part between edges by an index range. One pass over all rows would compute the
    part of each row, which takes several times as long.
    """
    moment = DateTime(timezone=True)
    starts, ends = (literal(part, ARRAY(moment)) for part in (edges[:-1], edges[1:]))
    columns = (Column("start", moment), Column("until", moment))
    ranges = func.unnest(starts, ends).table_valued(*columns, with_ordinality="number")
    ranges = ranges.render_derived(name="ranges")
    where = and_(inside, _T.desired_at >= ranges.c.start, _T.desired_at < ranges.c.until)
    counted = select(*_COUNTS).where(where).lateral("counted")
    return select(ranges.c.number - 1, *counted.c).select_from(ranges).join(counted, true())


def _by_ranges_on_sqlite(inside: ColumnElement[bool], edges: Sequence[datetime]) -> Executable:
    """The variant for SQLite, which has no lateral subqueries."""
    texts = [edge.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
             for edge in edges]  # fmt: skip
    pairs = orjson.dumps(list(pairwise(texts))).decode()
    ranges = func.json_each(pairs).table_valued("key", "value", name="part")
    start, end = (func.json_extract(ranges.c.value, f"$[{n}]", type_=_T.desired_at.type)
                  for n in (0, 1))  # fmt: skip
    where = and_(inside, _T.desired_at >= start, _T.desired_at < end)
    counted = select(func.json_array(*_COUNTS)).where(where).correlate(ranges).scalar_subquery()
    parts = select(ranges.c.key, counted.label("counts")).select_from(ranges).cte("parts")
    counts = (func.json_extract(parts.c.counts, f"$[{n}]") for n in range(len(_COUNTS)))
    return select(parts.c.key, *counts)


def _parse_time(text: object) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) and text else None


REPOSITORIES: Repositories = {
    DeploymentStore: lambda tx: SqlDeployments(tx.connection, deployments, Deployment)
}
