"""The audit log in memory, with its hash chains."""

import itertools
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Table

from controlplane.access.store import projects
from controlplane.agents.store import cluster_jobs
from controlplane.audit.model.blocks import (
    AuditBlock,
    batches,
    decompress,
    index_terms,
    pack,
    unpack,
)
from controlplane.audit.model.chains import (
    AuditFilter,
    AuditKind,
    ChainHead,
    TargetLocation,
    kind_of,
)
from controlplane.audit.model.matching import cursor_block, search_blocks
from controlplane.audit.model.verification import IndexedBlock
from controlplane.audit.store import audit_blocks, audit_chains
from controlplane.clusters.store import bootstrap_tokens, clusters
from controlplane.pipelines.store import pipeline_gates
from controlplane.platform.audit_entry import AuditEntry
from controlplane.platform.parts import column_names
from controlplane.platform.ports import Page, PageQuery
from controlplane.platform.store.schema import metadata
from controlplane.services.store.tables import services
from controlplane.store.audit_log import (
    expiry_entry,
    known_location,
    known_scope,
    location_in_log,
)
from tests.fakes.memory_store.columns import codec_of
from tests.fakes.memory_store.connection import MemoryConnection
from tests.fakes.memory_store.constraints import Row

_COLUMNS = column_names(AuditBlock)


class MemoryAudit:
    """Implements `AuditLog`; appended rows get number and hash when the transaction ends."""

    def __init__(self, connection: MemoryConnection) -> None:
        self._connection = connection
        self.waiting: list[AuditEntry] = []

    async def append(self, entries: Iterable[AuditEntry]) -> None:
        self.waiting += entries

    async def write_pending(self) -> None:
        """Numbers, links and writes all appended rows."""
        waiting, self.waiting = self.waiting, []
        known = await self._locations({entry.target_id for entry in waiting if entry.target_id})
        for head in await self.chains() if waiting else ():
            chain, of_kind = head, [one for one in waiting if kind_of(one.action) is head.kind]
            for batch in batches(of_kind):
                located = [(entry, location_in_log(entry, known)) for entry in batch]
                block, _ = pack(chain, located)
                chain = replace(chain, number=block.last_number, hash=block.hash)
                row = {name: getattr(block, name) for name in _COLUMNS if name != "id"}
                self._connection.insert(audit_blocks, [row])
            self._move(head.kind, number=chain.number, hash=chain.hash)

    async def search(self, filter: AuditFilter, query: PageQuery) -> Page[AuditEntry]:
        return await search_blocks(self._candidates(query), filter, query)

    async def chains(self) -> list[ChainHead]:
        rows = sorted(self._connection.rows(audit_chains), key=lambda row: row["kind"])
        names = audit_chains.c.keys()
        return [
            ChainHead(**{name: codec_of(audit_chains.c[name]).read(row[name]) for name in names})
            for row in rows
        ]

    async def rows_after(self, kind: AuditKind, number: int, limit: int) -> list[AuditEntry]:
        rows = [row for block in self._blocks() for row in unpack(block, lambda row: True)]
        return [row for row in rows if kind_of(row.action) is kind and row.number > number][:limit]

    async def blocks(self, kind: AuditKind, number: int, limit: int) -> list[IndexedBlock]:
        following = [
            block
            for block in self._blocks()
            if block.kind is kind
            and block.last_number > number
            and block.first_number <= number + limit
        ]
        return [(block, index_terms(decompress(block.packed)[1])) for block in following]

    async def cut(self, kind: AuditKind, before: datetime, now: datetime, limit: int) -> int:
        (head,) = [head for head in await self.chains() if head.kind is kind]
        blocks = [block for block, _ in await self.blocks(kind, head.floor, limit)]
        expired = list(itertools.takewhile(lambda block: block.last_at < before, blocks))
        if not expired:
            return 0
        last = expired[-1]
        self._move(kind, floor=last.last_number, floor_hash=last.hash, floor_at=now)
        self._connection.delete(audit_blocks, [(block.id,) for block in expired])
        await self.append([expiry_entry(head, last, now)])
        return last.last_number - head.floor

    def _blocks(self) -> list[AuditBlock]:
        table = audit_blocks.c
        return [
            AuditBlock(*(codec_of(table[name]).read(row[name]) for name in _COLUMNS))
            for row in self._connection.rows(audit_blocks)
        ]

    async def _candidates(self, query: PageQuery) -> AsyncIterator[AuditBlock]:
        """Yields the blocks of a page and of those after it, in order."""
        blocks, start = self._blocks(), cursor_block(query)
        for block in reversed(blocks) if query.newest else blocks:
            id = block.id or 0
            if start is None or (id <= start if query.newest else id >= start):
                yield block

    def _move(self, kind: AuditKind, **columns: Any) -> None:
        self._connection.update(audit_chains, [(kind.value,)], columns)

    async def _locations(self, ids: set[str]) -> dict[str, TargetLocation]:
        """Returns the known data of each target that an entry names by id."""
        touched = await self._connection.touches.touched(ids)
        found: dict[str, TargetLocation] = {}
        for id in ids:
            place = known_location(touched[id])
            if place is None and (scope := known_scope(touched[id])):
                place = self._location_of_scope(scope)
            found[id] = TargetLocation(*(place or self._stored_location(id)), *touched[id].digests)
        return found

    def _stored_location(self, id: str) -> tuple[str, str]:
        """Returns cluster and project of a stored row; empty where there is none."""
        for table in metadata.tables.values():
            is_by_id = table.primary_key.columns.keys() == ["id"]
            if is_by_id and (row := self._connection.row(table, id)) is not None:
                return self._location_of(table, row)
        return "", ""

    def _location_of(self, table: Table, row: Row) -> tuple[str, str]:
        if table is projects:
            return "", row["id"]
        if table is pipeline_gates:
            return self._stored_location(row["pipeline_id"])
        if "scope" in row:
            return self._location_of_scope(row["scope"])
        if table is clusters:
            return row["id"], row["project_id"]
        is_in_cluster = table in (services, cluster_jobs, bootstrap_tokens)
        return (row["cluster_id"] or "") if is_in_cluster else "", row.get("project_id") or ""

    def _location_of_scope(self, scope: str) -> tuple[str, str]:
        return self._stored_location(scope.partition(":")[2])
