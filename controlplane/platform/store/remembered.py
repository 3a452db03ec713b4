"""Rows that a writing transaction on SQLite has read.

It is the only writer until its end, so rows stay as they were read until it writes their table
itself. Operations that run in one transaction often read the same cluster, repository or project.
"""

from collections.abc import Collection, Hashable, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Delete, Executable, FromClause, SelectBase, UpdateBase

from controlplane.platform.ports import ANY

_MAX_ROWS = 100
"""Longer results are not kept."""


class ReadKey(NamedTuple):
    """The columns and values of a read."""

    kind: object
    equals: tuple[tuple[str, Hashable], ...]
    first: bool
    """True if the read returns one row at most."""
    id: str | None
    """ID of the only row that the read can return; None: others may match later."""

    @property
    def columns_and_values(self) -> "_Key | None":
        """Returns the columns of a row that matches, and their values; None: they are not exact."""
        read = [(name, value) for name, value in self.equals if value is not ANY]
        if any(isinstance(value, frozenset | range) for _, value in read):
            return None
        return tuple(name for name, _ in read), tuple(value for _, value in read)


_Key = tuple[tuple[str, ...], tuple[Hashable, ...]]
_Results = dict[ReadKey, tuple[object, ...]]


class _TableReads:
    """Results of reads of one table."""

    def __init__(self) -> None:
        self._by_id: dict[str, _Results] = {}
        self._by_key: dict[tuple[str, ...], dict[tuple[Hashable, ...], _Results]] = {}
        self._others: _Results = {}
        self._absent: dict[str, set[Hashable]] = {}

    def mark_absent(self, column: str, value: Hashable) -> None:
        """Remembers that no row has this value."""
        self._absent.setdefault(column, set()).add(value)

    def is_absent(self, read: ReadKey) -> bool:
        """Returns whether the read can return no row."""
        return any(value in self._absent.get(name, ()) for name, value in read.equals)

    def results(self, read: ReadKey) -> _Results:
        """Returns the results that the same writes change."""
        if read.id is not None:
            return self._by_id.setdefault(read.id, {})
        if (columns_and_values := read.columns_and_values) is None:
            return self._others
        names, values = columns_and_values
        return self._by_key.setdefault(names, {}).setdefault(values, {})

    def invalidate_row(self, id: str) -> None:
        """Forgets the results that a write of one row may change."""
        self._others.clear()
        self._by_key.clear()
        self._absent.clear()
        self._by_id.pop(id, None)

    def invalidate_added(self, columns: Mapping[str, object]) -> None:
        """Forgets the results that a new row may join."""
        self._others.clear()
        self._by_id.pop(str(columns.get("id")), None)
        for name, absent in self._absent.items():
            absent.discard(columns.get(name))
        for names, by_values in self._by_key.items():
            values = tuple(columns.get(name) for name in names)
            if all(isinstance(value, Hashable) for value in values):
                by_values.pop(values, None)
            else:
                by_values.clear()


class RememberedReads:
    """Results of reads, by table and key."""

    def __init__(self, *, enabled: bool) -> None:
        self.is_enabled = enabled
        self._tables: dict[FromClause, _TableReads] = {}

    def get(self, table: FromClause, read: ReadKey) -> list[Any] | None:
        """Returns the rows of an earlier read; None if there was none."""
        table_reads = self._tables.get(table)
        if table_reads is not None and table_reads.is_absent(read):
            return []
        rows = table_reads.results(read).get(read) if table_reads else None
        return None if rows is None else list(rows)

    def store(self, table: FromClause, read: ReadKey, rows: Collection[object]) -> None:
        """Remembers the rows of a read."""
        if self.is_enabled and len(rows) <= _MAX_ROWS:
            self._tables.setdefault(table, _TableReads()).results(read)[read] = tuple(rows)

    def mark_absent(self, table: FromClause, column: str, value: Hashable) -> None:
        """Remembers that no row of a table has a value: reads with it return nothing."""
        if self.is_enabled:
            self._tables.setdefault(table, _TableReads()).mark_absent(column, value)

    def invalidate(self, statement: Executable, id: str | None = None) -> None:
        """Forgets the rows that a statement may change; `id` is the only row that it writes."""
        if isinstance(statement, UpdateBase) and not isinstance(statement, Delete):
            if id is None:
                self._tables.pop(statement.table, None)
            elif table_reads := self._tables.get(statement.table):
                table_reads.invalidate_row(id)
        elif not isinstance(statement, SelectBase):
            # A deletion can cascade to rows of other tables.
            self.invalidate_all()

    def invalidate_added(self, table: FromClause, columns: Mapping[str, object]) -> None:
        """Forgets the rows that a new row of a table may join."""
        if table_reads := self._tables.get(table):
            table_reads.invalidate_added(columns)

    def invalidate_all(self) -> None:
        """Forgets all rows."""
        self._tables.clear()


def read_key(kind: object, equals: Mapping[str, object], *, first: bool = False) -> ReadKey:
    """Returns the key of a read by columns; `first`: it returns one row at most."""
    values = {name: _comparable(value) for name, value in equals.items()}
    id = values.get("id")
    return ReadKey(
        kind, tuple(values.items()), first, id if isinstance(id, str) and len(values) == 1 else None
    )


def _comparable(value: object) -> Hashable:
    if not isinstance(value, Collection) or isinstance(value, str | bytes | range):
        return value
    return next(iter(value)) if len(value) == 1 else frozenset(value)
