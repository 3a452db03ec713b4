"""An agent that lies about numbers is refused by name, and nobody else is the worse for it."""

import asyncio

import pytest

from controlplane.agents.link.server import AgentLink
from controlplane.clusters.operations.bootstrap_tokens import BootstrapTokens
from controlplane.clusters.ports import ClusterStore
from core.rpc.calls import CallFailed, CallStatus, ServerLimits
from core.rpc.grpcio import GrpcioChannel
from core.rpc.http2_server import Http2Server
from core.rpc.methods import SYNC
from core.runtime.clock import SystemClock
from core.wire.v1 import agent_pb2 as wire
from tests.integration.controlplane.conftest import World

PATIENCE = 10
GREETING = wire.Hello(lowest_protocol=1, highest_protocol=1, instance_id="i")
TOO_MANY = wire.Hello(
    lowest_protocol=1, highest_protocol=1, facts=wire.ClusterFacts(nodes=2**32 - 1)
)


async def say(world: World, *messages: wire.AgentMessage) -> CallFailed:
    """End of the call in which an agent says this."""
    cluster = await world.cluster(connected=False)
    _, token = await world.clusters.rotate_token(world.admin, cluster.id)
    link = AgentLink(
        world.agents,
        world.identity,
        BootstrapTokens(world.deps),
        world.deps.bus,
        world.logs,
        SystemClock(),
    )
    server = Http2Server(link.handlers, ServerLimits(), SystemClock())
    port = await server.start(("127.0.0.1", 0), None)
    channel = GrpcioChannel(f"127.0.0.1:{port}", secure=False)
    try:
        talk = await SYNC.begin(channel, (("authorization", f"Bearer {token}"),))
        for message in messages:
            await talk.write(message)
        with pytest.raises(CallFailed) as ended:
            async with asyncio.timeout(PATIENCE):
                while await talk.read() is not None:
                    pass
        return ended.value
    finally:
        await channel.close()
        await server.stop()
        await link.stop()


async def test_an_impossible_count_of_nodes_is_not_kept(world: World) -> None:
    ended = await say(world, wire.AgentMessage(hello=TOO_MANY))
    assert ended.status is CallStatus.INVALID_ARGUMENT
    assert "nodes" in ended.message
    async with world.deps.store.read() as tx:
        assert [one.nodes for one in await tx[ClusterStore].all()] == [None]


async def test_an_impossible_report_number_ends_the_call_with_a_reason(world: World) -> None:
    report = wire.Report(number=2**64 - 1, at_ms=2**62)
    hello = wire.AgentMessage(hello=GREETING)
    ended = await say(world, hello, wire.AgentMessage(report=report))
    assert ended.status is CallStatus.INVALID_ARGUMENT
    assert "number" in ended.message
