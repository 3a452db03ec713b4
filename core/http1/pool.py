"""Connections to one HTTP server, kept for reuse."""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from core.http1.connection import UpstreamConnection
from core.http1.proxy_connect import connect_directly, connect_through_proxy

_END_SECONDS = 5.0
# uvloop closes the socket of a cancelled dial some turns of the loop later.
_TURNS_OF_A_CANCELLED_DIAL = 3


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Address of a server.

    `tls` returns the context for new connections, which may change between calls; None: plain HTTP.
    `server_name`: the name in the server's certificate, if it is not the host. `proxy`: URL of the
    proxy to the server.
    """

    host: str
    port: int
    tls: Callable[[], ssl.SSLContext] | None = None
    server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)

    @property
    def authority(self) -> bytes:
        """Value of the Host field."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}".encode()


class ConnectionPool:
    """Connections, of which idle ones are reused, newest first.

    At most `idle_limit` connections stay idle. The pool closes a connection that has been idle for
    `idle_seconds`, with a tolerance of the same size; None: the server closes idle ones.
    """

    def __init__(
        self, address: ServerAddress, idle_limit: int, idle_seconds: float | None = None
    ) -> None:
        self._address, self._idle_limit, self._idle_seconds = address, idle_limit, idle_seconds
        self._idle: list[UpstreamConnection] = []
        self._unused: set[UpstreamConnection] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._open: set[UpstreamConnection] = set()
        self._all_lost = asyncio.Event()
        self._tls = address.tls() if address.tls else None
        self._closed = False

    def current_tls(self) -> ssl.SSLContext | None:
        """Returns the current context; closes idle connections with an earlier one."""
        tls = self._address.tls() if self._address.tls else None
        if tls is not self._tls:
            self._tls = tls
            self._close_idle()
        return tls

    def take(self) -> UpstreamConnection | None:
        """Takes an idle connection; None: call `dial`."""
        if not self._idle:
            return None
        connection = self._idle.pop()
        self._unused.discard(connection)
        return connection

    def give_back(self, connection: UpstreamConnection) -> None:
        """Returns a connection whose exchange is complete in both directions."""
        outdated = connection.tls is not self._tls
        if self._closed or outdated or len(self._idle) >= self._idle_limit:
            connection.close()
            return
        connection.user, connection.used = None, True
        connection.resume_reading()
        self._idle.append(connection)
        if self._idle_seconds is not None and self._sweep is None:
            loop = asyncio.get_running_loop()
            self._sweep = loop.call_later(self._idle_seconds, self._close_unused)

    async def dial(self) -> UpstreamConnection:
        """Opens a new connection. OSError (including ssl.SSLError): it failed. Unavailable: the
        proxy refused it.
        """
        loop, address, tls = asyncio.get_running_loop(), self._address, self.current_tls()
        if tls is None:
            connection = UpstreamConnection(self._on_lost)
            await self._connect(lambda: connection)
            self._open.add(connection)
            return connection
        transport_below_tls = await self._connect(asyncio.Protocol)
        if transport_below_tls.is_closing():
            raise ConnectionResetError("closed at once")
        connection = UpstreamConnection(self._on_lost, transport_below_tls, tls)
        try:
            tls_transport = await loop.start_tls(
                transport_below_tls,
                connection,
                tls,
                server_hostname=address.server_name or address.host,
            )
        except BaseException:
            # uvloop leaves the connection of a cancelled handshake open.
            transport_below_tls.abort()
            raise
        if tls_transport is None:
            raise ConnectionResetError("closed while TLS began")
        connection.connection_made(tls_transport)
        self._open.add(connection)
        return connection

    async def _connect(self, protocol: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
        loop, address = asyncio.get_running_loop(), self._address
        if address.proxy:
            raw = await connect_through_proxy(address.proxy, address.host, address.port)
        else:
            raw = await connect_directly(address.host, address.port)
        transport, _ = await loop.create_connection(protocol, sock=raw)
        return transport

    def close(self) -> None:
        """Closes idle connections; connections in use are closed when they are returned.
        Idle connections have no queued bytes, so the close does not wait for the server.
        """
        self._closed = True
        self._close_idle()

    async def abort(self) -> None:
        """Ends all connections, also those in use, and waits until their sockets are closed."""
        self.close()
        for connection in tuple(self._open):
            user = connection.user
            connection.abort()
            if user is not None:
                user.on_upstream_closed()
        for _ in range(_TURNS_OF_A_CANCELLED_DIAL):
            await asyncio.sleep(0)
        if self._open:
            self._all_lost.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    await self._all_lost.wait()

    def _on_lost(self, connection: UpstreamConnection) -> None:
        self._open.discard(connection)
        self._unused.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if not self._open:
            self._all_lost.set()

    def _close_unused(self) -> None:
        """Closes connections that nobody used since the last call."""
        for connection in self._unused:
            connection.abort()
        self._idle = [connection for connection in self._idle if connection not in self._unused]
        self._unused = set(self._idle)
        self._sweep = None
        if self._idle and self._idle_seconds is not None:
            loop = asyncio.get_running_loop()
            self._sweep = loop.call_later(self._idle_seconds, self._close_unused)

    def _close_idle(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        self._unused.clear()
        while self._idle:
            self._idle.pop().abort()
