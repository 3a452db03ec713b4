"""Batches the work of concurrent callers."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from core.errors import TowlineError, Unavailable
from core.runtime.tasks import run_to_completion

Item = TypeVar("Item")
Result = TypeVar("Result")
_MAX_WEIGHT = 500
_TURNS = 10


@dataclass(eq=False, slots=True)
class _Call:
    """The items of one caller, and later their results."""

    items: Sequence[Any]
    weight: int
    results: Sequence[Any] = ()
    failure: Exception | None = None
    is_done: bool = False

    def end(self, results: Sequence[Any], failure: Exception | None = None) -> None:
        failures = (result for result in results if isinstance(result, Exception))
        self.results, self.failure = results, next(failures, failure)
        self.is_done = True


class Batcher(Generic[Item, Result]):
    """Processes one batch at a time: a single caller never waits, a thousand share few batches.

    `work` returns a result or an error for each item, in order. If it raises, it has done nothing,
    and each caller's items are tried separately, so that a bad item fails only its own caller.
    No result is older than its request: items that arrive during a batch go to the next one.

    A batch weighs at most `most`, unless one caller brings more. A caller with more than `alone`
    gets a batch of its own, so that small requests do not wait for large ones.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Item]], Awaitable[Sequence[Result | TowlineError]]],
        *,
        most: int = _MAX_WEIGHT,
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
        """Processes one item and returns its result; raises its error."""
        return (await self.do([item]))[0]

    async def do(self, items: Sequence[Item]) -> Sequence[Result]:
        """Processes some items and returns their results; raises the first error among them.

        A caller that is cancelled before its turn is skipped. A shared batch that has begun runs to
        its end, even if one of its callers is cancelled.
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
        await (work if len(batch) == 1 else run_to_completion(work))

    def _batch(self, mine: _Call) -> list[_Call]:
        """Takes this caller and the waiting ones, in order, up to the weight of a batch."""
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
        """Tries callers one by one; after two consecutive Unavailable errors, fails the others."""
        for at, call in enumerate(batch):
            before = [each.failure for each in batch[max(0, at - 2) : at]]
            if len(before) == 2 and all(isinstance(each, Unavailable) for each in before):
                call.end((), before[-1])
            else:
                await self._serve([call])


async def _gather() -> None:
    """Lets other callers join the batch for some turns of the event loop.

    This waits for no fixed time: a turn takes only as long as the loop has work.
    """
    for _ in range(_TURNS):
        await asyncio.sleep(0)
