"""The sockets of a client, so that none outlives it."""

import asyncio
import socket
from contextlib import suppress
from typing import Any
from weakref import WeakSet

_TURNS = 20
"""Of the event loop: the end of a stream is there at once, and goes through TLS to the socket."""


class OpenSockets:
    """Makes sockets for a connector, and ends those that it has left.

    A connection over TLS stays until the other side has said farewell too, which one that stands
    still never does; a connector has forgotten it by then.
    """

    def __init__(self) -> None:
        self._made: WeakSet[socket.socket] = WeakSet()

    def make(self, address: tuple[Any, ...]) -> socket.socket:
        """A socket for an address as `getaddrinfo` gives it."""
        family, kind, protocol, *_ = address
        one = socket.socket(family, kind, protocol)
        self._made.add(one)
        return one

    async def end(self) -> None:
        """Cut off what is open; returns when the event loop has closed it."""
        for opened in self._open():
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
        for _ in range(_TURNS):
            if not self._open():
                break
            await asyncio.sleep(0)

    def _open(self) -> list[socket.socket]:
        return [made for made in self._made if made.fileno() != -1]
