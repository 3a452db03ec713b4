"""A link over a call of Towline's own HTTP/2: callbacks pass messages without a task."""

from collections.abc import Sequence

from core.links.base_link import BaseLink
from core.mux.codec import Buffer
from core.mux.mux import Mux
from core.rpc.http2_call import Http2Call


class PushLink(BaseLink):
    """A link that is blocked until `carry` runs, and then whenever the socket is full.

    Blocked messages wait in the mux, which orders them.
    """

    __slots__ = ("_call",)

    def __init__(self, call: Http2Call) -> None:
        super().__init__()
        self._call = call

    @property
    def blocked(self) -> bool:
        return self._mux is None or self._call.blocked

    def send(self, buffers: Sequence[Buffer]) -> None:
        self._call.send(buffers, sum(map(len, buffers)))

    # Called by the call (see `core.rpc.http2_call.MessageSink`)

    def on_message(self, message: bytes) -> None:
        if self._mux is not None:
            try:
                self._mux.on_message(message)
            except Exception as fault:
                self._fail(fault)

    def on_writable(self) -> None:
        if self._mux is not None:
            try:
                self._mux.on_drain()
            except Exception as fault:
                self._fail(fault)

    def on_over(self, reason: str) -> None:
        self.close(reason or "the peer closed the connection")

    # Internal

    def _begin(self, mux: Mux) -> None:
        self._call.set_sink(self)
        mux.on_drain()

    async def _end(self) -> None:
        """Does nothing: there is no task."""
