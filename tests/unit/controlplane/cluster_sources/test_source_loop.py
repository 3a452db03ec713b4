"""Cluster sources are reconciled at the start and after changes, and cleaned up when deleted."""

from collections.abc import AsyncIterator

import pytest

from controlplane.cluster_sources.loop import ClusterSourceLoop
from controlplane.platform.ports import LOST_WAKES
from tests.fakes.actors import ADMIN
from tests.fakes.clock import settle
from tests.fakes.cluster_sources import ClusterSourceWorld, cluster_source_world, initialized

TURNS = 500


@pytest.fixture
async def world() -> AsyncIterator[ClusterSourceWorld]:
    """A started loop, and a source that has registered one cluster."""
    world = await cluster_source_world()
    await world.create()
    world.hub.put("eu", status=initialized())
    loop = ClusterSourceLoop(world.reconciler, world.clean_up, world.memory.context, "here")
    await loop.start()
    await settle(TURNS)
    yield world
    await loop.stop()


async def test_all_sources_are_reconciled_at_the_start(world: ClusterSourceWorld) -> None:
    """Their next run may be hours away."""
    assert list(await world.clusters()) == ["eu"]


async def test_all_sources_are_reconciled_after_lost_wake_ups(world: ClusterSourceWorld) -> None:
    world.hub.put("us")
    await settle(TURNS)
    assert list(await world.clusters()) == ["eu"]
    world.memory.bus.publish(LOST_WAKES)
    await settle(TURNS)
    assert sorted(await world.clusters()) == ["eu", "us"]


async def test_a_requested_run_begins_at_once(world: ClusterSourceWorld) -> None:
    world.hub.put("us")
    source = await world.sources.get(ADMIN, None, "capi")
    await world.sources.sync(ADMIN, source.id)
    await settle(TURNS)
    assert sorted(await world.clusters()) == ["eu", "us"]


async def test_a_deleted_source_is_cleaned_up_at_once(world: ClusterSourceWorld) -> None:
    source = await world.sources.get(ADMIN, None, "capi")
    assert world.hub.objects
    await world.sources.delete(ADMIN, source.id)
    await settle(TURNS)
    assert world.hub.objects == {}
