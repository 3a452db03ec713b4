"""Replicas and agents of the version before and of this one work together while both change."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from core.runtime.tasks import Tasks
from tests import previous
from tests.integration.chaos.place import AGENTS, PATIENCE, Place, commit_often, make_clusters
from tests.integration.replicas.fleet import Replica
from tests.servers.postgres import Postgres
from tests.servers.redis import Redis

OLDER_AGENTS = AGENTS // 2

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def older(tmp_path: Path) -> dict[str, str]:
    """Variables by which Python runs the version before, from its own files."""
    folder = previous.unpack(tmp_path / "older")
    # The installed module is built from the present sources.
    (folder / "towline_native.py").write_text("raise ImportError")
    return {"PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"}


class OlderCrowd:
    """Agents of the version before, in a process of theirs."""

    def __init__(self, variables: dict[str, str]) -> None:
        self._variables = variables
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "from towline.simulate.worker import main; main()",
            env={**os.environ, **self._variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            limit=1 << 24,
        )

    async def ask(self, verb: str, **words: Any) -> dict[str, Any]:
        """Have it do what the crowd of this process does by a method of the same name."""
        assert self._process and self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps({"do": verb, **words}).encode() + b"\n")
        return json.loads(await self._process.stdout.readline())

    async def stop(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            await self._process.wait()


class MixedPlace(Place):
    """Half of the agents are older."""

    older_agents: OlderCrowd

    @property
    def asked(self) -> list[Replica]:
        """As a balancer does, users are led to none that is about to end."""
        return self.replicas.up

    async def join(self, agents: list[dict[str, str]]) -> None:
        await super().join(agents[OLDER_AGENTS:])
        await self.older_agents.ask(
            "join",
            agents=agents[:OLDER_AGENTS],
            ca=self.authority,
            addresses=self.addresses,
            patience=PATIENCE,
        )

    async def look(self) -> dict[str, Any]:
        said, theirs = await super().look(), await self.older_agents.ask("snapshot")
        self.seen.settled += theirs["settled"]
        return said | {name: said[name] + theirs[name] for name in ("linked", "waiting")}

    async def held(self) -> dict[str, Any]:
        said, theirs = await super().held(), await self.older_agents.ask("held")
        return {name: said[name] | theirs[name] for name in said}

    async def carry_out_more(self) -> None:
        """Wait until every agent, older or not, has carried out something committed from now on."""
        before, waits = len(self.seen.settled), set(self.seen.marks)
        async with asyncio.timeout(PATIENCE):
            while waits:
                await self.look()
                waits -= {one[0] for one in self.seen.settled[before:]}
                await asyncio.sleep(0.05)


@pytest.fixture
async def place(
    tmp_path: Path, older: dict[str, str], postgres: Postgres, redis: Redis
) -> AsyncIterator[MixedPlace]:
    """An older replica with agents of both versions, which hold their services."""
    with ExitStack() as ends:
        place = MixedPlace(ends, tmp_path, (postgres, redis), first=older)
        place.older_agents = OlderCrowd(older)
        await place.older_agents.start()
        try:
            await place.begin()
            yield place
        finally:
            await place.crowd.tasks.stop()
            await place.older_agents.stop()


async def schema(url: str) -> str:
    """The revision that a store says it has."""
    connection = await asyncpg.connect(url.replace("+asyncpg", ""), ssl=False)
    try:
        return await connection.fetchval("SELECT version_num FROM alembic_version")
    finally:
        await connection.close()


async def test_versions_one_apart_lose_and_double_nothing(place: MixedPlace) -> None:
    """A newer replica comes, changes the schema beneath the older one, and takes its place.

    All the time somebody commits and a user makes clusters, by turns at both.
    """
    load, over = Tasks("load"), asyncio.Event()
    makes = load.spawn("make", make_clusters(place, over))
    commits = load.spawn("commit", commit_often(place, over))
    assert await schema(place.database) == previous.SCHEMA
    await asyncio.to_thread(place.replicas.start_others)
    assert await schema(place.database) >= previous.SCHEMA
    await place.carry_out_more()
    await place.crowd.cut(1.0)
    await place.older_agents.ask("cut", share=1.0)
    await place.carry_out_more()
    first = place.replicas.replicas[0]
    first.drain()
    assert await asyncio.to_thread(first.wait_ended) == 0
    await place.carry_out_more()
    over.set()
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(makes, commits)
    assert place.refusals == []
    place.commit()
    assert await place.settle() == []
