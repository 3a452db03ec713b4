"""Checks and converts values of inputs."""

from collections.abc import Iterable
from typing import Protocol

from core.errors import Invalid
from core.json_object import JsonObject, JsonValue


def json_object(value: JsonValue, field: str) -> JsonObject:
    if isinstance(value, dict):
        return value
    raise Invalid("must be a JSON object", field=field)


def json_strings(value: JsonValue, field: str) -> dict[str, str]:
    texts = {} if value is None else json_object(value, field)
    return {str(name): str(text) for name, text in texts.items()}


class NamedValue(Protocol):
    """An input with a name and a value."""

    name: str

    @property
    def value(self) -> str | None: ...


def values_by_name(entries: Iterable[NamedValue | None]) -> dict[str, str]:
    """Returns the values by name. Leaves out null entries; a null value is an empty text."""
    return {entry.name: entry.value or "" for entry in entries if entry is not None}
