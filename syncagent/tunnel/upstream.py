"""Connections to the cluster's API server, kept for reuse."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fleet.runtime.clock import Clock
from syncagent.tunnel.connection import UpstreamConnection

# As many as answer at once where many users ask at once: fewer would be dialled anew for each
# wave of requests. The API server itself closes what stays idle (after 90 seconds).
IDLE_LIMIT = 256
TOKEN_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where the API server is and how to speak to it.

    `token` gives the bearer token of the agent's service account and may give another one each
    time. `tls` must not hold a client certificate: a request that slipped past the impersonation
    would have its full rights; None is plain HTTP, for tests.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None
    token: Callable[[], Awaitable[str]]

    @property
    def authority(self) -> bytes:
        """The value of the Host field."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}".encode()


class UpstreamPool:
    """Idle connections, the newest first, and the token to send."""

    def __init__(self, upstream: Upstream, clock: Clock) -> None:
        self._upstream, self._clock = upstream, clock
        self._idle: list[UpstreamConnection] = []
        self._fields = b""
        self._fields_until = float("-inf")
        self._closed = False

    @property
    def fields(self) -> bytes | None:
        """The header lines that make a request the agent's; None: `refresh` first."""
        return self._fields if self._clock.monotonic() < self._fields_until else None

    @property
    def host_field(self) -> bytes:
        """The one header line that a request with a token of its own needs."""
        return b"Host: %s\r\n" % self._upstream.authority

    async def refresh(self) -> bytes:
        """The same, with a token asked for anew."""
        token = await self._upstream.token()
        self._fields = b"Host: %s\r\nAuthorization: Bearer %s\r\n" % (
            self._upstream.authority,
            token.strip().encode(),
        )
        self._fields_until = self._clock.monotonic() + TOKEN_SECONDS
        return self._fields

    def forget_token(self) -> None:
        """The API server did not like it."""
        self._fields_until = float("-inf")

    def take(self) -> UpstreamConnection | None:
        """An idle connection; None: `dial`."""
        return self._idle.pop() if self._idle else None

    def give_back(self, connection: UpstreamConnection) -> None:
        """A connection whose exchange is complete in both directions."""
        if self._closed or len(self._idle) >= IDLE_LIMIT:
            connection.close()
        else:
            self._idle.append(connection)

    def discard(self, connection: UpstreamConnection) -> None:
        """An idle connection was closed by the API server."""
        if connection in self._idle:
            self._idle.remove(connection)

    async def dial(self) -> UpstreamConnection:
        """A new connection. OSError (ssl.SSLError among them): it cannot be had."""
        loop, up = asyncio.get_running_loop(), self._upstream
        if up.tls is None:
            _, connection = await loop.create_connection(
                lambda: UpstreamConnection(self.discard), up.host, up.port
            )
            return connection
        beneath, _ = await loop.create_connection(asyncio.Protocol, up.host, up.port)
        if beneath.is_closing():
            raise ConnectionResetError("closed at once")
        connection = UpstreamConnection(self.discard, beneath)
        secured = await loop.start_tls(beneath, connection, up.tls, server_hostname=up.host)
        if secured is None:
            raise ConnectionResetError("closed while TLS began")
        connection.connection_made(secured)
        return connection

    def close(self) -> None:
        """Close what is idle; connections in use follow when they are given back.

        Nothing is owed on an idle one, and nobody is left to wait for the server's goodbye.
        """
        self._closed = True
        while self._idle:
            self._idle.pop().abort()
