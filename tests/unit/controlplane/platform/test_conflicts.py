"""Conflicts show the other row to callers who may read it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.platform.conflicts import check_unchanged, name_conflict
from core.errors import Conflict
from tests.fakes.actors import ADMIN, NOBODY
from tests.fakes.clock import START
from tests.fakes.operations import make_cluster

DEV = replace(make_cluster("dev"), updated_at=START)
TICK = timedelta(microseconds=1)


def test_a_taken_name_shows_its_row_to_readers_only() -> None:
    shown = name_conflict(ADMIN, DEV, "taken").current
    assert shown == {
        "id": "dev", "handle": "dev", "name": "dev", "updatedAt": START.isoformat()
    }  # fmt: skip
    hidden = name_conflict(NOBODY, DEV, "taken")
    assert (hidden.message, not hidden.current) == ("taken", True)


@pytest.mark.parametrize("since", [None, START, START + TICK])
def test_a_row_that_the_caller_has_seen_can_be_changed(since) -> None:
    check_unchanged(DEV, since, "the cluster")


def test_a_row_that_changed_since_is_shown() -> None:
    with pytest.raises(Conflict, match="the cluster was changed at .*: read it again") as raised:
        check_unchanged(DEV, START - TICK, "the cluster")
    assert (raised.value.current or {})["handle"] == "dev"
