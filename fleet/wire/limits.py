"""Bounds on what comes over the wire, read from the options that each field carries.

`check` is called on every message before anything else looks at it.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from fleet.errors import Invalid
from fleet.wire.v1 import options_pb2

_TEXT = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)


@dataclass(frozen=True, slots=True)
class _Limits:
    """Bytes, items and the largest number that a field may have; no number: any."""

    length: int
    items: int
    value: int
    is_map: bool


def check(message: Message) -> None:
    """Raise Invalid, naming the field, if a value is longer or larger than its field allows."""
    for field, value in message.ListFields():
        limits = _limits(field)
        if field.is_repeated and len(value) > limits.items:
            raise Invalid(f"{len(value)} items, {limits.items} at most", field=field.full_name)
        if limits.is_map:
            _check_map(field, value, limits.length)
            continue
        for item in value if field.is_repeated else (value,):
            _check_one(field, item, limits)


def unbounded(message: Descriptor) -> list[str]:
    """Full names of fields of a message type that lack the limit they need; for a test."""
    missing = []
    for field in message.fields:
        limits = _limits(field)
        if field.is_repeated and not limits.items:
            missing.append(field.full_name)
        elif (field.type in _TEXT or limits.is_map) and not limits.length:
            missing.append(field.full_name)
    return missing


def _check_one(field: FieldDescriptor, value: Any, limits: _Limits) -> None:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        check(value)
    elif field.type in _TEXT and _length(value) > limits.length:
        raise Invalid(f"{_length(value)} bytes, {limits.length} at most", field=field.full_name)
    elif limits.value and value > limits.value:
        raise Invalid(f"{value:,}, {limits.value:,} at most", field=field.full_name)


def _check_map(field: FieldDescriptor, entries: dict[str, str], max_len: int) -> None:
    for key, value in entries.items():
        if max(_length(key), _length(value)) > max_len:
            raise Invalid(f"an entry is longer than {max_len} bytes", field=field.full_name)


def _length(value: str | bytes) -> int:
    return len(value.encode()) if isinstance(value, str) else len(value)


@cache
def _limits(field: FieldDescriptor) -> _Limits:
    given = field.GetOptions().Extensions
    return _Limits(
        length=given[options_pb2.max_len],  # ty: ignore[invalid-argument-type]
        items=given[options_pb2.max_items],  # ty: ignore[invalid-argument-type]
        value=given[options_pb2.max_value],  # ty: ignore[invalid-argument-type]
        is_map=field.message_type is not None and field.message_type.GetOptions().map_entry,
    )
