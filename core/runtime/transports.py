"""Transports whose client is not the peer of their socket."""

import asyncio
import socket
from typing import Any

_NO_INFO: dict[str, object] = {}


class ForwardedTransport(asyncio.Transport):
    """Another transport, with the address of the client that something in between forwards."""

    __slots__ = ("_lower", "_peer")

    def __init__(self, lower: asyncio.Transport, peer: tuple[str, int]) -> None:
        super().__init__(_NO_INFO)
        self._lower, self._peer = lower, peer

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peername":
            return self._peer
        info = self._lower.get_extra_info(name, default)
        return _ForwardedSocket(info, self._peer) if name == "socket" and info else info

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._lower.write(data)

    def abort(self) -> None:
        self._lower.abort()

    def is_closing(self) -> bool:
        return self._lower.is_closing()

    def close(self) -> None:
        self._lower.close()

    def is_reading(self) -> bool:
        return self._lower.is_reading()

    def pause_reading(self) -> None:
        self._lower.pause_reading()

    def resume_reading(self) -> None:
        self._lower.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._lower.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._lower.get_write_buffer_size()

    def can_write_eof(self) -> bool:
        return self._lower.can_write_eof()

    def write_eof(self) -> None:
        self._lower.write_eof()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._lower.set_protocol(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._lower.get_protocol()


class _ForwardedSocket:
    """A socket for its options; its peer is the client, because libraries ask for it here."""

    def __init__(self, lower: socket.socket, peer: tuple[str, int]) -> None:
        self._lower, self._peer = lower, peer
        self.family, self.setsockopt = lower.family, lower.setsockopt
        self.getsockname, self.fileno = lower.getsockname, lower.fileno

    def getpeername(self) -> tuple[str, int]:
        return self._peer
