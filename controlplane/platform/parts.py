"""Rows: the columns that many have, and dataclasses whose parts share one table.

`Service` has parts such as `spec` and `observed`; each field of a part is a column of its own. A
change of a row can have the given fields of a part.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_PART = "part"
_IS_GIVEN = "is_given"
Columns = dict[str, Any]
"""Values of some columns of a row, by name."""


def part(kind: type[T]) -> T:
    """Declares a field of a dataclass as a part; its default is an empty part."""
    default: object = field(default_factory=kind, metadata={_PART: kind})
    return default


@dataclass(frozen=True, slots=True)
class Given(Generic[T]):
    """New values of some fields of a dataclass; its other fields stay as they are."""

    columns: Mapping[str, object] = field(default_factory=dict)

    def applied(self, row: T) -> T:
        """Returns the dataclass with the new values."""
        return replace(row, **self.columns)  # ty: ignore[invalid-argument-type]


def given(kind: Callable[P, T], *unnamed: P.args, **columns: P.kwargs) -> Given[T]:
    """Returns new values for fields of a dataclass that has a default for each of its fields."""
    if unnamed:
        raise TypeError("name the fields")
    return Given(columns)


def given_part(kind: type[T]) -> Given[T]:
    """Declares a field of a change as the given fields of a part; its default changes nothing."""
    default: Given[T] = field(default_factory=Given, metadata={_PART: kind, _IS_GIVEN: True})
    return default


def part_fields(kind: Any) -> Iterator[tuple[str, type, Field[object]]]:
    """Yields each field with its path in a row, such as `spec.ref`, and the class that has it."""
    for member in fields(kind):
        inner = member.metadata.get(_PART)
        if inner is None:
            yield member.name, kind, member
        else:
            for path, owner, inside in part_fields(inner):
                yield f"{member.name}.{path}", owner, inside


def default_of(member: Field[object]) -> Any:
    """Returns the default of a field; MISSING without one."""
    return member.default_factory() if member.default_factory is not MISSING else member.default


@dataclass(frozen=True, slots=True)
class NamedRow:
    """The columns of rows with unique names."""

    id: str
    name: str
    """Unique name."""
    inserted_at: datetime
    updated_at: datetime


@cache
def column_names(kind: object) -> tuple[str, ...]:
    """Returns the names of all columns, in the order of the fields."""
    return tuple(member.name for _, _, member in part_fields(kind))


@cache
def column_getter(kind: Any) -> Callable[[Any], tuple[object, ...]]:
    """Returns a function that reads all columns of a row, in the order of `column_names`."""
    paths = [path for path, _, _ in part_fields(kind)]
    get = attrgetter(*paths)
    return get if len(paths) > 1 else lambda row: (get(row),)


def column_values(row: Any) -> Columns:
    """Returns all columns of a row by name."""
    kind = type(row)
    return dict(zip(column_names(kind), column_getter(kind)(row), strict=True))


def given_columns(change: object, *without: str) -> Columns:
    """Returns the columns of a change that are not None: the fields that it changes."""
    return {
        name: value
        for name, value in column_values(change).items()
        if value is not None and name not in without
    }


@cache
def row_maker(kind: Any) -> Callable[..., Any]:
    """Returns a function that makes a row from its columns, in the order of `column_names`."""
    parts: list[tuple[Any, int, int]] = []
    stop = 0
    for member in fields(kind):
        inner = member.metadata.get(_PART)
        start, stop = stop, stop + (len(column_names(inner)) if inner else 1)
        parts.append((inner, start, stop))
    if not any(inner for inner, _, _ in parts):
        return kind

    def make(*columns: object) -> object:
        return kind(
            *[
                inner(*columns[start:stop]) if inner else columns[start]
                for inner, start, stop in parts
            ]
        )

    return make


def replace_columns(row: T, columns: Mapping[str, object]) -> T:
    """Returns the row with other values in some columns. TypeError: it has no such column."""
    changed, remaining = {}, dict(columns)
    for member in fields(row):  # ty: ignore[invalid-argument-type]
        inner = member.metadata.get(_PART)
        if inner is None:
            continue
        part_columns = {
            name: remaining.pop(name) for name in column_names(inner) if name in remaining
        }
        if part_columns:
            changed[member.name] = replace(getattr(row, member.name), **part_columns)
    return replace(row, **changed, **remaining)  # ty: ignore[invalid-argument-type]


def row_of(kind: type[T], columns: Mapping[str, object]) -> T:
    """Makes a row from some of its columns; the other ones have their defaults."""
    values = dict(columns)
    for member in fields(kind):  # ty: ignore[invalid-argument-type]
        if inner := member.metadata.get(_PART):
            part_columns = {
                name: values.pop(name) for name in column_names(inner) if name in values
            }
            is_given = member.metadata.get(_IS_GIVEN)
            values[member.name] = Given(part_columns) if is_given else row_of(inner, part_columns)
    return kind(**values)
