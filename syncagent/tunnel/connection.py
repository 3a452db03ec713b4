"""One connection to the API server: bytes in and out, for one exchange at a time."""

import asyncio
from collections.abc import Callable
from typing import Protocol, cast

from fleet.mux.codec import Buffer

WRITE_HIGH, WRITE_LOW = 256 << 10, 64 << 10


class ConnectionUser(Protocol):
    """The exchange that has the connection now."""

    def on_upstream_data(self, data: bytes) -> None: ...

    def on_upstream_closed(self) -> None:
        """The API server closed the connection, or it broke."""
        ...

    def on_upstream_drained(self) -> None:
        """The socket's buffer has room again."""
        ...


class UpstreamConnection(asyncio.Protocol):
    """`user` is None while idle; an idle connection that receives anything is closed.

    `beneath`: what carries TLS. It is held there, since uvloop's TLS forgets what it has not
    handed on once the far side ends.
    """

    def __init__(
        self,
        on_idle_lost: Callable[["UpstreamConnection"], None],
        beneath: asyncio.Transport | None = None,
    ) -> None:
        self.user: ConnectionUser | None = None
        self.used = False
        self.write_paused = False
        self._on_idle_lost = on_idle_lost
        self._transport: asyncio.Transport
        self._beneath = beneath
        self._held: asyncio.Transport
        self._reading = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = transport = cast(asyncio.Transport, transport)
        self._held = self._beneath or transport
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
        if user is None:
            self._on_idle_lost(self)
        else:
            user.on_upstream_closed()

    def write(self, data: Buffer) -> None:
        """Send bytes; `write_paused` tells whether they are held."""
        self._transport.write(data)

    def write_eof(self) -> None:
        """Send no more, where the transport knows that (TLS does not)."""
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def hold(self) -> None:
        """Read no more for now."""
        if self._reading:
            self._reading = False
            self._held.pause_reading()

    def release(self) -> None:
        """Read on."""
        if not self._reading and not self._held.is_closing():
            self._reading = True
            self._held.resume_reading()

    def close(self) -> None:
        """Send what is owed and close."""
        self.user = None
        # TLS parts by a word of both sides.
        self.release()
        self._transport.close()

    def abort(self) -> None:
        """Close at once, dropping what is owed."""
        self.user = None
        self._transport.abort()
