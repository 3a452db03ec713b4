"""Differences between two states of an object, as they are told to people."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from syncagent.domain.objects import KubeObject, ObjectRef

MAX_CHANGES = 32
_MAX_VALUE = 1024
_MASKED = '"(secret)"'


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field (RFC 6901) with its values as JSON, cut; empty: it is not there."""

    pointer: str
    old: str
    new: str


class Change(StrEnum):
    """What an apply would do to an object."""

    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """What would become of one object."""

    ref: ObjectRef
    change: Change
    fields: tuple[FieldChange, ...] = ()


def shown(value: Any) -> str:
    """A value as JSON of bounded length."""
    text = orjson.dumps(value).decode()
    return text if len(text) <= _MAX_VALUE else text[: _MAX_VALUE - 1] + "…"


def field_change(pointer: str, old: Any, new: Any, *, masked: bool, absent: object) -> FieldChange:
    """One change; of a Secret's values only that they differ is told."""
    values = [
        "" if value is absent else _MASKED if masked else shown(value) for value in (old, new)
    ]
    return FieldChange(pointer, *values)


def is_secret(one: KubeObject) -> bool:
    """Whether the values of an object may not be told."""
    return one.get("kind") == "Secret" and one.get("apiVersion") == "v1"


def bounded(changes: Sequence[FieldChange]) -> tuple[FieldChange, ...]:
    """As many changes as are told, in order of their place."""
    return tuple(sorted(changes, key=lambda change: change.pointer)[:MAX_CHANGES])
