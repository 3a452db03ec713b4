"""Contract of every bus, and of one over Redis when Redis is lost."""

import asyncio
import gc
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from redis.asyncio import Redis as AsyncRedis

from controlplane.platform.bus.memory import MemoryBus, WakeQueue
from controlplane.platform.bus.redis import CHANNEL, MAX_QUEUED, RedisBus
from controlplane.platform.ports import LOST_WAKES, Bus, Wake
from core.runtime.clock import SystemClock
from tests.servers.redis import Redis, find_redis


@asynccontextmanager
async def over(url: str) -> AsyncGenerator[RedisBus, None]:
    """A bus that runs, and hears of others already."""
    bus = RedisBus(url, SystemClock())
    ready = bus.subscribe(LOST_WAKES)
    bus.start()
    try:
        await soon(ready)
        yield bus
    finally:
        await bus.stop()


async def soon(wakes: WakeQueue, seconds: float = 10.0) -> Wake:
    """The next wake."""
    async with asyncio.timeout(seconds):
        return await anext(wakes)


@pytest.fixture(params=["memory", "redis"])
async def bus(request: pytest.FixtureRequest) -> AsyncIterator[Bus]:
    """Each implementation."""
    if request.param == "memory":
        yield MemoryBus()
        return
    async with over(request.getfixturevalue("redis_url")) as one:
        yield one


@pytest.fixture
def own_redis(redis: Redis) -> Iterator[Redis]:
    """A server of the test's own, which it may freeze."""
    program = find_redis()
    assert program is not None
    with Redis(program) as server:
        yield server


async def test_a_subscriber_of_one_key_is_not_woken_by_other_keys(bus: Bus) -> None:
    one, all_keys = bus.subscribe(("apple", "2"), "pear"), bus.subscribe("apple")
    for topic, key in (("apple", "1"), ("apple", "2"), ("pear", "3")):
        bus.publish(topic, key)
    assert [await anext(one), await anext(one)] == [("apple", "2"), ("pear", "3")]
    assert [await anext(all_keys), await anext(all_keys)] == [("apple", "1"), ("apple", "2")]


def test_nothing_is_kept_of_a_key_that_nobody_waits_for_any_more() -> None:
    """Subscribing to one key after the other fills no memory."""
    bus = MemoryBus()
    kept = bus.subscribe(("apple", "kept"))
    for number in range(100):
        bus.subscribe(("apple", str(number)))
    gc.collect()
    assert len(bus._waiting) == 1 and kept is not None


async def test_a_wake_reaches_who_waits_for_its_topic(bus: Bus) -> None:
    apples, all_fruit = bus.subscribe("apple"), bus.subscribe("apple", "pear")
    bus.publish("pear", "1")
    bus.publish("apple", "2")
    assert await anext(apples) == ("apple", "2")
    assert [await anext(all_fruit), await anext(all_fruit)] == [("pear", "1"), ("apple", "2")]


async def test_a_slow_reader_gets_each_pair_once(bus: Bus) -> None:
    wakes = bus.subscribe("apple")
    for _ in range(3):
        bus.publish("apple", "1")
    bus.publish("apple", "2")
    assert [await anext(wakes), await anext(wakes)] == [("apple", "1"), ("apple", "2")]


async def test_wakes_cross_from_one_process_to_another_in_order(redis_url: str) -> None:
    async with over(redis_url) as here, over(redis_url) as there:
        mine, theirs = here.subscribe("apple"), there.subscribe("apple")
        for number in range(1200):
            here.publish("apple", str(number))
        assert [(await soon(theirs))[1] for _ in range(1200)] == [str(n) for n in range(1200)]
        assert [(await soon(mine))[1] for _ in range(1200)] == [str(n) for n in range(1200)]
        there.publish("apple", "back")
        assert await soon(mine) == ("apple", "back")


async def test_others_hear_that_wakes_are_lost_when_too_many_wait(redis_url: str) -> None:
    """As many as a change of the whole fleet publishes at once."""
    async with over(redis_url) as here, over(redis_url) as there:
        lost, apples = there.subscribe(LOST_WAKES), there.subscribe(("apple", "last"))
        for number in range(MAX_QUEUED + 1):
            here.publish("apple", str(number))
        here.publish("apple", "last")
        assert await soon(apples) == ("apple", "last")
        assert await soon(lost) == (LOST_WAKES, "")


async def test_the_bus_ignores_foreign_messages_in_redis(redis_url: str) -> None:
    async with over(redis_url) as bus, AsyncRedis.from_url(redis_url) as plain:
        wakes = bus.subscribe("apple")
        for text in (b"", b"{", b"[1]", b'["a", [["apple"]]]', b'["a", [["apple", 1]]]'):
            await plain.publish(CHANNEL, text)
        await plain.publish(CHANNEL, b'["a", [["apple", "good"]]]')
        assert await soon(wakes) == ("apple", "good")


async def test_without_redis_a_process_wakes_itself_and_sweeps(own_redis: Redis) -> None:
    """A frozen server is noticed by its silence; after the gap everything is looked at."""
    async with over(own_redis.url) as here, over(own_redis.url) as there:
        swept, apples = there.subscribe(LOST_WAKES), here.subscribe("apple")
        own_redis.freeze()
        here.publish("apple", "1")
        assert await soon(apples) == ("apple", "1")
        for _ in range(2):
            assert await soon(swept) == (LOST_WAKES, "")
        own_redis.thaw()
        heard = there.subscribe("pear")
        async with asyncio.timeout(60):
            while True:
                here.publish("pear", "2")
                try:
                    assert await soon(heard, 0.5) == ("pear", "2")
                    return
                except TimeoutError:
                    continue
