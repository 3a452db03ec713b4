"""Request rate to one server."""

import asyncio

import pytest

from core.errors import Unavailable
from gitcache.mirror.transport.rate_limit import ServerRateLimiter
from tests.fakes.clock import FakeClock

HOST = "git.test"


async def take(
    pacing: ServerRateLimiter, taken: list[float], clock: FakeClock, host: str = HOST
) -> None:
    async with pacing.slot(host):
        taken.append(clock.monotonic())


async def test_a_burst_comes_at_once_and_the_rest_at_a_steady_rate() -> None:
    clock = FakeClock()
    pacing = ServerRateLimiter(clock, at_once=100, per_second=2)
    taken: list[float] = []
    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(take(pacing, taken, clock))
        await clock.advance(10)
    assert sorted(taken) == [0, 0, 0, 0, 0.5, 1.0, 1.5, 2.0]


async def test_only_so_many_are_under_way_at_once() -> None:
    clock = FakeClock()
    pacing = ServerRateLimiter(clock, at_once=1, per_second=100)
    taken: list[float] = []
    async with pacing.slot(HOST):
        waiting = asyncio.ensure_future(take(pacing, taken, clock))
        await clock.advance(5)
        assert not taken
        await take(pacing, taken, clock, "other.test")
    await waiting
    assert len(taken) == 2


async def test_a_pause_holds_for_all_repositories_of_the_server() -> None:
    clock = FakeClock()
    pacing = ServerRateLimiter(clock, at_once=2, per_second=100)
    pacing.pause(HOST, 30)
    with pytest.raises(Unavailable, match="pause; 30 s remain") as caught:
        await take(pacing, [], clock)
    assert caught.value.retry_after == 30
    await take(pacing, [], clock, "other.test")
    await clock.advance(31)
    await take(pacing, [], clock)


async def test_no_server_can_ask_for_more_than_an_hour() -> None:
    clock = FakeClock()
    pacing = ServerRateLimiter(clock, at_once=2, per_second=100)
    pacing.pause(HOST, 1e9)
    await clock.advance(3601)
    await take(pacing, [], clock)
