"""The audit log with its hash chains."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    bindparam,
    delete,
    literal,
    select,
    union_all,
    update,
)

from controlplane.access.model.bindings import Project
from controlplane.access.store import projects
from controlplane.agents.store import cluster_jobs
from controlplane.audit import store as audit_tables
from controlplane.audit.model.chains import (
    AuditFilter,
    AuditKind,
    ChainHead,
    TargetLocation,
    chain_hash,
    content,
    detail_json,
    kind_of,
)
from controlplane.audit.ports import AuditLog
from controlplane.authorization import DEFAULT_PROJECT, SYSTEM
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.store import clusters
from controlplane.pipelines.model.records import PipelineRecord
from controlplane.pipelines.store import pipelines
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict
from controlplane.platform.ports import Page, PageQuery
from controlplane.platform.store.blocks import Row, insert_rows, moment_writer
from controlplane.platform.store.connection import StoreConnection
from controlplane.platform.store.rows import SqlLog, chunks
from controlplane.platform.store.touches import TouchedRow
from controlplane.platform.store.transaction import Repositories
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.store import repositories
from controlplane.secrets.model.secret import Secret
from controlplane.services.model.service import Service
from controlplane.services.store.tables import services

_SEARCHED = ("actor", "action", "target")
_CHAIN = select(*audit_tables.audit_chains.c)
_NOWHERE = TargetLocation()
_AT_ONCE = 512
_EXPIRED = "expireAudit"
Place = tuple[str, str]


class SqlAudit(SqlLog[AuditEntry]):
    """Implements `AuditLog` on a connection.

    The head of a chain is one row. A transaction that appends to the chain locks it until it ends.
    It is the last lock that a transaction takes, always in the order of the kinds. This keeps waits
    short, prevents deadlocks, and gives rows numbers in commit order. `waiting` are the rows
    appended so far in this transaction.
    """

    def __init__(self, connection: StoreConnection) -> None:
        super().__init__(connection, audit_tables.audit, AuditEntry, _SEARCHED)
        self.waiting: list[AuditEntry] = []
        self._moment = moment_writer(connection.dialect)

    async def append(self, entries: Iterable[AuditEntry]) -> None:
        self.waiting += entries

    async def write_pending(self) -> None:
        """Numbers, links and writes all appended rows."""
        waiting, self.waiting = self.waiting, []
        if not waiting:
            return
        known = await self._target_locations(waiting)
        by_kind: dict[AuditKind, list[AuditEntry]] = {}
        for entry in waiting:
            by_kind.setdefault(kind_of(entry.action), []).append(entry)
        for kind in sorted(by_kind):
            await self._link(kind, by_kind[kind], known)

    async def search(self, filter: AuditFilter, query: PageQuery) -> Page[AuditEntry]:
        return await self._page(query, self._terms(filter))

    async def chains(self) -> list[ChainHead]:
        result = await self._connection.execute(_CHAIN.order_by(audit_tables.audit_chains.c.kind))
        return [ChainHead(*row) for row in result]

    async def behind(self, kind: AuditKind, number: int, most: int) -> list[AuditEntry]:
        table = self._table.c
        return await self._fetch(
            self._rows.where(table.kind == kind, table.number > number)
            .order_by(table.number)
            .limit(most)
        )

    async def cut(self, kind: AuditKind, before: datetime, now: datetime, most: int) -> int:
        chain = (await self._ends({kind, kind_of(_EXPIRED)}))[kind]
        last = min(await self._last_before(chain, before), chain.floor + most)
        if last <= chain.floor:
            return 0
        (row,) = await self.behind(kind, last - 1, 1)
        chains = audit_tables.audit_chains
        await self._connection.execute(
            update(chains)
            .where(chains.c.kind == kind)
            .values(floor=last, floor_hash=row.hash, floor_at=now)
        )
        table = self._table.c
        await self._connection.execute(
            delete(self._table).where(table.kind == kind, table.number <= last)
        )
        removed = last - chain.floor
        detail = {"rows": removed, "up_to": last, "hash": row.hash, "until": row.at.isoformat()}
        entry = AuditEntry(now, SYSTEM.name, _EXPIRED, AuditVerdict.ALLOWED, SYSTEM.id)
        await self.append([replace(entry, target=kind.value, detail=detail)])
        return removed

    async def _last_before(self, chain: ChainHead, before: datetime) -> int:
        """Returns the number of the last row of the leading rows that are all older."""
        table = self._table.c
        result = await self._connection.execute(
            select(table.number)
            .where(table.kind == chain.kind, table.number > chain.floor, table.at >= before)
            .order_by(table.number)
            .limit(1)
        )
        first_kept = result.scalar()
        return chain.number if first_kept is None else first_kept - 1

    async def _link(
        self, kind: AuditKind, entries: list[AuditEntry], known: Mapping[str, TargetLocation]
    ) -> None:
        """Writes entries at the end of their chain and moves its head."""
        chain = await self._end(kind)
        number, digest = chain.number, chain.hash
        for start in range(0, len(entries), _AT_ONCE):
            rows: list[Row] = []
            for entry in entries[start : start + _AT_ONCE]:
                number += 1
                where, detail = location_in_log(entry, known), detail_json(entry)
                digest = chain_hash(digest, content(entry, kind, number, where, detail))
                rows.append((*self._columns(entry, where, detail), kind.value, number, digest))
            await insert_rows(self._connection, self._table, rows)
        await self._connection.execute(_MOVE, [{"of": kind, "to": number, "with": digest}])

    def _columns(self, entry: AuditEntry, where: TargetLocation, detail: bytes) -> Row:
        """Returns the columns before the chain's own, in table order, as the driver takes them."""
        return (
            self._moment(entry.at),
            entry.actor,
            entry.action,
            entry.verdict.value,
            entry.actor_id,
            entry.token_id,
            entry.source,
            entry.target,
            entry.target_id,
            entry.status,
            entry.request_id,
            detail.decode(),
            *where,
        )

    async def _end(self, kind: AuditKind) -> ChainHead:
        locked = _CHAIN.where(audit_tables.audit_chains.c.kind == kind).with_for_update()
        result = await self._connection.execute(locked)
        return ChainHead(*result.one())

    async def _ends(self, kinds: Collection[AuditKind]) -> dict[AuditKind, ChainHead]:
        """Locks and returns the heads of some chains, in the order that all transactions use."""
        return {kind: await self._end(kind) for kind in sorted(kinds)}

    async def _target_locations(self, entries: Iterable[AuditEntry]) -> dict[str, TargetLocation]:
        """Returns the known data of each target that an entry names by id."""
        ids = {entry.target_id for entry in entries if entry.target_id}
        touched = await self._connection.touches.touched(ids)
        places = {id: place for id, row in touched.items() if (place := known_location(row))}
        if unknown := ids - places.keys():
            places |= await self._places(unknown)
        return {id: TargetLocation(*places.get(id, ("", "")), *touched[id].digests) for id in ids}

    async def _places(self, ids: Collection[str]) -> dict[str, Place]:
        """Returns the cluster and the project of each target that has one."""
        places: dict[str, Place] = {}
        for some in chunks(ids):
            result = await self._connection.execute(_PLACES.params(ids=some))
            rows: list[Any] = list(result)
            places |= {row[0]: (row[1], row[2] or DEFAULT_PROJECT) for row in rows}
        return places

    def _terms(self, wanted: AuditFilter) -> list[ColumnElement[bool]]:
        table = self._table.c
        terms: list[ColumnElement[bool]] = []
        for name in ("actor", "cluster_id", "verdict", "kind"):
            if value := getattr(wanted, name):
                terms.append(table[name] == value)
        if wanted.action.endswith("*"):
            terms.append(table.action.startswith(wanted.action[:-1], autoescape=True))
        elif wanted.action:
            terms.append(table.action == wanted.action)
        if wanted.target:
            terms.append((table.target == wanted.target) | (table.target_id == wanted.target))
        if wanted.since is not None:
            terms.append(table.at >= wanted.since)
        if wanted.until is not None:
            terms.append(table.at < wanted.until)
        return terms


def location_in_log(entry: AuditEntry, known: Mapping[str, TargetLocation]) -> TargetLocation:
    """Returns the location of an entry: its own, completed by that of its target."""
    where = known.get(entry.target_id, _NOWHERE)
    if not (entry.cluster_id or entry.project_id):
        return where
    return where._replace(
        cluster_id=entry.cluster_id or where.cluster_id,
        project_id=entry.project_id or where.project_id,
    )


def known_location(touched: TouchedRow) -> Place | None:
    """Returns cluster and project of a row that this transaction wrote; None: not known here."""
    row = touched.after or touched.before
    match row:
        case Cluster():
            return row.id, row.project_id or DEFAULT_PROJECT
        case Service():
            return row.cluster_id, row.project_id or DEFAULT_PROJECT
        case PipelineRecord() | Repository() | Secret():
            return "", row.project_id or DEFAULT_PROJECT
        case Project():
            return "", row.id
    return None


def _places() -> CompoundSelect[Any]:
    """Selects (id, cluster, project) of all possible targets of audit rows."""
    none, ids = literal(""), bindparam("ids", expanding=True)
    of_jobs = cluster_jobs.join(clusters, clusters.c.id == cluster_jobs.c.cluster_id)
    parts = [
        select(clusters.c.id, clusters.c.id, clusters.c.project_id),
        select(services.c.id, services.c.cluster_id, services.c.project_id),
        select(pipelines.c.id, none, pipelines.c.project_id),
        select(repositories.c.id, none, repositories.c.project_id),
        select(projects.c.id, none, projects.c.id),
        select(cluster_jobs.c.id, clusters.c.id, clusters.c.project_id).select_from(of_jobs),
    ]
    own = [clusters, services, pipelines, repositories, projects, cluster_jobs]
    return union_all(
        *(part.where(table.c.id.in_(ids)) for part, table in zip(parts, own, strict=True))
    )


_PLACES = _places()
_MOVE = (
    update(audit_tables.audit_chains)
    .where(audit_tables.audit_chains.c.kind == bindparam("of"))
    .values(number=bindparam("to"), hash=bindparam("with"))
)

REPOSITORIES: Repositories = {
    AuditLog: lambda tx: SqlAudit(tx.connection),
}
