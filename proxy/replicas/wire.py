"""Link between two replicas: mux messages over TLS, each after its length (u32)."""

import asyncio
import struct
from collections.abc import Sequence
from typing import cast

from core.mux.codec import Buffer
from core.mux.mux import Mux

MAX_MESSAGE_BYTES = 1 << 20
WRITE_HIGH, WRITE_LOW = 256 << 10, 64 << 10
_LENGTH = struct.Struct(">I")


class WireLink(asyncio.Protocol):
    """Implements `core.mux.link.MuxLink`; set `mux` before the first byte arrives."""

    def __init__(self) -> None:
        self.mux: Mux
        self.blocked = True
        self._transport: asyncio.Transport | None = None
        self._rest = bytearray()
        self._reason = ""

    # Calls of the mux

    def send(self, buffers: Sequence[Buffer]) -> None:
        if self._transport is not None:
            size = sum(map(len, buffers))
            self._transport.write(b"".join((_LENGTH.pack(size), *buffers)))

    def close(self, reason: str) -> None:
        self._reason = self._reason or reason
        if self._transport is not None:
            self._transport.close()

    # Callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=WRITE_HIGH, low=WRITE_LOW)
        if self._reason:
            transport.close()
        else:
            self.resume_writing()

    def data_received(self, data: bytes) -> None:
        if self._rest:
            self._rest += data
            data = bytes(self._rest)
            self._rest.clear()
        used = self._take(data)
        if used < len(data):
            self._rest += memoryview(data)[used:]

    def pause_writing(self) -> None:
        self.blocked = True

    def resume_writing(self) -> None:
        self.blocked = False
        self.mux.on_drain()

    def connection_lost(self, exc: Exception | None) -> None:
        self.mux.on_closed(self._reason or "the connection to the replica was lost")

    def _take(self, data: bytes) -> int:
        """Passes complete messages on and returns the number of their bytes."""
        offset, end = 0, len(data)
        while end - offset >= _LENGTH.size and not self.mux.closed:
            (size,) = _LENGTH.unpack_from(data, offset)
            start = offset + _LENGTH.size
            if size > MAX_MESSAGE_BYTES:
                self.mux.close(f"protocol error: a message of {size} bytes")
                return end
            if end - start < size:
                break
            self.mux.on_message(data[start : start + size])
            offset = start + size
        return offset
