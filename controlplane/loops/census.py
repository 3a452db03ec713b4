"""Takes a metrics snapshot every 15 s."""

from collections.abc import Awaitable, Callable

from controlplane.domain.census import MetricsSnapshot
from controlplane.loops.patient import retry_forever
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks

SNAPSHOT_SECONDS = 15.0


class MetricsSnapshotLoop:
    """Keeps the newest snapshot; while the store does not answer, its age grows."""

    def __init__(self, take: Callable[[], Awaitable[MetricsSnapshot]], clock: Clock) -> None:
        self._take = take
        self._clock = clock
        self._taken = clock.monotonic()
        self.newest = MetricsSnapshot()
        self.tasks = Tasks("census")

    def start(self) -> None:
        """Starts in the background."""
        self.tasks.forever("count", self._count())

    def age(self) -> float:
        """Seconds since the newest snapshot, or since the start of this process."""
        return self._clock.monotonic() - self._taken

    async def _count(self) -> None:
        while True:
            self.newest = await retry_forever("count what there is", self._take, self._clock)
            self._taken = self._clock.monotonic()
            await self._clock.sleep(SNAPSHOT_SECONDS)
