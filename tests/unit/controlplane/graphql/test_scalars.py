"""Scalars of the API: accepted input, and refusals."""

from datetime import UTC, datetime

import pytest

from controlplane.platform.graphql.scalars import SCALARS, Json
from core.errors import Invalid

NINE = datetime(2026, 1, 31, 9, tzinfo=UTC)


def parse(scalar: object, given: object) -> object:
    """The value of an input."""
    parse_value = SCALARS[scalar].parse_value
    assert parse_value is not None
    return parse_value(given)


@pytest.mark.parametrize(
    ("text", "value"), [('{"a": [1, null]}', {"a": [1, None]}), ("true", True), ("", None)]
)
def test_a_text_of_json_is_its_value(text: str, value: object) -> None:
    assert parse(Json, text) == value


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": 1}, "must be a string"),
        ("{", "invalid JSON"),
        ('"' + "a" * 262_143 + '"', "262,145 characters of JSON, 262,144 at most"),
        ("[" * 1_000 + "]" * 1_000, "Json"),
        ('"a\\u0000b"', "Json"),
    ],
)
def test_any_other_json_is_refused(given: object, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        parse(Json, given)


@pytest.mark.parametrize(
    "text", ["2026-01-31T09:00:00Z", "2026-01-31T09:00:00", "2026-01-31T10:00:00+01:00"]
)
def test_a_time_without_a_zone_is_in_utc(text: str) -> None:
    assert parse(datetime, text) == NINE


@pytest.mark.parametrize(
    "given",
    ["tomorrow", "", 5, None, "0001-01-01T00:00:00+14:00", "9999-12-31T23:00:00-14:00"],
)
def test_any_other_time_is_refused(given: object) -> None:
    """Also one that is out of range in UTC."""
    with pytest.raises(Invalid, match="must be like 2026-01-31T12:00:00Z"):
        parse(datetime, given)
