"""Checks values of JSON inputs."""

from typing import Any

from core.errors import Invalid


def _object(value: Any, field: str) -> dict[str, Any] | None:
    if value is None or isinstance(value, dict):
        return value
    raise Invalid("must be a JSON object", field=field)


def _words(value: Any, field: str) -> dict[str, str]:
    given = _object(value, field) or {}
    return {str(name): str(word) for name, word in given.items()}
