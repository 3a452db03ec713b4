"""Connections to the cluster's API server, kept for reuse."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from core.mux.codec import FLAG_PASSTHROUGH, Open
from core.rpc.proxy_connect import connect_through_proxy
from core.runtime.clock import Clock
from syncagent.tunnel.connection import UpstreamConnection

# Enough for many concurrent users: with fewer, each burst of requests would dial again. The API
# server itself closes idle connections (after 90 seconds).
IDLE_LIMIT = 256
TOKEN_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Upstream:
    """Address and credentials of the API server.
    `token` returns the agent's bearer token, empty for none, and `tls` the context for new
    connections. Both may change between calls. `tls` None means plain HTTP. `prefix`: path before
    all paths, as in Rancher's kubeconfigs. `trusts_connections`: a connection has permissions
    without a token, by a client certificate or through `kubectl proxy`, so the framing of each
    request is checked. `server_name`: the name in the server's certificate, if it is not the host.
    `proxy`: URL of the proxy to the server.
    """

    host: str
    port: int
    tls: Callable[[], ssl.SSLContext] | None
    token: Callable[[], Awaitable[str]]
    prefix: bytes = b""
    trusts_connections: bool = False
    server_name: str | None = None
    proxy: str | None = None

    @property
    def authority(self) -> bytes:
        """Value of the Host field."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}".encode()


class UpstreamPool:
    """Idle connections, newest first, and the token to send."""

    def __init__(self, upstream: Upstream, clock: Clock) -> None:
        self._upstream, self._clock = upstream, clock
        self.trusts_connections = upstream.trusts_connections
        self._idle: list[UpstreamConnection] = []
        self._tls = upstream.tls() if upstream.tls else None
        self._fields = b""
        self._fields_until = float("-inf")
        self._closed = False

    @property
    def fields(self) -> bytes | None:
        """Header lines with the agent's credential; None: call `refresh` first."""
        return self._fields if self._clock.monotonic() < self._fields_until else None

    @property
    def _host_field(self) -> bytes:
        """The only header line to add to a request with its own token."""
        return b"Host: %s\r\n" % self._upstream.authority

    def complete_head(self, request: Open, fields: bytes) -> bytes:
        """Returns the head of a request with its identity and these header lines."""
        if request.flags & FLAG_PASSTHROUGH:
            fields = self._host_field
        return b"".join((self.prefixed_head(request.head)[:-2], request.identity, fields, b"\r\n"))

    def prefixed_head(self, head: bytes) -> bytes:
        """Returns the head with the prefix of the API server before its path."""
        if not self._upstream.prefix:
            return head
        method, _, rest = head.partition(b" ")
        return b"%s %s%s" % (method, self._upstream.prefix, rest)

    async def refresh(self) -> bytes:
        """Returns the header lines with a new token."""
        token = (await self._upstream.token()).strip().encode()
        credential = b"Authorization: Bearer %s\r\n" % token if token else b""
        self._fields = self._host_field + credential
        self._fields_until = self._clock.monotonic() + TOKEN_SECONDS
        self._current_tls()
        return self._fields

    def forget_token(self) -> None:
        """Drops the token after the API server refused it."""
        self._fields_until = float("-inf")

    def _current_tls(self) -> ssl.SSLContext | None:
        """Returns the current context; closes idle connections with an earlier one."""
        tls = self._upstream.tls() if self._upstream.tls else None
        if tls is not self._tls:
            self._tls = tls
            self._close_idle()
        return tls

    def take(self) -> UpstreamConnection | None:
        """Takes an idle connection; None: call `dial`."""
        return self._idle.pop() if self._idle else None

    def give_back(self, connection: UpstreamConnection) -> None:
        """Returns a connection whose exchange is complete in both directions."""
        outdated = connection.tls is not self._tls
        if self._closed or outdated or len(self._idle) >= IDLE_LIMIT:
            connection.close()
        else:
            self._idle.append(connection)

    def discard(self, connection: UpstreamConnection) -> None:
        """Removes an idle connection that the API server closed."""
        if connection in self._idle:
            self._idle.remove(connection)

    async def dial(self) -> UpstreamConnection:
        """Opens a new connection. OSError (including ssl.SSLError): it failed. Unavailable: the
        proxy refused it.
        """
        loop, upstream, tls = asyncio.get_running_loop(), self._upstream, self._current_tls()
        if tls is None:
            connection = UpstreamConnection(self.discard)
            await self._connect(lambda: connection)
            return connection
        transport_below_tls = await self._connect(asyncio.Protocol)
        if transport_below_tls.is_closing():
            raise ConnectionResetError("closed at once")
        connection = UpstreamConnection(self.discard, transport_below_tls, tls)
        try:
            tls_transport = await loop.start_tls(
                transport_below_tls,
                connection,
                tls,
                server_hostname=upstream.server_name or upstream.host,
            )
        except BaseException:
            # uvloop leaves the connection of a cancelled handshake open.
            transport_below_tls.abort()
            raise
        if tls_transport is None:
            raise ConnectionResetError("closed while TLS began")
        connection.connection_made(tls_transport)
        return connection

    async def _connect(self, protocol: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
        loop, upstream = asyncio.get_running_loop(), self._upstream
        if upstream.proxy:
            proxy_socket = await connect_through_proxy(upstream.proxy, upstream.host, upstream.port)
            transport, _ = await loop.create_connection(protocol, sock=proxy_socket)
        else:
            transport, _ = await loop.create_connection(protocol, upstream.host, upstream.port)
        return transport

    def close(self) -> None:
        """Closes idle connections; connections in use are closed when they are returned.
        Idle connections have no queued bytes, so the close does not wait for the server.
        """
        self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().abort()
