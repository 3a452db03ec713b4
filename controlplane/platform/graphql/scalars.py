"""Scalars. Clients of other control planes rely on their names and formats."""

from datetime import UTC, datetime
from typing import Any, NewType

import orjson
import strawberry
from strawberry.types.scalar import ScalarDefinition

from controlplane.platform.graphql.limits import check_values
from controlplane.platform.time_text import parse_time
from core.errors import Invalid
from core.json_object import JsonValue

_MAX_LENGTH = 256 * 1024

Json = NewType("Json", object)
Map = NewType("Map", object)


def _parse_json(value: JsonValue) -> object:
    if not isinstance(value, str):
        raise Invalid("a Json value must be a string with JSON")
    if len(value) > _MAX_LENGTH:
        raise Invalid(f"{len(value):,} characters of JSON, {_MAX_LENGTH:,} at most")
    try:
        parsed = orjson.loads(value) if value else None
    except orjson.JSONDecodeError as error:
        raise Invalid(f"invalid JSON: {error}") from error
    check_values(parsed, "Json")
    return parsed


def _parse_time(value: Any) -> datetime:
    try:
        time = parse_time(value)
    except (TypeError, ValueError) as error:
        raise Invalid("a DateTime value must be like 2026-01-31T12:00:00Z") from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)


SCALARS: dict[object, ScalarDefinition] = {
    Json: strawberry.scalar(
        name="Json",
        description="JSON, encoded as a string. Limit: 262,144 characters.",
        serialize=lambda value: orjson.dumps(value).decode(),
        parse_value=_parse_json,
    ),
    Map: strawberry.scalar(
        name="Map",
        description="A JSON object.",
        serialize=lambda value: value,
        parse_value=lambda value: value,
    ),
    datetime: strawberry.scalar(
        name="DateTime",
        description="Time in UTC (RFC 3339), such as `2026-01-31T12:00:00Z`.",
        serialize=lambda value: value.isoformat().replace("+00:00", "Z"),
        parse_value=_parse_time,
    ),
}
