"""Every implementation of `Replicas` keeps these promises; those of several need Redis."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
import redis as library

from core.identity import RepositoryId
from core.runtime.clock import SystemClock
from core.spec.source import Commit, RepositoryState
from gitcache.coordination.local import SoleReplica
from gitcache.coordination.redis import LeaseTerms, RedisReplicas
from gitcache.domain.message_auth import MessageAuthenticator
from gitcache.ports import HintForwarded, ReplicaEvent, ReplicaMember, Replicas, StatePublished
from tests.servers.redis import Redis

SHOP = RepositoryId("shop")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TERMS = LeaseTerms(heartbeat=0.05, lease=2.0)
"""A machine that is busy with other tests lets a process stand still for a second."""


def state(number: int) -> RepositoryState:
    commit = Commit(f"{number:040x}", "Ann <a@x>", "Change", NOW)
    return RepositoryState(SHOP, {"main": commit}, frozenset(), None, NOW, NOW)


class PausableClock(SystemClock):
    """Time that goes on while the process, as it were, does not."""

    def __init__(self, days: int = 0) -> None:
        self.paused = False
        self._ahead = timedelta(days=days)

    def now(self) -> datetime:
        return super().now() + self._ahead

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        while self.paused:
            await super().sleep(0.01)


@dataclass
class Replica:
    """One replica and what it has heard."""

    replicas: Replicas
    clock: PausableClock = field(default_factory=PausableClock)
    news: list[ReplicaEvent] = field(default_factory=list)

    def states(self) -> list[RepositoryState]:
        return [one.state for one in self.news if isinstance(one, StatePublished)]

    def hints(self) -> list[HintForwarded]:
        return [one for one in self.news if isinstance(one, HintForwarded)]


Start = Callable[..., Awaitable[Replica]]


@pytest.fixture(params=["local", "redis"])
async def start(request: pytest.FixtureRequest) -> AsyncIterator[Start]:
    """Starts a replica; several only where there is Redis."""
    running: list[Replica] = []
    url = request.getfixturevalue("redis_url") if request.param == "redis" else None

    async def begin(name: str = "a", key: str = "k" * 32, days: int = 0) -> Replica:
        clock = PausableClock(days)
        made: Replicas = SoleReplica()
        if url is not None:
            made = RedisReplicas(
                url, ReplicaMember(name, f"{name}:1"), MessageAuthenticator(key), clock, TERMS
            )
        replica = Replica(made, clock)
        await made.start(replica.news.append)
        running.append(replica)
        await until(lambda: made.me in made.members())
        return replica

    yield begin
    for replica in running:
        await replica.replicas.stop()


several = pytest.mark.parametrize("start", ["redis"], indirect=True)


async def until(holds: Callable[[], object], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.005)


async def test_a_claim_makes_the_owner(start: Start) -> None:
    one = await start()
    assert not one.replicas.holds_lease(SHOP)
    assert one.replicas.owner(SHOP) is None
    assert await one.replicas.claim(SHOP)
    assert await one.replicas.claim(SHOP)
    assert one.replicas.holds_lease(SHOP)
    assert one.replicas.owner(SHOP) == one.replicas.me


async def test_a_release_ends_ownership(start: Start) -> None:
    one = await start()
    await one.replicas.claim(SHOP)
    await one.replicas.release(SHOP)
    assert not one.replicas.holds_lease(SHOP)
    await until(lambda: one.replicas.owner(SHOP) is None)


async def test_only_an_owner_publishes_and_hears_itself_at_once(start: Start) -> None:
    one = await start()
    assert not await one.replicas.publish(state(1))
    assert one.states() == []
    await one.replicas.claim(SHOP)
    assert await one.replicas.publish(state(2))
    assert one.states() == [state(2)]


async def test_a_hint_reaches_whoever_listens(start: Start) -> None:
    one = await start()
    await one.replicas.forward_hint(SHOP, {"refs/heads/main": "a" * 40})
    await until(one.hints)
    assert one.hints() == [HintForwarded(SHOP, {"refs/heads/main": "a" * 40})]


@several
async def test_one_of_two_owns(start: Start) -> None:
    one, two = await start("a"), await start("b")
    taken = await asyncio.gather(one.replicas.claim(SHOP), two.replicas.claim(SHOP))
    assert sorted(taken) == [False, True]
    owner = one.replicas.me if taken[0] else two.replicas.me
    await until(lambda: one.replicas.owner(SHOP) == two.replicas.owner(SHOP) == owner)


@several
async def test_others_hear_states_and_late_comers_read_them(start: Start) -> None:
    one, two = await start("a"), await start("b")
    await one.replicas.claim(SHOP)
    await one.replicas.publish(state(1))
    await one.replicas.publish(state(2))
    await until(lambda: two.states() == [state(1), state(2)])
    three = await start("c")
    await until(lambda: three.states() == [state(2)])


@several
async def test_clocks_that_are_a_day_apart_change_nothing(start: Start) -> None:
    """Only Redis' own time counts: who is ahead takes nothing, who is behind stays a member."""
    behind, ahead = await start("a", days=-1), await start("b", days=1)
    await until(lambda: len(behind.replicas.members()) == len(ahead.replicas.members()) == 2)
    assert await behind.replicas.claim(SHOP)
    await until(lambda: ahead.replicas.owner(SHOP) == behind.replicas.me)
    await asyncio.sleep(1.2 * TERMS.lease)
    assert not await ahead.replicas.claim(SHOP)
    assert await behind.replicas.publish(state(1))
    await until(lambda: ahead.states() == [state(1)])


@several
async def test_a_newcomer_counts_after_its_grace_only(start: Start) -> None:
    one, two = await start("a"), await start("b")
    await until(lambda: len(one.replicas.members()) == 2)
    assert {member.name for member in two.replicas.members()} == {"a", "b"}


@several
async def test_a_paused_owner_is_replaced_and_cannot_publish(start: Start) -> None:
    one, two = await start("a"), await start("b")
    await one.replicas.claim(SHOP)
    await one.replicas.publish(state(1))
    one.clock.paused = True
    await until(lambda: not one.replicas.holds_lease(SHOP))
    async with asyncio.timeout(60):
        while not await two.replicas.claim(SHOP):
            await asyncio.sleep(0.02)
    assert await two.replicas.publish(state(2))
    assert not await one.replicas.publish(state(3))
    one.clock.paused = False
    await until(lambda: one.states()[-1] == state(2))
    assert not await one.replicas.publish(state(3))
    assert not await one.replicas.claim(SHOP)


@several
async def test_the_fence_refuses_even_one_that_believes_it_owns(start: Start) -> None:
    """The belief of a replica does not count: the script asks whose lease it is."""
    one, two = await start("a"), await start("b")
    await one.replicas.claim(SHOP)
    await one.replicas.release(SHOP)
    await two.replicas.claim(SHOP)
    liar = one.replicas
    assert isinstance(liar, RedisReplicas)
    liar._leased.add(SHOP)
    assert liar.holds_lease(SHOP)
    assert not await liar.publish(state(1))
    assert not liar.holds_lease(SHOP)


@several
async def test_leaving_frees_at_once(start: Start) -> None:
    one, two = await start("a"), await start("b")
    await one.replicas.claim(SHOP)
    assert not await two.replicas.claim(SHOP)
    await one.replicas.stop()
    assert await two.replicas.claim(SHOP)


@several
async def test_the_prepared_replica_is_known_until_the_owner_changes(start: Start) -> None:
    one, two = await start("a"), await start("b")
    await one.replicas.claim(SHOP)
    await two.replicas.announce_prepared(SHOP)
    await until(lambda: one.replicas.prepared_replica(SHOP) == "b")
    await one.replicas.release(SHOP)
    await two.replicas.claim(SHOP)
    await until(lambda: one.replicas.prepared_replica(SHOP) is None)


@several
async def test_messages_signed_with_another_key_are_refused(start: Start) -> None:
    one, stranger = await start("a"), await start("x", "another key, also long enough")
    await stranger.replicas.claim(SHOP)
    assert await stranger.replicas.publish(state(6))
    await stranger.replicas.forward_hint(SHOP, {})
    await stranger.replicas.release(SHOP)
    await one.replicas.claim(SHOP)
    await one.replicas.forward_hint(SHOP, None)
    await until(one.hints)
    assert one.states() == []
    assert one.hints() == [HintForwarded(SHOP, None)]


@several
async def test_a_redis_that_lost_everything_is_filled_anew(start: Start, redis: Redis) -> None:
    one, two = await start("a"), await start("b")
    await one.replicas.claim(SHOP)
    await one.replicas.publish(state(1))
    await until(two.states)
    redis.flush()
    await until(lambda: not one.replicas.holds_lease(SHOP))
    async with asyncio.timeout(60):
        while not await one.replicas.claim(SHOP):
            await asyncio.sleep(0.02)
    assert await one.replicas.publish(replace(state(1), error="x"))
    await until(lambda: two.states()[-1].error == "x")


@several
async def test_nonsense_in_redis_stops_nobody(start: Start, redis: Redis) -> None:
    """A writer in Redis can be a nuisance, but ends no replica."""
    one, two = await start("a"), await start("b")
    assert isinstance(one.replicas, RedisReplicas)
    with library.Redis.from_url(redis.url) as client:
        client.zadd("{towline:git}:members", {"x": 1e15, "y z": 1e15, "lost": 1e15})
        client.hset("{towline:git}:about", mapping={"x": "nonsense", "y z": ""})
        client.hset("{towline:git}:owners", mapping={"shop": "nobody at all", b"\xff": b"\xff"})
        client.hset("{towline:git}:states", mapping={"shop": b"\x00" * 100, b"\xff": b""})
        for message in (b"", b"state", b"state x shop y", b"state 1 shop " + b"y" * 1000, b"\xff"):
            client.publish("{towline:git}:news", message)
    await one.replicas.claim(SHOP)
    assert await one.replicas.publish(state(1))
    await until(lambda: two.states() == [state(1)])
    assert all(not task.done() for task in one.replicas.tasks._tasks)
