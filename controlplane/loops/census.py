"""When it is counted what there is: every 15 seconds."""

from collections.abc import Awaitable, Callable

from controlplane.domain.census import Census
from controlplane.loops.patient import patiently
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks

CENSUS_SECONDS = 15.0


class CensusLoop:
    """Keeps the newest census; while the store is away it grows old, and says so."""

    def __init__(self, take: Callable[[], Awaitable[Census]], clock: Clock) -> None:
        self._take = take
        self._clock = clock
        self._taken = clock.monotonic()
        self.newest = Census()
        self.tasks = Tasks("census")

    def start(self) -> None:
        """Begin in the background."""
        self.tasks.forever("count", self._count())

    def age(self) -> float:
        """Seconds since the newest census, or since this process began to count."""
        return self._clock.monotonic() - self._taken

    async def _count(self) -> None:
        while True:
            self.newest = await patiently("count what there is", self._take, self._clock)
            self._taken = self._clock.monotonic()
            await self._clock.sleep(CENSUS_SECONDS)
