"""Work queue by key: keys run concurrently, each key one at a time."""

from collections.abc import Awaitable, Callable

import structlog

from core.errors import TowlineError
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks

log = structlog.get_logger(__name__)

RETRY_SECONDS = 5.0


class WorkQueue:
    """Runs `work(key)` for each key passed to `ask`; retries failures after 5 s."""

    def __init__(
        self, name: str, work: Callable[[str], Awaitable[object]], tasks: Tasks, clock: Clock
    ) -> None:
        self._name = name
        self._work = work
        self._tasks = tasks
        self._clock = clock
        self._running: set[str] = set()
        self._again: set[str] = set()

    def ask(self, key: str) -> None:
        """Schedules work for this key; if it is running, again afterwards."""
        if key in self._running:
            self._again.add(key)
            return
        self._running.add(key)
        self._tasks.spawn(f"{self._name} {key}", self._run(key))

    async def _run(self, key: str) -> None:
        try:
            while True:
                self._again.discard(key)
                await self._try(key)
                if key not in self._again:
                    return
        finally:
            self._running.discard(key)

    async def _try(self, key: str) -> None:
        try:
            await self._work(key)
        except TowlineError as error:
            log.warning("retrying", work=self._name, key=key, error=error.message)
            await self._clock.sleep(RETRY_SECONDS)
            self._again.add(key)
