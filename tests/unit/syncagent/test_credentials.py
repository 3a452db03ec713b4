"""The end of an agent's own token."""

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest

from syncagent.upkeep.credentials import check_token, claims_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def token(**claims: object) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.c2ln"


@pytest.mark.parametrize(
    ("left", "good", "needed", "text"),
    [
        (timedelta(days=30), True, False, "in 30 days"),
        (timedelta(days=3), False, False, "in 3 days"),
        (timedelta(days=-1), False, True, "ended at 2025-12-31 00:00 UTC"),
    ],
)
def test_an_expiring_token_is_reported_in_time(
    left: timedelta, good: bool, needed: bool, text: str
) -> None:
    found = check_token(token(exp=(NOW + left).timestamp()), NOW)
    assert (found.good, found.needed) == (good, needed)
    assert text in found.text
    # `clusters join` refuses one of the two options without the other.
    assert "clusters join HANDLE --service-account --agent-role" in found.text


@pytest.mark.parametrize(
    "given", ["", "x", "a.b.c", "a.eyJ9.c", token(), token(exp="soon"), token(exp=1e300)]
)
def test_other_tokens_have_no_known_end(given: str) -> None:
    assert claims_of(given) is None
    assert check_token(given, NOW).good
