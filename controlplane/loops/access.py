"""Ends temporary access within 2 s after it expires."""

from datetime import timedelta

from controlplane.loops.patient import patiently
from controlplane.usecases.requests import AccessRequests
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks

LATE_SECONDS = 2.0
# Access lasts at least one minute, so a later grant cannot end within this time.
_AHEAD = timedelta(seconds=30)


class AccessLoop:
    """Revokes expired access."""

    def __init__(self, requests: AccessRequests, clock: Clock) -> None:
        self._requests = requests
        self._clock = clock
        self.tasks = Tasks("access")

    def start(self) -> None:
        """Starts in the background."""
        self.tasks.forever("expire", self._expire())

    async def _expire(self) -> None:
        while True:
            await patiently("end access", self._requests.end_expired, self._clock)
            seconds = await patiently("next end of access", self._wait, self._clock)
            await self._clock.sleep(seconds)

    async def _wait(self) -> float:
        """Seconds until the next check."""
        ends = await self._requests.ending(_AHEAD)
        if ends is None:
            return _AHEAD.total_seconds()
        return max(LATE_SECONDS, (ends - self._clock.now()).total_seconds())
