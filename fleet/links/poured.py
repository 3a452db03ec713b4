"""A link over a call of our own HTTP/2: messages go straight through, no task in between."""

import asyncio
from collections.abc import Iterable, Sequence

import structlog

from fleet.links.carried import CarriedLink
from fleet.mux.codec import Buffer
from fleet.mux.mux import Mux
from fleet.rpc.http2_call import Http2Call
from fleet.runtime.tasks import Tasks

log = structlog.get_logger(__name__)


class PouredLink(CarriedLink):
    """Nothing is sent before it is carried. From then on `blocked` is true of the socket: what
    cannot go yet waits in the mux, to be ordered."""

    def __init__(self, call: Http2Call) -> None:
        super().__init__()
        self._call = call
        self._mux: Mux | None = None

    @property
    def blocked(self) -> bool:
        return self._mux is None or self._call.blocked

    def send(self, buffers: Sequence[Buffer]) -> None:
        self._call.send(buffers, sum(map(len, buffers)))

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

    def _begin(self, mux: Mux, tasks: Tasks) -> Iterable[asyncio.Task[None]]:
        self._mux = mux
        self._call.pour(self)
        mux.on_drain()
        return ()

    def _fail(self, fault: Exception) -> None:
        """A fault of ours ends this link, but not the connection with its other calls."""
        log.error("link failed", exc_info=fault)
        self._mux = None
        self.close("a fault of this side, which its log tells")
