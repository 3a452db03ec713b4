"""Work queue by key, with the semantics of client-go's `workqueue`."""

from collections.abc import Awaitable, Callable

import structlog

from core.errors import TowlineError
from core.runtime.backoff import Backoff
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks

log = structlog.get_logger(__name__)

MAX_RETRY_SECONDS = 5.0


def _exponential() -> Backoff:
    return Backoff(first=0.5, limit=MAX_RETRY_SECONDS, factor=2.0)


class WorkQueue:
    """Runs `work(key)` for added keys: different keys concurrently, one key never twice at once.

    A key that is added while it is processed runs once more afterwards. A key whose work raises
    TowlineError runs again after a backoff of at most 5 s. `tasks` own the runs; after their stop,
    added keys are ignored.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[str], Awaitable[object]],
        tasks: Tasks,
        clock: Clock,
        backoff: Callable[[], Backoff] = _exponential,
    ) -> None:
        self._name = name
        self._work = work
        self._tasks = tasks
        self._clock = clock
        self._backoff = backoff
        self._processing: set[str] = set()
        self._dirty: set[str] = set()
        self._due_times: dict[str, float] = {}
        self._failing: dict[str, Backoff] = {}

    def add(self, key: str) -> None:
        """Queues a key."""
        if self._tasks.stopping:
            return
        if key in self._processing:
            self._dirty.add(key)
            return
        self._processing.add(key)
        self._tasks.spawn(f"{self._name}/{key}", self._process(key))

    def add_after(self, key: str, seconds: float) -> None:
        """Queues a key after a delay; an earlier delay of the same key takes precedence."""
        due = self._clock.monotonic() + seconds
        if self._tasks.stopping or self._due_times.get(key, due + 1) <= due:
            return
        self._due_times[key] = due
        self._tasks.spawn(f"{self._name}/{key} at {due:.3f}", self._add_at(key, due))

    async def _add_at(self, key: str, due: float) -> None:
        await self._clock.sleep(due - self._clock.monotonic())
        if self._due_times.get(key) == due:
            del self._due_times[key]
            self.add(key)

    async def _process(self, key: str) -> None:
        try:
            await self._work(key)
            self._failing.pop(key, None)
        except TowlineError as error:
            log.warning("retrying", work=self._name, key=key, error=error.message)
            backoff = self._failing.setdefault(key, self._backoff())
            self.add_after(key, backoff.next())
        finally:
            self._processing.discard(key)
            if key in self._dirty:
                self._dirty.discard(key)
                self.add(key)
