"""Which link leads to a cluster when several agents come for it."""

from fleet.identity import ClusterId
from fleet.mux import codec
from fleet.mux.budget import Budget
from fleet.mux.codec import Hello
from fleet.mux.mux import Mux, MuxSettings
from proxy.tunnel.registry import MOST_SWAPS, SWAP_SECONDS, Registry
from tests.fakes.tunnel import ManualLoop, MemoryLink, RecordingMuxOwner

CLUSTER = ClusterId("c1")


class Hub:
    """A registry, and links of agents that have said hello."""

    def __init__(self) -> None:
        self.loop = ManualLoop()
        self.registry = Registry(self.loop)

    def connect(self, instance: bytes) -> Mux:
        mux = Mux(
            MemoryLink(),
            RecordingMuxOwner(),
            hub=True,
            hello=Hello(b"h" * 16, 1024),
            clock=self.loop,
            timers=self.loop,
            budget=Budget(1 << 20),
            settings=MuxSettings(),
        )
        hello = Hello(instance * 16, 1024).pack()
        mux.on_message(codec.header(0, codec.HELLO, len(hello)) + hello)
        self.registry.add(CLUSTER, mux)
        return mux


def test_the_same_agent_hands_over_without_a_cut() -> None:
    """Its older link is drained; new requests take the newer one, however often it comes."""
    hub = Hub()
    links = [hub.connect(b"a") for _ in range(10)]
    assert hub.registry.find(CLUSTER) is links[-1]
    assert all(link.draining and not link.closed for link in links[:-1])


def test_another_agent_takes_over() -> None:
    """What the old one served is cut: it may not be what it says."""
    hub = Hub()
    old, new = hub.connect(b"a"), hub.connect(b"b")
    assert old.closed
    assert hub.registry.find(CLUSTER) is new


def test_agents_that_fight_for_a_cluster_are_stopped() -> None:
    """After some changes within a minute the newcomer is refused; a minute later it may."""
    hub = Hub()
    hub.connect(b"a")
    for number in range(MOST_SWAPS):
        holder = hub.connect(b"b" if number % 2 == 0 else b"a")
    refused = hub.connect(b"c")
    assert refused.closed and not holder.closed
    assert hub.registry.find(CLUSTER) is holder
    hub.loop.advance(SWAP_SECONDS + 1)
    assert not hub.connect(b"c").closed


def test_a_replaced_link_that_ends_leaves_the_newer_one() -> None:
    """Only the holder's end makes the cluster unreachable."""
    hub = Hub()
    old, new = hub.connect(b"a"), hub.connect(b"a")
    hub.registry.remove(CLUSTER, old)
    assert hub.registry.find(CLUSTER) is new
    hub.registry.remove(CLUSTER, new)
    assert hub.registry.find(CLUSTER) is None
