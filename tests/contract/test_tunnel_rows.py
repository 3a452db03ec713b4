"""Claims of agents' links on both databases: the highest epoch owns."""

import asyncio

import pytest

from controlplane.agents.operations.tunnels import TunnelClaims
from controlplane.platform.bus.memory import MemoryBus
from controlplane.platform.context import TUNNEL, StoreContext
from controlplane.platform.ports import Store
from core.errors import Conflict, LimitExceeded
from core.identity import ClusterId
from tests.fakes.clock import FakeClock

CLUSTER = ClusterId("c1")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def bus() -> MemoryBus:
    return MemoryBus()


@pytest.fixture
def tunnels(store: Store, bus: MemoryBus, clock: FakeClock) -> TunnelClaims:
    return TunnelClaims(StoreContext(store, bus, clock))


async def test_each_claim_raises_the_epoch_and_wakes_the_others(
    tunnels: TunnelClaims, bus: MemoryBus
) -> None:
    wakes = bus.subscribe(TUNNEL)
    first = await tunnels.claim(CLUSTER, "a", "one", "10.0.0.1")
    assert await anext(wakes) == (TUNNEL, f"{CLUSTER} a")
    second = await tunnels.claim(CLUSTER, "b", "one", "10.0.0.1")
    assert (first.epoch, second.epoch) == (1, 2)
    found = await tunnels.find(CLUSTER)
    assert found is not None and (found.replica_id, found.epoch) == ("b", 2)
    assert await tunnels.moved_links("a", {CLUSTER: 1}) == [found]
    assert await tunnels.moved_links("b", {CLUSTER: 2}) == []


async def test_a_replaced_tunnel_owner_releases_nothing(tunnels: TunnelClaims) -> None:
    await tunnels.claim(CLUSTER, "a", "one", "10.0.0.1")
    await tunnels.claim(CLUSTER, "b", "one", "10.0.0.1")
    await tunnels.release(CLUSTER, 1)
    assert await tunnels.find(CLUSTER) is not None
    await tunnels.release(CLUSTER, 2)
    assert await tunnels.find(CLUSTER) is None
    assert (await tunnels.claim(CLUSTER, "a", "one", "10.0.0.1")).epoch == 3


async def test_claims_at_once_get_epochs_of_their_own(tunnels: TunnelClaims) -> None:
    await tunnels.claim(CLUSTER, "a", "one", "10.0.0.1")
    made = await asyncio.gather(
        *(tunnels.claim(CLUSTER, name, "one", "10.0.0.1") for name in "bcdefg")
    )
    assert sorted(one.epoch for one in made) == [2, 3, 4, 5, 6, 7]


async def test_concurrent_first_claims_succeed_or_conflict(tunnels: TunnelClaims) -> None:
    made = await asyncio.gather(
        *(tunnels.claim(CLUSTER, name, "one", "10.0.0.1") for name in "ab"), return_exceptions=True
    )
    assert {type(one) for one in made} <= {type(made[0]), type(made[1])}
    epochs = [one.epoch for one in made if not isinstance(one, BaseException)]
    assert epochs in ([1], [1, 2], [2, 1])
    assert all(isinstance(one, Conflict) for one in made if isinstance(one, BaseException))


async def test_two_agents_that_fight_are_named_and_the_newcomer_waits(
    tunnels: TunnelClaims, clock: FakeClock
) -> None:
    for number, agent in enumerate(("one", "two", "one", "two")):
        await tunnels.claim(CLUSTER, "ab"[number % 2], agent, f"at {agent}")
    with pytest.raises(LimitExceeded, match="at two and at one"):
        await tunnels.claim(CLUSTER, "a", "one", "at one")
    assert (await tunnels.claim(CLUSTER, "a", "two", "at two")).epoch == 5
    await clock.advance(61)
    assert (await tunnels.claim(CLUSTER, "a", "one", "at one")).epoch == 6


async def test_replicas_are_known_until_they_leave(tunnels: TunnelClaims) -> None:
    await tunnels.beat("a", "10.0.0.1:8446")
    await tunnels.claim(CLUSTER, "a", "one", "10.0.0.9")
    known = await tunnels.beat("b", "10.0.0.2:8446")
    assert {one.id: one.address for one in known} == {"a": "10.0.0.1:8446", "b": "10.0.0.2:8446"}
    await tunnels.leave("a")
    assert [one.id for one in await tunnels.beat("b", "10.0.0.2:8446")] == ["b"]
    assert await tunnels.find(CLUSTER) is None
