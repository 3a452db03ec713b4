"""Connections to the agents' listener on which nobody has shown a token."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
import uvicorn
from starlette.applications import Starlette

from fleet.links.websocket import PATH
from fleet.runtime.tasks import Tasks
from proxy.tunnel.websocket import agents_route
from tests.fakes.tls import TestAuthority
from towline.authority import Credentials
from towline.serve.listeners import agents_server

WITHOUT_CALL = 1.0
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"


async def _session(_: Any, context: grpc.aio.ServicerContext) -> None:
    await context.write(b"hello")
    await asyncio.Event().wait()


@pytest.fixture
def authority(tmp_path: Path) -> TestAuthority:
    """Certificates for 127.0.0.1 and localhost."""
    return TestAuthority(tmp_path)


@pytest.fixture
async def port(authority: TestAuthority) -> AsyncIterator[int]:
    """The agents' listener, with one call that goes on."""
    method = grpc.stream_stream_rpc_method_handler(_session)
    handler = grpc.method_handlers_generic_handler("test", {"Session": method})
    credentials = Credentials(authority.certificate, authority.key)
    server, port = await agents_server((handler,), ("127.0.0.1", 0), credentials, WITHOUT_CALL)
    await server.start()
    yield port
    await server.stop(0)


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
        url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}{PATH}"
        http = await stack.enter_async_context(aiohttp.ClientSession())
        held = [await http.ws_connect(url) for _ in range(2)]
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await http.ws_connect(url)
        async with asyncio.timeout(10):
            assert [(await one.receive()).type for one in held] == [aiohttp.WSMsgType.CLOSE] * 2
        await (await http.ws_connect(url)).close()
        server.should_exit = True
        await asyncio.wait({serving}, timeout=5)
        await tasks.stop()
