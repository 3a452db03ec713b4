"""The audit log with its hash chains."""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Set
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any

import orjson
from sqlalchemy import (
    CompoundSelect,
    Select,
    String,
    Table,
    bindparam,
    delete,
    func,
    insert,
    literal,
    select,
    union_all,
    update,
)

from controlplane.access.model.bindings import Project
from controlplane.access.store import access_requests, projects, role_bindings
from controlplane.agents.store import cluster_jobs
from controlplane.audit import store as audit_tables
from controlplane.audit.model.blocks import AuditBlock, IndexTerm, batches, pack, unpack
from controlplane.audit.model.chains import (
    AuditFilter,
    AuditKind,
    ChainHead,
    TargetLocation,
    kind_of,
)
from controlplane.audit.model.matching import cursor_block, search_blocks
from controlplane.audit.model.verification import IndexedBlock
from controlplane.audit.ports import AuditLog
from controlplane.authorization import SYSTEM, Scope
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.store import bootstrap_tokens, clusters
from controlplane.pipelines.store import pipeline_gates, pipelines
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict
from controlplane.platform.parts import column_names, row_maker
from controlplane.platform.ports import Page, PageQuery
from controlplane.platform.store.connection import StoreConnection
from controlplane.platform.store.rows import chunks
from controlplane.platform.store.schema import metadata
from controlplane.platform.store.touches import TouchedRow
from controlplane.platform.store.transaction import Repositories
from controlplane.services.store.tables import services
from controlplane.store.audit_search import candidate_blocks

_CHAIN = select(*audit_tables.audit_chains.c)
_COLUMNS = column_names(AuditBlock)
_block = row_maker(AuditBlock)
_BLOCK = select(*(audit_tables.audit_blocks.c[name] for name in _COLUMNS))
_ADD_BLOCKS = insert(audit_tables.audit_blocks)
_NOWHERE = TargetLocation()
_MIN_BATCH, _MAX_BATCH = 8, 64
_EXPIRED = "expireAudit"
# One statement for the terms of all blocks, which are found by their last rows: each statement
# costs a round trip under the chain's lock.
_ADD_TERMS = {
    "sqlite": "INSERT INTO audit_terms (block_id, field, value) SELECT block.id, "
    "json_extract(term.value, '$[1]'), json_extract(term.value, '$[2]') FROM json_each(?) AS term "
    "CROSS JOIN audit_blocks AS block "
    "ON kind = ? AND last_number = json_extract(term.value, '$[0]')",
    "postgresql": "INSERT INTO audit_terms (block_id, field, value) SELECT id, term->>1, term->>2 "
    "FROM json_array_elements(($1::text)::json) AS term "
    "JOIN audit_blocks ON kind = $2 AND last_number = (term->>0)::bigint",
}
Place = tuple[str, str]


class SqlAudit:
    """Implements `AuditLog` on a connection.

    The head of a chain is one row. A transaction that appends to the chain locks it until it ends.
    It is the last lock that a transaction takes, always in the order of the kinds. This keeps waits
    short, prevents deadlocks, and gives rows numbers in commit order. `pending` are the rows
    appended so far in this transaction.
    """

    def __init__(self, connection: StoreConnection) -> None:
        self._connection = connection
        self.pending: list[AuditEntry] = []

    async def append(self, entries: Iterable[AuditEntry]) -> None:
        self.pending += entries

    async def write_pending(self) -> None:
        """Numbers, links and writes all appended rows."""
        pending, self.pending = self.pending, []
        if not pending:
            return
        locations = await self._target_locations(pending)
        by_kind: dict[AuditKind, list[AuditEntry]] = {}
        for entry in pending:
            by_kind.setdefault(kind_of(entry.action), []).append(entry)
        for kind in sorted(by_kind):
            await self._append_to_chain(kind, by_kind[kind], locations)

    async def search(self, filter: AuditFilter, query: PageQuery) -> Page[AuditEntry]:
        return await search_blocks(self._candidates(filter, query), filter, query)

    async def chains(self) -> list[ChainHead]:
        result = await self._connection.execute(_CHAIN.order_by(audit_tables.audit_chains.c.kind))
        return [ChainHead(*row) for row in result]

    async def rows_after(self, kind: AuditKind, number: int, limit: int) -> list[AuditEntry]:
        last = number + limit
        blocks = await self._blocks_of(kind, number, limit)
        return [
            row
            for block in blocks
            for row in unpack(block, lambda row: number < row.number <= last)
        ]

    async def blocks(self, kind: AuditKind, number: int, limit: int) -> list[IndexedBlock]:
        blocks = await self._blocks_of(kind, number, limit)
        ids = [block.id for block in blocks]
        terms: dict[int, set[IndexTerm]] = {id: set() for id in ids}
        for chunk in chunks(ids):
            rows: list[Any] = list(await self._connection.execute(_TERMS, {"ids": chunk}))
            for id, field, value in rows:
                terms[id].add((field, value))
        return [(block, terms[block.id]) for block in blocks]

    async def cut(self, kind: AuditKind, before: datetime, now: datetime, limit: int) -> int:
        chain = (await self._lock_chains({kind, kind_of(_EXPIRED)}))[kind]
        expired: list[AuditBlock] = []
        for block in await self._blocks_of(kind, chain.floor, limit):
            if block.last_at >= before:
                break
            expired.append(block)
        if not expired:
            return 0
        last = expired[-1]
        chains, blocks = audit_tables.audit_chains, audit_tables.audit_blocks
        new_floor = {"floor": last.last_number, "floor_hash": last.hash, "floor_at": now}
        await self._connection.execute(
            update(chains).where(chains.c.kind == kind).values(new_floor)
        )
        await self._connection.execute(
            delete(blocks).where(blocks.c.kind == kind, blocks.c.last_number <= last.last_number)
        )
        for chunk in chunks([block.id for block in expired]):
            await self._connection.execute(_REMOVE_TERMS, {"ids": chunk})
        await self.append([expiry_entry(chain, last, now)])
        return last.last_number - chain.floor

    async def _blocks_of(self, kind: AuditKind, number: int, limit: int) -> list[AuditBlock]:
        """Returns the blocks of the rows of a chain after a number."""
        blocks = audit_tables.audit_blocks.c
        statement = _BLOCK.where(
            blocks.kind == kind, blocks.last_number > number, blocks.first_number <= number + limit
        )
        result = await self._connection.execute(statement.order_by(blocks.last_number))
        return [_block(*row) for row in result]

    async def _candidates(self, filter: AuditFilter, query: PageQuery) -> AsyncIterator[AuditBlock]:
        """Yields the blocks that may have rows of a page, in order, more and more at a time."""
        blocks, size, start = audit_tables.audit_blocks.c, _MIN_BATCH, cursor_block(query)
        while True:
            ids = candidate_blocks(filter, query, start, self._connection.dialect).limit(size)
            order = blocks.id.desc() if query.newest else blocks.id
            rows = await self._connection.execute(_BLOCK.where(blocks.id.in_(ids)).order_by(order))
            found = [_block(*row) for row in rows]
            for block in found:
                yield block
            if len(found) < size:
                return
            size, start = min(2 * size, _MAX_BATCH), found[-1].id + (-1 if query.newest else 1)

    async def _append_to_chain(
        self, kind: AuditKind, entries: list[AuditEntry], locations: Mapping[str, TargetLocation]
    ) -> None:
        """Writes entries at the end of their chain and moves its head."""
        chain = await self._lock_chain(kind)
        rows: list[dict[str, object]] = []
        terms: list[tuple[int, str, str]] = []
        for batch in batches(entries):
            block, block_terms = pack(
                chain, [(entry, location_in_log(entry, locations)) for entry in batch]
            )
            chain = replace(chain, number=block.last_number, hash=block.hash)
            rows.append({name: getattr(block, name) for name in _COLUMNS if name != "id"})
            terms += [(block.last_number, *term) for term in sorted(block_terms)]
        await self._connection.execute(_ADD_BLOCKS, rows)
        index = (orjson.dumps(terms).decode(), kind.value)
        await self._connection.execute_text(_ADD_TERMS[self._connection.dialect], [index])
        moved = {"of": kind, "to": chain.number, "with": chain.hash}
        await self._connection.execute(_MOVE, [moved])

    async def _lock_chain(self, kind: AuditKind) -> ChainHead:
        locked = _CHAIN.where(audit_tables.audit_chains.c.kind == kind).with_for_update()
        result = await self._connection.execute(locked)
        return ChainHead(*result.one())

    async def _lock_chains(self, kinds: Collection[AuditKind]) -> dict[AuditKind, ChainHead]:
        """Locks and returns the heads of some chains, in the order that all transactions use."""
        return {kind: await self._lock_chain(kind) for kind in sorted(kinds)}

    async def _target_locations(self, entries: Iterable[AuditEntry]) -> dict[str, TargetLocation]:
        """Returns the known data of each target that an entry names by id."""
        ids = {entry.target_id for entry in entries if entry.target_id}
        touched = await self._connection.touches.touched(ids)
        places = {id: place for id, row in touched.items() if (place := known_location(row))}
        scopes = {id: scope for id, row in touched.items() if (scope := known_scope(row))}
        places |= await self._load_locations(ids - places.keys() - scopes.keys())
        scopes |= dict(await self._load(_SCOPES, ids - places.keys() - scopes.keys()))
        scoped = {id: scope.partition(":")[2] for id, scope in scopes.items()}
        of_scopes = await self._load_locations(set(filter(None, scoped.values())))
        places |= {id: of_scopes[own] for id, own in scoped.items() if own in of_scopes}
        return {id: TargetLocation(*places.get(id, ("", "")), *touched[id].digests) for id in ids}

    async def _load_locations(self, ids: Set[str]) -> dict[str, Place]:
        """Returns the cluster and the project of each target that has one."""
        places: dict[str, Place] = {}
        for statement in (_COMMON_LOCATIONS, _other_locations()):
            rows = await self._load(statement, ids - places.keys())
            places |= {id: (cluster_id, project_id) for id, cluster_id, project_id in rows}
        return places

    async def _load(self, statement: CompoundSelect[Any], ids: Collection[str]) -> list[Any]:
        found = [
            await self._connection.execute(statement.params(ids=chunk)) for chunk in chunks(ids)
        ]
        return [row for rows in found for row in rows]


def location_in_log(entry: AuditEntry, locations: Mapping[str, TargetLocation]) -> TargetLocation:
    """Returns the location of an entry: its own, completed by that of its target."""
    location = locations.get(entry.target_id, _NOWHERE)
    if not (entry.cluster_id or entry.project_id):
        return location
    return location._replace(
        cluster_id=entry.cluster_id or location.cluster_id,
        project_id=entry.project_id or location.project_id,
    )


def expiry_entry(chain: ChainHead, last: AuditBlock, now: datetime) -> AuditEntry:
    """Returns the row about the removal of a chain's blocks up to the block `last`."""
    detail = {
        "rows": last.last_number - chain.floor,
        "up_to": last.last_number,
        "hash": last.hash,
        "until": last.last_at.isoformat(),
    }
    entry = AuditEntry(now, SYSTEM.name, _EXPIRED, AuditVerdict.ALLOWED, SYSTEM.id)
    return replace(entry, target=chain.kind.value, detail=detail)


def known_location(touched: TouchedRow) -> Place | None:
    """Returns cluster and project of a row that this transaction wrote; None: not known here."""
    row = touched.after or touched.before
    if isinstance(row, Project):
        return "", row.id
    project_id: str | None = getattr(row, "project_id", None)
    if project_id is None:
        return None
    cluster_id = row.id if isinstance(row, Cluster) else getattr(row, "cluster_id", None)
    return cluster_id or "", project_id


def known_scope(touched: TouchedRow) -> Scope | None:
    """Returns the scope of a role binding or access request that this transaction wrote."""
    return getattr(touched.after or touched.before, "scope", None)


def _locations(table: Table) -> Select[*tuple[Any, ...]]:
    """Selects (id, cluster, project) of the rows of a table."""
    cluster_id = func.coalesce(table.c.cluster_id, "") if table in _IN_CLUSTERS else literal("")
    return select(table.c.id, cluster_id, func.coalesce(table.c.project_id, ""))


@cache
def _other_locations() -> CompoundSelect[Any]:
    """Selects the locations of all possible targets but the common ones.

    Not at import, when not all tables are known.
    """
    of_gates = pipeline_gates.join(pipelines, pipelines.c.id == pipeline_gates.c.pipeline_id)
    others = [
        table
        for table in metadata.tables.values()
        if _is_in_project(table) and table not in (clusters, services)
    ]
    return _union(
        select(projects.c.id, literal(""), projects.c.id),
        select(pipeline_gates.c.id, literal(""), pipelines.c.project_id).select_from(of_gates),
        *map(_locations, others),
    )


def _is_in_project(table: Table) -> bool:
    """Returns true for tables whose rows have a project, and an ID of their own."""
    return "project_id" in table.c and "id" in table.c and isinstance(table.c.id.type, String)


def _union(*parts: Select[*tuple[Any, ...]]) -> CompoundSelect[Any]:
    """Selects the rows of all parts; `ids` are values of their first column."""
    ids = bindparam("ids", expanding=True)
    return union_all(*(part.where(part.exported_columns[0].in_(ids)) for part in parts))


_IN_CLUSTERS = (services, cluster_jobs, bootstrap_tokens)
# Requests to clusters and reports of agents name only these.
_COMMON_LOCATIONS = _union(
    select(clusters.c.id, clusters.c.id, clusters.c.project_id), _locations(services)
)
_SCOPES = _union(*(select(table.c.id, table.c.scope) for table in (role_bindings, access_requests)))
_OF_BLOCKS = audit_tables.audit_terms.c.block_id.in_(bindparam("ids", expanding=True))
_TERMS = select(*audit_tables.audit_terms.c).where(_OF_BLOCKS)
_REMOVE_TERMS = delete(audit_tables.audit_terms).where(_OF_BLOCKS)
_MOVE = (
    update(audit_tables.audit_chains)
    .where(audit_tables.audit_chains.c.kind == bindparam("of"))
    .values(number=bindparam("to"), hash=bindparam("with"))
)

REPOSITORIES: Repositories = {AuditLog: lambda tx: SqlAudit(tx.connection)}
