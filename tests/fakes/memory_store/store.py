"""The `Store` port in memory."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

from controlplane.access.model.bindings import Project
from controlplane.access.store import projects
from controlplane.audit.model.chains import AuditKind, ChainHead
from controlplane.audit.store import audit_chains
from controlplane.authorization import DEFAULT_PROJECT, UNRESTRICTED
from controlplane.platform.store.transaction import WrittenLast
from controlplane.store.repositories import SCHEMA
from tests.fakes.memory_store.connection import MemoryConnection, Tables
from tests.fakes.memory_store.repositories import MAKERS

P = TypeVar("P")
_BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


class MemoryTransaction:
    """The repositories on one view of the tables; each is made when first used."""

    def __init__(self, connection: MemoryConnection) -> None:
        self.connection = connection
        self._made: dict[type[Any], Any] = {}

    def __getitem__(self, port: type[P]) -> P:
        made = self._made.get(port)
        if made is None:
            made = self._made[port] = MAKERS[port](self)
        return made

    @property
    def has_writes(self) -> bool:
        return self.connection.touches.has_writes

    async def complete(self) -> None:
        """Writes what every transaction writes last."""
        for repository in list(self._made.values()):
            if isinstance(repository, WrittenLast):
                await repository.write_pending()
        self.connection.check_usable()


class MemoryStore:
    """Implements `Store`: a reader sees one snapshot, and writers run one after another."""

    def __init__(self) -> None:
        self._tables = _migrated()
        self._writer = asyncio.Lock()

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[MemoryTransaction, None]:
        """Opens a read-only transaction."""
        yield MemoryTransaction(MemoryConnection(self._tables, read_only=True))

    @asynccontextmanager
    async def write(self) -> AsyncGenerator[MemoryTransaction, None]:
        """Opens a writing transaction; it commits when the block ends without an error."""
        async with self._writer:
            tx = MemoryTransaction(MemoryConnection(self._tables, read_only=False))
            yield tx
            await tx.complete()
            self._tables = tx.connection.tables

    async def close(self) -> None:
        """Does nothing: there are no connections."""


def _migrated() -> Tables:
    """Returns the tables as the migrations leave them: a project, and the audit chains."""
    connection = MemoryConnection({name: {} for name in SCHEMA.tables}, read_only=False)
    default = Project(DEFAULT_PROJECT, "default", _BEGINNING, _BEGINNING, fence=UNRESTRICTED)
    connection.insert(projects, [_columns(default, projects.c.keys())])
    heads = [_columns(ChainHead(kind), audit_chains.c.keys()) for kind in AuditKind]
    connection.insert(audit_chains, heads)
    return connection.tables


def _columns(value: object, names: list[str]) -> Mapping[str, Any]:
    return {name: getattr(value, name) for name in names}
