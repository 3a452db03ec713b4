"""Ownership of agents' tunnels between replicas of the control plane."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from controlplane.agents.operations.tunnels import TunnelClaims
from controlplane.agents.ports import TunnelStore
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.context import TUNNEL
from core.errors import LimitExceeded
from core.identity import ClusterId
from core.spec.tunnels import MAX_TAKEOVERS
from tests.fakes.clock import settle
from tests.fakes.operations import MemoryOperations, make_cluster, operations_over_memory

DEV, PROD = ClusterId("dev"), ClusterId("prod")
DAY = 86_400


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(make_cluster(DEV), make_cluster(PROD))
    return world


@pytest.fixture
def tunnels(world: MemoryOperations) -> TunnelClaims:
    return TunnelClaims(world.context)


async def in_one_batch(world: MemoryOperations, *calls: Coroutine[Any, Any, Any]) -> list[Any]:
    """Results of concurrent calls: all after the first wait for it, and share one batch."""
    async with world.store.write():
        running = asyncio.gather(*calls, return_exceptions=True)
        await settle()
    return await running


async def test_a_claim_takes_the_tunnel_with_a_new_epoch(
    world: MemoryOperations, tunnels: TunnelClaims
) -> None:
    assert await tunnels.find(DEV) is None
    first = await tunnels.claim(DEV, "a", "agent", "192.0.2.1")
    second = await tunnels.claim(DEV, "b", "agent", "192.0.2.1")
    assert (first.epoch, second.epoch) == (1, 2)
    assert await tunnels.find(DEV) == second
    assert world.published == [(TUNNEL, "dev a"), (TUNNEL, "dev b")]


async def test_agents_that_replace_each_other_are_refused_and_raise_an_alarm(
    world: MemoryOperations, tunnels: TunnelClaims
) -> None:
    """The agent that holds the tunnel keeps it, and may reconnect."""
    await tunnels.claim(DEV, "a", "agent-0", "192.0.2.0")
    for number in range(1, MAX_TAKEOVERS + 1):
        await tunnels.claim(DEV, "a", f"agent-{number}", f"192.0.2.{number}")
    holder = await tunnels.find(DEV)
    with pytest.raises(LimitExceeded, match=r"192\.0\.2\.3 and 192\.0\.2\.9"):
        await tunnels.claim(DEV, "b", "agent-9", "192.0.2.9")
    assert await tunnels.find(DEV) == holder
    assert "192.0.2.9" in (await world.row(ClusterStore, DEV)).alarm
    assert (await world.row(ClusterStore, PROD)).alarm == ""
    again = await tunnels.claim(DEV, "b", f"agent-{MAX_TAKEOVERS}", "192.0.2.3")
    assert again.epoch == MAX_TAKEOVERS + 2


async def test_a_refused_claim_stops_no_other_claim_of_its_batch(
    world: MemoryOperations, tunnels: TunnelClaims
) -> None:
    for number in range(MAX_TAKEOVERS + 1):
        await tunnels.claim(DEV, "a", f"agent-{number}", "192.0.2.1")
    _, refused, claimed = await in_one_batch(
        world,
        tunnels.claim(PROD, "a", "agent", "192.0.2.2"),
        tunnels.claim(DEV, "b", "agent-9", "192.0.2.9"),
        tunnels.claim(PROD, "b", "agent", "192.0.2.2"),
    )
    assert isinstance(refused, LimitExceeded)
    assert await tunnels.find(PROD) == claimed
    assert world.published[-1] == (TUNNEL, "prod b")


async def test_claims_of_one_batch_follow_each_other(
    world: MemoryOperations, tunnels: TunnelClaims
) -> None:
    claims = [tunnels.claim(DEV, replica, "agent", "192.0.2.1") for replica in "abc"]
    assert [tunnel.epoch for tunnel in await in_one_batch(world, *claims)] == [1, 2, 3]
    found = await tunnels.find(DEV)
    assert found is not None and (found.replica_id, found.epoch) == ("c", 3)


async def test_only_the_present_epoch_is_released(
    world: MemoryOperations, tunnels: TunnelClaims
) -> None:
    await tunnels.claim(DEV, "a", "agent", "192.0.2.1")
    present = await tunnels.claim(DEV, "b", "agent", "192.0.2.1")
    await tunnels.release(DEV, 1)
    assert await tunnels.find(DEV) == present
    world.published.clear()
    for _ in range(2):
        await tunnels.release(DEV, 2)
    assert await tunnels.find(DEV) is None
    assert world.published == [(TUNNEL, "dev ")]
    assert (await tunnels.claim(DEV, "a", "agent", "192.0.2.1")).epoch == 3


async def test_a_replica_learns_which_tunnels_it_has_lost(tunnels: TunnelClaims) -> None:
    """A tunnel whose row is older than the replica's own epoch is not lost."""
    await tunnels.claim(DEV, "a", "agent", "192.0.2.1")
    await tunnels.claim(PROD, "a", "agent", "192.0.2.1")
    assert await tunnels.moved_links("a", {DEV: 1, PROD: 1}) == []
    taken = await tunnels.claim(DEV, "b", "agent", "192.0.2.1")
    assert await tunnels.moved_links("a", {DEV: 1, PROD: 1}) == [taken]
    again = await tunnels.claim(DEV, "a", "agent", "192.0.2.1")
    assert await tunnels.moved_links("a", {DEV: 1}) == [again]
    assert await tunnels.moved_links("a", {DEV: 9}) == []


async def test_replicas_are_known_for_a_day_after_their_last_heartbeat(
    world: MemoryOperations, tunnels: TunnelClaims
) -> None:
    await tunnels.beat("a", "10.0.0.1:8446")
    await world.clock.advance(DAY - 1)
    known = await tunnels.beat("b", "10.0.0.2:8446")
    assert {replica.id: replica.address for replica in known} == {
        "a": "10.0.0.1:8446",
        "b": "10.0.0.2:8446",
    }
    await world.clock.advance(2)
    (alone,) = await tunnels.beat("b", "10.0.0.3:8446")
    assert (alone.address, alone.heartbeat) == ("10.0.0.3:8446", world.clock.now())


async def test_a_replica_that_leaves_releases_its_tunnels(
    world: MemoryOperations, tunnels: TunnelClaims
) -> None:
    await tunnels.beat("a", "10.0.0.1:8446")
    await tunnels.beat("b", "10.0.0.2:8446")
    await tunnels.claim(DEV, "a", "agent", "192.0.2.1")
    kept = await tunnels.claim(PROD, "b", "agent", "192.0.2.1")
    world.published.clear()
    await tunnels.leave("a")
    assert world.published == [(TUNNEL, "dev ")]
    assert (await tunnels.find(DEV), await tunnels.find(PROD)) == (None, kept)
    assert [replica.id for replica in await tunnels.beat("b", "10.0.0.2:8446")] == ["b"]
    assert (await world.row(TunnelStore, DEV)).epoch == 1
