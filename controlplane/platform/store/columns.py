"""Column types with the same meaning on SQLite and PostgreSQL."""

import base64
from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache, lru_cache
from typing import Any, get_args, get_origin

import orjson
from pydantic import TypeAdapter
from sqlalchemy import JSON, ColumnElement, DateTime, Dialect, String, Text, func, literal, select
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.types import TypeDecorator

from controlplane.platform.store.schema import ASCII_LETTERS
from core.spec.bundle import Attestation

_Decode = Callable[[object], object]
"""Converts a value as the driver returns it."""

_MAX_CACHED_BYTES = 512
_MAX_CACHED = 2_048

JSON_TEXT = JSON().with_variant(JSONB(), "postgresql")
"""JSON in each dialect's most suitable type."""


def contains(column: Any, text: str, dialect: str) -> ColumnElement[bool]:
    """Matches if the column's text contains `text`, ignoring case."""
    plain = text.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
    return is_like(column, f"%{plain}%", dialect)


def is_like(column: Any, pattern: str, dialect: str) -> ColumnElement[bool]:
    """Matches an SQL pattern, ignoring case.

    SQLite's own LIKE ignores case, and is twice as fast as LIKE over lowered copies.
    """
    if dialect != "postgresql":
        return column.like(pattern, escape="\\")
    searched = column.collate(ASCII_LETTERS) if pattern.isascii() else column
    return searched.ilike(pattern, escape="\\")


def among(column: Any, values: Iterable[str], dialect: str) -> ColumnElement[bool]:
    """Matches one of many texts with a single parameter, so that the statement does not depend on
    their number.
    """
    if dialect == "postgresql":
        return column == func.any(literal(list(values), ARRAY(Text())))
    encoded = orjson.dumps(list(values)).decode()
    return column.in_(select(func.json_each(encoded).table_valued("value").c.value))


class UtcColumn(TypeDecorator[datetime]):
    """A timezone-aware datetime in UTC; SQLite alone would return it naive."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        return _parse_utc if dialect.name == "sqlite" else None


def _parse_utc(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(f"{text}+00:00")


class EnumColumn(TypeDecorator[StrEnum]):
    """A member of a `StrEnum`, stored as its value."""

    impl = String(32)
    cache_ok = True

    def __init__(self, enum_class: type[StrEnum]) -> None:
        super().__init__()
        self.enum_class = enum_class

    def process_bind_param(self, value: StrEnum | None, dialect: Dialect) -> str | None:
        return None if value is None else self.enum_class(value).value

    def process_result_value(self, value: str | None, dialect: Dialect) -> StrEnum | None:
        return None if value is None else self.enum_class(value)

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        members = {None: None, **{member.value: member for member in self.enum_class}}
        return lambda value: members[value] if value in members else self.enum_class(value)


class _JsonDecorator(TypeDecorator[Any]):
    """A value that is stored as JSON. The drivers of both dialects return its text."""

    impl = JSON_TEXT

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        def decode(stored: object) -> object:
            if stored is None:
                return None
            # SQLite returns numbers unparsed, because its JSON columns have numeric affinity.
            value = orjson.loads(stored) if isinstance(stored, str) else stored
            return self.process_result_value(value, dialect)

        return decode


class JsonColumn(_JsonDecorator):
    """A value of any type that pydantic can describe, stored as JSON.

    Most rows of a large table repeat the labels, images and options of others, so short texts are
    decoded once, if readers cannot change the value or get a copy.
    """

    cache_ok = True

    def __init__(self, shape: Any) -> None:
        super().__init__()
        self.shape = shape

    def process_bind_param(self, value: Any, dialect: object) -> object:
        return None if value is None else _adapter(self.shape).dump_python(value, mode="json")

    def process_result_value(self, value: Any, dialect: object) -> object:
        return None if value is None else _adapter(self.shape).validate_python(value)

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        decode = super().result_processor(dialect, coltype)
        if _is_frozen(self.shape):
            return _decode_once(decode)
        if not _is_flat_mapping(self.shape):
            return decode
        decode_cached = _decode_once(decode)

        def copy(stored: object) -> object:
            value = decode_cached(stored)
            return value.copy() if isinstance(value, dict) else value

        return copy


def _decode_once(decode: _Decode) -> _Decode:
    """Returns `decode` with a cache for short texts."""
    decode_cached = lru_cache(_MAX_CACHED)(decode)

    def read(stored: object) -> object:
        is_short = type(stored) is str and len(stored) <= _MAX_CACHED_BYTES
        return decode_cached(stored) if is_short else decode(stored)

    return read


class AttestationColumn(_JsonDecorator):
    """An attestation as JSON; its bytes in base64."""

    cache_ok = True

    def process_bind_param(self, value: Attestation | None, dialect: Dialect) -> object:
        if value is None:
            return None
        parts = {"statement": value.statement, "signature": value.signature}
        parts |= {"evidence": value.evidence} if value.evidence else {}
        texts = {name: base64.b64encode(part).decode() for name, part in parts.items()}
        return {"key_id": value.key_id, **texts}

    def process_result_value(self, value: Any, dialect: Dialect) -> Attestation | None:
        if value is None:
            return None
        names = ("statement", "signature", "evidence")
        return Attestation(value["key_id"], *(base64.b64decode(value.get(n, "")) for n in names))


def _is_flat_mapping(shape: object) -> bool:
    return get_origin(shape) is dict and {*get_args(shape)} <= {str, int}


def _is_frozen(shape: Any) -> bool:
    """Returns true for frozen dataclasses, and for tuples of them or of plain values."""
    if get_origin(shape) is tuple:
        return all(part in (str, int, ...) or _is_frozen(part) for part in get_args(shape))
    return is_dataclass(shape) and shape.__dataclass_params__.frozen


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)
