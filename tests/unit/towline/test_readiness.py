"""Whether the store can be used, asked as often as a load balancer likes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from core.errors import Unavailable
from core.runtime.tasks import Tasks
from tests.fakes.clock import FakeClock
from towline.serve import readiness
from towline.serve.readiness import StoreReadiness


class Store:
    """Answers, refuses or hangs."""

    def __init__(self) -> None:
        self.asked = 0
        self.failure: Exception | None = None
        self.hanging: asyncio.Event | None = None

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[Any, None]:
        self.asked += 1
        if self.hanging is not None:
            await self.hanging.wait()
        if self.failure is not None:
            raise self.failure
        yield self

    write = read

    def __getitem__(self, port: type[object]) -> "Store":
        return self

    async def get(self, _: str) -> None:
        return None


async def test_an_answer_is_remembered_for_a_second() -> None:
    """A hundred questions a second cost the store one; then it is asked anew."""
    store, clock, tasks = Store(), FakeClock(), Tasks("test")
    probe = StoreReadiness(store, clock, tasks)
    for _ in range(100):
        assert await probe.problem() is None
    assert store.asked == 1
    store.failure = Unavailable("the store cannot be read: refused")
    await clock.advance(1)
    for _ in range(100):
        assert await probe.problem() == "the store cannot be read: refused"
    assert store.asked == 2
    store.failure = None
    await clock.advance(1)
    assert await probe.problem() is None


async def test_a_store_that_hangs_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One question at a time, however many ask; the answer comes in time without it."""
    monkeypatch.setattr(readiness, "TIMEOUT_SECONDS", 0.01)
    store, tasks = Store(), Tasks("test")
    store.hanging = asyncio.Event()
    probe = StoreReadiness(store, FakeClock(), tasks)
    said = await asyncio.gather(*(probe.problem() for _ in range(20)))
    assert set(said) == {"the store does not respond"}
    assert store.asked == 1
    store.hanging.set()
    assert await probe.problem() is None
    await tasks.stop()
