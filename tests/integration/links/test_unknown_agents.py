"""Connections to the agents' listener on which nobody has shown a token."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import grpc
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp

from controlplane.platform.http.trusted_proxies import ForwardedClients
from core.errors import Unauthenticated
from core.links.websocket import WEBSOCKET_PATH
from core.rpc.calls import Call, CallFailed, ServerLimits
from core.rpc.http2_channel import CallTarget, Http2Channel, client_tls
from core.rpc.http2_server import Http2Server
from core.rpc.sockets import BridgedPeers
from core.runtime.clock import SystemClock
from core.runtime.tasks import Tasks
from core.trusted_proxies import TrustedProxies
from proxy.tunnel.websocket import agents_route
from tests.fakes.tls import TestAuthority

WITHOUT_CALL = 1.0
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"


async def _session(call: Call) -> None:
    await call.write(b"hello")
    await call.read()


async def _nobody(call: Call) -> None:
    raise Unauthenticated("not an agent token of this installation")


@pytest.fixture
def authority(tmp_path: Path) -> TestAuthority:
    """Certificates for 127.0.0.1 and localhost."""
    return TestAuthority(tmp_path)


@pytest.fixture
async def port(authority: TestAuthority) -> AsyncIterator[int]:
    """The agents' listener, with one call that goes on."""
    limits = ServerLimits(idle_seconds=WITHOUT_CALL)
    server = Http2Server(
        {"/test/Session": _session, "/test/Nobody": _nobody}, limits, SystemClock()
    )
    yield await server.start(("127.0.0.1", 0), authority)
    await server.stop()


async def _ended(reader: asyncio.StreamReader) -> None:
    async with asyncio.timeout(10):
        try:
            while await reader.read(1 << 10):
                pass
        except ConnectionError:
            return


async def test_a_connection_that_says_nothing_ends(port: int) -> None:
    """No TLS, no stay."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await _ended(reader)
    writer.close()


async def test_a_connection_without_a_call_ends(port: int, authority: TestAuthority) -> None:
    """TLS and HTTP/2 alone are no agent."""
    tls = authority.client_context()
    tls.set_alpn_protocols(["h2"])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    writer.write(HTTP2)
    await _ended(reader)
    writer.close()


async def test_a_connection_with_a_call_stays(port: int, authority: TestAuthority) -> None:
    """However quiet it is."""
    credentials = grpc.ssl_channel_credentials(authority.ca.read_bytes())
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, options) as channel:
        call = channel.stream_stream("/test/Session")()
        assert await call.read() == b"hello"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3 * WITHOUT_CALL):
                await call.read()
        call.cancel()


async def test_a_connection_whose_calls_are_all_refused_ends(
    port: int, authority: TestAuthority
) -> None:
    """Who guesses tokens has to shake hands anew; what is open there goes on to its end."""
    tls = client_tls(authority.ca.read_bytes())
    channel = Http2Channel(CallTarget("127.0.0.1", port, tls), SystemClock())
    other = await channel.call("/test/Session", ())
    assert await other.read() == b"hello"
    first = channel.connection
    assert first is not None
    async with asyncio.timeout(30):
        while first.usable:
            with pytest.raises(CallFailed):
                await (await channel.call("/test/Nobody", ())).read()
        again = await channel.call("/test/Session", ())
        assert await again.read() == b"hello"
        assert channel.connection is not first
        await other.write(b"")
        assert await other.read() is None
    await channel.close()


@asynccontextmanager
async def websockets(app: ASGIApp) -> AsyncGenerator[str]:
    """Serve an application; the URL of its WebSockets."""
    tasks = Tasks("test")
    server = uvicorn.Server(
        uvicorn.Config(app, port=0, ws="wsproto", lifespan="off", log_config=None)
    )
    serving = tasks.spawn("serve", server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}{WEBSOCKET_PATH}"
    server.should_exit = True
    await asyncio.wait({serving}, timeout=5)
    await tasks.stop()


async def test_websockets_of_one_address_are_bounded(port: int) -> None:
    """One too many is refused; when another has ended, there is room."""
    app = Starlette(routes=[agents_route(("127.0.0.1", port), BridgedPeers(), 2)])
    async with websockets(app) as url, aiohttp.ClientSession() as http:
        held = [await http.ws_connect(url) for _ in range(2)]
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await http.ws_connect(url)
        async with asyncio.timeout(10):
            assert [(await one.receive()).type for one in held] == [aiohttp.WSMsgType.CLOSE] * 2
            last = await http.ws_connect(url)
            assert (await last.receive()).type is aiohttp.WSMsgType.CLOSE


async def test_silent_websockets_of_one_address_leave_those_of_others() -> None:
    """The listener would else see one address for all agents that come by WebSocket."""
    bridged = BridgedPeers()
    server = Http2Server({}, ServerLimits(unanswered=2), SystemClock(), bridged)
    port = await server.start(("127.0.0.1", 0), None)
    routes = Starlette(routes=[agents_route(("127.0.0.1", port), bridged)])
    app = ForwardedClients(routes, TrustedProxies(["127.0.0.1"]))
    async with websockets(app) as url, aiohttp.ClientSession() as http:

        async def of(address: str) -> aiohttp.ClientWebSocketResponse:
            opened = await http.ws_connect(url, headers={"X-Forwarded-For": address})
            await opened.receive()
            return opened

        agent = await of("10.0.0.1")
        flood = [await of("10.0.0.2") for _ in range(3)]
        async with asyncio.timeout(10):
            assert (await flood[0].receive()).type is aiohttp.WSMsgType.CLOSE
        for kept in (agent, *flood[1:]):
            with pytest.raises(TimeoutError):
                await kept.receive(timeout=0.1)
    await server.stop()
