"""Agents that come at the same time: few transactions, and each its own answer."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

from controlplane.agents.operations.agents import AgentOperations
from controlplane.agents.operations.sessions import AgentConnected, AgentHello
from controlplane.platform.ports import Store
from core.errors import NotFound
from core.identity import ClusterId
from core.spec.facts import ClusterFacts
from tests.fakes.audit_rows import audit_rows
from tests.fakes.manifests import config_map
from tests.integration.controlplane.conftest import World

MANY = 60


class CountingStore:
    """Counts transactions that are begun on a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.begun = 0

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[Any, None]:
        self.begun += 1
        async with self._store.read() as tx:
            yield tx

    @asynccontextmanager
    async def write(self) -> AsyncGenerator[Any, None]:
        self.begun += 1
        async with self._store.write() as tx:
            yield tx


def greeting(number: int) -> AgentHello:
    return AgentHello(f"instance-{number}", "0.1.0", ClusterFacts("v1.36.3", "EKS", number))


async def test_agents_that_come_at_once_share_transactions(world: World) -> None:
    """Each is noted as itself, with a row of audit of its own."""
    ids = [(await world.cluster(f"c{n}", connected=False)).id for n in range(MANY)]
    store = CountingStore(world.deps.store)
    agents = AgentOperations(replace(world.deps, store=cast(Store, store)))
    answers = await asyncio.gather(
        *(agents.record_connection(id, greeting(n)) for n, id in enumerate(ids))
    )
    assert [one.cluster.id for one in answers] == ids
    assert [one.cluster.nodes for one in answers] == list(range(MANY))
    assert store.begun <= 4
    async with world.deps.store.read() as tx:
        rows = await audit_rows(tx, "agent.connect")
    assert [one.target_id for one in rows] == ids
    assert len({one.after_digest for one in rows}) == MANY


async def test_one_whose_cluster_is_gone_stops_nobody(world: World) -> None:
    first, last = await world.cluster("a"), await world.cluster("b")
    answers = await asyncio.gather(
        world.agents.record_connection(first.id, greeting(1)),
        world.agents.record_connection(ClusterId("gone"), greeting(2)),
        world.agents.record_connection(last.id, greeting(3)),
        return_exceptions=True,
    )
    assert [type(one) for one in answers] == [AgentConnected, NotFound, AgentConnected]


async def test_the_later_of_two_agents_of_a_cluster_stays(world: World) -> None:
    """Also where both are taken in at once."""
    first, second = await world.cluster("a"), await world.cluster("b")
    await asyncio.gather(
        world.agents.record_connection(second.id, greeting(0)),
        *(world.agents.record_connection(first.id, greeting(n)) for n in (1, 2, 3)),
    )
    assert await world.agents.instances([first.id]) == {first.id: "instance-3"}


async def test_each_cluster_receives_only_its_own_services(world: World) -> None:
    repository = await world.repository()
    clusters = [await world.cluster(name) for name in ("a", "b", "c")]
    services = [await world.service(one, repository, "shop") for one in clusters[:2]]
    world.manifests.push(repository.id, {"shop": [config_map("a")]})
    await world.delivery.deliver(repository.id)
    answers = await asyncio.gather(
        *(world.agents.record_connection(one.id, greeting(n)) for n, one in enumerate(clusters))
    )
    desired = [[service.id for service in one.desired_state.services] for one in answers]
    assert desired == [[services[0].id], [services[1].id], []]
