"""Work of many callers at the same time, done at once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import accumulate, takewhile
from typing import Generic, TypeVar

from fleet.errors import TowlineError, Unavailable
from fleet.runtime.tasks import finished

A = TypeVar("A")
V = TypeVar("V")
Answers = Sequence[V | TowlineError]
_AT_ONCE = 500
_TURNS = 10


class Together(Generic[A, V]):
    """After a restart all agents come at once: one by one the store would be what they wait for.

    `work` takes some questions and gives an answer, or the failure, for each in their order.
    Where it raises, and so has done nothing, it is given each of them by itself: one that cannot
    be worked on fails nobody else. Whoever holds the lock works for all who wait by then, as far
    as what questions `weigh` is not too much for once. What is asked later is worked on later, so
    no answer is older than its question.
    """

    def __init__(
        self,
        work: Callable[[Sequence[A]], Awaitable[Answers[V]]],
        weigh: Callable[[A], int] = lambda _: 1,
    ) -> None:
        self._work = work
        self._weigh = weigh
        self._lock = asyncio.Lock()
        self._waiting: list[tuple[A, asyncio.Future[V | Exception]]] = []

    async def ask(self, question: A) -> V:
        """The answer. Who leaves before it is worked on is passed over."""
        answer: asyncio.Future[V | Exception] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, answer))
        try:
            async with self._lock:
                while not answer.done():
                    await finished(self._work_for_some())
        except asyncio.CancelledError:
            answer.cancel()
            raise
        found = answer.result()
        if isinstance(found, Exception):
            raise found
        return found

    async def _work_for_some(self) -> None:
        """Begun is ended, though the caller leaves: others wait for it."""
        if len(self._waiting) > 1:
            await self._gather()
        some = [one for one in self._next() if not one[1].done()]
        found = await self._answers([question for question, _ in some])
        for (_, answer), value in zip(some, found, strict=True):
            if not answer.done():
                answer.set_result(value)

    async def _gather(self) -> None:
        """Where several wait already, others that are about to ask may join them.

        No time is waited for: the turns of a loop are as long as there is work for it.
        """
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    def _next(self) -> list[tuple[A, asyncio.Future[V | Exception]]]:
        """The oldest of those who wait: one at least."""
        weights = accumulate(self._weigh(question) for question, _ in self._waiting)
        count = max(1, sum(1 for _ in takewhile(lambda weight: weight <= _AT_ONCE, weights)))
        some, self._waiting = self._waiting[:count], self._waiting[count:]
        return some

    async def _answers(self, questions: Sequence[A]) -> Sequence[V | Exception]:
        try:
            return await self._work(questions) if questions else ()
        except Exception as error:
            return [error] if len(questions) == 1 else await self._apart(questions)

    async def _apart(self, questions: Sequence[A]) -> list[V | Exception]:
        """Each by itself; where the store is away the others need not find that out, too."""
        found: list[V | Exception] = []
        for question in questions:
            if len(found) > 1 and all(isinstance(one, Unavailable) for one in found[-2:]):
                found.append(found[-1])
            else:
                found += await self._answers([question])
        return found
