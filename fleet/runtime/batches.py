"""Whoever comes while others are served is served with all who wait, in one go."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(eq=False, slots=True)
class _Call:
    """What one caller wants done, and the results as soon as somebody has them."""

    items: Sequence[Any]
    results: Sequence[Any] = ()
    is_done: bool = False


class Batches(Generic[Item, Result]):
    """One batch at a time: alone nobody waits, and a thousand callers cost a few batches.

    `work` gives one result for each item, in order. A batch has `most` items, or as many as weigh
    so much; more only if one caller gives more. If `work` fails for several callers, one of them is
    served alone and the others in another batch: a failure, or an end, may be one caller's.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        most: int,
        weight: Callable[[Item], int] = lambda _: 1,
    ) -> None:
        self._work = work
        self._most = most
        self._weight = weight
        self._lock = asyncio.Lock()
        self._waiting: dict[_Call, None] = {}

    async def do(self, items: Sequence[Item]) -> Sequence[Result]:
        """The results of some items, which are worked on together."""
        mine = _Call(items)
        self._waiting[mine] = None
        try:
            async with self._lock:
                if not mine.is_done:
                    await self._serve(self._batch(mine))
        finally:
            self._waiting.pop(mine, None)
        return mine.results

    def _batch(self, mine: _Call) -> list[_Call]:
        """One caller, and those that wait, in order, as far as there is room."""
        del self._waiting[mine]
        room = self._most - self._weigh(mine)
        batch = [mine]
        for one in self._waiting:
            room -= self._weigh(one)
            if room < 0:
                break
            batch.append(one)
        return batch

    def _weigh(self, call: _Call) -> int:
        return sum(map(self._weight, call.items))

    async def _serve(self, batch: Sequence[_Call]) -> None:
        try:
            results = await self._work([item for one in batch for item in one.items])
        except Exception:
            if len(batch) == 1:
                raise
            await self._serve(batch[:1])
            return
        start = 0
        for one in batch:
            end = start + len(one.items)
            one.results, one.is_done = results[start:end], True
            self._waiting.pop(one, None)
            start = end
