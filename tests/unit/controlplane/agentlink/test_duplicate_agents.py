"""Two agents with one deploy token: when users are alarmed, and when the alarm ends."""

import pytest

from controlplane.agents.link.duplicate_agents import AgentConflicts
from core.identity import ClusterId
from tests.fakes.clock import FakeClock

EU, US = ClusterId("eu"), ClusterId("us")
MINUTE = 60.0
CALM = 300.0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def conflicts(clock: FakeClock) -> AgentConflicts:
    return AgentConflicts(clock)


async def replace_each_other(
    conflicts: AgentConflicts, clock: FakeClock, times: int, pause: float = 1.0
) -> list[str]:
    """The alarms of agents that take the cluster from each other in turn."""
    alarms = []
    for number in range(times):
        await clock.advance(pause)
        alarms.append(conflicts.record_connection(EU, f"agent-{number % 2}", f"peer-{number % 2}"))
    return alarms


async def test_four_replacements_in_a_minute_are_a_conflict_of_two_named_peers(
    conflicts: AgentConflicts, clock: FakeClock
) -> None:
    *before, alarm = await replace_each_other(conflicts, clock, 5)
    assert before == [""] * 4
    assert "peer-1 and peer-0; remove one of them" in alarm
    assert conflicts.current_peer(EU) == "peer-0"
    assert conflicts.current_peer(US) == ""


@pytest.mark.parametrize(("pause", "alarmed"), [(MINUTE / 3, True), (MINUTE / 3 + 1, False)])
async def test_agents_that_move_slowly_are_no_conflict(
    conflicts: AgentConflicts, clock: FakeClock, pause: float, alarmed: bool
) -> None:
    """As while a node pool is replaced: one move after the other, for as long as it takes."""
    alarms = await replace_each_other(conflicts, clock, 20, pause)
    assert any(alarms) is alarmed


async def test_an_agent_that_loses_its_connection_again_and_again_is_no_conflict(
    conflicts: AgentConflicts,
) -> None:
    assert {conflicts.record_connection(EU, "one", "peer") for _ in range(20)} == {""}


async def test_a_conflict_of_one_cluster_alarms_no_other(
    conflicts: AgentConflicts, clock: FakeClock
) -> None:
    await replace_each_other(conflicts, clock, 5)
    conflicts.record_connection(US, "agent", "peer")
    assert conflicts.record_connection(US, "other", "peer") == ""
    await clock.advance(CALM + 1)
    assert list(conflicts.recovered()) == [EU]


async def test_a_conflict_ends_once_after_five_calm_minutes(
    conflicts: AgentConflicts, clock: FakeClock
) -> None:
    """The minutes count from the last replacement."""
    await replace_each_other(conflicts, clock, 5)
    await clock.advance(CALM - 1)
    conflicts.record_connection(EU, "agent-1", "peer-1")
    await clock.advance(CALM)
    assert list(conflicts.recovered()) == []
    await clock.advance(1)
    assert list(conflicts.recovered()) == [EU]
    assert list(conflicts.recovered()) == []


async def test_a_conflict_that_begins_again_is_alarmed_and_ends_again(
    conflicts: AgentConflicts, clock: FakeClock
) -> None:
    for _ in range(2):
        assert any(await replace_each_other(conflicts, clock, 6))
        await clock.advance(CALM + 1)
        assert list(conflicts.recovered()) == [EU]


async def test_a_cluster_without_a_conflict_has_none_to_end(
    conflicts: AgentConflicts, clock: FakeClock
) -> None:
    await replace_each_other(conflicts, clock, 3)
    await clock.advance(CALM + 1)
    assert list(conflicts.recovered()) == []
