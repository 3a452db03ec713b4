"""Desired state beyond the protocol, and agents that report too much."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import pytest

from controlplane.agents.link.observations import SessionObserver
from controlplane.agents.link.report_limiter import BURST, THROTTLED_ALARM, report_weight
from controlplane.agents.link.session import AgentSession
from controlplane.agents.operations.agents import AgentOperations
from controlplane.services.model.status_codes import ServiceStatus
from controlplane.services.ports import ServiceStore
from core.errors import Unavailable
from core.identity import ClusterId
from core.wire.v1 import agent_pb2 as wire
from tests.fakes.clock import FakeClock
from tests.fakes.manifests import config_map
from tests.integration.controlplane.conftest import World
from tests.integration.controlplane.test_agentlink import (
    Hub,
    TalkingAgent,
    a_service,
    listening,
    registered,
)
from tests.integration.controlplane.test_agentlink_revoked import HELLO, NarrowStream, observer_of

TOO_LONG = "x" * 254
MORE = 40


@pytest.fixture
async def hub(world: World) -> AsyncIterator[Hub]:
    """A listening hub."""
    async with listening(world, world.identity, world.clock) as running:
        yield running


async def test_a_service_the_protocol_cannot_carry_blocks_no_other(hub: Hub) -> None:
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
        await tx[ServiceStore].change(bad.id, name=TOO_LONG)
    agent = await hub.agent(token)
    await agent.hello()
    assert [one.service_id for one in await agent.difference()] == [good.id]
    shown = await world.services.get(world.admin, bad.id)
    assert shown.status is ServiceStatus.FAILED
    assert "towline.v1.ServiceSpec.name" in shown.observed.problems[0].message
    world.manifests.push(repository.id, {"shop": [config_map("c")], "bad": [config_map("d")]})
    await world.delivery.deliver(repository.id)
    assert (await agent.read("desired")).desired.service_id == good.id


async def test_an_agent_that_tells_of_too_much_waits_and_people_see_why(hub: Hub) -> None:
    """Nothing is lost: what is more than the burst is committed as time goes on."""
    world = hub.world
    assert isinstance(world.clock, FakeClock)
    cluster_id, token = await registered(world)
    agent = await hub.agent(token)
    await agent.hello()
    drift = wire.Drift(service_id="nobody")
    burst = BURST // report_weight(wire.Report(drift=drift))
    for number in range(1, burst + MORE + 1):
        await agent.report(number, drift=drift)
    number = 0
    while (await world.clusters.get(world.admin, cluster_id)).alarm != THROTTLED_ALARM:
        assert number < burst + MORE
        number = await acknowledged(agent, world.clock)
    while number < burst + MORE:
        number = await acknowledged(agent, world.clock, 1.0)


async def acknowledged(agent: TalkingAgent, clock: FakeClock, step: float = 0.06) -> int:
    """The number of the next report that is, as time goes on: hardly, where machines are slow."""
    reading = asyncio.ensure_future(agent.read("ack"))
    while not reading.done():
        await clock.advance(step)
        await asyncio.wait({reading}, timeout=0.2)
    return reading.result().ack.number


async def test_no_agents_reports_are_taken_all_at_once(hub: Hub) -> None:
    """Those of others are to come in between."""
    assert isinstance(hub.world.clock, FakeClock)
    _, token = await registered(hub.world)
    agent = await hub.agent(token)
    await agent.hello()
    for number in range(1, 351):
        await agent.report(number, status=wire.ServiceStatus(service_id="nobody"))
    numbers = [0]
    while numbers[-1] < 350:
        numbers.append(await acknowledged(agent, hub.world.clock))
    assert all(after - before <= 100 for before, after in pairwise(numbers))


async def test_a_transaction_takes_few_large_inventories(hub: Hub) -> None:
    """Everybody else waits for its end."""
    assert isinstance(hub.world.clock, FakeClock)
    _, token = await registered(hub.world)
    agent = await hub.agent(token)
    await agent.hello()
    gone = [wire.ObjectRef(kind="Pod", name=f"p{number}") for number in range(15_000)]
    for number in range(1, 4):
        inventory = wire.Inventory(service_id="nobody", gone=gone)
        await agent.report(number, inventory=inventory)
    assert [await acknowledged(agent, hub.world.clock) for _ in range(3)] == [1, 2, 3]


class Stalled(SessionObserver):
    """Lets nothing be committed."""

    async def admit(self, cluster_id: ClusterId, weights: Sequence[int]) -> int:
        await asyncio.Event().wait()
        return len(weights)


async def test_large_reports_fill_no_memory_while_they_wait(world: World) -> None:
    """Forty of a megabyte each: most of them stay with the agent."""
    cluster_id, _ = await registered(world)
    gone = [wire.ObjectRef(kind="Pod", name=f"{number:0253}") for number in range(4000)]
    report = wire.Report(at_ms=1, inventory=wire.Inventory(service_id="nobody", gone=gone))
    read = 0

    async def incoming() -> AsyncIterator[wire.AgentMessage]:
        nonlocal read
        for read in range(1, 41):
            report.number = read
            yield wire.AgentMessage(report=report)
            await asyncio.sleep(0)
        await asyncio.Event().wait()

    stream = NarrowStream(most=100)
    observer = Stalled(world.agents, world.deps.bus, world.logs, world.clock)
    session = AgentSession(ClusterId(cluster_id), "t", world.agents, stream, observer)
    running = asyncio.ensure_future(session.run(HELLO, incoming()))
    async with asyncio.timeout(60):
        while read < 8:
            await asyncio.sleep(0.01)
    for _ in range(500):
        await asyncio.sleep(0)
    assert read < 12
    running.cancel()
    await asyncio.wait({running})


async def test_a_service_without_a_fence_is_not_sent(world: World) -> None:
    """Its agent would apply it with its own rights."""
    cluster_id, _ = await registered(world)
    service_id = await a_service(world, cluster_id)
    state = await world.agents.desired_state(ClusterId(cluster_id))
    assert state.fences[service_id].project == "default"

    class Fenceless:
        """Operations whose desired state names no fence."""

        async def record_connection(self, *given: Any) -> Any:
            greeting = await world.agents.record_connection(*given)
            return replace(greeting, desired_state=replace(state, fences={}))

        def __getattr__(self, name: str) -> Any:
            return getattr(world.agents, name)

    stream = NarrowStream(most=100)
    agents = cast(AgentOperations, Fenceless())
    session = AgentSession(ClusterId(cluster_id), "t", agents, stream, observer_of(world))

    async def nothing() -> AsyncIterator[wire.AgentMessage]:
        return
        yield

    await session.run(HELLO, nothing())
    assert not any(message.desired.service_id for message in stream.taken)
    assert any(message.HasField("desired_end") for message in stream.taken)
    shown = await world.services.get(world.admin, service_id)
    assert "does not exist any more" in str(shown.observed)


async def test_a_throttle_alarm_of_an_earlier_process_is_cleared(hub: Hub) -> None:
    """The budget went with that process; its alarm stays in the store."""
    world = hub.world
    assert isinstance(world.clock, FakeClock)
    cluster_id, token = await registered(world)
    await world.agents.set_alarm(ClusterId(cluster_id), THROTTLED_ALARM)
    await (await hub.agent(token)).hello()
    await world.clock.advance(30.0)
    async with asyncio.timeout(30):
        while (await world.clusters.get(world.admin, cluster_id)).alarm:
            await asyncio.sleep(0.02)


async def test_an_alarm_is_cleared_once_the_store_answers_again(world: World) -> None:
    """The budget is full again only once."""

    class Unreachable(AgentOperations):
        """Operations whose store does not answer the first time."""

        refusals = 0

        async def set_alarm(self, cluster_id: ClusterId, text: str) -> None:
            if text == "" and not self.refusals:
                self.refusals += 1
                raise Unavailable("the store does not answer")
            await super().set_alarm(cluster_id, text)

    clock, world.agents = world.clock, Unreachable(world.deps)
    assert isinstance(clock, FakeClock)
    cluster_id, token = await registered(world)
    await world.agents.set_alarm(ClusterId(cluster_id), THROTTLED_ALARM)
    async with listening(world, world.identity, clock) as hub:
        await (await hub.agent(token)).hello()
        async with asyncio.timeout(30):
            while (await world.clusters.get(world.admin, cluster_id)).alarm:
                await clock.advance(5.0)
                await asyncio.sleep(0.02)
