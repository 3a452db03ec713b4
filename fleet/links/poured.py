"""A link over a call of our own HTTP/2: messages go straight through, no task in between."""

import asyncio
from collections.abc import Sequence

import structlog

from fleet.links.beat import beat
from fleet.mux.codec import Buffer
from fleet.mux.mux import Mux
from fleet.rpc.http2_call import Http2Call
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks

log = structlog.get_logger(__name__)


class PouredLink:
    """Nothing is sent before it is carried. From then on `blocked` is true of the socket: what
    cannot go yet waits in the mux, to be ordered."""

    def __init__(self, call: Http2Call) -> None:
        self._call = call
        self._closed: asyncio.Future[None] | None = None
        self._reason = ""
        self._mux: Mux | None = None

    @property
    def blocked(self) -> bool:
        return self._mux is None or self._call.blocked

    def send(self, buffers: Sequence[Buffer]) -> None:
        self._call.send(buffers, sum(map(len, buffers)))

    def close(self, reason: str) -> None:
        self._reason = self._reason or reason
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)

    async def carry(self, mux: Mux, clock: Clock) -> str:
        """Move messages until the link ends, however it does; the reason, for people."""
        tasks = Tasks("tunnel link")
        self._mux = mux
        self._closed = asyncio.get_running_loop().create_future()
        if self._reason:
            self._closed.set_result(None)
        try:
            self._call.pour(self)
            mux.on_drain()
            beating = tasks.spawn("beat", beat(mux, clock))
            await asyncio.wait((beating, self._closed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            mux.on_closed(self._reason or "the connection was lost")
            await tasks.stop()
        return self._reason

    # What the call says (see `fleet.rpc.http2_call.Sink`)

    def on_message(self, message: bytes) -> None:
        if self._mux is not None:
            try:
                self._mux.on_message(message)
            except Exception as fault:
                self._fail(fault)

    def on_room(self) -> None:
        if self._mux is not None:
            try:
                self._mux.on_drain()
            except Exception as fault:
                self._fail(fault)

    def on_over(self, reason: str) -> None:
        self.close(reason or "the far side ended the connection")

    # Inside

    def _fail(self, fault: Exception) -> None:
        """A fault of ours ends this link, but not the connection with its other calls."""
        log.error("link failed", exc_info=fault)
        self._mux = None
        self.close("a fault of this side, which its log tells")
