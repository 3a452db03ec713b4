"""Desired states that the protocol cannot carry."""

from collections.abc import AsyncIterator

import pytest

from controlplane.domain.services import ServiceStatus
from tests.fakes.manifests import config_map
from tests.integration.controlplane.conftest import World
from tests.integration.controlplane.test_agentlink import Hub, listening, registered

TOO_LONG = "x" * 254


@pytest.fixture
async def hub(world: World) -> AsyncIterator[Hub]:
    """A listening hub."""
    async with listening(world, world.identity, world.clock) as running:
        yield running


async def test_what_the_protocol_cannot_carry_keeps_nothing_else_back(hub: Hub) -> None:
    """The service says why it has failed; the agent stays and gets the others, now and later."""
    world = hub.world
    cluster_id, token = await registered(world)
    cluster = await world.clusters.get(world.admin, cluster_id)
    repository = await world.repository()
    good = await world.service(cluster, repository)
    bad = await world.service(cluster, repository, "bad")
    world.manifests.push(repository.id, {"shop": [config_map("a")], "bad": [config_map("b")]})
    await world.delivery.deliver(repository.id)
    async with world.deps.store.write() as tx:
        await tx.services.change(bad.id, name=TOO_LONG)
    agent = await hub.agent(token)
    await agent.hello()
    assert [one.service_id for one in await agent.difference()] == [good.id]
    shown = await world.services.get(world.admin, bad.id)
    assert shown.status is ServiceStatus.FAILED
    assert "fleet.v1.ServiceSpec.name" in shown.problems[0].message
    world.manifests.push(repository.id, {"shop": [config_map("c")], "bad": [config_map("d")]})
    await world.delivery.deliver(repository.id)
    assert (await agent.read("desired")).desired.service_id == good.id
