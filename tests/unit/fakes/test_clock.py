"""The clock that tests move behaves as time does."""

import asyncio
from datetime import timedelta

from tests.fakes.clock import START, FakeClock


async def test_time_stands_still_until_it_is_moved() -> None:
    """Both readings move together."""
    clock = FakeClock()
    assert (clock.now(), clock.monotonic()) == (START, 0.0)
    await clock.advance(90)
    assert (clock.now(), clock.monotonic()) == (START + timedelta(seconds=90), 90.0)


async def test_sleepers_wake_in_order_each_at_its_own_time() -> None:
    """Also one that sleeps again on waking."""
    clock = FakeClock()
    woken: list[tuple[str, float]] = []

    async def sleep(name: str, *naps: float) -> None:
        for nap in naps:
            await clock.sleep(nap)
            woken.append((name, clock.monotonic()))

    async with asyncio.TaskGroup() as group:
        group.create_task(sleep("late", 5))
        group.create_task(sleep("twice", 2, 2))
        await clock.advance(4)
        assert woken == [("twice", 2.0), ("twice", 4.0)]
        assert clock.sleepers == 1
        await clock.advance(1)
    assert woken[-1] == ("late", 5.0)


async def test_no_time_is_no_wait() -> None:
    """Zero and below return at once."""
    await asyncio.wait_for(FakeClock().sleep(0), 5)
    await asyncio.wait_for(FakeClock().sleep(-1), 5)


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    """It does not stop the others."""
    clock = FakeClock()
    sleeper = asyncio.ensure_future(clock.sleep(1))
    await asyncio.sleep(0)
    sleeper.cancel()
    await clock.advance(2)
    assert clock.sleepers == 0
