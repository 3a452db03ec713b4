"""SQLite driver with one thread switch per statement.

The standard driver switches four times: to open the cursor, execute, fetch and close. Each switch
wakes a thread and then the event loop, which costs more than most statements.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import aiosqlite

T = TypeVar("T")
_FIRST_ROWS = 1_000


class SqliteCursor:
    """A cursor for one statement at a time, as SQLAlchemy's adapter expects it.

    Execution returns the first rows; the cursor stays open only if there are more.
    """

    description: object = None
    rowcount = -1
    lastrowid: int | None = None
    arraysize = 1

    def __init__(self, connection: "SqliteConnection") -> None:
        self._connection = connection
        self._rows: list[object] = []
        self._open: sqlite3.Cursor | None = None

    async def __aenter__(self) -> "SqliteCursor":
        return self

    async def execute(self, sql: str, parameters: object = ()) -> None:
        """Runs a statement."""
        await self._run(sqlite3.Cursor.execute, sql, parameters)

    async def executemany(self, sql: str, parameters: Sequence[object]) -> None:
        """Runs a statement for each of the parameters."""
        await self._run(sqlite3.Cursor.executemany, sql, parameters)

    async def fetchall(self) -> list[object]:
        """Returns all remaining rows."""
        rows, self._rows = self._rows, []
        if self._open is not None:
            rows += await self._connection.on_thread(self._open.fetchall)
            self.rowcount = self._open.rowcount
            await self.close()
        return rows

    async def fetchmany(self, size: int) -> list[object]:
        """Returns at most `size` remaining rows."""
        if len(self._rows) < size and self._open is not None:
            fetch = partial(self._open.fetchmany, max(size, _FIRST_ROWS))
            self._rows += await self._connection.on_thread(fetch)
        rows, self._rows = self._rows[:size], self._rows[size:]
        return rows

    async def close(self) -> None:
        """Discards the remaining rows."""
        if self._open is not None:
            await self._connection.on_thread(self._open.close)
            self._open = None

    async def _run(self, step: Callable[..., object], sql: str, parameters: object) -> None:
        await self._connection.on_thread(partial(self._run_on_thread, step, sql, parameters))

    def _run_on_thread(self, step: Callable[..., object], sql: str, parameters: object) -> None:
        cursor = self._connection.raw_connection.cursor()
        try:
            step(cursor, sql, parameters)
            self.description, self.lastrowid = cursor.description, cursor.lastrowid
            self._rows = cursor.fetchmany(_FIRST_ROWS) if cursor.description else []
            self.rowcount = cursor.rowcount
            self._open = cursor if len(self._rows) == _FIRST_ROWS else None
        finally:
            if self._open is None:
                cursor.close()


class SqliteConnection(aiosqlite.Connection):
    """A connection with a daemon thread, which does not keep the process alive."""

    def __init__(self, path: str) -> None:
        super().__init__(partial(sqlite3.connect, path, check_same_thread=False), _FIRST_ROWS)
        self._thread.daemon = True

    def cursor(self) -> Any:
        return SqliteCursor(self)

    async def rollback(self) -> None:
        if self.in_transaction:
            await super().rollback()

    @property
    def raw_connection(self) -> sqlite3.Connection:
        """Returns the underlying connection, for use on its thread."""
        return self._conn

    async def on_thread(self, work: Callable[[], T]) -> T:
        """Runs a function on the connection's thread."""
        return await self._execute(work)


def connection_factory(path: str) -> Callable[[], Awaitable[aiosqlite.Connection]]:
    """Returns a function that opens connections to a file."""

    async def connect() -> aiosqlite.Connection:
        return await SqliteConnection(path)

    return connect
