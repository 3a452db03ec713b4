"""Two replicas count one caller's requests together, through Redis, and alone without it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis as AsyncRedis
from redis.exceptions import RedisError

from controlplane.platform.bus.rate_limits import KEY, RateExchange
from controlplane.platform.rate_limits import WINDOW_S, RequestLimiter
from core.runtime.clock import SystemClock
from core.runtime.token_bucket import RatePolicy
from tests.fakes.clock import FakeClock
from tests.servers.redis import Redis

CLOSED = "redis://127.0.0.1:1"


class Replica:
    """A replica's counts, and what shares them; one clock for all of them."""

    def __init__(self, url: str, clock: FakeClock) -> None:
        self._clock = clock
        self.rates = RequestLimiter(RatePolicy.per(WINDOW_S, 10))
        self.shared = RateExchange(url, self.rates, clock)

    def ask(self, caller: str, times: int) -> int:
        """Number of admitted requests."""
        now = self._clock.now().timestamp()
        return sum(self.rates.take(caller, now) == 0.0 for _ in range(times))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def replicas(redis: Redis, redis_url: str, clock: FakeClock) -> AsyncIterator[list[Replica]]:
    both = [Replica(redis_url, clock) for _ in range(2)]
    yield both
    for one in both:
        await one.shared.stop()


async def test_a_caller_has_one_limit_at_all_replicas(
    replicas: list[Replica], clock: FakeClock
) -> None:
    """Requests admitted by one replica count at the other; the next window is free again."""
    one, other = replicas
    assert one.ask("ada", 8) == 8
    assert other.ask("ada", 1) == other.ask("bob", 1) == 1
    await one.shared.exchange()
    await other.shared.exchange()
    assert other.ask("ada", 5) == 1
    assert other.ask("bob", 20) == 9
    await clock.advance(WINDOW_S)
    assert one.ask("ada", 20) == other.ask("ada", 20) == 10


async def test_foreign_fields_in_redis_are_ignored(
    replicas: list[Replica], redis_url: str, clock: FakeClock
) -> None:
    one, _ = replicas
    one.ask("ada", 1)
    junk: dict[Any, Any] = {
        b"\xff": b"1",
        b"x ada": b"-5",
        b"y ada": b"9" * 40,
        b"z ada": b"many",
        b"w": b"",
    }
    async with AsyncRedis.from_url(redis_url) as client:
        await client.hset(f"{KEY}{one.rates.window}", mapping=junk)
    await one.shared.exchange()
    assert one.ask("ada", 20) == 9


async def test_without_redis_each_replica_counts_alone(clock: FakeClock) -> None:
    one = Replica(CLOSED, clock)
    assert one.ask("ada", 9) == 9
    with pytest.raises((RedisError, OSError)):
        await one.shared.exchange()
    assert one.ask("ada", 9) == 1
    await one.shared.stop()


async def test_they_tell_each_other_by_themselves(redis_url: str) -> None:
    clock = SystemClock()
    policy = RatePolicy.per(WINDOW_S, 1000)
    heard, telling = RequestLimiter(policy), RequestLimiter(policy)
    both = [RateExchange(redis_url, rates, clock) for rates in (heard, telling)]
    for one in both:
        one.start()
    try:
        async with asyncio.timeout(60):
            while heard.take("ada", clock.now().timestamp()) == 0.0:
                for _ in range(100):
                    telling.take("ada", clock.now().timestamp())
                heard.own["ada"] = 50
                await asyncio.sleep(0.1)
    finally:
        for one in both:
            await one.stop()
