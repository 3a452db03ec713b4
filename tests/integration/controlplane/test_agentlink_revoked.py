"""Agents whose deploy token has ended, at every moment of a call."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.ports import TokenStore
from controlplane.agents.link.observations import SessionObserver
from controlplane.agents.link.session import GOODBYE_SECONDS, AgentSession
from controlplane.clusters.operations.deploy_tokens import DeployTokenReader
from core.identity import ClusterId
from core.rpc.calls import CallFailed, CallStatus
from core.wire.v1 import agent_pb2 as wire
from tests.integration.controlplane.conftest import World
from tests.integration.controlplane.test_agentlink import Hub, listening, registered

HELLO = wire.Hello(lowest_protocol=1, highest_protocol=1, instance_id="i")
A_GOOD_WHILE = GOODBYE_SECONDS + 8


class WatchedIdentity(CredentialAuthenticator):
    """Tells when an agent has signed in."""

    def __init__(self, world: World) -> None:
        super().__init__(world.deps, DeployTokenReader(world.deps.store))
        self.signed_in = asyncio.Event()

    async def authenticate_agent(self, token: str) -> tuple[ClusterId, str]:
        found = await super().authenticate_agent(token)
        self.signed_in.set()
        return found


def observer_of(world: World) -> SessionObserver:
    """An observer whose link writes nothing."""
    return SessionObserver(world.agents, world.deps.bus, world.logs, world.clock)


class NarrowStream:
    """An agent that takes some messages and then reads no more."""

    def __init__(self, most: int) -> None:
        self.room = most
        self.taken: list[wire.HubMessage] = []

    async def write(self, message: wire.HubMessage) -> None:
        if self.room == 0:
            await asyncio.Event().wait()
        self.room -= 1
        self.taken.append(message)


@pytest.fixture
async def identity(world: World) -> WatchedIdentity:
    return WatchedIdentity(world)


@pytest.fixture
async def hub(world: World, identity: WatchedIdentity) -> AsyncIterator[Hub]:
    """A listening hub whose time only the test moves."""
    async with listening(world, identity, world.clock) as running:
        yield running


async def until_alone(hub: Hub) -> None:
    async with asyncio.timeout(A_GOOD_WHILE):
        while hub.link.connected():
            await asyncio.sleep(0.01)


async def test_a_token_rotated_before_hello_is_refused(hub: Hub, identity: WatchedIdentity) -> None:
    """Nobody heard of the call yet when the token ended; it is asked again at Hello."""
    cluster_id, token = await registered(hub.world)
    agent = await hub.agent(token)
    await asyncio.wait_for(identity.signed_in.wait(), 60)
    await hub.world.clusters.rotate_token(hub.world.admin, cluster_id)
    with pytest.raises(CallFailed) as refused:
        await agent.hello()
    assert refused.value.status is CallStatus.UNAUTHENTICATED
    assert not hub.link.connected()


async def test_a_token_that_ended_without_a_word_is_noticed(hub: Hub) -> None:
    """The sweep ends a live call whose revocation was never published."""
    world = hub.world
    cluster_id, token = await registered(world)
    agent = await hub.agent(token)
    await agent.hello()
    async with world.deps.store.write() as tx:
        (row,) = await tx[TokenStore].select(cluster_id=cluster_id)
        await tx[TokenStore].revoke(row.id, world.clock.now())
    await world.clock.advance(30)
    assert (await agent.read("goodbye")).goodbye.reason == wire.GOODBYE_REASON_REVOKED
    await until_alone(hub)


async def test_an_agent_that_reads_nothing_is_cut_off(hub: Hub) -> None:
    """Thousands of messages that nobody reads block the way of the goodbye, not the end."""
    cluster_id, token = await registered(hub.world)
    agent = await hub.agent(token)
    held = [wire.Held(service_id=f"{n:064}", sequence=1) for n in range(20_000)]
    hello = wire.Hello(lowest_protocol=1, highest_protocol=1, instance_id="i", held=held)
    await agent.call.write(wire.AgentMessage(hello=hello))
    async with asyncio.timeout(A_GOOD_WHILE):
        while not hub.link.connected():
            await asyncio.sleep(0.01)
    await hub.world.clusters.rotate_token(hub.world.admin, cluster_id)
    await until_alone(hub)


async def test_reports_behind_a_goodbye_are_not_taken(world: World) -> None:
    """A revoked agent may still talk while its goodbye waits; nothing of it is committed."""
    cluster_id, _ = await registered(world)
    queue: asyncio.Queue[wire.AgentMessage] = asyncio.Queue()

    async def incoming() -> AsyncIterator[wire.AgentMessage]:
        while True:
            yield await queue.get()

    stream = NarrowStream(most=2)
    session = AgentSession(ClusterId(cluster_id), "t", world.agents, stream, observer_of(world))
    running = asyncio.ensure_future(session.run(HELLO, incoming()))
    async with asyncio.timeout(A_GOOD_WHILE):
        while stream.room:
            await asyncio.sleep(0.01)
        session.say_goodbye(wire.GOODBYE_REASON_REVOKED, "revoked")
        drift = wire.Drift(service_id="s")
        queue.put_nowait(wire.AgentMessage(report=wire.Report(number=1, at_ms=1, drift=drift)))
        await running
    assert (await world.clusters.get(world.admin, cluster_id)).acknowledged == 0
    assert [one.WhichOneof("body") for one in stream.taken] == ["welcome", "desired_end"]
