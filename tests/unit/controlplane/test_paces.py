"""One cluster's reports cannot take the time of all others."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from controlplane.agents.link.report_limiter import BURST, RATE, ReportLimiter, report_weight
from core.identity import ClusterId
from core.wire.v1 import agent_pb2 as wire
from tests.fakes.clock import FakeClock

LOUD, CALM = ClusterId("loud"), ClusterId("calm")


LARGE = 401
WEIGHTS = st.lists(st.sampled_from((1, 1, 1, 10, LARGE)), min_size=1, max_size=100)


@given(st.lists(st.tuples(WEIGHTS, st.floats(0, 30)), max_size=60))
def test_no_cluster_is_taken_more_of_than_its_budget(steps: list[tuple[list[int], float]]) -> None:
    """Whatever it asks for and whenever: a burst, so much a second since, and one that is owed."""

    async def play() -> None:
        clock = FakeClock()
        paces = ReportLimiter(clock)
        taken = 0
        for weights, seconds in steps:
            most = paces.take(LOUD, weights)
            assert 0 <= most <= len(weights)
            taken += sum(weights[:most])
            assert taken <= BURST + clock.monotonic() * RATE + LARGE
            await clock.advance(seconds)
            list(paces.recovered())

    asyncio.run(play())


async def test_throttling_and_recovery_are_signalled_once_each() -> None:
    """Others do not notice; at its own rate it goes on."""
    clock = FakeClock()
    paces = ReportLimiter(clock)
    assert paces.take(LOUD, [1] * (BURST + 1)) == BURST
    assert paces.take(LOUD, [1]) == 0
    assert [paces.throttle(LOUD), paces.throttle(LOUD)] == [True, False]
    assert paces.take(CALM, [1] * 100) == 100
    await clock.advance(1.0)
    assert paces.take(LOUD, [1] * 1000) == RATE
    assert list(paces.recovered()) == []
    await clock.advance(BURST / RATE + 1)
    assert list(paces.recovered()) == [LOUD]
    assert list(paces.recovered()) == []


async def test_one_that_waits_gets_a_turn_at_once_rather_than_report_by_report() -> None:
    """The last reports of a cluster are not held up for more to come."""
    clock = FakeClock()
    paces = ReportLimiter(clock)
    paces.take(LOUD, [1] * BURST)
    await clock.advance(0.5)
    assert paces.take(LOUD, [1] * 100) == 0
    assert paces.take(LOUD, [1] * 10) == 10
    await clock.advance(1.0)
    assert paces.take(LOUD, [1] * 100) == 65


async def test_one_report_larger_than_the_room_is_taken_and_owed() -> None:
    clock = FakeClock()
    paces = ReportLimiter(clock)
    paces.take(LOUD, [1] * BURST)
    await clock.advance(1.0)
    assert paces.take(LOUD, [401, 1]) == 1
    await clock.advance(7.0)
    assert paces.take(LOUD, [1]) == 0
    await clock.advance(0.1)
    assert paces.take(LOUD, [1]) == 1


def test_reports_weigh_by_the_work_that_they_make() -> None:
    """Ledger entries weigh more than replaced state, large reports more than small ones."""
    gone = [wire.ObjectRef(kind="Pod", name=f"{number:0250}") for number in range(4000)]
    status = wire.Report(status=wire.ServiceStatus(service_id="a"))
    assert report_weight(status) == 1
    assert report_weight(wire.Report(drift=wire.Drift(service_id="a"))) == 10
    assert 120 < report_weight(wire.Report(inventory=wire.Inventory(gone=gone))) < 130


async def test_a_cluster_that_starts_throttled_recovers() -> None:
    paces = ReportLimiter(FakeClock())
    paces.throttle(LOUD)
    assert list(paces.recovered()) == [LOUD]
