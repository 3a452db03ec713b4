"""Rows for every table of a schema, of odd values, past the types of the domain."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Connection,
    DateTime,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    insert,
    null,
)

ROWS = 3
WHEN = datetime(2026, 3, 29, 1, 59, 59, 999_999, tzinfo=UTC)
JSONS = [{"a": [1, 2.5, None, "ü\u2028"], "b": {"c": True}}, JSON.NULL, null()]
# Migrations read these.
WORDS = {"verdict": "allowed"}
VALUES: list[tuple[type, Callable[[int], Any]]] = [
    (JSON, lambda number: JSONS[number]),
    (Boolean, lambda number: number == 1),
    (DateTime, lambda number: WHEN.replace(day=29 + number % 2)),
    (LargeBinary, lambda number: bytes([0, 255, number])),
    (Float, lambda number: number + 0.1),
    (Integer, lambda number: 2**31 - 1 - number),
]


def value(column: Column[Any], number: int) -> Any:
    """Something odd of the column's type; the same for what refers and what is referred to."""
    for kind, make in VALUES:
        if isinstance(column.type, kind):
            made = make(number)
            return {"filled": True} if made is not JSONS[0] and _needed(column) else made
    if column.name in WORDS:
        return WORDS[column.name]
    text = f"{number}'\"\\ü"
    return text[: getattr(column.type, "length", None) or len(text)]


def _needed(column: Column[Any]) -> bool:
    return isinstance(column.type, JSON) and not column.nullable


def fill(connection: Connection) -> None:
    """ROWS rows in each table that is there."""
    tables = MetaData()
    tables.reflect(connection)
    kept = [table for table in tables.sorted_tables if table.name != "alembic_version"]
    for table in kept:
        if table.name in ("audit_chains", "projects"):
            connection.execute(table.delete())
        for number in range(ROWS):
            row = {column.name: value(column, number) for column in table.columns}
            connection.execute(insert(table).values(row))
