"""TLS of the native module in front of the server for gRPC calls."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from core.rpc.calls import Call, CallFailed, ServerLimits
from core.rpc.http2_channel import CallTarget, Http2Channel, client_tls
from core.rpc.http2_server import Http2Server
from core.runtime.clock import SystemClock
from core.trusted_proxies import TrustedProxies
from tests.fakes.tls import TestAuthority
from tests.planes import needs_native

pytestmark = needs_native
LARGE = bytes(range(256)) * 4_000


async def echo(call: Call) -> None:
    """Says who the client is, then what it hears."""
    await call.write(call.peer.encode())
    while (message := await call.read()) is not None:
        await call.write(message)


def make_server(senders: TrustedProxies | None = None) -> Http2Server:
    return Http2Server(
        {"/echo": echo}, ServerLimits(), SystemClock(), None, senders, native_tls=True
    )


@pytest.fixture
async def server(authority: TestAuthority) -> AsyncIterator[Http2Server]:
    """A listening server; its port is that of `direct`."""
    serving = make_server()
    await serving.start(("127.0.0.1", 0), authority)
    yield serving
    await serving.stop()


@pytest.fixture
def authority(tmp_path: Path) -> TestAuthority:
    return TestAuthority(tmp_path)


def channel_to(where: tuple[str, int], authority: TestAuthority) -> Http2Channel:
    return Http2Channel(CallTarget(*where, client_tls(authority.ca.read_bytes())), SystemClock())


async def test_all_bytes_arrive_both_ways(server: Http2Server, authority: TestAuthority) -> None:
    """More than the sockets in between hold, in several calls at once."""
    channel = channel_to(server.direct, authority)

    async def talk() -> None:
        call = await channel.call("/echo", ())
        first = await call.read()
        assert first is not None and first.startswith(b"127.0.0.1:")
        for _ in range(3):
            await call.write(LARGE)
            assert await call.read() == LARGE
        await call.done()
        assert await call.read() is None

    async with asyncio.timeout(60):
        await asyncio.gather(*(talk() for _ in range(5)))
    await channel.close()


async def test_grpcio_is_served(server: Http2Server, authority: TestAuthority) -> None:
    credentials = grpc.ssl_channel_credentials(authority.ca.read_bytes())
    target = f"127.0.0.1:{server.direct[1]}"
    async with asyncio.timeout(60), grpc.aio.secure_channel(target, credentials) as channel:
        call = channel.stream_stream("/echo")()
        await call.read()
        await call.write(LARGE)
        assert await call.read() == LARGE


async def test_the_server_learns_that_a_client_has_left(
    server: Http2Server, authority: TestAuthority
) -> None:
    channel = channel_to(server.direct, authority)
    assert await (await channel.call("/echo", ())).read()
    assert list(server._open)
    await channel.close()
    async with asyncio.timeout(20):
        while list(server._open):
            await asyncio.sleep(0.01)


async def test_a_client_learns_why_the_server_stops(authority: TestAuthority) -> None:
    serving = make_server()
    await serving.start(("127.0.0.1", 0), authority)
    channel = channel_to(serving.direct, authority)
    call = await channel.call("/echo", ())
    await call.read()
    await serving.stop()
    with pytest.raises(CallFailed, match="shutting down"):
        async with asyncio.timeout(20):
            await call.read()
    await channel.close()


@pytest.mark.parametrize("offered", [[], ["http/1.1"]], ids=["nothing", "http/1.1"])
async def test_a_client_that_does_not_offer_http2_is_refused(
    server: Http2Server, authority: TestAuthority, offered: list[str]
) -> None:
    tls = ssl.create_default_context(cafile=str(authority.ca))
    if offered:
        tls.set_alpn_protocols(offered)
    said = b""
    # A reset, an alert of TLS, or only the end.
    with contextlib.suppress(OSError):
        async with asyncio.timeout(20):
            reader, writer = await asyncio.open_connection(*server.direct, ssl=tls)
            said = await reader.read()
            writer.close()
    assert said == b"" and list(server._open) == []


async def test_connections_of_this_process_need_no_header_of_a_load_balancer(
    authority: TestAuthority,
) -> None:
    """The port itself expects one from this address."""
    serving = make_server(TrustedProxies(["127.0.0.0/8"]))
    port = await serving.start(("127.0.0.1", 0), authority)
    channel = channel_to(serving.direct, authority)
    assert await (await channel.call("/echo", ())).read()
    refused = channel_to(("127.0.0.1", port), authority)
    with pytest.raises(CallFailed):
        async with asyncio.timeout(20):
            await (await refused.call("/echo", ())).read()
    await channel.close()
    await refused.close()
    await serving.stop()


async def test_an_unusable_certificate_is_named(authority: TestAuthority) -> None:
    authority.key.write_text("no key")
    serving = make_server()
    with pytest.raises(OSError, match=authority.key.name):
        await serving.start(("127.0.0.1", 0), authority)
    await serving.stop()
