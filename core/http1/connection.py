"""One connection of a client, used by one request at a time."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Protocol, cast

from core.mux.codec import Buffer
from core.runtime.connections import half_close

WRITE_HIGH, WRITE_LOW = 256 << 10, 64 << 10


class ConnectionUser(Protocol):
    """The request that uses the connection now."""

    def on_upstream_data(self, data: bytes) -> None: ...

    def on_upstream_closed(self) -> None:
        """Handles the end or loss of the connection."""
        ...

    def on_upstream_drained(self) -> None:
        """Handles free space in the socket's buffer."""
        ...


class UpstreamConnection(asyncio.Protocol):
    """A connection to a server. `user` is None while idle; an idle connection that receives bytes
    is closed. `on_lost` is called after its end. `used`: it has had a user before.
    `transport_below_tls`: the transport below TLS. Reading is paused there, because uvloop's TLS
    drops undelivered bytes when the other side ends. `tls`: the context of the connection.
    """

    def __init__(
        self,
        on_lost: Callable[["UpstreamConnection"], None],
        transport_below_tls: asyncio.Transport | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.tls = tls
        self.user: ConnectionUser | None = None
        self.used = False
        self.write_paused = False
        self._on_lost = on_lost
        self._transport: asyncio.Transport
        self._transport_below_tls = transport_below_tls
        self._readable_transport: asyncio.Transport
        self._reading = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = transport = cast(asyncio.Transport, transport)
        self._readable_transport = self._transport_below_tls or transport
        transport.set_write_buffer_limits(high=WRITE_HIGH, low=WRITE_LOW)

    def data_received(self, data: bytes) -> None:
        if self.user is None:
            self.abort()
        else:
            self.user.on_upstream_data(data)

    def pause_writing(self) -> None:
        self.write_paused = True

    def resume_writing(self) -> None:
        self.write_paused = False
        if self.user is not None:
            self.user.on_upstream_drained()

    def connection_lost(self, exc: Exception | None) -> None:
        user, self.user = self.user, None
        self._on_lost(self)
        if user is not None:
            user.on_upstream_closed()

    def write(self, data: Buffer) -> None:
        """Sends bytes; `write_paused` reports whether they are queued."""
        self._transport.write(data)

    def write_eof(self) -> None:
        """Ends sending, if the transport supports it (TLS does not)."""
        half_close(self._transport)

    def pause_reading(self) -> None:
        """Pauses reading."""
        if self._reading:
            self._reading = False
            self._readable_transport.pause_reading()

    def resume_reading(self) -> None:
        """Resumes reading."""
        if not self._reading and not self._readable_transport.is_closing():
            self._reading = True
            self._readable_transport.resume_reading()

    def close(self) -> None:
        """Sends queued bytes and closes."""
        self.user = None
        # Closing TLS needs messages of both sides.
        self.resume_reading()
        self._transport.close()

    def abort(self) -> None:
        """Closes at once and drops queued bytes."""
        self.user = None
        self._transport.abort()
