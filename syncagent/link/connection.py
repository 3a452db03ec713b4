"""One channel to the control plane and what runs on it beside Sync."""

import asyncio
from collections.abc import Awaitable, Callable

from fleet.rpc.calls import Channel
from fleet.runtime.tasks import Tasks

# Runs on a connection for as long as it lives; once the event is set it takes nothing new and
# returns when what is open has ended.
Companion = Callable[[Channel, asyncio.Event], Awaitable[None]]


class Connection:
    """`close` ends everything at once; `leave` lets companions end what is open."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._tasks = Tasks("connection")
        self._leaving = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()

    def accompany(self, companions: tuple[Companion, ...]) -> None:
        """Start the companions."""
        for companion in companions:
            work = _run(companion, self.channel, self._leaving)
            self._running.add(self._tasks.spawn("companion", work))

    async def leave(self) -> None:
        """Close once all companions have ended."""
        self._leaving.set()
        try:
            if self._running:
                await asyncio.wait(self._running)
        finally:
            await self.close()

    async def close(self) -> None:
        """End the companions and the channel."""
        await self._tasks.stop()
        await self.channel.close()


async def _run(companion: Companion, channel: Channel, leaving: asyncio.Event) -> None:
    await companion(channel, leaving)
