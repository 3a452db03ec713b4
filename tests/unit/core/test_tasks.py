"""Tasks have an owner who notices their end."""

import asyncio

from core.runtime.backoff import Backoff
from core.runtime.tasks import Tasks


async def test_the_end_of_eternal_work_is_noticed() -> None:
    """Work that should run for ever and fails gives the owner the reason."""
    tasks = Tasks("test")

    async def fails() -> None:
        raise ValueError("broken")

    tasks.forever("loop", fails())
    reason = await asyncio.wait_for(tasks.wait_failed(), 5)
    assert str(reason) == "broken"
    await tasks.stop()


async def test_eternal_work_that_just_returns_is_a_failure_too() -> None:
    """Returning is not what eternal work does."""
    tasks = Tasks("test")
    tasks.forever("loop", asyncio.sleep(0))
    assert "test/loop ended" in str(await asyncio.wait_for(tasks.wait_failed(), 5))
    await tasks.stop()


async def test_stopping_ends_everything_and_is_no_failure() -> None:
    """After `stop` nothing runs, and no failure is reported."""
    tasks = Tasks("test")
    started = [tasks.forever("a", asyncio.sleep(60)), tasks.spawn("b", asyncio.sleep(60))]
    await asyncio.sleep(0)
    await tasks.stop()
    assert all(task.cancelled() for task in started)
    assert tasks.failed is None


def test_backoff_grows_to_its_limit_and_starts_again() -> None:
    """Each ceiling is 1.6 times the last; jitter draws below it."""
    ceilings: list[float] = []

    def draw(low: float, high: float) -> float:
        ceilings.append(high)
        return low

    backoff = Backoff(first=1, limit=5, draw=draw)
    for _ in range(6):
        assert backoff.next() == 0
    backoff.reset()
    backoff.next()
    assert [round(one, 2) for one in ceilings] == [1, 1.6, 2.56, 4.1, 5, 5, 1]
