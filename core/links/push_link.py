"""A link over a call of Towline's own HTTP/2: callbacks pass messages without a task."""

import asyncio
from collections.abc import Iterable, Sequence

import structlog

from core.links.base_link import BaseLink
from core.mux.codec import Buffer
from core.mux.mux import Mux
from core.rpc.http2_call import Http2Call
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks

log = structlog.get_logger(__name__)


class PushLink(BaseLink):
    """A link that is blocked until `carry` runs, and then whenever the socket is full.

    Blocked messages wait in the mux, which orders them.
    """

    def __init__(self, call: Http2Call) -> None:
        super().__init__()
        self._call = call
        self._mux: Mux | None = None

    @property
    def blocked(self) -> bool:
        return self._mux is None or self._call.blocked

    def send(self, buffers: Sequence[Buffer]) -> None:
        self._call.send(buffers, sum(map(len, buffers)))

    async def carry(self, mux: Mux, clock: Clock) -> str:
        try:
            return await super().carry(mux, clock)
        finally:
            # A cycle would keep the link's memory until the next full garbage collection.
            self._mux = None

    # Called by the call (see `core.rpc.http2_call.MessageSink`)

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
        self.close(reason or "the peer closed the connection")

    # Internal

    def _begin(self, mux: Mux, tasks: Tasks) -> Iterable[asyncio.Task[None]]:
        self._mux = mux
        self._call.set_sink(self)
        mux.on_drain()
        return ()

    def _fail(self, fault: Exception) -> None:
        """Ends this link after an internal error, but not the connection with its other calls."""
        log.error("link failed", exc_info=fault)
        self._mux = None
        self.close("internal error; see the log of this process")
