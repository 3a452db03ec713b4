"""Whoever comes while others are served is served with all who wait, in one go."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fleet.errors import TowlineError, Unavailable
from fleet.runtime.tasks import finished

Item = TypeVar("Item")
Result = TypeVar("Result")
_MOST = 500
_TURNS = 10


@dataclass(eq=False, slots=True)
class _Call:
    """What one caller wants done, and what it came to as soon as somebody has done it."""

    items: Sequence[Any]
    weight: int
    results: Sequence[Any] = ()
    failure: Exception | None = None
    is_done: bool = False

    def end(self, results: Sequence[Any], failure: Exception | None = None) -> None:
        failures = (result for result in results if isinstance(result, Exception))
        self.results, self.failure = results, next(failures, failure)
        self.is_done = True


class Batches(Generic[Item, Result]):
    """One batch at a time: alone nobody waits, and a thousand callers cost a few batches.

    `work` gives a result, or the failure, for each item in order. Where it raises, and so has done
    nothing, it is given the items of each caller by themselves: what cannot be worked on fails
    nobody else. What is asked later is worked on later, so no result is older than its question.

    A batch weighs `most`, more only if one caller brings more. Who brings more than `alone` is
    served alone: those with little to do need not wait for that.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Item]], Awaitable[Sequence[Result | TowlineError]]],
        *,
        most: int = _MOST,
        alone: int | None = None,
        weight: Callable[[Item], int] = lambda _: 1,
    ) -> None:
        self._work = work
        self._most = most
        self._alone = most if alone is None else alone
        self._weight = weight
        self._lock = asyncio.Lock()
        self._waiting: dict[_Call, None] = {}

    async def ask(self, item: Item) -> Result:
        """The result of one item; raises its failure."""
        return (await self.do([item]))[0]

    async def do(self, items: Sequence[Item]) -> Sequence[Result]:
        """The results of some items; raises the first failure among them.

        Who leaves before its turn is passed over. What has begun for several is brought to its end
        though one of them leaves.
        """
        mine = _Call(items, sum(map(self._weight, items)))
        self._waiting[mine] = None
        try:
            async with self._lock:
                if not mine.is_done:
                    await self._serve_with(mine)
        finally:
            self._waiting.pop(mine, None)
        if mine.failure is not None:
            raise mine.failure
        return mine.results

    async def _serve_with(self, mine: _Call) -> None:
        if len(self._waiting) > 1:
            await _gather()
        batch = self._batch(mine)
        work = self._serve(batch)
        await (work if len(batch) == 1 else finished(work))

    def _batch(self, mine: _Call) -> list[_Call]:
        """One caller, and those that wait, in order, as far as there is room."""
        batch, room = [mine], self._most - mine.weight
        del self._waiting[mine]
        for call in self._waiting if mine.weight <= self._alone else ():
            if call.weight > self._alone:
                continue
            room -= call.weight
            if room < 0:
                break
            batch.append(call)
        for call in batch[1:]:
            del self._waiting[call]
        return batch

    async def _serve(self, batch: Sequence[_Call]) -> None:
        try:
            results = await self._work([item for call in batch for item in call.items])
        except Exception as error:
            if len(batch) > 1:
                await self._serve_apart(batch)
            else:
                batch[0].end((), error)
            return
        start = 0
        for call in batch:
            end = start + len(call.items)
            call.end(results[start:end])
            start = end

    async def _serve_apart(self, batch: Sequence[_Call]) -> None:
        """Each caller alone; where what they need is away, two find that out and not all."""
        for at, call in enumerate(batch):
            before = [each.failure for each in batch[max(0, at - 2) : at]]
            if len(before) == 2 and all(isinstance(each, Unavailable) for each in before):
                call.end((), before[-1])
            else:
                await self._serve([call])


async def _gather() -> None:
    """Where several wait already, others that are about to ask may join them.

    No time is waited for: the turns of a loop are as long as there is work for it.
    """
    for _ in range(_TURNS):
        await asyncio.sleep(0)
