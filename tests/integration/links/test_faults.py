"""Faults of our own in what a link carries."""

import asyncio
from typing import cast

import pytest

from core.links.heartbeat import Heartbeat
from core.links.push_link import PushLink
from core.mux.mux import Mux
from core.rpc.calls import Call, ServerLimits
from core.rpc.http2_call import Http2Call
from core.rpc.http2_channel import CallTarget, Http2Channel
from core.rpc.http2_server import Http2Server
from core.rpc.methods import TUNNEL
from core.runtime.clock import SystemClock


class FaultyMux:
    """Fails on its first message."""

    def __init__(self, fault: str) -> None:
        self._fault = fault
        self.heard = 0
        self.closed_for = ""

    def on_message(self, message: bytes) -> None:
        self.heard += 1
        if self._fault == "message":
            raise RuntimeError("a fault of ours")

    def on_drain(self) -> None:
        """There is nothing to send."""

    def beat(self) -> None:
        if self._fault == "beat":
            raise RuntimeError("a fault of ours")

    def on_closed(self, reason: str) -> None:
        self.closed_for = reason


async def echo(call: Call) -> None:
    """Says what it hears."""
    while (message := await call.read()) is not None:
        await call.write(message)


@pytest.mark.parametrize("fault", ["message", "beat"])
async def test_a_fault_ends_its_link_and_no_other_call_of_the_connection(fault: str) -> None:
    """The link carries nothing more, and both sides are notified."""
    clock, mux = SystemClock(), FaultyMux(fault)

    async def tunnel(call: Call) -> None:
        await PushLink(cast(Http2Call, call)).carry(cast(Mux, mux), Heartbeat(clock))

    server = Http2Server({TUNNEL: tunnel, "/echo": echo}, ServerLimits(), clock)
    port = await server.start(("127.0.0.1", 0), None)
    channel = Http2Channel(CallTarget("127.0.0.1", port), clock)
    async with asyncio.timeout(20):
        other = await channel.call("/echo", ())
        await other.write(b"before")
        assert await other.read() == b"before"
        call = await channel.call(TUNNEL, ())
        await call.write(b"one")
        await call.write(b"two")
        assert await call.read() is None
        await other.write(b"after")
        assert await other.read() == b"after"
    assert mux.closed_for and (mux.heard == 1 or fault == "beat")
    await channel.close()
    await server.stop()
