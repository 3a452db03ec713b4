"""Checks values of JSON inputs."""

from typing import Any

from core.errors import Invalid


def json_object(value: Any, field: str) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise Invalid("must be a JSON object", field=field)


def json_strings(value: Any, field: str) -> dict[str, str]:
    given = {} if value is None else json_object(value, field)
    return {str(name): str(word) for name, word in given.items()}
