"""Upgrades of agents to the version of their settings."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controlplane.agents.operations.upgrades import AgentUpgrades
from controlplane.clusters.model.agent_settings import MAX_UPGRADING, AgentSettings, AgentSpec
from controlplane.clusters.model.cluster import SILENT_AFTER, Cluster
from controlplane.clusters.model.commands import CommandKind, CommandState
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.model.selectors import Selector
from controlplane.clusters.ports import AgentSettingsStore, ClusterStore, CommandStore
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, make_cluster, operations_over_memory

PROD_SPEC = AgentSpec(Selector(tags={"env": "prod"}), version="1.2.0", image="towline:1.2.0")
PROD = AgentSettings("s1", "prod", START, START, PROD_SPEC)
EVERYWHERE = AgentSettings("s2", "global", START, START)


@pytest.fixture
def world() -> MemoryOperations:
    return operations_over_memory()


def prod(handle: str, **columns: Any) -> Cluster:
    given = {"tags": {"env": "prod"}, "pinged_at": START, "agent_version": "1.1.0"}
    return make_cluster(handle, **given | columns)


async def asked(world: MemoryOperations) -> list[str]:
    """Clusters whose agents are asked to upgrade, after another round."""
    await AgentUpgrades(world.context).upgrade_outdated()
    rows = await world.rows(CommandStore, kind=CommandKind.UPGRADE, state=CommandState.WAITING)
    return sorted(command.cluster_id for command in rows)


async def end(world: MemoryOperations, cluster: str, state: CommandState) -> None:
    async with world.store.write() as tx:
        for command in await tx[CommandStore].select(cluster_id=cluster):
            await tx[CommandStore].change(command.id, state=state, finished_at=START)


async def test_agents_with_another_version_are_asked_once(world: MemoryOperations) -> None:
    frozen = ClusterGroup("g", "frozen", START, START, cluster_ids=("frozen",), frozen=True)
    clusters = [
        prod("eu"),
        prod("current", agent_version="1.2.0"),
        prod("kept", tags={"env": "prod", "towline-agent": "keep"}),
        prod("silent", pinged_at=START - SILENT_AFTER - timedelta(seconds=1)),
        prod("never", pinged_at=None),
        prod("frozen"),
        prod("dev", tags={}),
    ]
    await world.given(frozen, PROD, EVERYWHERE, *clusters)
    assert await asked(world) == ["eu"]
    assert await asked(world) == ["eu"]
    (command,) = await world.rows(CommandStore)
    assert command.payload == {"version": "1.2.0", "image": "towline:1.2.0"}
    assert [row[1:] for row in await world.audited()] == [("upgradeAgents", "prod")]
    assert ("desired", "eu/upgrade") in world.published


async def test_a_failed_upgrade_is_not_repeated_until_the_settings_change(
    world: MemoryOperations,
) -> None:
    await world.given(PROD, prod("eu"))
    assert await asked(world) == ["eu"]
    await end(world, "eu", CommandState.FAILED)
    assert await asked(world) == []
    await world.clock.advance(1)
    async with world.store.write() as tx:
        changed = replace(PROD, spec=replace(PROD_SPEC, version="1.2.1", image="towline:1.2.1"))
        await tx[AgentSettingsStore].put(changed)
    assert await asked(world) == ["eu"]


async def test_few_agents_upgrade_at_the_same_time_and_failed_ones_keep_their_place(
    world: MemoryOperations,
) -> None:
    clusters = [prod(f"c{n:02}") for n in range(MAX_UPGRADING + 5)]
    await world.given(PROD, *clusters)
    first = [cluster.id for cluster in clusters[:MAX_UPGRADING]]
    assert await asked(world) == first
    await end(world, "c00", CommandState.SUCCEEDED)
    await end(world, "c01", CommandState.FAILED)
    async with world.store.write() as tx:
        await tx[ClusterStore].change("c00", agent_version="1.2.0")
    assert await asked(world) == [*first[2:], f"c{MAX_UPGRADING}"]


async def test_settings_without_a_version_ask_nobody(world: MemoryOperations) -> None:
    await world.given(EVERYWHERE, prod("eu"))
    assert await asked(world) == [] and await world.audited() == []
