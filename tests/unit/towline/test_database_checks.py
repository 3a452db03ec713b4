"""Judgements of the checks of a database."""

from datetime import timedelta
from pathlib import Path

import pytest

from towline.installation.check_result import CheckHealth
from towline.installation.database_checks import judge_connections, judge_room, judge_skew

GIB = 1 << 30


@pytest.mark.parametrize(
    ("size", "free", "health"),
    [
        (0, GIB, CheckHealth.OK),
        (0, GIB - 1, CheckHealth.FAILED),
        (5 * GIB, 5 * GIB, CheckHealth.OK),
        (5 * GIB, 4 * GIB, CheckHealth.FAILED),
    ],
)
def test_sqlite_needs_room_for_a_second_file(size: int, free: int, health: CheckHealth) -> None:
    found = judge_room(size, free, Path("/data"))
    assert found.health is health
    assert ("must be free" in found.text) is (health is CheckHealth.FAILED)


@pytest.mark.parametrize(
    ("used", "health"), [(77, CheckHealth.OK), (78, CheckHealth.WARNING), (97, CheckHealth.WARNING)]
)
def test_a_replica_needs_free_connections(used: int, health: CheckHealth) -> None:
    found = judge_connections(used, 97)
    assert found.health is health and found.text.startswith(f"{used} of 97 connections are used")


@pytest.mark.parametrize(
    ("seconds", "health", "shown"),
    [
        (-0.2, CheckHealth.OK, "0.0 s"),
        (2, CheckHealth.OK, "2.0 s"),
        (75, CheckHealth.WARNING, "75.0 s: synchronize the clocks"),
    ],
)
def test_clocks_may_differ_by_two_seconds(seconds: float, health: CheckHealth, shown: str) -> None:
    found = judge_skew(timedelta(seconds=seconds))
    assert found.health is health and shown in found.text
