"""Batches: who comes while others are served is served together, and failures are one's own."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.runtime.batches import Batches


class Work:
    """Doubles numbers, once it is let; remembers what it was given at once."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go_on = asyncio.Event()

    async def __call__(self, items: Sequence[int]) -> list[int]:
        self.batches.append(list(items))
        await self.go_on.wait()
        if -1 in items:
            raise ValueError("refused")
        return [2 * one for one in items]


async def begun(batches: Batches[int, int], *calls: Sequence[int]) -> list[asyncio.Task]:
    tasks = [asyncio.ensure_future(batches.do(items)) for items in calls]
    await asyncio.sleep(0)
    return tasks


async def test_who_comes_while_others_are_served_is_served_together() -> None:
    work = Work()
    tasks = await begun(Batches(work, most=10), [1], [2, 3], [4])
    work.go_on.set()
    assert await asyncio.gather(*tasks) == [[2], [4, 6], [8]]
    assert work.batches == [[1], [2, 3, 4]]


async def test_a_batch_is_bounded_and_nobody_overtakes() -> None:
    work = Work()
    tasks = await begun(Batches(work, most=3), [0], [1, 1], [2, 2], [3], [4, 4, 4, 4])
    work.go_on.set()
    await asyncio.gather(*tasks)
    assert all(len(one) <= 3 for one in work.batches[:-1])
    flat = [item for batch in work.batches for item in batch]
    assert flat == sorted(flat)
    assert work.batches[-1] == [4, 4, 4, 4]


async def test_a_batch_is_bounded_by_what_items_weigh() -> None:
    work = Work()
    batches = Batches(work, most=10, weight=lambda item: item)
    tasks = await begun(batches, [1], [6], [4], [3], [40])
    work.go_on.set()
    await asyncio.gather(*tasks)
    assert work.batches == [[1], [6, 4], [3], [40]]


async def test_a_failure_reaches_its_caller_and_others_are_served() -> None:
    """Whoever came before or after, and was worked for together."""
    work = Work()
    first, before, failing, other = await begun(Batches(work, most=10), [1], [3], [-1], [2])
    work.go_on.set()
    assert [await first, await before] == [[2], [6]]
    with pytest.raises(ValueError, match="refused"):
        await failing
    assert await other == [4]


async def test_one_who_gives_up_takes_nobody_along() -> None:
    work = Work()
    serving, other, leaving = await begun(Batches(work, most=10), [1], [2], [3])
    serving.cancel()
    leaving.cancel()
    work.go_on.set()
    assert await other == [4]
    assert [3] not in work.batches[1:]
    await asyncio.gather(serving, leaving, return_exceptions=True)


@given(st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=12), st.integers(1, 7))
def test_each_gets_the_results_of_its_own_items(calls: list[list[int]], most: int) -> None:
    async def run() -> None:
        work = Work()
        work.go_on.set()
        batches = Batches(work, most=most)
        results = await asyncio.gather(*map(batches.do, calls))
        assert results == [[2 * one for one in items] for items in calls]

    asyncio.run(run())
