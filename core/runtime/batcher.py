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
_GATHER_TURNS = 10


@dataclass(eq=False, slots=True)
class _Call:
    """The items of one caller, and later their results."""

    items: Sequence[Any]
    weight: int
    results: Sequence[Any] = ()
    failure: Exception | None = None
    is_done: bool = False

    def finish(self, results: Sequence[Any], failure: Exception | None = None) -> None:
        failures = (result for result in results if isinstance(result, Exception))
        self.results, self.failure = results, next(failures, failure)
        self.is_done = True


class Batcher(Generic[Item, Result]):
    """Processes one batch at a time: a single caller never waits, a thousand share few batches.

    `work` returns a result or an error for each item, in order. If it raises, it has done nothing,
    and each caller's items are tried separately, so that a bad item fails only its own caller.
    No result is older than its request: items that arrive during a batch go to the next one.

    A batch weighs at most `max_weight`, unless one caller brings more. A caller with more than
    `max_shared_weight`
    gets a batch of its own, so that small requests do not wait for large ones.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Item]], Awaitable[Sequence[Result | TowlineError]]],
        *,
        max_weight: int = _MAX_WEIGHT,
        max_shared_weight: int | None = None,
        weight: Callable[[Item], int] = lambda _: 1,
    ) -> None:
        self._work = work
        self._max_weight = max_weight
        self._max_shared_weight = max_weight if max_shared_weight is None else max_shared_weight
        self._weight = weight
        self._lock = asyncio.Lock()
        self._queue: dict[_Call, None] = {}

    async def submit(self, item: Item) -> Result:
        """Processes one item and returns its result; raises its error."""
        return (await self.submit_all([item]))[0]

    async def submit_all(self, items: Sequence[Item]) -> Sequence[Result]:
        """Processes some items and returns their results; raises the first error among them.

        A caller that is cancelled before its turn is skipped. A shared batch that has begun runs to
        its end, even if one of its callers is cancelled.
        """
        call = _Call(items, sum(map(self._weight, items)))
        self._queue[call] = None
        try:
            async with self._lock:
                if not call.is_done:
                    await self._serve_batch_of(call)
        finally:
            self._queue.pop(call, None)
        if call.failure is not None:
            raise call.failure
        return call.results

    async def _serve_batch_of(self, call: _Call) -> None:
        if len(self._queue) > 1:
            await _wait_for_others()
        batch = self._take_batch(call)
        work = self._process(batch)
        await (work if len(batch) == 1 else run_to_completion(work))

    def _take_batch(self, own_call: _Call) -> list[_Call]:
        """Takes this caller and the waiting ones, in order, up to the weight of a batch."""
        batch, free_weight = [own_call], self._max_weight - own_call.weight
        del self._queue[own_call]
        for call in self._queue if own_call.weight <= self._max_shared_weight else ():
            if call.weight > self._max_shared_weight:
                continue
            free_weight -= call.weight
            if free_weight < 0:
                break
            batch.append(call)
        for call in batch[1:]:
            del self._queue[call]
        return batch

    async def _process(self, batch: Sequence[_Call]) -> None:
        try:
            results = await self._work([item for call in batch for item in call.items])
        except Exception as error:
            if len(batch) > 1:
                await self._process_separately(batch)
            else:
                batch[0].finish((), error)
            return
        start = 0
        for call in batch:
            end = start + len(call.items)
            call.finish(results[start:end])
            start = end

    async def _process_separately(self, batch: Sequence[_Call]) -> None:
        """Tries callers one by one; after two consecutive Unavailable errors, fails the others."""
        for index, call in enumerate(batch):
            failures = [other.failure for other in batch[max(0, index - 2) : index]]
            if len(failures) == 2 and all(isinstance(other, Unavailable) for other in failures):
                call.finish((), failures[-1])
            else:
                await self._process([call])


async def _wait_for_others() -> None:
    """Lets other callers join the batch for some turns of the event loop.

    This waits for no fixed time: a turn takes only as long as the loop has work.
    """
    for _ in range(_GATHER_TURNS):
        await asyncio.sleep(0)
