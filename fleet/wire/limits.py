"""Bounds on what comes over the wire, read from the options that each field carries.

`check` is called on every message before anything else looks at it.
"""

from functools import cache

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from fleet.errors import Invalid
from fleet.wire.v1 import options_pb2

_TEXT = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)


def check(message: Message) -> None:
    """Raise Invalid, naming the field, if a value is longer than its field allows."""
    for field, value in message.ListFields():
        max_len, max_items, is_map = _limits(field)
        if field.is_repeated:
            if len(value) > max_items:
                raise Invalid(f"{len(value)} items, {max_items} at most", field=field.full_name)
            if is_map:
                _check_map(field, value, max_len)
                continue
        for one in value if field.is_repeated else (value,):
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                check(one)
            elif field.type in _TEXT and _length(one) > max_len:
                raise Invalid(f"{_length(one)} bytes, {max_len} at most", field=field.full_name)


def unbounded(message: Descriptor) -> list[str]:
    """Full names of fields of a message type that lack the limit they need; for a test."""
    missing = []
    for field in message.fields:
        max_len, max_items, is_map = _limits(field)
        if field.is_repeated and not max_items:
            missing.append(field.full_name)
        elif (field.type in _TEXT or is_map) and not max_len:
            missing.append(field.full_name)
    return missing


def _check_map(field: FieldDescriptor, entries: dict[str, str], max_len: int) -> None:
    for key, value in entries.items():
        if max(_length(key), _length(value)) > max_len:
            raise Invalid(f"an entry is longer than {max_len} bytes", field=field.full_name)


def _length(value: str | bytes) -> int:
    return len(value.encode()) if isinstance(value, str) else len(value)


@cache
def _limits(field: FieldDescriptor) -> tuple[int, int, bool]:
    options = field.GetOptions()
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    return (
        options.Extensions[options_pb2.max_len],  # ty: ignore[invalid-argument-type]
        options.Extensions[options_pb2.max_items],  # ty: ignore[invalid-argument-type]
        is_map,
    )
