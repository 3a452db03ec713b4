"""Tracks the sockets of a client, so that it can close all of them."""

import asyncio
import socket
from contextlib import suppress
from typing import Any
from weakref import WeakSet

_MAX_LOOP_TURNS = 20
"""Turns of the event loop to wait: the end of a stream passes through TLS to the socket."""


class OpenSockets:
    """Makes sockets for a connector and closes the remaining ones.

    A TLS connection stays open until the peer answers the close notification, which a hanging
    peer never does; by then the connector no longer tracks it.
    """

    def __init__(self) -> None:
        self._sockets: WeakSet[socket.socket] = WeakSet()

    def make(self, address: tuple[Any, ...]) -> socket.socket:
        """Makes a socket for a result of `getaddrinfo`."""
        family, kind, protocol, *_ = address
        new_socket = socket.socket(family, kind, protocol)
        self._sockets.add(new_socket)
        return new_socket

    async def end(self) -> None:
        """Shuts down open sockets and waits until the event loop has closed them."""
        for opened in self._open_sockets():
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
        for _ in range(_MAX_LOOP_TURNS):
            if not self._open_sockets():
                break
            await asyncio.sleep(0)

    def _open_sockets(self) -> list[socket.socket]:
        return [candidate for candidate in self._sockets if candidate.fileno() != -1]
