"""TLS of the native module in front of a server; it needs a fraction of the memory of Python's."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import structlog

from core.native import NativeTlsListener, native_tls_listener
from core.rpc.calls import CertificateFiles
from core.rpc.sockets import LOOPBACK, own_address
from core.runtime.transports import ForwardedTransport
from core.trusted_proxies import TrustedProxies

log = structlog.get_logger(__name__)


class NativeTlsServer:
    """Serves the connections of a port, each with a protocol of its own, over a Unix socket.

    `senders`: load balancers that name their clients with the PROXY protocol. `direct` is an
    address for connections of this process, which have no such header.
    """

    def __init__(
        self,
        protocol: Callable[[], asyncio.Protocol],
        senders: TrustedProxies | None,
        handshake_seconds: float,
    ) -> None:
        self._protocol, self._senders = protocol, senders
        self._handshake_seconds = handshake_seconds
        self._folder: TemporaryDirectory[str] | None = None
        self._server: asyncio.Server | None = None
        self._native: NativeTlsListener | None = None
        self.direct = ("", 0)

    async def start(
        self, address: tuple[str, int], certificate_files: CertificateFiles, backlog: int
    ) -> int:
        """Listens and returns the port. OSError: see `core.rpc.calls.CallServer.start`."""
        # Only this user can enter it.
        self._folder = TemporaryDirectory(prefix="towline-")
        path = Path(self._folder.name, "connections")
        protocol_factory = partial(_PassedConnection, self._protocol)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(protocol_factory, path, backlog=backlog)
        self._native = native_tls_listener(str(path), self._handshake_seconds)
        files = str(certificate_files.certificate), str(certificate_files.key)
        networks = self._senders.networks if self._senders is not None else []
        try:
            port = self._native.listen(*address, *files, networks)
            self.direct = (own_address(address[0]), port)
            if networks:
                self.direct = (LOOPBACK, self._native.listen(LOOPBACK, 0, *files, []))
        except ValueError as error:
            raise OSError(str(error)) from error
        return port

    def log_refused(self) -> None:
        """Logs the load balancers that sent no valid header."""
        for peer, reason in self._native.take_refused() if self._native is not None else ():
            log.warning("connection of a load balancer refused", peer=peer, why=reason)

    def stop(self) -> None:
        """Accepts no more connections; accepted ones stay open."""
        if self._native is not None:
            self._native.stop_listening()
        if self._server is not None:
            self._server.close()
        if self._folder is not None:
            self._folder.cleanup()


class _PassedConnection(asyncio.Protocol):
    """Reads the address of a connection's client, then leaves it to its own protocol."""

    def __init__(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        self._protocol = protocol
        self._transport: asyncio.Transport
        self._preface = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        client, end, rest = (self._preface + data).partition(b"\n")
        if not end:
            self._preface = client
            return
        host, _, port = client.decode("ascii").partition(" ")
        protocol = self._protocol()
        self._transport.set_protocol(protocol)
        protocol.connection_made(ForwardedTransport(self._transport, (host, int(port))))
        if rest:
            protocol.data_received(rest)
