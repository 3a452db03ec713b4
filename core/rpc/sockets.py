"""HTTP/2 connections on asyncio sockets, with or without TLS."""

import asyncio
import contextlib
import socket
import sys
from collections.abc import Callable, Generator, Iterator
from ssl import SSLObject
from typing import cast

from core.http2.connection import Http2Connection
from core.http2.frames import ErrorCode

ALPN = "h2"
# Data outside the kernel can still be reordered: keep little inside.
_HIGH_WATER, _UNSENT = 64 << 10, 32 << 10
_DEAD_MS = 20_000
# From linux/tcp.h; Python has no name for it before 3.12.
_NOTSENT_LOWAT = 25
_CLOSE_SECONDS = 1.0
_FAMILIES = frozenset({socket.AF_INET, socket.AF_INET6})
LOOPBACK = "127.0.0.1"

Begin = Callable[[asyncio.Transport], Http2Connection]


class Http2SocketProtocol(asyncio.Protocol):
    """An asyncio protocol: `begin` makes the connection, `on_gone` gets it after its end."""

    __slots__ = ("_begin", "_on_gone", "connection")

    def __init__(self, begin: Begin, on_gone: Callable[[Http2Connection], None]) -> None:
        self._begin, self._on_gone = begin, on_gone
        self.connection: Http2Connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Transports of uvloop do not inherit from it.
        socket_transport = cast(asyncio.Transport, transport)
        _set_options(socket_transport)
        self.connection = self._begin(socket_transport)
        self.connection.begin()
        if not _has_negotiated_http2(socket_transport):
            self.connection.fail(ErrorCode.HTTP_1_1_REQUIRED, "the peer does not support HTTP/2")

    def data_received(self, data: bytes) -> None:
        self.connection.receive(data)

    def pause_writing(self) -> None:
        self.connection.pause()

    def resume_writing(self) -> None:
        self.connection.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self.connection.lost(f"the connection was lost: {exc}" if exc else "the connection ended")
        self._on_gone(self.connection)


class OpenConnections:
    """The open sockets of one owner."""

    def __init__(self) -> None:
        self._transports: dict[Http2Connection, asyncio.Transport] = {}
        self._all_closed = asyncio.Event()

    def __iter__(self) -> Iterator[Http2Connection]:
        return iter(tuple(self._transports))

    def add(self, connection: Http2Connection, transport: asyncio.Transport) -> None:
        """Adds a connection."""
        self._transports[connection] = transport
        self._all_closed.clear()

    def discard(self, connection: Http2Connection) -> None:
        """Removes an ended connection."""
        self._transports.pop(connection, None)
        if not self._transports:
            self._all_closed.set()

    def abort(self, connection: Http2Connection) -> None:
        """Aborts a connection with its unsent data."""
        if connection in self._transports:
            self._transports[connection].abort()

    async def wait_closed(self, seconds: float) -> None:
        """Waits until all connections have ended, at most `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds if self._transports else 0):
                await self._all_closed.wait()

    async def close(self) -> None:
        """Closes all connections; aborts those that do not close in time."""
        for transport in tuple(self._transports.values()):
            # After a second `close`, asyncio's TLS transports ignore `abort`.
            if not transport.is_closing():
                transport.close()
        await self.wait_closed(_CLOSE_SECONDS)
        for transport in tuple(self._transports.values()):
            transport.abort()
        await self.wait_closed(_CLOSE_SECONDS)


class BridgedPeers:
    """Clients whose connections another listener of this process passes on to a server.

    Without them, all these clients would have one address: that of this process.
    """

    def __init__(self) -> None:
        self._peers: dict[tuple[str, int], str] = {}

    def __contains__(self, local: object) -> bool:
        """Reports whether the socket with this local address is one of this process."""
        return local in self._peers

    @contextlib.contextmanager
    def bridging(self, local: tuple[str, int], peer: tuple[str, int]) -> Generator[None]:
        """Names the client of the socket with this local address, while the context is open."""
        self._peers[local] = _host_and_port(*peer)
        try:
            yield
        finally:
            del self._peers[local]

    def peer_of(self, transport: asyncio.Transport) -> str:
        """Address of the client as `host:port`, for people."""
        name = transport.get_extra_info("peername")
        if not isinstance(name, tuple):
            return "unknown"
        return self._peers.get(name[:2]) or _host_and_port(*name[:2])


def own_address(host: str) -> str:
    """Address that this process uses to connect to its own listener on `host`."""
    return {"0.0.0.0": LOOPBACK, "::": "::1"}.get(host, host)


def _host_and_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _has_negotiated_http2(transport: asyncio.Transport) -> bool:
    """True if ALPN chose HTTP/2; without TLS, prior knowledge (RFC 9113, 3.3)."""
    tls: SSLObject | None = transport.get_extra_info("ssl_object")
    return tls is None or tls.selected_alpn_protocol() == ALPN


def _set_options(transport: asyncio.Transport) -> None:
    transport.set_write_buffer_limits(high=_HIGH_WATER, low=_HIGH_WATER >> 2)
    raw = transport.get_extra_info("socket")
    if raw is not None and raw.family == socket.AF_UNIX:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNSENT)
    if sys.platform != "linux" or raw is None or raw.family not in _FAMILIES:
        # Other kernels have other numbers for these options, or none.
        return
    raw.setsockopt(socket.IPPROTO_TCP, _NOTSENT_LOWAT, _UNSENT)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_MS)
