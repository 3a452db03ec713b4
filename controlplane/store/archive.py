"""Backups: a whole store as JSON lines, the same format for both dialects.

A table is a line `{"table": NAME, "columns": […]}` and a line `[…]` for each row; the last line is
`{"rows": COUNT}`. The columns are those of the schema at the time of the backup. The store of an
older version is loaded into its own schema and then migrated.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, BinaryIO

import orjson
from sqlalchemy import (
    JSON,
    Column,
    Connection,
    DateTime,
    LargeBinary,
    MetaData,
    Select,
    String,
    Table,
    Text,
    bindparam,
    cast,
    func,
    insert,
    select,
    type_coerce,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncEngine

from controlplane.platform.parts import Columns
from controlplane.platform.store.connection import translate_errors
from controlplane.platform.store.engine import READ_ONLY
from controlplane.store.migrate import REVISIONS, changing_schema, migrate_connection, revision_of
from core.errors import Conflict, Invalid

Progress = Callable[[str, int], None]
"""Receives the current table and the total number of rows so far."""

_BATCH = 1000
_ONE_MOMENT = READ_ONLY | {"postgresql": {"isolation_level": "REPEATABLE READ"}}


async def dump(engine: AsyncEngine, into: BinaryIO, progress: Progress) -> tuple[str, int]:
    """Writes a consistent snapshot of a running store; returns its schema and number of rows.

    Raises Conflict if the store is empty, Unavailable if it cannot be read.
    """
    with translate_errors("read"):
        async with engine.connect() as connection:
            await connection.execution_options(**_ONE_MOMENT[engine.dialect.name])
            async with connection.begin():
                return await connection.run_sync(_dump, into, progress)


async def load(engine: AsyncEngine, schema: str, lines: Iterable[bytes], progress: Progress) -> int:
    """Fills an empty store and migrates it to this version's schema in one transaction; returns the
    number of rows.

    Raises Conflict if the store is not empty, or if `schema` is from a newer version. Raises
    Invalid if `lines` are incomplete or not from `dump`.
    """
    with translate_errors("written"):
        async with changing_schema(engine) as connection:
            return await connection.run_sync(_load, schema, lines, progress)


def _dump(connection: Connection, into: BinaryIO, progress: Progress) -> tuple[str, int]:
    schema = revision_of(connection)
    if schema is None:
        raise Conflict("the store is empty: nothing to back up")
    row_count = 0
    for table in _tables(connection):
        columns = list(table.columns)
        into.write(
            _encode_line({"table": table.name, "columns": [column.name for column in columns]})
        )
        rows = connection.execution_options(yield_per=_BATCH).execute(
            _select_rows(table, connection)
        )
        for batch in rows.partitions():
            into.writelines(_encode_line(tuple(row)) for row in batch)
            row_count += len(batch)
            progress(table.name, row_count)
    into.write(_encode_line({"rows": row_count}))
    return schema, row_count


def _load(connection: Connection, schema: str, lines: Iterable[bytes], progress: Progress) -> int:
    if revision_of(connection) is not None:
        raise Conflict("the store is not empty: restore into an empty store")
    migrate_connection(connection, schema)
    restore = _Restore(connection, progress)
    for line in lines:
        restore.process_line(line)
    restore.finish()
    migrate_connection(connection)
    return restore.rows


class _Restore:
    """Inserts each row into the table that was announced last."""

    def __init__(self, connection: Connection, progress: Progress) -> None:
        self.rows = 0
        self._connection = connection
        self._progress = progress
        self._tables = {table.name: table for table in _tables(connection)}
        self._columns: list[Column[object]] = []
        self._batch: list[list[object]] = []
        self._is_complete = False
        for table in reversed(self._tables.values()):
            connection.execute(table.delete())

    def process_line(self, line: bytes) -> None:
        """Processes the next line."""
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise Invalid(
                "the backup contains a line that is not JSON: use another backup"
            ) from error
        if isinstance(value, list):
            self._batch.append(value)
            if len(self._batch) == _BATCH:
                self._insert()
            return
        self._insert()
        if "rows" in value:
            self._is_complete = value["rows"] == self.rows
        else:
            self._columns = self._find_columns(value["table"], value["columns"])

    def finish(self) -> None:
        """Finishes after the last line."""
        if not self._is_complete:
            raise Invalid(
                f"the backup ends after {self.rows} rows: it is incomplete; use another backup"
            )
        if self._connection.dialect.name == "postgresql":
            for table in self._tables.values():
                self._advance_sequence(table)

    def _find_columns(self, name: str, columns: list[str]) -> list[Column[object]]:
        table = self._tables.get(name)
        if table is None or not set(columns) <= set(table.columns.keys()):
            raise Invalid(f"the backup holds a table {name!r} that its schema does not have")
        return [table.columns[name] for name in columns]

    def _insert(self) -> None:
        if not self._batch:
            return
        if not self._columns:
            raise Invalid("the backup does not begin with a table")
        table, dialect = self._columns[0].table, self._connection.dialect.name
        columns = {column.name: _write_expression(column, dialect) for column in self._columns}
        self._connection.execute(
            insert(table).values(columns), [_bind_row(row, self._columns) for row in self._batch]
        )
        self.rows += len(self._batch)
        self._batch = []
        self._progress(table.name, self.rows)

    def _advance_sequence(self, table: Table) -> None:
        """Advances PostgreSQL's sequences, which do not notice rows with explicit numbers."""
        for column in table.primary_key.columns:
            name = select(func.pg_get_serial_sequence(table.name, column.name))
            sequence = self._connection.scalar(name)
            last = self._connection.scalar(select(func.max(column))) if sequence else None
            if last is not None:
                self._connection.execute(select(func.setval(sequence, last)))


def _tables(connection: Connection) -> list[Table]:
    """Returns the tables of the current schema, each after the tables that it references."""
    found = MetaData()
    found.reflect(connection)
    return [table for table in found.sorted_tables if table.name != REVISIONS]


def _select_rows(table: Table, connection: Connection) -> Select[Any]:
    columns = [_read_expression(column, connection.dialect.name) for column in table.columns]
    return select(*columns).order_by(*table.primary_key.columns)


def _read_expression(column: Column[object], dialect: str) -> Any:
    """Reads JSON as text: otherwise a JSON null looks like a missing value."""
    if not isinstance(column.type, JSON):
        return column
    return cast(column, Text) if dialect == "postgresql" else type_coerce(column, String)


def _write_expression(column: Column[object], dialect: str) -> object:
    if not isinstance(column.type, JSON):
        return bindparam(f"to_{column.name}", type_=column.type)
    text = bindparam(f"to_{column.name}", type_=Text())
    return cast(text, JSONB) if dialect == "postgresql" else type_coerce(text, String)


def _bind_row(row: list[object], columns: list[Column[object]]) -> Columns:
    return {
        f"to_{column.name}": _parse_value(value, column.type)
        for value, column in zip(row, columns, strict=True)
    }


def _parse_value(value: Any, kind: object) -> object:
    if value is None:
        return None
    if isinstance(kind, DateTime):
        return datetime.fromisoformat(value)
    return b64decode(value) if isinstance(kind, LargeBinary) else value


def _encode_line(value: object) -> bytes:
    """Times are UTC in RFC 3339, because SQLite stores no zone; bytes are base64."""
    options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_NAIVE_UTC
    return orjson.dumps(value, default=_base64, option=options)


def _base64(value: object) -> str:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    raise TypeError(f"a {type(value).__name__} cannot be part of a backup")
