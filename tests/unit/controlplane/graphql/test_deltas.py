"""Subscriptions to changes, over a bus in memory."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from controlplane.authorization import Actor, ResourceKind
from controlplane.platform.bus.memory import MemoryBus
from controlplane.platform.graphql.context import ApiBackend, ChangeFeed, Context, Info
from controlplane.platform.graphql.deltas import deltas
from controlplane.platform.ports import LOST_WAKES, Bus
from core.errors import LimitExceeded
from core.runtime.clock import Clock
from tests.fakes.actors import ADMIN
from tests.fakes.clock import FakeClock


class Delta(NamedTuple):
    id: str
    payload: str | None
    at: datetime


class Feed:
    """Rows with the times of their changes."""

    def __init__(self) -> None:
        self.changed: dict[str, datetime] = {}
        self.asked: list[datetime] = []
        self.has_too_many = False

    async def changed_since(self, actor: Actor, kind: ResourceKind, since: datetime) -> list[str]:
        self.asked.append(since)
        if self.has_too_many:
            raise LimitExceeded("more than 5,000 changes: read the list again")
        return [id for id, at in self.changed.items() if at >= since]


class Authenticator:
    async def authenticate(self, token: str, source: str = "") -> Actor:
        return ADMIN

    async def actor_of(self, user_id: str, token_id: str | None) -> Actor:
        return ADMIN


class Stand:
    """A subscription of an administrator."""

    def __init__(self) -> None:
        self.bus, self.clock, self.feed = MemoryBus(), FakeClock(), Feed()
        parts = {Bus: self.bus, Clock: self.clock, ChangeFeed: self.feed}
        self.context = Context(ApiBackend(parts, Authenticator(), 0), token="t", caller=ADMIN)

    def open(self, id: str | None = None) -> AsyncGenerator[Delta, None]:
        async def load(info: Info, key: str) -> str:
            return f"row {key}"

        info: Any = SimpleNamespace(context=self.context)
        return deltas(info, "service", id, None, load, Delta)

    async def change(self, id: str) -> None:
        """Changes a row; the bus loses the message."""
        await self.clock.advance(10)
        self.feed.changed[id] = self.clock.now()

    async def followed(self, changes: AsyncGenerator[Delta, None]) -> None:
        """Waits until the subscription has begun."""
        first = asyncio.ensure_future(anext(changes))
        while not first.done():
            self.bus.publish("service", "first")
            await asyncio.sleep(0)


async def until(changes: AsyncGenerator[Delta, None], last: str) -> list[str]:
    """The ids of changes up to this one."""
    found = [(await anext(changes)).id]
    while found[-1] != last:
        found.append((await anext(changes)).id)
    return found


async def test_after_a_gap_a_list_gets_the_changes_that_it_missed() -> None:
    stand = Stand()
    begin = stand.clock.now()
    async with asyncio.timeout(20), aclosing(stand.open()) as changes:
        await stand.followed(changes)
        for missed in ("a", "b"):
            await stand.change(missed)
            stand.bus.publish(LOST_WAKES)
            assert missed in await until(changes, missed)
    assert stand.feed.asked == [begin, begin + timedelta(seconds=10)]


async def test_after_a_gap_one_resource_is_read_again() -> None:
    stand = Stand()
    async with asyncio.timeout(20), aclosing(stand.open("first")) as changes:
        await stand.followed(changes)
        stand.bus.publish(LOST_WAKES)
        assert (await anext(changes)).payload == "row first"
    assert stand.feed.asked == []


async def test_after_a_gap_with_too_many_changes_the_subscription_ends() -> None:
    stand = Stand()
    stand.feed.has_too_many = True
    async with asyncio.timeout(20), aclosing(stand.open()) as changes:
        await stand.followed(changes)
        stand.bus.publish(LOST_WAKES)
        with pytest.raises(LimitExceeded, match="read the list again"):
            await until(changes, "never")
