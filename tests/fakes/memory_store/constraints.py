"""Unique keys and references of tables, read from the metadata of the SQL store."""

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

from sqlalchemy import BinaryExpression, Column, Index, Table, UniqueConstraint
from sqlalchemy.sql import operators

from controlplane.platform.store.schema import metadata

Row = Mapping[str, Any]
Key = tuple[Any, ...]


class BrokenConstraint(Exception):
    """A write that the database refuses: the counterpart of SQLAlchemy's IntegrityError."""


class NotUnique(BrokenConstraint):
    """A write of a value that another row already has."""


class UniqueKey(NamedTuple):
    """Columns whose values differ in all rows; of a partial index, in rows with NULL in `empty`."""

    columns: tuple[str, ...]
    empty: str | None = None

    def of(self, row: Row) -> Key | None:
        """Returns the values of a row; None: the key allows any number of such rows."""
        values = tuple(row[name] for name in self.columns)
        is_outside = self.empty is not None and row[self.empty] is not None
        return None if is_outside or None in values else values


class Reference(NamedTuple):
    """A foreign key: values of `column` are ids of rows of `target`."""

    table: str
    column: str
    target: str


@cache
def unique_keys(table: Table) -> tuple[UniqueKey, ...]:
    """Returns the unique keys of a table, without its primary key."""
    constraints = (c for c in table.constraints if isinstance(c, UniqueConstraint))
    keys = [UniqueKey(_names(constraint.columns)) for constraint in constraints]
    keys += [
        UniqueKey(_names(index.columns), _empty_in(index))
        for index in table.indexes
        if index.unique
    ]
    return tuple(keys)


@cache
def references(table: Table) -> tuple[Reference, ...]:
    """Returns the foreign keys of a table."""
    return tuple(
        Reference(table.name, key.parent.name, key.column.table.name) for key in table.foreign_keys
    )


@cache
def referrers(name: str) -> tuple[Reference, ...]:
    """Returns the foreign keys that refer to a table."""
    every = chain.from_iterable(map(references, metadata.tables.values()))
    return tuple(reference for reference in every if reference.target == name)


@cache
def primary_key(table: Table) -> tuple[str, ...]:
    """Returns the names of the columns that identify a row."""
    return _names(table.primary_key.columns)


def check_present(table: Table, row: Row) -> None:
    """Raises BrokenConstraint if a column that must have a value is NULL."""
    for column in table.c:
        if not column.nullable and row[column.name] is None:
            raise BrokenConstraint(f"NOT NULL: {table.name}.{column.name}")


def check_unique(table: Table, row: Row, others: Iterable[Row], changed: Collection[str]) -> None:
    """Raises NotUnique if another row has a unique key of this one whose columns changed."""
    wanted = [
        (key, values)
        for key in unique_keys(table)
        if not {*key.columns, key.empty}.isdisjoint(changed) and (values := key.of(row)) is not None
    ]
    for other in others if wanted else ():
        for key, values in wanted:
            if key.of(other) == values:
                raise NotUnique(f"UNIQUE: {table.name}.{', '.join(key.columns)}")


def _names(columns: Iterable[Column[Any]]) -> tuple[str, ...]:
    return tuple(column.name for column in columns)


def _empty_in(index: Index) -> str | None:
    """Returns the column that a partial index requires to be NULL."""
    where = index.dialect_options["sqlite"]["where"]
    if where is None:
        return None
    if isinstance(where, BinaryExpression) and where.operator is operators.is_:
        return where.left.name
    raise TypeError(f"{index.name}: the store in memory knows no other condition than IS NULL")
