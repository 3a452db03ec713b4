"""A mux link over one gRPC call of raw bytes, for client and server."""

import asyncio
from collections.abc import Sequence

from core.errors import TowlineError
from core.links.base_link import BaseLink
from core.links.push_link import PushLink
from core.mux.codec import Buffer
from core.mux.mux import Mux
from core.rpc.calls import Call
from core.rpc.http2_call import Http2Call
from core.runtime.tasks import Tasks


def make_call_link(call: Call) -> BaseLink:
    """Makes the best link for the call."""
    return PushLink(call) if isinstance(call, Http2Call) else CallLink(call)


class CallLink(BaseLink):
    """A link with one write at a time; other messages wait in the mux, which orders them."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self._call = call
        self._message: bytes | None = None
        self._busy = False
        self._wake: asyncio.Event = asyncio.Event()
        self._tasks = Tasks("tunnel link")

    @property
    def blocked(self) -> bool:
        return self._busy

    def send(self, buffers: Sequence[Buffer]) -> None:
        self._busy = True
        self._message = b"".join(buffers)
        self._wake.set()

    def _begin(self, mux: Mux) -> None:
        self._tasks.spawn("read", self._read(mux))
        self._tasks.spawn("write", self._write(mux))

    async def _end(self) -> None:
        await self._tasks.stop()

    async def _read(self, mux: Mux) -> None:
        try:
            while (message := await self._call.read()) is not None:
                mux.on_message(message)
        except TowlineError as error:
            self.close(error.message)
        except Exception as fault:
            self._fail(fault)
        else:
            self.close("the peer closed the connection")

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
        except Exception as fault:
            self._fail(fault)
