"""Subscriptions to changes, over a bus in memory."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from controlplane.authorization import Actor, ResourceKind, Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.platform.bus.memory import MemoryBus
from controlplane.platform.graphql.context import ApiBackend, ChangeFeed, Context, Info
from controlplane.platform.graphql.deltas import deltas
from controlplane.platform.ports import LOST_WAKES, Bus
from core.errors import LimitExceeded, NotFound, TowlineError, Unauthenticated
from core.runtime.clock import Clock
from tests.fakes.actors import ADMIN, person
from tests.fakes.clock import FakeClock

EDITOR_OF_SHOP = person(BuiltInRole.EDITOR, "sue", Scope("project:shop"))


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
    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.refused: TowlineError | None = None

    async def authenticate(self, token: str, source: str = "") -> Actor:
        if self.refused is not None:
            raise self.refused
        return self.actor

    async def actor_of(self, user_id: str, token_id: str | None) -> Actor:
        return await self.authenticate("")


class Stand:
    """A subscription, by default of an administrator; `hidden` are rows that it may not read."""

    def __init__(self, actor: Actor = ADMIN) -> None:
        self.bus, self.clock, self.feed = MemoryBus(), FakeClock(), Feed()
        self.identity, self.hidden = Authenticator(actor), set[str]()
        parts = {Bus: self.bus, Clock: self.clock, ChangeFeed: self.feed}
        self.context = Context(ApiBackend(parts, self.identity, 0), token="t", caller=actor)

    def open(
        self, id: str | None = None, since: datetime | None = None
    ) -> AsyncGenerator[Delta, None]:
        async def load(info: Info, key: str) -> str:
            if key in self.hidden:
                raise NotFound
            return f"row {key}"

        info: Any = SimpleNamespace(context=self.context)
        return deltas(info, "service", id, since, load, Delta)

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


@pytest.mark.parametrize(("actor", "hears"), [(ADMIN, True), (EDITOR_OF_SHOP, False)])
async def test_a_deletion_is_told_to_those_who_saw_the_row_or_see_all(
    actor: Actor, hears: bool
) -> None:
    """Others would learn that it existed, and when it changed."""
    stand = Stand(actor)
    async with asyncio.timeout(20), aclosing(stand.open()) as changes:
        await stand.followed(changes)
        stand.hidden.add("foreign")
        for key in ("foreign", "first"):
            stand.bus.publish("service", key)
        told = await until(changes, "first")
        assert ("foreign" in told) is hears
        stand.hidden.add("first")
        stand.bus.publish("service", "first")
        gone = await anext(changes)
        while gone.payload is not None:
            gone = await anext(changes)
        assert gone.id == "first"
        stand.bus.publish("service", "first")
        stand.bus.publish("service", "last")
        later = await until(changes, "last")
        assert ("first" in later) is hears, "the second time, it is a row like any other"


async def test_changes_since_a_time_come_first() -> None:
    """Of one row too, also if it was deleted; one that never was is not found."""
    stand = Stand()
    begin = stand.clock.now()
    for key in ("a", "b"):
        await stand.change(key)
    async with asyncio.timeout(20), aclosing(stand.open(None, begin)) as changes:
        assert [(await anext(changes)).id for _ in "ab"] == ["a", "b"]
    stand.hidden |= {"a", "none"}
    async with asyncio.timeout(20), aclosing(stand.open("a", begin)) as changes:
        delta = await anext(changes)
        assert (delta.id, delta.payload, delta.at) == ("a", None, stand.clock.now())
    for id, since in (("none", begin), ("a", None)):
        with pytest.raises(NotFound):
            await anext(stand.open(id, since))


async def test_a_subscription_ends_with_the_token() -> None:
    stand = Stand()
    async with asyncio.timeout(20), aclosing(stand.open()) as changes:
        await stand.followed(changes)
        stand.identity.refused = Unauthenticated("the token was revoked")
        stand.bus.publish("service", "a")
        with pytest.raises(Unauthenticated, match="was revoked"):
            await until(changes, "never")


async def test_after_a_gap_with_too_many_changes_the_subscription_ends() -> None:
    stand = Stand()
    stand.feed.has_too_many = True
    async with asyncio.timeout(20), aclosing(stand.open()) as changes:
        await stand.followed(changes)
        stand.bus.publish(LOST_WAKES)
        with pytest.raises(LimitExceeded, match="read the list again"):
            await until(changes, "never")


async def test_a_subscriber_of_one_row_hears_of_that_row_alone_and_of_its_deletion() -> None:
    """Whoever may read a row before learns that it is gone."""
    stand = Stand(EDITOR_OF_SHOP)
    async with asyncio.timeout(20), aclosing(stand.open("a")) as changes:
        first = asyncio.ensure_future(anext(changes))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not first.done(), "nothing changed yet"
        stand.hidden.add("a")
        for key in ("b", "a"):
            stand.bus.publish("service", key)
        delta = await first
        assert (delta.id, delta.payload) == ("a", None)


async def test_a_rejected_token_reads_nothing() -> None:
    """Neither at the beginning nor after a gap."""
    stand = Stand()
    refused = Unauthenticated("the token was revoked")
    async with asyncio.timeout(20), aclosing(stand.open()) as changes:
        await stand.followed(changes)
        stand.bus.publish("service", "last")
        await until(changes, "last")
        stand.identity.refused = refused
        stand.bus.publish(LOST_WAKES)
        with pytest.raises(Unauthenticated):
            await until(changes, "never")
    for id, since in ((None, stand.clock.now()), ("a", None)):
        stand.context.refused = None
        async with asyncio.timeout(20):
            with pytest.raises(Unauthenticated):
                await anext(stand.open(id, since))
    assert stand.feed.asked == []
