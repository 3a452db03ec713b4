"""SQLite's driver with one walk to the connection's thread a statement.

The driver would walk there four times: for the cursor, to execute, for the rows, to close. Each
walk wakes a thread and then the event loop, which costs more than most statements do.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import aiosqlite

_CHUNK = 64


class Statement:
    """The driver's cursor as SQLAlchemy's adapter uses one, for one statement at a time."""

    description: Any = None
    rowcount = -1
    lastrowid: int | None = None
    arraysize = 1

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self._rows: list[Any] = []

    async def __aenter__(self) -> "Statement":
        return self

    async def execute(self, sql: str, parameters: Any = ()) -> None:
        """Run a statement and fetch all its rows."""
        await self._run(sqlite3.Cursor.execute, sql, parameters)

    async def executemany(self, sql: str, parameters: Sequence[Any]) -> None:
        """Run a statement for each of the parameters."""
        await self._run(sqlite3.Cursor.executemany, sql, parameters)

    async def fetchall(self) -> list[Any]:
        """The rows that there were."""
        return self._rows

    async def close(self) -> None:
        """Nothing is open between two statements."""

    async def _run(self, step: Callable[..., Any], sql: str, parameters: Any) -> None:
        await self._connection.on_thread(partial(self._do, step, sql, parameters))

    def _do(self, step: Callable[..., Any], sql: str, parameters: Any) -> None:
        cursor = self._connection.own.cursor()
        try:
            step(cursor, sql, parameters)
            self.description, self.lastrowid = cursor.description, cursor.lastrowid
            self._rows = cursor.fetchall() if cursor.description else []
            self.rowcount = cursor.rowcount
        finally:
            cursor.close()


class Connection(aiosqlite.Connection):
    """A connection with its thread, which does not keep the process alive."""

    def __init__(self, path: str) -> None:
        super().__init__(partial(sqlite3.connect, path, check_same_thread=False), _CHUNK)
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

    async def on_thread(self, work: Callable[[], None]) -> None:
        """Do something on the connection's thread."""
        await self._execute(work)


def connecting(path: str) -> Callable[[], Awaitable[aiosqlite.Connection]]:
    """What opens connections to a file."""

    async def connect() -> aiosqlite.Connection:
        return await Connection(path)

    return connect
