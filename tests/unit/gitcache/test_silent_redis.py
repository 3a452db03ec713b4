"""A Redis that takes connections and never answers."""

import asyncio

from core.runtime.clock import SystemClock
from gitcache.coordination.redis import LeaseTerms, RedisReplicas
from gitcache.domain.message_auth import MessageAuthenticator
from gitcache.ports import ReplicaMember
from tests.fakes.local_server import LocalServer


async def test_a_replica_ends_though_redis_never_answers() -> None:
    asked = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1 << 16):
            asked.set()

    async with LocalServer(say_nothing) as server:
        replica = RedisReplicas(
            f"redis://127.0.0.1:{server.port}/0",
            ReplicaMember("a", "a:1"),
            MessageAuthenticator("k" * 32),
            SystemClock(),
            LeaseTerms(heartbeat=0.05, lease=2.0),
        )
        await replica.start(lambda news: None)
        async with asyncio.timeout(60):
            await asked.wait()
            await replica.stop()
    assert replica.members() == []
