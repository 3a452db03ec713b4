"""Takes a metrics snapshot every 15 s."""

from collections.abc import Awaitable, Callable

from controlplane.domain.census import Census
from controlplane.loops.patient import patiently
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks

CENSUS_SECONDS = 15.0


class CensusLoop:
    """Keeps the newest snapshot; while the store does not answer, its age grows."""

    def __init__(self, take: Callable[[], Awaitable[Census]], clock: Clock) -> None:
        self._take = take
        self._clock = clock
        self._taken = clock.monotonic()
        self.newest = Census()
        self.tasks = Tasks("census")

    def start(self) -> None:
        """Starts in the background."""
        self.tasks.forever("count", self._count())

    def age(self) -> float:
        """Seconds since the newest snapshot, or since the start of this process."""
        return self._clock.monotonic() - self._taken

    async def _count(self) -> None:
        while True:
            self.newest = await patiently("count what there is", self._take, self._clock)
            self._taken = self._clock.monotonic()
            await self._clock.sleep(CENSUS_SECONDS)
