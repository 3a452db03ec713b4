"""The store is read for notifications soon after events, and once a second."""

from collections import Counter
from typing import Any, cast

from controlplane.notifications.loop import NotificationLoop
from controlplane.platform.bus.memory import MemoryBus
from controlplane.platform.context import NOTIFY, SERVICE
from tests.fakes.clock import FakeClock, settle


class Verbs:
    """Routing, sending and watching, of which only the looks are counted."""

    def __init__(self) -> None:
        self.routed = self.sent = 0
        self.waiting = 0
        self.called: Counter[str] = Counter()

    async def route(self) -> int:
        self.routed += 1
        found, self.waiting = self.waiting, 0
        await settle(found)
        return found

    async def deliver(self) -> int:
        self.sent += 1
        return 0

    async def forward_audit(self) -> None:
        self.called["audit"] += 1

    async def check_clusters(self) -> None:
        self.called["clusters"] += 1

    async def check_repositories(self) -> None:
        self.called["repositories"] += 1

    async def check_tokens(self) -> None:
        self.called["tokens"] += 1

    async def check_agent_tokens(self) -> None:
        self.called["agent tokens"] += 1


async def test_wakes_have_the_store_asked_once_a_second_and_quiet_does_not() -> None:
    """Routed notifications trigger the next delivery."""
    verbs, bus, clock = Verbs(), MemoryBus(), FakeClock()
    either = cast(Any, verbs)
    news = NotificationLoop(either, either, either, bus, clock)
    await news.start()
    try:
        await clock.advance(30)
        assert (verbs.routed, verbs.sent) == (1, 1)
        bus.publish(SERVICE, "a")
        await settle()
        assert (verbs.routed, verbs.sent) == (2, 2)
        for number in range(50):
            bus.publish(SERVICE, f"s{number}")
        await clock.advance(0.9)
        assert verbs.routed == 2
        await clock.advance(0.2)
        assert verbs.routed == 3
        await clock.advance(30)
        verbs.waiting, sent = 5, verbs.sent
        bus.publish(NOTIFY)
        await clock.advance(2)
        assert verbs.sent == sent + 2
    finally:
        await news.stop()


async def test_states_are_checked_at_intervals_and_the_audit_log_is_forwarded() -> None:
    """Agents have 90 s to connect again after a start of the control plane."""
    verbs, bus, clock = Verbs(), MemoryBus(), FakeClock()
    either = cast(Any, verbs)
    news = NotificationLoop(either, either, either, bus, clock)
    await news.start()
    try:
        await clock.advance(89)
        assert verbs.called["clusters"] == 0
        assert verbs.called["repositories"] == 6
        await clock.advance(1)
        assert verbs.called["clusters"] == 1
        assert verbs.called["audit"] == 1
        bus.publish(SERVICE, "a")
        await settle()
        assert verbs.called["audit"] == 2
        await clock.advance(3_600)
        assert (verbs.called["tokens"], verbs.called["agent tokens"]) == (2, 2)
    finally:
        await news.stop()
