"""The base class of background work, which starts and stops with the control plane."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable

from controlplane.platform.loops.retry import retry_forever
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks

Step = Callable[[], Awaitable[object]]


async def every(seconds: float, name: str, step: Step, clock: Clock, delay: float = 0.0) -> None:
    """Runs a step again and again, with a pause after each success; first after `delay`."""
    if delay:
        await clock.sleep(delay)
    while True:
        await retry_forever(name, step, clock)
        await clock.sleep(seconds)


class BackgroundLoop(ABC):
    """Background work of one noun. `owner` names its tasks in logs."""

    def __init__(self, owner: str, clock: Clock) -> None:
        self.tasks = Tasks(owner)
        self._clock = clock

    @abstractmethod
    async def start(self) -> None:
        """Starts in the background."""

    async def stop(self) -> None:
        """Stops all tasks."""
        await self.tasks.stop()

    def _every(self, seconds: float, name: str, step: Step, *, delay: float = 0.0) -> None:
        """Starts a task that runs a step periodically."""
        self.tasks.forever(name, every(seconds, name, step, self._clock, delay))
