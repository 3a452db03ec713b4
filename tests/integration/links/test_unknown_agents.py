"""Connections to the agents' listener on which nobody has shown a token."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import grpc
import pytest
import uvicorn
from starlette.applications import Starlette

from core.errors import Unauthenticated
from core.links.websocket import WEBSOCKET_PATH
from core.rpc.calls import Call, CallFailed, ServerLimits
from core.rpc.http2_channel import CallTarget, Http2Channel, client_tls
from core.rpc.http2_server import Http2Server
from core.runtime.clock import SystemClock
from core.runtime.tasks import Tasks
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


async def test_websockets_of_one_address_are_bounded(port: int) -> None:
    """One too many is refused; when another has ended, there is room."""
    async with AsyncExitStack() as stack:
        tasks = Tasks("test")
        app = Starlette(routes=[agents_route(("127.0.0.1", port), most_of_source=2)])
        server = uvicorn.Server(
            uvicorn.Config(app, port=0, ws="wsproto", lifespan="off", log_config=None)
        )
        serving = tasks.spawn("serve", server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}{WEBSOCKET_PATH}"
        http = await stack.enter_async_context(aiohttp.ClientSession())
        held = [await http.ws_connect(url) for _ in range(2)]
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await http.ws_connect(url)
        async with asyncio.timeout(10):
            assert [(await one.receive()).type for one in held] == [aiohttp.WSMsgType.CLOSE] * 2
            last = await http.ws_connect(url)
            assert (await last.receive()).type is aiohttp.WSMsgType.CLOSE
        server.should_exit = True
        await asyncio.wait({serving}, timeout=5)
        await tasks.stop()
