"""Tunnels of agents whose deploy token has ended."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest

from core.errors import Unauthenticated, Unavailable
from core.identity import ClusterId, TokenId
from core.links.call_link import make_call_link
from core.links.heartbeat import Heartbeat
from core.mux.budget import ReceiveBudget
from core.mux.codec import Hello
from core.mux.mux import Mux, MuxSettings, MuxTime
from core.rpc.calls import ServerLimits
from core.rpc.http2_channel import CallTarget, Http2Channel
from core.rpc.http2_server import Http2Server
from core.rpc.methods import TUNNEL
from core.runtime.clock import SystemClock
from core.runtime.tasks import Tasks
from proxy.tunnel.server import RECHECK_SECONDS, TunnelServer
from tests.fakes.kube_proxy import AGENT_TOKEN, CLUSTER
from tests.fakes.tunnel import RecordingMuxOwner
from tests.integration.proxy.stack import eventually, signed


class QuickSweeps(SystemClock):
    """Does not wait as long between sweeps."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(0.05 if seconds == RECHECK_SECONDS else seconds)


class Hub:
    """A tunnel server that asks this for tokens. `failure` is what it says from now on.

    With `good_for` the token is revoked while that answer is under way.
    """

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.good_for: int | None = None
        self.asked = 0
        self.port = 0
        self.tasks = Tasks("agents")
        self.server = TunnelServer(
            self.authenticate, QuickSweeps(), ReceiveBudget(1 << 20), MuxSettings()
        )

    async def authenticate(self, token: str) -> tuple[ClusterId, TokenId]:
        self.asked += 1
        if self.asked == self.good_for:
            self.server.revoke(AGENT_TOKEN)
        if self.good_for is not None and self.asked > self.good_for:
            raise Unauthenticated("the deploy token was revoked")
        if self.failure is not None:
            raise self.failure
        return CLUSTER, AGENT_TOKEN

    @property
    def connected(self) -> bool:
        return self.server.is_connected(CLUSTER)

    @asynccontextmanager
    async def agent(self, instance: bytes = b"a" * 16) -> AsyncGenerator[Mux, None]:
        """An agent's end of one tunnel."""
        channel = Http2Channel(CallTarget("127.0.0.1", self.port), SystemClock())
        call = await channel.call(TUNNEL, signed("t"))
        link = make_call_link(call)
        mux = Mux(
            link,
            RecordingMuxOwner(),
            hub=False,
            hello=Hello(instance, 256 << 10),
            time=MuxTime(SystemClock(), asyncio.get_running_loop()),
            budget=ReceiveBudget(1 << 20),
            settings=MuxSettings(),
        )
        carrying = self.tasks.spawn("agent", link.carry(mux, Heartbeat(SystemClock())))
        yield mux
        mux.close("the test is over")
        call.cancel()
        await carrying
        await channel.close()


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    """A listening tunnel server."""
    one = Hub()
    listener = Http2Server({TUNNEL: one.server.serve}, ServerLimits(), SystemClock())
    one.port = await listener.start(("127.0.0.1", 0), None)
    one.server.start()
    yield one
    one.server.stop()
    await one.server.tasks.stop()
    await one.tasks.stop()
    await listener.stop()


async def test_a_token_revoked_while_the_call_opens_is_refused(hub: Hub) -> None:
    """The answer is older than the revocation, so it is asked for again."""
    hub.good_for = 1
    async with hub.agent() as mux:
        await eventually(lambda: mux.closed)
        assert hub.asked == 2
        assert mux.peer is None
        assert not hub.connected


async def test_revoking_ends_a_draining_predecessor_too(hub: Hub) -> None:
    """The same agent has dialled anew: the link that it leaves falls with the token."""
    async with hub.agent() as old:
        await eventually(lambda: hub.connected)
        async with hub.agent() as new:
            await eventually(lambda: old.peer_draining)
            hub.server.revoke(AGENT_TOKEN)
            await eventually(lambda: old.closed and new.closed)
            assert not hub.connected


async def test_revoking_another_token_ends_nothing(hub: Hub) -> None:
    """After a rotation the agent with the new token stays."""
    async with hub.agent() as mux:
        await eventually(lambda: hub.connected)
        hub.server.revoke("another")
        await asyncio.sleep(0.1)
        assert hub.connected
        assert not mux.closed


async def test_a_token_that_ended_without_a_word_is_noticed(hub: Hub) -> None:
    """The sweep ends a live link whose revocation was never announced."""
    async with hub.agent() as mux:
        await eventually(lambda: hub.connected)
        hub.failure = Unauthenticated("the deploy token was revoked")
        await eventually(lambda: mux.closed)
        assert not hub.connected


async def test_a_store_that_is_away_ends_no_link(hub: Hub) -> None:
    """Who cannot be checked now is not taken for revoked."""
    async with hub.agent() as mux:
        await eventually(lambda: hub.connected)
        hub.failure = Unavailable("the store cannot be read")
        asked = hub.asked
        await eventually(lambda: hub.asked > asked + 3)
        assert hub.connected
        assert not mux.closed
