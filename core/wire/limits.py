"""Bounds on received messages, from the options of each field.

Every receiver calls `check` on a message before it uses it.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from core.errors import Invalid
from core.wire.v1 import options_pb2

_TEXT = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)


@dataclass(frozen=True, slots=True)
class _Limits:
    """Maximum bytes, items and number of a field; a `value` of 0 means no limit."""

    length: int
    items: int
    value: int
    is_map: bool


def check(message: Message) -> None:
    """Raises Invalid, naming the field, for values beyond the field's limits."""
    for field, value in message.ListFields():
        limits = _limits(field)
        if field.is_repeated and len(value) > limits.items:
            raise Invalid(f"{len(value)} items; the limit is {limits.items}", field=field.full_name)
        if limits.is_map:
            _check_map(field, value, limits.length)
            continue
        for item in value if field.is_repeated else (value,):
            _check_value(field, item, limits)


def _check_value(field: FieldDescriptor, value: Any, limits: _Limits) -> None:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        check(value)
    elif field.type in _TEXT and _length(value) > limits.length:
        raise Invalid(
            f"{_length(value)} bytes; the limit is {limits.length}", field=field.full_name
        )
    elif limits.value and value > limits.value:
        raise Invalid(
            f"{value:,} is too large; the limit is {limits.value:,}", field=field.full_name
        )


def _check_map(field: FieldDescriptor, entries: dict[str, str], max_len: int) -> None:
    for key, value in entries.items():
        if max(_length(key), _length(value)) > max_len:
            raise Invalid(f"an entry exceeds the limit of {max_len} bytes", field=field.full_name)


def _length(value: str | bytes) -> int:
    return len(value.encode()) if isinstance(value, str) else len(value)


@cache
def _limits(field: FieldDescriptor) -> _Limits:
    extensions = field.GetOptions().Extensions
    return _Limits(
        length=extensions[options_pb2.max_len],  # ty: ignore[invalid-argument-type]
        items=extensions[options_pb2.max_items],  # ty: ignore[invalid-argument-type]
        value=extensions[options_pb2.max_value],  # ty: ignore[invalid-argument-type]
        is_map=field.message_type is not None and field.message_type.GetOptions().map_entry,
    )
