"""Work that many callers share: one failure is one caller's."""

import asyncio
from collections.abc import Sequence

import pytest

from controlplane.usecases.together import Together
from fleet.errors import NotFound, TowlineError, Unavailable


class Doubling:
    """Doubles numbers; of nought it knows nothing, and thirteen breaks it."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()

    async def work(self, numbers: Sequence[int]) -> list[int | TowlineError]:
        self.batches.append(list(numbers))
        await self.gate.wait()
        if 13 in numbers:
            raise ZeroDivisionError
        return [2 * one if one else NotFound("nothing") for one in numbers]


@pytest.fixture
def doubling() -> Doubling:
    return Doubling()


async def asked(
    doubling: Doubling, together: Together[int, int], *numbers: int
) -> "list[asyncio.Task[int]]":
    """The first is worked on alone, all others wait."""
    first = asyncio.ensure_future(together.ask(1))
    while not doubling.batches:
        await asyncio.sleep(0)
    others = [asyncio.ensure_future(together.ask(one)) for one in numbers]
    await asyncio.sleep(0)
    return [first, *others]


async def test_each_gets_an_answer_or_a_failure_of_its_own(doubling: Doubling) -> None:
    work = await asked(doubling, Together(doubling.work), 2, 0, 3, 2)
    doubling.gate.set()
    answers = await asyncio.gather(*work, return_exceptions=True)
    assert [answers[at] for at in (0, 1, 3, 4)] == [2, 4, 6, 4]
    assert isinstance(answers[2], NotFound)
    assert doubling.batches == [[1], [2, 0, 3, 2]]


async def test_what_cannot_be_worked_on_fails_nobody_else(doubling: Doubling) -> None:
    together: Together[int, int] = Together(doubling.work)
    work = await asked(doubling, together, 2, 13, 3)
    doubling.gate.set()
    answers = await asyncio.gather(*work, return_exceptions=True)
    assert [type(one) for one in answers] == [int, int, ZeroDivisionError, int]
    assert doubling.batches == [[1], [2, 13, 3], [2], [13], [3]]
    assert await together.ask(4) == 8


async def test_not_everybody_finds_out_that_the_store_is_away() -> None:
    batches: list[list[int]] = []

    async def work(numbers: Sequence[int]) -> list[int | TowlineError]:
        await asyncio.sleep(0)
        batches.append(list(numbers))
        raise Unavailable("the store is away")

    together: Together[int, int] = Together(work)
    answers = await asyncio.gather(*map(together.ask, range(5)), return_exceptions=True)
    assert [type(one) for one in answers] == [Unavailable] * 5
    assert batches == [[0, 1, 2, 3, 4], [0], [1]]


async def test_what_weighs_much_is_worked_on_with_less_beside_it(doubling: Doubling) -> None:
    """And what is too much for once is worked on alone, rather than never."""
    together: Together[int, int] = Together(doubling.work, weigh=lambda number: 100 * number)
    work = await asked(doubling, together, 2, 3, 4, 9, 1)
    doubling.gate.set()
    assert await asyncio.gather(*work) == [2, 4, 6, 8, 18, 2]
    assert doubling.batches == [[1], [2, 3], [4], [9], [1]]


async def test_who_has_left_before_is_not_worked_for(doubling: Doubling) -> None:
    """And who leaves in the middle takes nothing from the others."""
    first, second, third = await asked(doubling, Together(doubling.work), 2, 3)
    second.cancel()
    first.cancel()
    await asyncio.sleep(0)
    doubling.gate.set()
    assert await third == 6
    assert (await asyncio.gather(first, second, return_exceptions=True)) != [2, 4]
    assert doubling.batches == [[1], [3]]
