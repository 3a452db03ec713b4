"""One channel to the control plane, and the companions that run on it beside Sync."""

import asyncio
from collections.abc import Callable

from core.rpc.calls import CallChannel
from core.runtime.tasks import Tasks, Work

# Runs on a connection until it closes. Once the event is set, it accepts no new work and returns
# when its open work has ended.
Companion = Callable[[CallChannel, asyncio.Event], Work[None]]


class ControlPlaneConnection:
    """A connection. `close` ends everything at once; `drain` lets companions finish their open
    work.
    """

    def __init__(self, channel: CallChannel) -> None:
        self.channel = channel
        self._tasks = Tasks("connection")
        self._draining = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()

    def start_companions(self, companions: tuple[Companion, ...]) -> None:
        """Starts the companions."""
        for companion in companions:
            work = companion(self.channel, self._draining)
            self._running.add(self._tasks.spawn("companion", work))

    async def drain(self) -> None:
        """Closes the connection once all companions have ended."""
        self._draining.set()
        try:
            if self._running:
                await asyncio.wait(self._running)
        finally:
            await self.close()

    async def close(self) -> None:
        """Ends the companions and closes the channel."""
        await self._tasks.stop()
        await self.channel.close()
