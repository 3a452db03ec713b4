"""Differences between two states of an object, in readable form."""

from collections.abc import Sequence

import orjson

from core.spec.objects import FieldChange
from syncagent.domain.objects import KubeObject

MAX_CHANGES = 32
_MAX_VALUE = 1024
_MASKED = '"(secret)"'


def truncated_json(value: object) -> str:
    """Encodes a value as JSON and truncates it."""
    text = orjson.dumps(value).decode()
    return text if len(text) <= _MAX_VALUE else text[: _MAX_VALUE - 1] + "…"


def field_change(
    pointer: str, old: object, new: object, *, masked: bool, absent: object
) -> FieldChange:
    """Describes one change; the values of a Secret are masked."""
    values = [
        "" if value is absent else _MASKED if masked else truncated_json(value)
        for value in (old, new)
    ]
    return FieldChange(pointer, *values)


def is_secret(obj: KubeObject) -> bool:
    """Reports whether the values of an object must be masked."""
    return obj.get("kind") == "Secret" and obj.get("apiVersion") == "v1"


def limit_changes(changes: Sequence[FieldChange]) -> tuple[FieldChange, ...]:
    """Sorts changes by pointer and cuts the list to `MAX_CHANGES`."""
    return tuple(sorted(changes, key=lambda change: change.pointer)[:MAX_CHANGES])
