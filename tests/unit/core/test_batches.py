"""Batches: who comes while others are served is served together, and failures are one's own."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import NotFound, TowlineError, Unavailable
from core.runtime.batcher import Batcher


class Work:
    """Doubles numbers, once it is let; knows nothing of 0, thirteen breaks it."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go_on = asyncio.Event()

    async def __call__(self, items: Sequence[int]) -> list[int | TowlineError]:
        self.batches.append(list(items))
        await self.go_on.wait()
        if 13 in items:
            raise ZeroDivisionError
        return [2 * one if one else NotFound("nothing") for one in items]


@pytest.fixture
def work() -> Work:
    return Work()


async def begun(
    work: Work, batches: Batcher[int, int], *calls: Sequence[int]
) -> list[asyncio.Task[Sequence[int]]]:
    """The first is worked on alone, all others wait."""
    tasks = []
    for items in calls:
        tasks.append(asyncio.ensure_future(batches.submit_all(items)))
        while not work.batches:
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def test_calls_made_during_a_batch_form_the_next_batch(work: Work) -> None:
    """And each gets the results, or the failure, of its own items."""
    tasks = await begun(work, Batcher(work), [1], [2, 3], [0], [4])
    work.go_on.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [answers[at] for at in (0, 1, 3)] == [[2], [4, 6], [8]]
    assert isinstance(answers[2], NotFound)
    assert work.batches == [[1], [2, 3, 0, 4]]


async def test_a_batch_is_bounded_and_nobody_overtakes(work: Work) -> None:
    tasks = await begun(work, Batcher(work, max_weight=3), [9], [1, 1], [2, 2], [3], [4, 4, 4, 4])
    work.go_on.set()
    await asyncio.gather(*tasks)
    assert work.batches == [[9], [1, 1], [2, 2, 3], [4, 4, 4, 4]]


async def test_a_batch_is_bounded_by_what_items_weigh(work: Work) -> None:
    """And what is too much for once is worked on alone, rather than never."""
    batches = Batcher(work, max_weight=10, weight=lambda item: item)
    tasks = await begun(work, batches, [1], [6], [4], [3], [40])
    work.go_on.set()
    await asyncio.gather(*tasks)
    assert work.batches == [[1], [6, 4], [3], [40]]


async def test_nobody_with_little_to_do_is_served_with_one_who_brings_much(work: Work) -> None:
    """Earlier callers are served earlier all the same."""
    batches = Batcher(work, max_shared_weight=5, weight=lambda item: item)
    tasks = await begun(work, batches, [1], [2], [6], [3], [7], [4])
    work.go_on.set()
    await asyncio.gather(*tasks)
    assert work.batches == [[1], [2, 3, 4], [6], [7]]


async def test_a_failing_item_fails_no_other_caller(work: Work) -> None:
    batches = Batcher(work)
    tasks = await begun(work, batches, [1], [2], [13], [3])
    work.go_on.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in answers] == [list, list, ZeroDivisionError, list]
    assert work.batches == [[1], [2, 13, 3], [2], [13], [3]]
    assert await batches.submit(4) == 8


async def test_not_everybody_finds_out_that_what_all_need_is_away() -> None:
    tried: list[list[int]] = []

    async def away(items: Sequence[int]) -> list[int | TowlineError]:
        tried.append(list(items))
        await asyncio.sleep(0)
        raise Unavailable("the store is away")

    batches: Batcher[int, int] = Batcher(away)
    answers = await asyncio.gather(*map(batches.submit, range(6)), return_exceptions=True)
    assert [type(one) for one in answers] == [Unavailable] * 6
    assert tried[-3:] == [[1, 2, 3, 4, 5], [1], [2]]


async def test_a_cancelled_caller_takes_nothing_from_the_others(work: Work) -> None:
    """Before its turn it is passed over; what has begun for others, too, is brought to its end."""
    first, leaving, waiting, last = await begun(work, Batcher(work), [1], [2], [3], [4])
    leaving.cancel()
    first.cancel()
    while len(work.batches) < 2:
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    work.go_on.set()
    assert await last == [8]
    assert work.batches == [[1], [3, 4]]
    ends = await asyncio.gather(first, leaving, waiting, return_exceptions=True)
    assert [type(one) for one in ends] == [asyncio.CancelledError] * 3


@given(st.lists(st.lists(st.integers(1, 9), max_size=5), max_size=12), st.integers(1, 7))
def test_each_gets_the_results_of_its_own_items(calls: list[list[int]], most: int) -> None:
    async def run() -> None:
        work = Work()
        work.go_on.set()
        batches = Batcher(work, max_weight=most)
        results = await asyncio.gather(*map(batches.submit_all, calls))
        assert results == [[2 * one for one in items] for items in calls]

    asyncio.run(run())
