"""Ends temporary access within 2 s after it expires."""

from datetime import timedelta

from controlplane.access.operations.access_requests import AccessRequests
from controlplane.platform.loops.background import BackgroundLoop
from controlplane.platform.loops.retry import retry_forever
from core.runtime.clock import Clock

LATE_SECONDS = 2.0
# Access lasts at least one minute, so a later grant cannot end within this time.
_LOOK_AHEAD = timedelta(seconds=30)


class AccessExpiryLoop(BackgroundLoop):
    """Revokes expired access."""

    def __init__(self, requests: AccessRequests, clock: Clock) -> None:
        super().__init__("access", clock)
        self._requests = requests

    async def start(self) -> None:
        self.tasks.forever("expire", self._expire())

    async def _expire(self) -> None:
        while True:
            await retry_forever("end access", self._requests.end_expired, self._clock)
            seconds = await retry_forever(
                "next end of access", self._seconds_to_next_expiry, self._clock
            )
            await self._clock.sleep(seconds)

    async def _seconds_to_next_expiry(self) -> float:
        """Seconds until the next check."""
        expiry = await self._requests.next_expiry(_LOOK_AHEAD)
        if expiry is None:
            return _LOOK_AHEAD.total_seconds()
        return max(LATE_SECONDS, (expiry - self._clock.now()).total_seconds())
