"""Links that are ready and not claimed yet: the store of claims may be away."""

from collections.abc import AsyncIterator

import pytest

from core.errors import Unavailable
from core.identity import ClusterId, TokenId
from core.mux.budget import ReceiveBudget
from core.mux.mux import Mux, MuxSettings
from proxy.tunnel.server import CLAIM_SECONDS, TunnelServer
from proxy.tunnel.single_replica import SingleReplicaRegistry
from tests.fakes.clock import FakeClock
from tests.fakes.kube_proxy import AGENT_TOKEN, CLUSTER
from tests.fakes.tunnel import ManualLoop, MemoryLink, greeted_link


class Claims(SingleReplicaRegistry):
    """Claims that cannot be made while their store is away; which were given back."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.away = False
        self.released: list[int] = []

    async def claim(self, cluster_id: ClusterId, instance: str, peer: str) -> int:
        if self.away:
            raise Unavailable("the store is away")
        return await super().claim(cluster_id, instance, peer)

    async def release(self, cluster_id: ClusterId, epoch: int) -> None:
        self.released.append(epoch)
        await super().release(cluster_id, epoch)


class Hub:
    """A server of tunnels, and links that agents have just opened."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.claims = Claims(self.clock)
        self.server = TunnelServer(
            self._authenticate, self.clock, ReceiveBudget(1 << 20), MuxSettings(), self.claims
        )

    def connect(self) -> tuple[Mux, MemoryLink]:
        loop, line = ManualLoop(), MemoryLink()
        link = greeted_link(loop, b"a", line)
        self.server.claim_in_background(CLUSTER, link, "10.0.0.1:1")
        return link, line

    async def _authenticate(self, token: str) -> tuple[ClusterId, TokenId]:
        return CLUSTER, AGENT_TOKEN


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    one = Hub()
    yield one
    await one.server.tasks.stop()


async def test_a_link_serves_once_it_is_claimed(hub: Hub) -> None:
    """However many seconds the store is away, up to a bound."""
    hub.claims.away = True
    link, _ = hub.connect()
    await hub.clock.advance(CLAIM_SECONDS / 2)
    assert not hub.server.is_connected(CLUSTER) and not link.closed
    hub.claims.away = False
    await hub.clock.advance(CLAIM_SECONDS / 2)
    assert hub.server.find(CLUSTER) is link


async def test_without_claims_new_links_are_refused_and_open_ones_go_on(hub: Hub) -> None:
    """An agent dials another replica, which may reach the store."""
    open_one, _ = hub.connect()
    await hub.clock.advance(0)
    hub.claims.away = True
    new, line = hub.connect()
    await hub.clock.advance(2 * CLAIM_SECONDS)
    assert new.closed and line.closed_for == "the store is away"
    assert hub.server.find(CLUSTER) is open_one
    assert open_one.accepts_streams


async def test_a_claim_that_comes_too_late_is_given_back(hub: Hub) -> None:
    """Its link has ended meanwhile: else others would be sent here for nothing."""
    hub.claims.away = True
    link, _ = hub.connect()
    await hub.clock.advance(1)
    link.close("gone")
    hub.claims.away = False
    await hub.clock.advance(2)
    assert hub.claims.released == [1]
    assert hub.server.find(CLUSTER) is None
