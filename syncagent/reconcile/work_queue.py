"""Work queue by key: work on one service never overlaps, and triggers never pile up."""

from collections.abc import Awaitable, Callable

import structlog

from core.runtime.clock import Clock
from core.runtime.tasks import Tasks

log = structlog.get_logger(__name__)

Work = Callable[[str], Awaitable[None]]


class WorkQueue:
    """Runs `work(key)` for each triggered key, at most once at a time.
    A trigger during a run causes one more run after it.
    """

    def __init__(self, tasks: Tasks, clock: Clock, work: Work) -> None:
        self._tasks = tasks
        self._clock = clock
        self._work = work
        self._running: set[str] = set()
        self._pending: set[str] = set()
        self._timers: dict[str, float] = {}

    def trigger(self, key: str) -> None:
        """Queues work for a key."""
        if key in self._running:
            self._pending.add(key)
            return
        self._running.add(key)
        self._tasks.spawn(f"lane/{key}", self._run(key))

    def trigger_in(self, key: str, seconds: float) -> None:
        """Queues work after a delay; an earlier delay of the same key takes precedence."""
        at = self._clock.monotonic() + seconds
        if key in self._timers and self._timers[key] <= at:
            return
        self._timers[key] = at
        self._tasks.spawn(f"alarm/{key}", self._fire(key, at))

    async def _fire(self, key: str, at: float) -> None:
        await self._clock.sleep(at - self._clock.monotonic())
        if self._timers.get(key) == at:
            del self._timers[key]
            self.trigger(key)

    async def _run(self, key: str) -> None:
        try:
            self._pending.add(key)
            while key in self._pending:
                self._pending.discard(key)
                await self._work(key)
        finally:
            self._pending.discard(key)
            self._running.discard(key)
