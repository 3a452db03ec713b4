"""The audit log in memory, with its hash chains."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import Table

from controlplane.access.store import projects
from controlplane.agents.store import cluster_jobs
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
from controlplane.audit.store import audit, audit_chains
from controlplane.authorization import DEFAULT_PROJECT, SYSTEM
from controlplane.clusters.store import clusters
from controlplane.pipelines.store import pipelines
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict
from controlplane.platform.ports import Page, PageQuery
from controlplane.repositories.store import repositories
from controlplane.services.store.tables import services
from controlplane.store.audit_log import known_location, location_in_log
from tests.fakes.memory_store.columns import codec_of
from tests.fakes.memory_store.connection import MemoryConnection, Predicate
from tests.fakes.memory_store.constraints import Row
from tests.fakes.memory_store.rows import MemoryLog

_EXPIRED = "expireAudit"
_EQUAL = ("actor", "cluster_id", "verdict", "kind")


class MemoryAudit(MemoryLog[AuditEntry]):
    """Implements `AuditLog`; appended rows get number and hash when the transaction ends."""

    def __init__(self, connection: MemoryConnection) -> None:
        super().__init__(connection, audit, AuditEntry, ("actor", "action", "target"))
        self.waiting: list[AuditEntry] = []

    async def append(self, entries: Iterable[AuditEntry]) -> None:
        self.waiting += entries

    async def write_pending(self) -> None:
        """Numbers, links and writes all appended rows."""
        waiting, self.waiting = self.waiting, []
        known = await self._locations({entry.target_id for entry in waiting if entry.target_id})
        heads = {head.kind: head for head in await self.chains()}
        for entry in sorted(waiting, key=lambda entry: kind_of(entry.action)):
            head = heads[kind_of(entry.action)]
            where, detail = location_in_log(entry, known), detail_json(entry)
            number = head.number + 1
            digest = chain_hash(head.hash, content(entry, head.kind, number, where, detail))
            heads[head.kind] = replace(head, number=number, hash=digest)
            self._insert(entry, head.kind, number, digest, where)
        for head in heads.values() if waiting else ():
            self._move(head.kind, number=head.number, hash=head.hash)

    async def search(self, wanted: AuditFilter, query: PageQuery) -> Page[AuditEntry]:
        return self._page(query, lambda row: _fits(wanted, row))

    async def chains(self) -> list[ChainHead]:
        rows = sorted(self._connection.rows(audit_chains), key=lambda row: row["kind"])
        names = audit_chains.c.keys()
        return [
            ChainHead(**{name: codec_of(audit_chains.c[name]).read(row[name]) for name in names})
            for row in rows
        ]

    async def behind(self, kind: AuditKind, number: int, most: int) -> list[AuditEntry]:
        return self._select(lambda row: row["kind"] == kind and row["number"] > number)[:most]

    async def cut(self, kind: AuditKind, before: datetime, now: datetime, most: int) -> int:
        (head,) = [head for head in await self.chains() if head.kind is kind]
        rows = await self.behind(kind, head.floor, head.number - head.floor)
        kept = [row.number for row in rows if row.at >= before]
        last = min(kept[0] - 1 if kept else head.number, head.floor + most)
        if last <= head.floor:
            return 0
        (row,) = await self.behind(kind, last - 1, 1)
        self._move(kind, floor=last, floor_hash=row.hash, floor_at=now)
        cut = self._connection.keys(
            self._table, lambda row: row["kind"] == kind and row["number"] <= last
        )
        self._connection.delete(self._table, cut)
        removed = last - head.floor
        detail = {"rows": removed, "up_to": last, "hash": row.hash, "until": row.at.isoformat()}
        entry = AuditEntry(now, SYSTEM.name, _EXPIRED, AuditVerdict.ALLOWED, SYSTEM.id)
        await self.append([replace(entry, target=kind.value, detail=detail)])
        return removed

    def _insert(
        self, entry: AuditEntry, kind: AuditKind, number: int, digest: str, where: TargetLocation
    ) -> None:
        names = [name for name in self._names if name != "id"]
        row = {name: getattr(entry, name) for name in names} | where._asdict()
        row |= {"kind": kind, "number": number, "hash": digest}
        self._connection.insert(self._table, [row | {"detail": orjson.loads(detail_json(entry))}])

    def _move(self, kind: AuditKind, **columns: Any) -> None:
        self._connection.update(audit_chains, [(kind.value,)], columns)

    async def _locations(self, ids: set[str]) -> dict[str, TargetLocation]:
        """Returns the known data of each target that an entry names by id."""
        touched = await self._connection.touches.touched(ids)
        found: dict[str, TargetLocation] = {}
        for id in ids:
            place = known_location(touched[id]) or self._stored_location(id)
            found[id] = TargetLocation(*place, *touched[id].digests)
        return found

    def _stored_location(self, id: str) -> tuple[str, str]:
        """Returns cluster and project of a stored row; empty where there is none."""
        for table in (clusters, services, pipelines, repositories, projects, cluster_jobs):
            if (row := self._connection.row(table, id)) is not None:
                return self._location_of(table, row)
        return "", ""

    def _location_of(self, table: Table, row: Row) -> tuple[str, str]:
        if table is projects:
            return "", row["id"]
        if table is cluster_jobs:
            return self._stored_location(row["cluster_id"])
        cluster = row["id"] if table is clusters else row.get("cluster_id", "")
        return cluster, row["project_id"] or DEFAULT_PROJECT


def _fits(wanted: AuditFilter, row: Row) -> bool:
    terms: list[Predicate] = [
        lambda row, name=name: row[name] == getattr(wanted, name)
        for name in _EQUAL
        if getattr(wanted, name)
    ]
    if wanted.action.endswith("*"):
        terms.append(lambda row: row["action"].startswith(wanted.action[:-1]))
    elif wanted.action:
        terms.append(lambda row: row["action"] == wanted.action)
    if wanted.target:
        terms.append(lambda row: wanted.target in (row["target"], row["target_id"]))
    since, until = wanted.since, wanted.until
    is_in_time = (since is None or row["at"] >= since) and (until is None or row["at"] < until)
    return is_in_time and all(matches(row) for matches in terms)
