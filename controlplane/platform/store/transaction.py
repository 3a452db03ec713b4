"""Transactions over one database engine, and the repositories that each offers."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import Any, Protocol, TypeVar, runtime_checkable

from sqlalchemy.ext.asyncio import AsyncEngine

from controlplane.platform.store.connection import StoreConnection, transaction, translate_errors

P = TypeVar("P")
Repositories = Mapping[type[object], Callable[["SqlTransaction"], Any]]
"""Makes the repository behind each port, for one transaction."""


@runtime_checkable
class WrittenLast(Protocol):
    """A repository that holds its writes back until the transaction ends.

    The audit log is one: its chains stay locked from the first write to the commit.
    """

    async def write_pending(self) -> None: ...


class SqlTransaction:
    """The repositories on one connection; each is made when first used."""

    def __init__(self, connection: StoreConnection, repositories: Repositories) -> None:
        self.connection = connection
        self._repositories = repositories
        self._opened: dict[type[Any], Any] = {}

    def __getitem__(self, port: type[P]) -> P:
        repository = self._opened.get(port)
        if repository is None:
            repository = self._opened[port] = self._repositories[port](self)
        return repository

    @property
    def has_writes(self) -> bool:
        return self.connection.touches.has_writes

    async def complete(self) -> None:
        """Write what every transaction writes last."""
        for repository in list(self._opened.values()):
            if isinstance(repository, WrittenLast):
                await repository.write_pending()


class SqlStore:
    """The `Store` port over an engine of either dialect."""

    def __init__(self, engine: AsyncEngine, repositories: Repositories) -> None:
        self._engine = engine
        self._repositories = repositories
        is_sqlite = engine.dialect.name == "sqlite"
        self._writer = asyncio.Lock() if is_sqlite else nullcontext()

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[SqlTransaction, None]:
        """A transaction that only reads; writers do not wait for it. Unavailable: as `write`."""
        with translate_errors("read"):
            async with transaction(self._engine, read_only=True) as connection:
                yield SqlTransaction(connection, self._repositories)

    @asynccontextmanager
    async def write(self) -> AsyncGenerator[SqlTransaction, None]:
        """A transaction that may write. Unavailable: the database cannot be written now."""
        with translate_errors("written"):
            async with self._writer, transaction(self._engine, read_only=False) as connection:
                tx = SqlTransaction(connection, self._repositories)
                yield tx
                await tx.complete()

    async def close(self) -> None:
        """Close all connections."""
        await self._engine.dispose()
