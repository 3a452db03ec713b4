"""Configuration sources are reconciled at the start, and after commits and changes."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from controlplane.configuration_sources.loop import ConfigurationSourceLoop
from controlplane.platform.ports import LOST_WAKES
from controlplane.repositories.operations import RepositoryOperations
from tests.fakes.actors import ADMIN
from tests.fakes.clock import settle
from tests.fakes.source_world import REPOSITORY, SourceWorld, source_world

TURNS = 1_000


@dataclass
class Running:
    """The loop of a replica that handles these repositories."""

    world: SourceWorld
    handled: set[str] = field(default_factory=lambda: {REPOSITORY})

    async def commit(self) -> str:
        """The commit of the last reconciliation."""
        await settle(TURNS)
        return (await self.world.status()).seen_sha

    def push(self) -> str:
        """A commit that the git cache reports."""
        return self.world.git.push_files(REPOSITORY, {"fleet/readme.txt": "changed"})


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    """A source of one commit, and a newer commit before the start of the loop."""
    world = await source_world()
    await world.create()
    await RepositoryOperations(world.manifests.memory.context).update_followed_refs(REPOSITORY)
    running = Running(world)
    head = running.push()
    loop = ConfigurationSourceLoop(
        world.reconciler,
        world.manifests.memory.context,
        lambda id: id in running.handled,
        "here",
    )
    await loop.start()
    assert await running.commit() == head
    yield running
    await loop.stop()


async def test_a_commit_is_applied_at_once(running: Running) -> None:
    head = running.push()
    assert await running.commit() == head


async def test_a_commit_of_a_repository_of_another_replica_is_applied_there(
    running: Running,
) -> None:
    running.handled.clear()
    before = await running.commit()
    running.push()
    assert await running.commit() == before


async def test_all_sources_are_reconciled_after_lost_wake_ups(running: Running) -> None:
    running.handled.clear()
    head = running.push()
    running.world.manifests.memory.bus.publish(LOST_WAKES)
    assert await running.commit() == head


async def test_a_requested_run_begins_at_once(running: Running) -> None:
    running.handled.clear()
    head = running.push()
    (source,) = await running.world.rows()
    await running.world.sources.sync(ADMIN, source.id)
    assert await running.commit() == head
