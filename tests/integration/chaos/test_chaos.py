"""The whole system under load while everything breaks; afterwards nothing is lost or doubled.

`make chaos SEED=7 MINUTES=10` plays another order, for longer, and tells how long each is felt.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import Conflict, TowlineError, Unavailable
from fleet.runtime.tasks import Tasks
from tests import migrated
from tests.integration.chaos.evidence import Seen, faults
from tests.integration.chaos.trouble import SteppedClock, Trouble
from tests.integration.replicas.fleet import Fleet
from tests.servers.postgres import Postgres, find_postgres
from tests.servers.redis import Redis, find_redis
from towline.demo.gitserver import GitServer, Repository
from towline.simulate.crowd import Crowd

SEED = int(os.environ.get("CHAOS_SEED", "1"))
MINUTES = float(os.environ.get("CHAOS_MINUTES", "0"))
AGENTS = 4
PATIENCE = 180.0
NOISE = 3.0
QUICKLY = {"TOWLINE_GIT__POLL__SECONDS": "0.3"}
MAKE = "mutation ($name: String!) { createCluster(attributes: {name: $name}) { id } }"
REPOSITORY = """mutation ($url: String!) {
  createGitRepository(attributes: {url: $url}) { id } }"""
SERVICE = """mutation ($cluster: ID!, $repository: ID!, $folder: String!) {
  createServiceDeployment(clusterId: $cluster, attributes: {name: "app", namespace: "app",
    repositoryId: $repository, git: {ref: "main", folder: $folder}}) { id } }"""

pytestmark = pytest.mark.timeout(600 + MINUTES * 60)


class Place:
    """Two replicas with their servers, agents in this process, a user, and who commits."""

    def __init__(self, ends: ExitStack, folder: Path) -> None:
        postgres, redis = find_postgres(), find_redis()
        assert postgres is not None and redis is not None
        self.postgres = ends.enter_context(Postgres(postgres, durable=True))
        self.redis = ends.enter_context(Redis(redis))
        self.git = ends.enter_context(GitServer())
        self.database = migrated.new_postgres(self.postgres)
        self.replicas = Fleet(folder, self.database, self.redis.url, "ab", QUICKLY)
        ends.callback(self.replicas.stop)
        self.replicas.start()
        self.clock = SteppedClock()
        self.crowd = Crowd(self.clock)
        self.seen = Seen({})
        self.version = 0
        self.refusals: list[TowlineError] = []

    async def begin(self) -> None:
        """Clusters with their agents, and a service of its own in each."""
        clusters = [await asyncio.to_thread(self.replicas.cluster) for _ in range(AGENTS)]
        self.seen.marks = {one["id"]: f"c{number}" for number, one in enumerate(clusters)}
        self.repository: Repository = self.git.create_repository("chaos")
        self.commit()
        made = await self.ask(REPOSITORY, url=self.repository.url)
        repository = made["createGitRepository"]["id"]
        agents = [{"id": one["id"], "token": one["deployToken"]} for one in clusters]
        first = self.replicas.replicas[0]
        authority = (first.data / "tls" / "ca.crt").read_text()
        where = [f"127.0.0.1:{one.agents}" for one in self.replicas.replicas]
        await self.crowd.join(agents, authority, where, PATIENCE)
        for id, folder in self.seen.marks.items():
            await self.ask(SERVICE, cluster=id, repository=repository, folder=folder)
        await self.until_told(AGENTS)

    async def ask(self, document: str, **variables: Any) -> dict[str, Any]:
        """Ask the replica whose turn it is."""
        self.version += 1
        one = self.replicas.replicas[self.version % len(self.replicas.replicas)]
        return await asyncio.to_thread(one.ask, document, **variables)

    def commit(self) -> None:
        """Change the folder of every cluster; its objects carry the cluster's name."""
        self.version += 1
        self.seen.sha = self.repository.commit(
            {f"{mark}/app.yaml": manifest(mark, self.version) for mark in self.seen.marks.values()}
        )

    async def look(self) -> dict[str, Any]:
        said = await self.crowd.look()
        self.seen.settled += said["settled"]
        return said

    async def until_told(self, count: int) -> None:
        """Wait until so many words on services were carried out."""
        async with asyncio.timeout(PATIENCE):
            while len(self.seen.settled) < count:
                await self.look()
                await asyncio.sleep(0.05)


def manifest(mark: str, version: int) -> str:
    return (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {mark}-settings}}\n"
        f"data: {{version: '{version}'}}\n"
    )


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as ends:
        yield Place(ends, tmp_path)


@pytest.fixture
async def running(place: Place) -> AsyncIterator[Place]:
    """With agents that are linked and hold their services."""
    try:
        await place.begin()
        yield place
    finally:
        await place.crowd.tasks.stop()


async def make_clusters(place: Place, over: asyncio.Event) -> None:
    """A user who repeats what was not answered, until all was."""
    while not over.is_set():
        name = f"made-{len(place.seen.asked)}"
        place.seen.asked.append(name)
        while not await made(place, name):
            await asyncio.sleep(0.2)
        await asyncio.sleep(0.3)


async def made(place: Place, name: str) -> bool:
    """Whether there is a cluster of this name now; one that was taken was made by a try before."""
    try:
        await place.ask(MAKE, name=name)
    except Conflict:
        return True
    except TowlineError as error:
        place.refusals.append(error)
        return False
    return True


async def commit_often(place: Place, over: asyncio.Event) -> None:
    while not over.is_set():
        await asyncio.to_thread(place.commit)
        await asyncio.sleep(0.7)


async def until_calm(place: Place) -> float:
    """Seconds until every agent is linked and something new has been committed and carried out."""
    began, before = time.monotonic(), len(place.seen.settled)
    async with asyncio.timeout(PATIENCE):
        while (await place.look())["linked"] < AGENTS or len(place.seen.settled) <= before:
            await asyncio.sleep(0.05)
    return time.monotonic() - began


async def settle(place: Place) -> list[str]:
    """Faults that are left once everything works again; none, as soon as there are none."""
    until = time.monotonic() + PATIENCE
    await place.crowd.noise([], 0.0)
    while True:
        said = await place.look()
        held = await place.crowd.held()
        place.seen.held, place.seen.told = held["held"], held["told"]
        left = [f"{said['waiting']} reports wait, {said['linked']} linked"]
        if said["linked"] == AGENTS and not said["waiting"]:
            left = await faults(place.database, place.seen)
        if not left or time.monotonic() > until:
            return left
        await asyncio.sleep(0.5)


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
    await place.until_told(2 * AGENTS + 1)
    over.set()
    unclear = [one.message for one in place.refusals if not isinstance(one, Unavailable)]
    assert unclear == [], "whoever asks is to be told that they may ask again"
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(makes, commits)
    place.commit()
    assert await settle(place) == []
    assert sum(map(len, place.seen.told.values())) > 20
