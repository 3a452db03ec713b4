"""Rows that consist of parts: a dataclass whose parts share one table.

`Service` has parts such as `spec` and `observed`; each field of a part is a column of its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import field, fields, replace
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

T = TypeVar("T")
_PART = "part"


def part(kind: type[T]) -> T:
    """Declares a field of a dataclass as a part; its default is an empty part."""
    default: Any = field(default_factory=kind, metadata={_PART: kind})
    return default


@cache
def column_names(kind: Any) -> tuple[str, ...]:
    """Returns the names of all columns, in the order of the fields."""
    names: list[str] = []
    for member in fields(kind):
        inner = member.metadata.get(_PART)
        names += column_names(inner) if inner else [member.name]
    return tuple(names)


@cache
def column_getter(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Returns a function that reads all columns of a row, in the order of `column_names`."""
    paths = [
        f"{member.name}.{name}" if inner else member.name
        for member in fields(kind)
        for inner in [member.metadata.get(_PART)]
        for name in (column_names(inner) if inner else [member.name])
    ]
    return attrgetter(*paths)


def column_values(row: Any) -> dict[str, Any]:
    """Returns all columns of a row by name."""
    kind = type(row)
    return dict(zip(column_names(kind), column_getter(kind)(row), strict=True))


@cache
def row_maker(kind: Any) -> Callable[..., Any]:
    """Returns a function that makes a row from its columns, in the order of `column_names`."""
    parts: list[tuple[int, Any]] = []
    for member in fields(kind):
        inner = member.metadata.get(_PART)
        parts.append((len(column_names(inner)) if inner else 0, inner))
    if not any(inner for _, inner in parts):
        return kind

    def make(*columns: Any) -> Any:
        values, start = [], 0
        for width, inner in parts:
            if inner is None:
                values.append(columns[start])
                start += 1
            else:
                values.append(inner(*columns[start : start + width]))
                start += width
        return kind(*values)

    return make


def replace_columns(row: T, columns: Mapping[str, Any]) -> T:
    """Returns the row with other values in some columns. TypeError: it has no such column."""
    changed, left = {}, dict(columns)
    for member in fields(row):  # ty: ignore[invalid-argument-type]
        inner = member.metadata.get(_PART)
        if inner is None:
            continue
        mine = {name: left.pop(name) for name in column_names(inner) if name in left}
        if mine:
            changed[member.name] = replace(getattr(row, member.name), **mine)
    return replace(row, **changed, **left)  # ty: ignore[invalid-argument-type]
