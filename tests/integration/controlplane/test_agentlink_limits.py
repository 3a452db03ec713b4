"""Desired states that the protocol cannot carry."""

from collections.abc import AsyncIterator

import grpc
import pytest

from controlplane.agentlink.server import AgentLink
from controlplane.domain.services import ServiceStatus
from fleet.wire.v1 import agent_pb2_grpc
from tests.fakes.manifests import config_map
from tests.integration.controlplane.conftest import World
from tests.integration.controlplane.test_agentlink import Hub, registered

TOO_LONG = "x" * 254


@pytest.fixture
async def hub(world: World) -> AsyncIterator[Hub]:
    """A listening hub."""
    link = AgentLink(world.agents, world.identity, world.deps.bus, world.clock)
    server = grpc.aio.server()
    agent_pb2_grpc.add_AgentServicer_to_server(link, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    link.start()
    running = Hub(world, port, link)
    yield running
    for agent in running.agents:
        await agent.close()
    await link.stop()
    await server.stop(None)


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
