"""When access that was given for some time ends: within two seconds."""

from controlplane.loops.patient import patiently
from controlplane.usecases.requests import AccessRequests
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks

EVERY_SECONDS = 2.0


class AccessLoop:
    """Takes back what is over."""

    def __init__(self, requests: AccessRequests, clock: Clock) -> None:
        self._requests = requests
        self._clock = clock
        self.tasks = Tasks("access")

    def start(self) -> None:
        """Begin in the background."""
        self.tasks.forever("expire", self._expire())

    async def _expire(self) -> None:
        while True:
            await patiently("end access", self._requests.end_expired, self._clock)
            await self._clock.sleep(EVERY_SECONDS)
