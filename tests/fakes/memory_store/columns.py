"""Values of columns as the twin keeps them: converted by the column types of the SQL store."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import orjson
from sqlalchemy import JSON, BigInteger, Column, Integer, String
from sqlalchemy.types import TypeDecorator, TypeEngine

from controlplane.platform.store.columns import UtcColumn
from core.errors import Invalid

Convert = Callable[[Any], Any]
_NOT_KEPT = "a value is too long, or contains characters that the store cannot keep"


class ColumnCodec(NamedTuple):
    """Converts values of one column: `write` before the row is kept, `read` after."""

    write: Convert
    read: Convert


@cache
def codec_of(column: Column[Any]) -> ColumnCodec:
    """Returns the conversions of a column, which also enforce the limits of PostgreSQL."""
    kind = column.type
    if isinstance(kind, UtcColumn):
        return ColumnCodec(lambda value: kind.process_bind_param(value, _NO_DIALECT), _as_it_is)
    if isinstance(kind, TypeDecorator):
        inner = _codec_of_type(kind.impl_instance)
        return ColumnCodec(
            lambda value: inner.write(kind.process_bind_param(value, _NO_DIALECT)),
            lambda value: kind.process_result_value(inner.read(value), _NO_DIALECT),
        )
    return _codec_of_type(kind)


def _codec_of_type(kind: TypeEngine[Any]) -> ColumnCodec:
    if isinstance(kind, JSON):
        return ColumnCodec(_write_json, _read_json)
    if isinstance(kind, String):
        return ColumnCodec(lambda value: _checked_text(value, kind.length), _as_it_is)
    if isinstance(kind, Integer):
        bits = 63 if isinstance(kind, BigInteger) else 31
        return ColumnCodec(lambda value: _checked_number(value, 1 << bits), _as_it_is)
    return ColumnCodec(_as_it_is, _as_it_is)


def _write_json(value: Any) -> bytes:
    """Like the SQL store: None becomes the JSON value null, which is not NULL."""
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)


def _read_json(kept: bytes | None) -> Any:
    return None if kept is None else orjson.loads(kept)


def _checked_text(value: str | None, length: int | None) -> str | None:
    if value is not None and ("\0" in value or (length is not None and len(value) > length)):
        raise Invalid(_NOT_KEPT)
    return value


def _checked_number(value: int | None, bound: int) -> int | None:
    if value is not None and not -bound <= value < bound:
        raise Invalid(_NOT_KEPT)
    return value


def _as_it_is(value: Any) -> Any:
    return value


# The column types of the store convert alike for every dialect.
_NO_DIALECT: Any = None
