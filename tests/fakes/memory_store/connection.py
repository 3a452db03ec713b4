"""Tables in memory, and the writes of one transaction to them."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import Table

from controlplane.platform.store.touches import RowTracker
from tests.fakes.memory_store.columns import codec_of
from tests.fakes.memory_store.constraints import (
    BrokenConstraint,
    Key,
    NotUnique,
    Row,
    check_present,
    check_unique,
    primary_key,
    references,
    referrers,
)

Tables = Mapping[str, dict[Key, Row]]
"""Rows by table and primary key. A committed table never changes: writers copy it."""
Predicate = Callable[[Row], bool]


class MemoryConnection:
    """The tables as one transaction sees them. The first write to a table copies the table.

    After a refused write, the transaction refuses everything else, as PostgreSQL does.
    """

    def __init__(self, tables: Tables, *, read_only: bool) -> None:
        self.tables = dict(tables)
        self.read_only = read_only
        self.touches = RowTracker()
        self._copied: set[str] = set()
        self._refused: BrokenConstraint | None = None

    def check_usable(self) -> None:
        """Raises RuntimeError after a refused write."""
        if self._refused is not None:
            raise RuntimeError("the transaction ended with a refused write") from self._refused

    def rows(self, table: Table) -> Collection[Row]:
        """Returns all rows in the order of their insertion, with values as they are kept."""
        return self._keyed(table.name).values()

    def where(self, table: Table, matches: Predicate) -> list[Row]:
        """Returns the rows that match."""
        return [row for row in self.rows(table) if matches(row)]

    def keys(self, table: Table, matches: Predicate) -> list[Key]:
        """Returns the primary keys of the rows that match."""
        return [key for key, row in self._keyed(table.name).items() if matches(row)]

    def row(self, table: Table, id: str) -> Row | None:
        """Returns the row with an id."""
        return self._keyed(table.name).get((id,))

    def insert(self, table: Table, several: Iterable[Mapping[str, Any]]) -> None:
        """Adds rows; a missing `id` of a numbered table becomes the next number."""
        rows = self._writable(table)
        for values in several:
            row = {column.name: None for column in table.c} | to_kept(table, values)
            if row.get("id", "") is None:
                row["id"] = next(reversed(rows), (0,))[0] + 1
            key = _key(table, row)
            if key in rows:
                raise self._refusal(NotUnique(f"UNIQUE: primary key of {table.name}"))
            self._check(table, row, rows.values(), changed=row.keys())
            rows[key] = row

    def update(self, table: Table, keys: Iterable[Key], columns: Mapping[str, Any]) -> int:
        """Writes columns of the rows that exist; returns their number."""
        kept, rows = to_kept(table, columns), self._writable(table)
        found = [key for key in keys if key in rows]
        for key in found:
            row = {**rows[key], **kept}
            others = (other for other_key, other in rows.items() if other_key != key)
            self._check(table, row, others, changed=kept.keys())
            rows[key] = row
        return len(found)

    def delete(self, table: Table, keys: Iterable[Key]) -> int:
        """Deletes the rows that exist; returns their number."""
        rows = self._writable(table)
        gone = {key for key in keys if rows.pop(key, None) is not None}
        for reference in referrers(table.name) if gone else ():
            if any(
                (row[reference.column],) in gone for row in self._keyed(reference.table).values()
            ):
                broken = f"FOREIGN KEY: {reference.table}.{reference.column}"
                raise self._refusal(BrokenConstraint(broken))
        return len(gone)

    def _check(
        self, table: Table, row: Row, others: Iterable[Row], changed: Collection[str]
    ) -> None:
        try:
            check_present(table, row)
            check_unique(table, row, others, changed)
            self._check_references(table, row, changed)
        except BrokenConstraint as error:
            raise self._refusal(error) from None

    def _check_references(self, table: Table, row: Row, changed: Collection[str]) -> None:
        for reference in references(table):
            value = row[reference.column]
            is_checked = reference.column in changed and value is not None
            if is_checked and (value,) not in self._keyed(reference.target):
                raise BrokenConstraint(f"FOREIGN KEY: {table.name}.{reference.column}")

    def _refusal(self, error: BrokenConstraint) -> BrokenConstraint:
        self._refused = error
        return error

    def _keyed(self, name: str) -> dict[Key, Row]:
        self.check_usable()
        return self.tables[name]

    def _writable(self, table: Table) -> dict[Key, Row]:
        if self.read_only:
            raise RuntimeError(f"a read-only transaction writes to {table.name}")
        rows = self._keyed(table.name)
        if table.name not in self._copied:
            self._copied.add(table.name)
            rows = self.tables[table.name] = dict(rows)
        return rows


def to_kept(table: Table, values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts values to the form in which rows keep them."""
    return {name: codec_of(table.c[name]).write(value) for name, value in values.items()}


def _key(table: Table, row: Row) -> Key:
    return tuple(row[name] for name in primary_key(table))
