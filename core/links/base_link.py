"""Base class of the links over a call: heartbeat and shutdown."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from core.mux.codec import Buffer
from core.mux.mux import Mux
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks

BEAT_SECONDS = 1.0


class BaseLink(ABC):
    """A `core.mux.link.MuxLink` whose opener runs `carry` for its lifetime."""

    def __init__(self) -> None:
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

    async def carry(self, mux: Mux, clock: Clock) -> str:
        """Transports messages until the link ends; returns the reason, for people."""
        tasks = Tasks("tunnel link")
        closed = self._closed = asyncio.get_running_loop().create_future()
        if self._reason:
            closed.set_result(None)
        try:
            work = [*self._begin(mux, tasks), tasks.spawn("beat", _beat(mux, clock)), closed]
            await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Before any await: gRPC cancels this task when the peer leaves.
            mux.on_closed(self._reason or "the connection was lost")
            await tasks.stop()
        return self._reason

    @abstractmethod
    def _begin(self, mux: Mux, tasks: Tasks) -> Iterable[asyncio.Task[None]]:
        """Starts the transport of messages; the link ends with the first of these tasks."""
        ...


async def _beat(mux: Mux, clock: Clock) -> None:
    """Lets the mux check its streams and its peer every second."""
    while True:
        await clock.sleep(BEAT_SECONDS)
        mux.beat()
