"""Server behind load balancers that name their clients with the PROXY protocol."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import partial
from typing import cast

import structlog

from core.proxy_protocol import Address, BadProxyHeader, read_header
from core.runtime.tasks import Tasks
from core.runtime.transports import ForwardedTransport
from core.trusted_proxies import TrustedProxies

log = structlog.get_logger(__name__)

_ACCEPT_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class TlsServer:
    """TLS of a server; the context and the time limits of asyncio."""

    context: ssl.SSLContext
    handshake_seconds: float | None = None
    shutdown_seconds: float | None = None


class ProxyProtocolServer:
    """Serves the connections of a listening socket, each with a protocol of its own.

    A connection from `senders` begins with a header, ahead of TLS, or it is closed. Connections
    from other addresses, and from the sockets in `direct`, have no header: their protocol or TLS
    refuses one as the first bytes.
    """

    def __init__(
        self,
        listening: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        senders: TrustedProxies,
        tls: TlsServer | None = None,
        direct: Container[Address] = (),
        header_seconds: float = 5.0,
    ) -> None:
        listening.setblocking(False)
        self._listening, self._protocol = listening, protocol
        self._senders, self._tls, self._direct = senders, tls, direct
        self._header_seconds = header_seconds
        self._tasks = Tasks("PROXY protocol")

    def start(self) -> None:
        """Accepts connections until `stop`."""
        self._tasks.forever("accept", self._accept())

    async def stop(self) -> None:
        """Accepts no more connections; accepted ones stay open."""
        await self._tasks.stop()
        self._listening.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(self._listening)
            except OSError as error:
                # Too many open files, as a rule.
                log.warning("connection not accepted", why=error.strerror or str(error))
                await asyncio.sleep(_ACCEPT_RETRY_SECONDS)
                continue
            self._tasks.spawn("connection", self._serve_connection(accepted, peer[:2]))

    async def _serve_connection(self, accepted: socket.socket, peer: Address) -> None:
        protocol: Callable[[], asyncio.Protocol] = self._protocol
        if self._senders.is_trusted(peer[0]) and peer not in self._direct:
            try:
                client = await self._read_client(accepted)
            except (BadProxyHeader, EOFError, OSError, TimeoutError) as error:
                accepted.close()
                reason = str(error) or f"no header within {self._header_seconds:g} s"
                log.warning("connection of a load balancer refused", peer=peer[0], why=reason)
                return
            except BaseException:
                accepted.close()
                raise
            if client is not None:
                protocol = partial(_ForwardedConnection, self._protocol, client)
        tls = self._tls
        # The client has left, or does not speak TLS.
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(
                protocol,
                accepted,
                ssl=tls.context if tls else None,
                ssl_handshake_timeout=tls.handshake_seconds if tls else None,
                ssl_shutdown_timeout=tls.shutdown_seconds if tls else None,
            )

    async def _read_client(self, accepted: socket.socket) -> Address | None:
        async with asyncio.timeout(self._header_seconds):
            return await read_header(partial(_receive_exactly, accepted))


class _ForwardedConnection(asyncio.Protocol):
    """Begins a connection with the address of its client, then leaves it to its own protocol."""

    def __init__(self, protocol: Callable[[], asyncio.Protocol], client: Address) -> None:
        self._protocol, self._read_client = protocol, client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        lower, protocol = cast(asyncio.Transport, transport), self._protocol()
        lower.set_protocol(protocol)
        protocol.connection_made(ForwardedTransport(lower, self._read_client))


async def _receive_exactly(accepted: socket.socket, size: int) -> bytes:
    """Receives this number of bytes, and leaves all others in the socket."""
    received = b""
    while len(received) < size:
        chunk = await asyncio.get_running_loop().sock_recv(accepted, size - len(received))
        if not chunk:
            raise EOFError("the connection ended in its header")
        received += chunk
    return received
