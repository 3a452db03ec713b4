"""Schedules routing and sending of notifications, audit forwarding, and state checks."""

import asyncio
from collections.abc import Awaitable, Callable

from controlplane.notifications.operations.routing import (
    OFFLINE_AFTER,
    NotificationRouting,
    StateWatcher,
)
from controlplane.notifications.operations.sending import NotificationSender
from controlplane.platform.context import CLUSTER, NOTIFY, PIPELINE, SERVICE
from controlplane.platform.loops.background import BackgroundLoop
from controlplane.platform.loops.retry import retry_forever
from controlplane.platform.ports import LOST_WAKES, Bus
from core.runtime.clock import Clock

_MIN_PAUSE_SECONDS = 1.0
_MAX_PAUSE_SECONDS = 10.0
_WATCH_SECONDS = 15.0
_TOKENS_SECONDS = 3600.0


class NotificationLoop(BackgroundLoop):
    """Drives `NotificationRouting`, `NotificationSender` and `StateWatcher`.

    Reads the store every 10 s while nothing happens, and within 1 s after an event.
    """

    def __init__(
        self,
        routing: NotificationRouting,
        sending: NotificationSender,
        watch: StateWatcher,
        bus: Bus,
        clock: Clock,
    ) -> None:
        super().__init__("news", clock)
        self._routing = routing
        self._sending = sending
        self._watch = watch
        self._bus = bus
        self._wake_events: list[asyncio.Event] = []

    async def start(self) -> None:
        self.tasks.forever("wakes", self._follow_events())
        self.tasks.forever("route", self._run_while_work(self._route))
        self.tasks.forever("send", self._run_while_work(self._sending.deliver))
        self.tasks.forever("audit", self._run_while_work(self._forward_audit))
        # Agents must reconnect after a restart of the control plane.
        delay = OFFLINE_AFTER.total_seconds()
        self._every(_WATCH_SECONDS, "clusters", self._watch.check_clusters, delay=delay)
        self._every(_WATCH_SECONDS, "repositories", self._watch.check_repositories)
        self._every(_TOKENS_SECONDS, "tokens", self._watch.check_tokens)
        self._every(_TOKENS_SECONDS, "agent-tokens", self._watch.check_agent_tokens)

    async def _follow_events(self) -> None:
        async for _ in self._bus.subscribe(SERVICE, PIPELINE, CLUSTER, NOTIFY, LOST_WAKES):
            self._wake_all()

    def _wake_all(self) -> None:
        for woken in self._wake_events:
            woken.set()

    async def _route(self) -> int:
        """Routes notifications, and wakes the sender if there were any."""
        count = await self._routing.route()
        if count:
            self._wake_all()
        return count

    async def _forward_audit(self) -> int:
        await self._sending.forward_audit()
        return 0

    async def _run_while_work(self, step: Callable[[], Awaitable[int]]) -> None:
        woken = asyncio.Event()
        self._wake_events.append(woken)
        while True:
            woken.clear()
            if not await retry_forever("notify", step, self._clock):
                await self._clock.sleep(_MIN_PAUSE_SECONDS)
                await _wait_for_event(woken, _MAX_PAUSE_SECONDS - _MIN_PAUSE_SECONDS)


async def _wait_for_event(woken: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await woken.wait()
    except TimeoutError:
        pass
