"""Many rows at once, many to a statement.

SQLite's driver takes and gives up the interpreter's lock once a statement: row by row it would
wait for a busy event loop as often as there are rows.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from typing import Any

from sqlalchemy import Table, insert
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.postgresql import asyncpg
from sqlalchemy.engine import Dialect

from controlplane.domain.audit import written_moment
from controlplane.storage.connection import Connection

Row = tuple[Any, ...]
_BLOCK = 512
_NUMBERED = re.compile(r"\$(\d+)")
_DIALECTS: dict[str, Dialect] = {"sqlite": sqlite.dialect(), "postgresql": asyncpg.dialect()}


def moment_writer(dialect: str) -> Callable[[datetime], Any]:
    """What makes of a moment what the driver takes."""
    return _MOMENTS[dialect]


async def insert_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Add rows: all columns but `id`, in the table's order, as the driver takes them."""
    start = 0
    while left := len(rows) - start:
        # A power of two, so that there are few different statements, and few of them at a time.
        size = min(_BLOCK, 1 << (left.bit_length() - 1))
        values = tuple(chain.from_iterable(rows[start : start + size]))
        await connection.execute_text(_statement(table, connection.dialect, size), [values])
        start += size


@cache
def _statement(table: Table, dialect: str, rows: int) -> str:
    """An INSERT of so many rows: one row's as SQLAlchemy writes it, its values repeated.

    SQLAlchemy takes a fifth of a second for 512 rows, in which nobody is served.
    """
    row = {column.name: None for column in table.c if column.name != "id"}
    one = insert(table).values(row).inline().compile(dialect=_DIALECTS[dialect])
    into, _, values = str(one).partition(" VALUES ")
    return f"{into} VALUES {', '.join(_moved(values, at * len(row)) for at in range(rows))}"


def _moved(values: str, by: int) -> str:
    """A row's placeholders behind so many others, where they are numbered."""
    return _NUMBERED.sub(lambda match: f"${int(match[1]) + by}", values)


def _as_text(at: datetime) -> str:
    """What SQLAlchemy writes for SQLite, in a tenth of the time."""
    written = written_moment(at)
    return f"{written[:10]} {written[11:26]}"


def _in_utc(at: datetime) -> datetime:
    return at.astimezone(UTC)


_MOMENTS: dict[str, Callable[[datetime], Any]] = {"sqlite": _as_text, "postgresql": _in_utc}
