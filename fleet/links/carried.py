"""What every link over a call has in common: its beat, and how it ends."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from fleet.mux.codec import Buffer
from fleet.mux.mux import Mux
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks

BEAT_SECONDS = 1.0


class CarriedLink(ABC):
    """A `fleet.mux.link.Link` that is carried by who has opened it."""

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
        """Move messages until the link ends, however it does; the reason, for people."""
        tasks = Tasks("tunnel link")
        closed = self._closed = asyncio.get_running_loop().create_future()
        if self._reason:
            closed.set_result(None)
        try:
            work = [*self._begin(mux, tasks), tasks.spawn("beat", _beat(mux, clock)), closed]
            await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # First, as what comes then may be cancelled: gRPC does so when the far side leaves.
            mux.on_closed(self._reason or "the connection was lost")
            await tasks.stop()
        return self._reason

    @abstractmethod
    def _begin(self, mux: Mux, tasks: Tasks) -> Iterable[asyncio.Task[None]]:
        """Begin to move messages; the link ends with the first of these tasks."""
        ...


async def _beat(mux: Mux, clock: Clock) -> None:
    """Have the mux look after its streams and its far side, for ever."""
    while True:
        await clock.sleep(BEAT_SECONDS)
        mux.beat()
