"""SQLite's driver with one walk to the connection's thread a statement.

The driver would walk there four times: for the cursor, to execute, for the rows, to close. Each
walk wakes a thread and then the event loop, which costs more than most statements do.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import aiosqlite

T = TypeVar("T")
_FIRST_ROWS = 1_000


class Statement:
    """The driver's cursor as SQLAlchemy's adapter uses one, for one statement at a time.

    The first rows come along with the execution; only what has more stays open.
    """

    description: Any = None
    rowcount = -1
    lastrowid: int | None = None
    arraysize = 1

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self._rows: list[Any] = []
        self._open: sqlite3.Cursor | None = None

    async def __aenter__(self) -> "Statement":
        return self

    async def execute(self, sql: str, parameters: Any = ()) -> None:
        """Run a statement."""
        await self._run(sqlite3.Cursor.execute, sql, parameters)

    async def executemany(self, sql: str, parameters: Sequence[Any]) -> None:
        """Run a statement for each of the parameters."""
        await self._run(sqlite3.Cursor.executemany, sql, parameters)

    async def fetchall(self) -> list[Any]:
        """All rows that have not been fetched."""
        rows, self._rows = self._rows, []
        if self._open is not None:
            rows += await self._connection.on_thread(self._open.fetchall)
            self.rowcount = self._open.rowcount
            await self.close()
        return rows

    async def fetchmany(self, size: int) -> list[Any]:
        """At most so many of them."""
        if len(self._rows) < size and self._open is not None:
            more = partial(self._open.fetchmany, max(size, _FIRST_ROWS))
            self._rows += await self._connection.on_thread(more)
        rows, self._rows = self._rows[:size], self._rows[size:]
        return rows

    async def close(self) -> None:
        """Let go of the rows that have not been fetched."""
        if self._open is not None:
            await self._connection.on_thread(self._open.close)
            self._open = None

    async def _run(self, step: Callable[..., Any], sql: str, parameters: Any) -> None:
        await self._connection.on_thread(partial(self._do, step, sql, parameters))

    def _do(self, step: Callable[..., Any], sql: str, parameters: Any) -> None:
        cursor = self._connection.own.cursor()
        try:
            step(cursor, sql, parameters)
            self.description, self.lastrowid = cursor.description, cursor.lastrowid
            self._rows = cursor.fetchmany(_FIRST_ROWS) if cursor.description else []
            self.rowcount = cursor.rowcount
            self._open = cursor if len(self._rows) == _FIRST_ROWS else None
        finally:
            if self._open is None:
                cursor.close()


class Connection(aiosqlite.Connection):
    """A connection with its thread, which does not keep the process alive."""

    def __init__(self, path: str) -> None:
        super().__init__(partial(sqlite3.connect, path, check_same_thread=False), _FIRST_ROWS)
        self._thread.daemon = True

    def cursor(self) -> Any:
        return Statement(self)

    async def rollback(self) -> None:
        if self.in_transaction:
            await super().rollback()

    @property
    def own(self) -> sqlite3.Connection:
        """The connection below, for use on its thread."""
        return self._conn

    async def on_thread(self, work: Callable[[], T]) -> T:
        """Do something on the connection's thread."""
        return await self._execute(work)


def connecting(path: str) -> Callable[[], Awaitable[aiosqlite.Connection]]:
    """What opens connections to a file."""

    async def connect() -> aiosqlite.Connection:
        return await Connection(path)

    return connect
