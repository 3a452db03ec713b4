"""Connections to the cluster's API server, and the heads of users' requests."""

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from core.http1.pool import ConnectionPool, ServerAddress
from core.mux.codec import FLAG_PASSTHROUGH, Open
from core.runtime.clock import Clock

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
    def address(self) -> ServerAddress:
        """The address, without the credentials."""
        return ServerAddress(self.host, self.port, self.tls, self.server_name, self.proxy)


class UpstreamPool(ConnectionPool):
    """Connections to the API server, and the token to send."""

    def __init__(self, upstream: Upstream, clock: Clock) -> None:
        super().__init__(upstream.address, IDLE_LIMIT)
        self._upstream, self._clock = upstream, clock
        self.trusts_connections = upstream.trusts_connections
        self._fields = b""
        self._fields_until = float("-inf")

    @property
    def fields(self) -> bytes | None:
        """Header lines with the agent's credential; None: call `refresh` first."""
        return self._fields if self._clock.monotonic() < self._fields_until else None

    @property
    def _host_field(self) -> bytes:
        """The only header line to add to a request with its own token."""
        return b"Host: %s\r\n" % self._upstream.address.authority

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
        self.current_tls()
        return self._fields

    def forget_token(self) -> None:
        """Drops the token after the API server refused it."""
        self._fields_until = float("-inf")
