"""One cluster's reports cannot take the time of all others."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from controlplane.agentlink.paces import BURST, RATE, Paces
from fleet.identity import ClusterId
from tests.fakes.clock import FakeClock

LOUD, CALM = ClusterId("loud"), ClusterId("calm")


@given(st.lists(st.tuples(st.integers(1, 5000), st.floats(0, 30)), max_size=30))
def test_no_cluster_is_taken_more_of_than_its_budget(steps: list[tuple[int, float]]) -> None:
    """Whatever it asks for and whenever: a burst, and so many a second since."""

    async def play() -> None:
        clock = FakeClock()
        paces = Paces(clock)
        taken = 0
        for wanted, seconds in steps:
            most = paces.take(LOUD, wanted)
            assert 0 <= most <= wanted
            taken += most
            assert taken <= BURST + clock.monotonic() * RATE + 1
            await clock.advance(seconds)
            list(paces.calmed())

    asyncio.run(play())


async def test_a_loud_cluster_is_told_once_that_it_waits_and_once_that_it_is_calm() -> None:
    """Others do not notice; at its own rate it goes on."""
    clock = FakeClock()
    paces = Paces(clock)
    assert paces.take(LOUD, BURST + 1) == BURST
    assert paces.take(LOUD, 1) == 0
    assert [paces.slow(LOUD), paces.slow(LOUD)] == [True, False]
    assert paces.take(CALM, 100) == 100
    await clock.advance(1.0)
    assert paces.take(LOUD, 1000) == RATE
    assert list(paces.calmed()) == []
    await clock.advance(BURST / RATE + 1)
    assert list(paces.calmed()) == [LOUD]
    assert list(paces.calmed()) == []


async def test_what_a_process_before_this_one_has_told_of_a_cluster_ends_too() -> None:
    paces = Paces(FakeClock())
    paces.slow(LOUD)
    assert list(paces.calmed()) == [LOUD]
