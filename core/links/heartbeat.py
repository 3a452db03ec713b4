"""The heartbeat of many links."""

import asyncio
from typing import Protocol

from core.runtime.clock import Clock
from core.runtime.tasks import Tasks

BEAT_SECONDS = 1.0
# A beat of many links must not delay the requests on them.
_AT_ONCE = 100


class BeatingLink(Protocol):
    """A link that checks its streams and its peer."""

    def beat(self) -> None: ...


class Heartbeat:
    """Calls `beat` of all open links every second, in one task that runs while there are any."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._links: dict[BeatingLink, None] = {}
        self._tasks = Tasks("heartbeat")
        self._task: asyncio.Task[None] | None = None

    def add(self, link: BeatingLink) -> None:
        """Begins with a link that has opened."""
        if self._task is None:
            self._task = self._tasks.spawn("beat", self._run())
        self._links[link] = None

    def discard(self, link: BeatingLink) -> None:
        """Leaves out a link that has ended."""
        self._links.pop(link, None)
        if self._task is not None and not self._links:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(BEAT_SECONDS)
            for number, link in enumerate(tuple(self._links)):
                if link in self._links:
                    link.beat()
                if number % _AT_ONCE == _AT_ONCE - 1:
                    await self._clock.sleep(0)
