"""A link over one bidirectional gRPC call of raw bytes, from either end of it."""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

import grpc

from fleet.mux.codec import Buffer
from fleet.mux.mux import Mux
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks

BEAT_SECONDS = 1.0
METHOD = "/fleet.v1.Door/Tunnel"


class RawCall(Protocol):
    """The part that a servicer context and a client's call have in common."""

    async def read(self) -> Any:
        """The next message, or `grpc.aio.EOF`."""
        ...

    async def write(self, message: bytes, /) -> Any:
        """Returns when gRPC has taken the message."""
        ...


class GrpcLink:
    """One write at a time; all else waits in the mux, where it can still be ordered."""

    def __init__(self, call: RawCall) -> None:
        self._call = call
        self._message: bytes | None = None
        self._busy = False
        self._wake: asyncio.Event = asyncio.Event()
        self._closed: asyncio.Future[None] | None = None
        self._reason = ""

    @property
    def blocked(self) -> bool:
        return self._busy

    def send(self, buffers: Sequence[Buffer]) -> None:
        self._busy = True
        self._message = b"".join(buffers)
        self._wake.set()

    def close(self, reason: str) -> None:
        self._reason = self._reason or reason
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)

    async def carry(self, mux: Mux, clock: Clock) -> str:
        """Move messages until the link ends, however it does; the reason, for people."""
        tasks = Tasks("tunnel link")
        closed = self._closed = asyncio.get_running_loop().create_future()
        work = [
            tasks.spawn("read", self._read(mux)),
            tasks.spawn("write", self._write(mux)),
            tasks.spawn("beat", _beat(mux, clock)),
            closed,
        ]
        if self._reason:
            closed.set_result(None)
        try:
            await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # First, as what comes then may be cancelled: gRPC does so when the far side leaves.
            mux.on_closed(self._reason or "the connection was lost")
            await tasks.stop()
        return self._reason

    async def _read(self, mux: Mux) -> None:
        try:
            while (message := await self._call.read()) is not grpc.aio.EOF:
                mux.on_message(message)
        except grpc.aio.AioRpcError as error:
            self.close(_sentence(error))
        else:
            self.close("the far side ended the connection")

    async def _write(self, mux: Mux) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                if (message := self._message) is not None:
                    await self._call.write(message)
                    self._busy = False
                    mux.on_drain()
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError):
            self.close("the connection was lost")


async def _beat(mux: Mux, clock: Clock) -> None:
    while True:
        await clock.sleep(BEAT_SECONDS)
        mux.beat()


def _sentence(error: grpc.aio.AioRpcError) -> str:
    return f"{error.code().name.lower()}: {error.details() or 'the connection was lost'}"
