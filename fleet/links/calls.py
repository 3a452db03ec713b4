"""A link over one call of raw bytes, from either end of it."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from fleet.errors import TowlineError
from fleet.links.beat import beat
from fleet.links.poured import PouredLink
from fleet.mux.codec import Buffer
from fleet.mux.mux import Mux
from fleet.rpc.calls import Call
from fleet.rpc.http2_call import Http2Call
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks


class CarriedLink(Protocol):
    """A `fleet.mux.link.Link` that is carried by who has opened it."""

    @property
    def blocked(self) -> bool: ...
    def send(self, buffers: Sequence[Buffer]) -> None: ...
    def close(self, reason: str) -> None: ...
    async def carry(self, mux: Mux, clock: Clock) -> str:
        """Move messages until the link ends, however it does; the reason, for people."""
        ...


def link_over(call: Call) -> CarriedLink:
    """The link that suits the call best."""
    return PouredLink(call) if isinstance(call, Http2Call) else CallLink(call)


class CallLink:
    """One write at a time; all else waits in the mux, where it can still be ordered."""

    def __init__(self, call: Call) -> None:
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
        tasks = Tasks("tunnel link")
        closed = self._closed = asyncio.get_running_loop().create_future()
        work = [
            tasks.spawn("read", self._read(mux)),
            tasks.spawn("write", self._write(mux)),
            tasks.spawn("beat", beat(mux, clock)),
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
            while (message := await self._call.read()) is not None:
                mux.on_message(message)
        except TowlineError as error:
            self.close(error.message)
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
        except TowlineError as error:
            self.close(error.message)
