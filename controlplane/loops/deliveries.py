"""When notifications are routed and sent, audit rows forwarded, and states looked at."""

from collections.abc import Awaitable, Callable

from controlplane.loops.patient import patiently
from controlplane.usecases.notification_routing import AWAY_AFTER, Routing, Watch
from controlplane.usecases.notification_sending import Sending
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks

_EVERY_SECONDS = 1.0
_WATCH_SECONDS = 15.0
_TOKENS_SECONDS = 3600.0


class DeliveryOfNews:
    """Drives `Routing`, `Sending` and `Watch`."""

    def __init__(self, routing: Routing, sending: Sending, watch: Watch, clock: Clock) -> None:
        self._routing = routing
        self._sending = sending
        self._watch = watch
        self._clock = clock
        self.tasks = Tasks("news")

    def start(self) -> None:
        """Begin in the background."""
        self.tasks.forever("route", self._while_some(self._routing.route))
        self.tasks.forever("send", self._while_some(self._sending.deliver))
        self.tasks.forever("audit", self._every(_EVERY_SECONDS, self._sending.forward_audit))
        self.tasks.forever("clusters", self._look_at_clusters())
        repositories = self._watch.look_at_repositories
        self.tasks.forever("repositories", self._every(_WATCH_SECONDS, repositories))
        self.tasks.forever("tokens", self._every(_TOKENS_SECONDS, self._watch.look_at_tokens))

    async def _look_at_clusters(self) -> None:
        """Agents need a while to come back to a control plane that was away itself."""
        await self._clock.sleep(AWAY_AFTER.total_seconds())
        await self._every(_WATCH_SECONDS, self._watch.look_at_clusters)

    async def _while_some(self, step: Callable[[], Awaitable[int]]) -> None:
        while True:
            if not await patiently("notify", step, self._clock):
                await self._clock.sleep(_EVERY_SECONDS)

    async def _every(self, seconds: float, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            await patiently("notify", step, self._clock)
            await self._clock.sleep(seconds)
