"""Base class of the links over a call: heartbeat and shutdown."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

import structlog

from core.links.heartbeat import Heartbeat
from core.mux.codec import Buffer
from core.mux.mux import Mux

log = structlog.get_logger(__name__)


class BaseLink(ABC):
    """A `core.mux.link.MuxLink` whose opener runs `carry` for its lifetime."""

    __slots__ = ("_closed", "_mux", "_reason")

    def __init__(self) -> None:
        self._mux: Mux | None = None
        self._closed: asyncio.Future[None] | None = None
        self._reason = ""

    @property
    @abstractmethod
    def blocked(self) -> bool: ...

    @abstractmethod
    def send(self, buffers: Sequence[Buffer]) -> None: ...

    def close(self, reason: str) -> None:
        self._reason = self._reason or reason
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)

    def beat(self) -> None:
        """Lets the mux check its streams and its peer."""
        if self._mux is not None:
            try:
                self._mux.beat()
            except Exception as fault:
                self._fail(fault)

    async def carry(self, mux: Mux, heartbeat: Heartbeat) -> str:
        """Transports messages until the link ends; returns the reason, for people."""
        closed = self._closed = asyncio.get_running_loop().create_future()
        if self._reason:
            closed.set_result(None)
        self._mux = mux
        heartbeat.add(self)
        try:
            self._begin(mux)
            await closed
        finally:
            heartbeat.discard(self)
            # A cycle would keep the link's memory until the next full garbage collection.
            self._mux = None
            # Before any await: gRPC cancels this task when the peer leaves.
            mux.on_closed(self._reason or "the connection was lost")
            await self._end()
        return self._reason

    @abstractmethod
    def _begin(self, mux: Mux) -> None:
        """Starts the transport of messages."""
        ...

    @abstractmethod
    async def _end(self) -> None:
        """Ends what `_begin` has started."""
        ...

    def _fail(self, fault: Exception) -> None:
        """Ends this link after an internal error, but not the connection with its other calls."""
        log.error("link failed", exc_info=fault)
        self._mux = None
        self.close("internal error; see the log of this process")
