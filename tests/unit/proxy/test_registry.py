"""Selection of the link of a cluster when several agents connect for it."""

from collections.abc import Iterator

import pytest

from core.errors import LimitExceeded
from core.identity import ClusterId
from core.mux.mux import Mux
from core.spec.tunnels import MAX_TAKEOVERS, REFUSED_FOR
from proxy.tunnel.link_table import LinkTable
from proxy.tunnel.single_replica import SingleReplicaRegistry
from tests.fakes.clock import FakeClock
from tests.fakes.tunnel import ManualLoop, greeted_link

CLUSTER = ClusterId("c1")


class Hub:
    """A registry, and links of agents that have said hello."""

    def __init__(self) -> None:
        self.loop = ManualLoop()
        self.registry = LinkTable()
        self._epochs: Iterator[int] = iter(range(1, 1000))

    def connect(self, instance: bytes, epoch: int | None = None) -> Mux:
        mux = greeted_link(self.loop, instance)
        self.registry.add(CLUSTER, mux, epoch or next(self._epochs))
        return mux


def test_the_same_agent_hands_over_without_a_cut() -> None:
    """Its older link is drained; new requests take the newer one, however often it comes."""
    hub = Hub()
    links = [hub.connect(b"a") for _ in range(10)]
    assert hub.registry.find(CLUSTER) is links[-1]
    assert all(link.draining and not link.closed for link in links[:-1])


def test_another_agent_takes_over() -> None:
    """Streams of the old agent are cut: it may not be the agent it claims to be."""
    hub = Hub()
    old, new = hub.connect(b"a"), hub.connect(b"b")
    assert old.closed
    assert hub.registry.find(CLUSTER) is new


def test_the_highest_epoch_owns_in_whatever_order_claims_are_answered() -> None:
    hub = Hub()
    newer, older = hub.connect(b"a", epoch=8), hub.connect(b"a", epoch=7)
    assert hub.registry.find(CLUSTER) is newer and older.draining
    assert hub.registry.find_epoch(CLUSTER, 8) is newer
    assert hub.registry.find_epoch(CLUSTER, 7) is None


def test_a_link_that_was_claimed_elsewhere_is_let_go() -> None:
    """Handed over where the same agent has gone there, cut where another one came."""
    for agent, closed in (("a", False), ("b", True)):
        hub = Hub()
        link = hub.connect(b"a", epoch=5)
        hub.registry.supersede(CLUSTER, 5, "")
        assert hub.registry.find(CLUSTER) is link
        hub.registry.supersede(CLUSTER, 6, (agent * 16).encode().hex())
        assert hub.registry.find(CLUSTER) is None
        assert (link.draining, link.closed) == (not closed, closed)


def test_a_replaced_link_that_ends_leaves_the_newer_one() -> None:
    """Only the holder's end makes the cluster unreachable."""
    hub = Hub()
    old, new = hub.connect(b"a"), hub.connect(b"a")
    hub.registry.remove(CLUSTER, old)
    assert hub.registry.find(CLUSTER) is new
    hub.registry.remove(CLUSTER, new)
    assert hub.registry.find(CLUSTER) is None


async def test_agents_that_fight_for_a_cluster_are_stopped() -> None:
    """After some changes within a minute the newcomer is refused; a minute later it may."""
    clock = FakeClock()
    sole = SingleReplicaRegistry(clock)
    await sole.claim(CLUSTER, "a", "at a")
    for number in range(MAX_TAKEOVERS):
        await sole.claim(CLUSTER, "b" if number % 2 == 0 else "a", f"at {number}")
    with pytest.raises(LimitExceeded, match="at 2 and at c"):
        await sole.claim(CLUSTER, "c", "at c")
    await clock.advance(REFUSED_FOR.total_seconds() + 1)
    assert await sole.claim(CLUSTER, "c", "at c") == MAX_TAKEOVERS + 2


async def test_an_agent_that_left_is_not_fought_for() -> None:
    sole = SingleReplicaRegistry(FakeClock())
    for name in "abcdefg":
        epoch = await sole.claim(CLUSTER, name, name)
        await sole.release(CLUSTER, epoch)
    assert await sole.claim(CLUSTER, "z", "z") == 8
