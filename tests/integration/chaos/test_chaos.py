"""The whole system under load while everything breaks; afterwards nothing is lost or doubled.

`make chaos SEED=7 MINUTES=10` plays another order, for longer, and tells how long each is felt.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from core.errors import Unavailable
from core.runtime.tasks import Tasks
from tests.integration.chaos.place import (
    AGENTS,
    NOISE,
    PATIENCE,
    Place,
    commit_often,
    make_clusters,
)
from tests.integration.chaos.trouble import Trouble
from tests.servers.postgres import Postgres, find_postgres
from tests.servers.redis import Redis, find_redis

SEED = int(os.environ.get("CHAOS_SEED", "1"))
MINUTES = float(os.environ.get("CHAOS_MINUTES", "0"))

pytestmark = pytest.mark.timeout(600 + MINUTES * 60)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """With servers of its own, which break."""
    postgres, redis = find_postgres(), find_redis()
    assert postgres is not None and redis is not None
    with ExitStack() as ends:
        servers = Postgres(postgres, durable=True), Redis(redis)
        yield Place(
            ends, tmp_path, (ends.enter_context(servers[0]), ends.enter_context(servers[1]))
        )


@pytest.fixture
async def running(place: Place) -> AsyncIterator[Place]:
    """With agents that are linked and hold their services."""
    try:
        await place.begin()
        yield place
    finally:
        await place.crowd.tasks.stop()


async def until_calm(place: Place) -> float:
    """Seconds until every agent is linked and something new has been committed and carried out."""
    began, before = time.monotonic(), len(place.seen.settled)
    async with asyncio.timeout(PATIENCE):
        while (await place.look())["linked"] < AGENTS or len(place.seen.settled) <= before:
            await asyncio.sleep(0.05)
    return time.monotonic() - began


async def test_nothing_is_lost_or_doubled_while_everything_breaks(running: Place) -> None:
    """Commits, reports and a user's requests go on; then an independent look at the store."""
    place, load, over = running, Tasks("load"), asyncio.Event()
    trouble = Trouble(
        SEED, place.replicas, place.postgres, place.redis, place.git, place.crowd, place.clock
    )
    await place.crowd.noise(list(place.seen.marks), NOISE)
    makes = load.spawn("make", make_clusters(place, over))
    commits = load.spawn("commit", commit_often(place, over))
    until = time.monotonic() + MINUTES * 60
    while True:
        for name, kind in trouble.order():
            print(f"{time.monotonic():.1f} {name}", flush=True)
            await kind()
            await asyncio.sleep(0.2)
            if MINUTES:
                print(f"all is well again after {await until_calm(place):.1f} s", flush=True)
        await trouble.mend()
        if time.monotonic() >= until:
            break
    # Also what was committed meanwhile is carried out, however long that takes.
    await place.until_settled(2 * AGENTS + 1)
    over.set()
    unclear = [one.message for one in place.refusals if not isinstance(one, Unavailable)]
    assert unclear == [], "a failed request must allow a retry"
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(makes, commits)
    place.commit()
    assert await place.settle() == []
    assert sum(map(len, place.seen.reported.values())) > 20
