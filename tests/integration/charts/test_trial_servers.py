"""Servers take what the chart makes for a trial."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from redis.asyncio import Redis as Client
from redis.exceptions import AuthenticationError

from tests.servers.redis import Redis, find_redis
from tests.unit.charts.rendering import of_kind, render, values_of
from towline.demo.ports import free_ports


@pytest.fixture
def secret() -> dict[str, str]:
    """The Secret of the Redis of a release, decoded."""
    made = of_kind(render("towline", values_of("towline", "trial")), "Secret", "-redis")
    return {name: base64.b64decode(text).decode() for name, text in made["data"].items()}


@pytest.fixture
async def port(secret: dict[str, str], tmp_path: Path, redis: Redis) -> AsyncIterator[int]:
    """Where a Redis listens that has begun with the file of the Secret; `redis`: there is one."""
    (free,) = free_ports(1)
    (tmp_path / "redis.conf").write_text(secret["redis.conf"])
    flags = (str(tmp_path / "redis.conf"), "--port", str(free), "--bind", "127.0.0.1")
    process = await asyncio.create_subprocess_exec(
        str(find_redis()), *flags, "--logfile", "/dev/null"
    )
    try:
        async with asyncio.timeout(60):
            while not await answers(free):
                assert process.returncode is None
                await asyncio.sleep(0.05)
        yield free
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


async def test_redis_lets_in_whoever_has_the_url_and_nobody_else(
    secret: dict[str, str], port: int
) -> None:
    password = urlsplit(secret["url"]).password
    async with Client(host="127.0.0.1", port=port, password=password) as known:
        assert await known.ping()
        assert await known.config_get("save") == {"save": ""}
    async with Client(host="127.0.0.1", port=port) as stranger:
        with pytest.raises(AuthenticationError):
            await stranger.ping()
