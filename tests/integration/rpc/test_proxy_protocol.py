"""Agents' listener and any other server behind a load balancer with the PROXY protocol."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from core.proxy_protocol import MAX_V2
from core.rpc.calls import Call, ServerLimits
from core.rpc.http2_server import Http2Server
from core.rpc.sockets import BridgedPeers
from core.runtime.clock import SystemClock
from core.runtime.proxy_protocol_server import ProxyProtocolServer
from core.trusted_proxies import TrustedProxies
from tests.fakes.haproxy import ADDRESS, haproxy
from tests.fakes.tls import TestAuthority
from tests.planes import needs_native

CLIENT = "127.0.0.9"
TLS_ALERT = 21
HEADER = b"PROXY TCP4 203.0.113.9 10.0.0.1 4711 443\r\n"
V2 = b"\r\n\r\n\0\r\nQUIT\n"


class PeerName(asyncio.Protocol):
    """Says the address of its client, then everything that it receives."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport
        host, port = transport.get_extra_info("peername")[:2]
        assert transport.get_extra_info("socket").getpeername()[:2] == (host, port)
        transport.write(f"{host}\n".encode())

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """A server that trusts `ADDRESS`, and waits a moment for headers."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = ProxyProtocolServer(listening, PeerName, TrustedProxies([ADDRESS]), header_seconds=0.2)
    server.start()
    yield listening.getsockname()[1]
    await server.stop()


async def said(port: int, data: bytes, source: str = ADDRESS) -> bytes:
    """All that the server says to a client that sends this, and then waits."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    writer.write(data)
    received = b""
    try:
        async with asyncio.timeout(20):
            while not received.endswith(b"end") and (more := await reader.read(1 << 10)):
                received += more
    except ConnectionError:
        pass
    writer.close()
    return received


async def test_a_header_names_the_client_of_a_trusted_load_balancer(port: int) -> None:
    """Whatever follows in the same segment is the client's."""
    v2 = V2 + b"\x21\x11\0\x0c" + socket.inet_aton("203.0.113.9") + b"\x0a\0\0\1\0\x50\0\x50"
    for header in (HEADER, v2):
        assert await said(port, header + b"the end") == b"203.0.113.9\nthe end"
    assert await said(port, V2 + b"\x20\0\0\0the end") == f"{ADDRESS}\nthe end".encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PROXY TCP4 203",
        b"GET / HTTP/1.1\r\n\r\n",
        V2 + struct.pack("!BBH", 33, 17, MAX_V2 + 1),
    ],
    ids=["silence", "half a header", "no header", "a long header"],
)
async def test_a_trusted_load_balancer_without_a_header_is_refused(port: int, data: bytes) -> None:
    assert await said(port, data) == b""


async def test_a_header_of_another_address_names_nobody(port: int) -> None:
    """It is data of the client, which a protocol or TLS refuses."""
    assert await said(port, HEADER + b"end", CLIENT) == f"{CLIENT}\n".encode() + HEADER + b"end"


async def test_a_connection_of_this_process_needs_no_header() -> None:
    """An agent's WebSocket is passed on from an address that may be a load balancer's too."""
    bridged, senders = BridgedPeers(), TrustedProxies(["127.0.0.0/8"])
    listening = socket.create_server(("127.0.0.1", 0))
    server = ProxyProtocolServer(listening, PeerName, senders, direct=bridged)
    server.start()
    own = socket.socket()
    own.setblocking(False)
    own.bind((CLIENT, 0))
    with bridged.bridging(own.getsockname(), ("203.0.113.9", 1)):
        await asyncio.get_running_loop().sock_connect(own, listening.getsockname())
        reader, writer = await asyncio.open_connection(sock=own)
        assert await reader.readline() == f"{CLIENT}\n".encode()
        writer.close()
    await server.stop()


@pytest.mark.parametrize("native", [False, pytest.param(True, marks=needs_native)])
async def test_agents_behind_haproxy_have_their_own_address(tmp_path: Path, native: bool) -> None:
    """Both versions are read ahead of TLS, where no other address may send one."""

    async def name_peer(call: Call) -> None:
        await call.write(call.peer.encode())

    authority = TestAuthority(tmp_path)
    senders = TrustedProxies([ADDRESS])
    server = Http2Server(
        {"/test/Peer": name_peer},
        ServerLimits(),
        SystemClock(),
        proxy_protocol=senders,
        native_tls=native,
    )
    direct = await server.start(("127.0.0.1", 0), authority)
    at = f"127.0.0.1:{direct}"
    credentials = grpc.ssl_channel_credentials(authority.ca.read_bytes())
    options = [("grpc.use_local_subchannel_pool", 1)]
    with haproxy(tmp_path, v1=(at, "send-proxy"), v2=(at, "send-proxy-v2")) as ports:
        for port in (ports["v1"], ports["v2"], direct):
            target = f"127.0.0.1:{port}"
            async with grpc.aio.secure_channel(target, credentials, options) as channel:
                peer = await channel.stream_stream("/test/Peer")().read()
            assert isinstance(peer, bytes) and peer.startswith(b"127.0.0.1:")
        answer = await said(direct, HEADER, CLIENT)
        assert not answer or answer[0] == TLS_ALERT
    await server.stop()
