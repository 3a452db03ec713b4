"""Sockets of a client, which end with the client.

A cancelled request leaves its connection in any state: dialling, in the TLS handshake, or in a
goodbye over TLS that waits for the server. Nobody owns such a connection.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Self
from weakref import WeakSet

_AddressInfo = tuple[int, int, int, str, tuple[object, ...]]
_END_S = 5.0


class _NotifyingSocket(socket.socket):
    """Calls `on_close` at its end."""

    on_close: Callable[[Self], None]

    def close(self) -> None:
        """Ends the socket, as asyncio does."""
        super().close()
        self.on_close(self)

    def detach(self) -> int:
        """Gives the descriptor to uvloop, which closes it."""
        descriptor = super().detach()
        self.on_close(self)
        return descriptor


class OwnedSockets:
    """Makes sockets, and ends those that are still open."""

    def __init__(self) -> None:
        self._open: WeakSet[_NotifyingSocket] = WeakSet()
        self._all_closed = asyncio.Event()

    def make(self, address: _AddressInfo) -> socket.socket:
        """Makes a socket for this address."""
        family, kind, protocol, *_ = address
        made = _NotifyingSocket(family, kind, protocol)
        made.on_close = self._closed
        self._open.add(made)
        return made

    async def close(self) -> None:
        """Ends all connections, and waits until their sockets are closed."""
        for left in tuple(self._open):
            with suppress(OSError):
                left.shutdown(socket.SHUT_RDWR)
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                while self._open:
                    self._all_closed.clear()
                    await self._all_closed.wait()

    def _closed(self, closed: _NotifyingSocket) -> None:
        self._open.discard(closed)
        if not self._open:
            self._all_closed.set()
