"""Work of many callers at the same time, done at once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from fleet.errors import TowlineError
from fleet.runtime.tasks import finished

A = TypeVar("A")
V = TypeVar("V")
Answers = Sequence[V | TowlineError]
_AT_ONCE = 500


class Together(Generic[A, V]):
    """After a restart all agents come at once: one by one the store would be what they wait for.

    `work` takes some questions and gives an answer, or the failure, for each in their order;
    where it raises, all of them have failed. Whoever holds the lock works for all who wait by
    then. What is asked later is worked on later, so no answer is older than its question.
    """

    def __init__(self, work: Callable[[Sequence[A]], Awaitable[Answers[V]]]) -> None:
        self._work = work
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
        some, self._waiting = self._waiting[:_AT_ONCE], self._waiting[_AT_ONCE:]
        some = [one for one in some if not one[1].done()]
        found: Sequence[V | Exception] = ()
        try:
            if some:
                found = await self._work([question for question, _ in some])
        except Exception as error:
            found = [error] * len(some)
        for (_, answer), value in zip(some, found, strict=True):
            if not answer.done():
                answer.set_result(value)
