"""The whole system in one place: replicas, servers, agents, a user, and who commits."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from core.errors import Conflict, TowlineError
from tests import migrated
from tests.integration.chaos.evidence import Seen, faults
from tests.integration.chaos.trouble import SteppedClock
from tests.integration.replicas.fleet import Fleet, Replica
from tests.servers.postgres import Postgres
from tests.servers.redis import Redis
from towline.demo.git_server import GitServer, ServedRepository
from towline.simulate.worker import AgentWorker

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


class Place:
    """Two replicas with their servers, agents in this process, a user, and who commits."""

    def __init__(
        self,
        ends: ExitStack,
        folder: Path,
        servers: tuple[Postgres, Redis],
        first: Mapping[str, str] | None = None,
    ) -> None:
        """`first`: variables of the first replica, which then begins alone on an empty store."""
        self.postgres, self.redis = servers
        self.git = ends.enter_context(GitServer())
        empty = self.postgres.new_database
        self.database = empty() if first else migrated.new_postgres(self.postgres)
        ends.callback(self.postgres.drop_database, self.database)
        self.replicas = Fleet(folder, self.database, self.redis.url, "ab", QUICKLY)
        ends.callback(self.replicas.stop)
        self.replicas.replicas[0].vary(first or {})
        self.replicas.start_first()
        if not first:
            self.replicas.start_others()
        self.clock = SteppedClock()
        self.crowd = AgentWorker(self.clock)
        self.seen = Seen({})
        self.version = 0
        self.refusals: list[TowlineError] = []

    async def begin(self) -> None:
        """Clusters with their agents, and a service of its own in each."""
        clusters = [await asyncio.to_thread(self.replicas.cluster) for _ in range(AGENTS)]
        self.seen.marks = {one["id"]: f"c{number}" for number, one in enumerate(clusters)}
        self.repository: ServedRepository = self.git.create_repository("chaos")
        self.commit()
        made = await self.ask(REPOSITORY, url=self.repository.url)
        repository = made["createGitRepository"]["id"]
        await self.join([{"id": one["id"], "token": one["deployToken"]} for one in clusters])
        for id, folder in self.seen.marks.items():
            await self.ask(SERVICE, cluster=id, repository=repository, folder=folder)
        await self.until_settled(AGENTS)

    async def join(self, agents: list[dict[str, str]]) -> None:
        """Have an agent for each of these (`id`, `token`), and wait until they are linked."""
        await self.crowd.join(agents, self.authority, self.addresses, PATIENCE)

    @property
    def authority(self) -> str:
        """Whom agents trust, as PEM."""
        return (self.replicas.replicas[0].data / "tls" / "ca.crt").read_text()

    @property
    def addresses(self) -> list[str]:
        """Addresses of replicas for agents, including those of later replicas."""
        return [f"127.0.0.1:{one.agents}" for one in self.replicas.replicas]

    @property
    def asked(self) -> list[Replica]:
        """Whom users ask by turns, whether it runs at the moment or not."""
        return self.replicas.replicas

    async def ask(self, document: str, **variables: Any) -> dict[str, Any]:
        """Ask the replica whose turn it is."""
        self.version += 1
        one = self.asked[self.version % len(self.asked)]
        return await asyncio.to_thread(one.ask, document, **variables)

    def commit(self) -> None:
        """Change the folder of every cluster; its objects carry the cluster's name."""
        self.version += 1
        self.seen.sha = self.repository.commit(
            {f"{mark}/app.yaml": manifest(mark, self.version) for mark in self.seen.marks.values()}
        )

    async def look(self) -> dict[str, Any]:
        """Counts linked agents and waiting reports; records applied states."""
        said = await self.crowd.snapshot()
        self.seen.settled += said["settled"]
        return said

    async def held(self) -> dict[str, Any]:
        """Services that each agent holds, and its reported drifts."""
        return await self.crowd.held()

    async def until_settled(self, count: int) -> None:
        """Wait until so many words on services were carried out."""
        async with asyncio.timeout(PATIENCE):
            while len(self.seen.settled) < count:
                await self.look()
                await asyncio.sleep(0.05)

    async def settle(self) -> list[str]:
        """Faults that are left once everything works again; none, as soon as there are none."""
        until = time.monotonic() + PATIENCE
        await self.crowd.noise([], 0.0)
        while True:
            said = await self.look()
            held = await self.held()
            self.seen.held, self.seen.reported = held["held"], held["reported"]
            left = [f"{said['waiting']} reports wait, {said['linked']} linked"]
            if said["linked"] == AGENTS and not said["waiting"]:
                left = await faults(self.database, self.seen)
            if not left or time.monotonic() > until:
                return left
            await asyncio.sleep(0.5)


def manifest(mark: str, version: int) -> str:
    """An object of the cluster with this mark."""
    return (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {mark}-settings}}\n"
        f"data: {{version: '{version}'}}\n"
    )


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
    """Somebody who pushes more often than once a second."""
    while not over.is_set():
        await asyncio.to_thread(place.commit)
        await asyncio.sleep(0.7)
