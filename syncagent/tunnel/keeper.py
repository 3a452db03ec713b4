"""Keeps a tunnel open on a connection, and hands over without cutting what is open."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from fleet.rpc.calls import Channel
from fleet.runtime.backoff import Backoff
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks
from syncagent.tunnel.client import TunnelClient

log = structlog.get_logger(__name__)

# A hub that drains tells the link, too: it will be left in a moment.
_PAUSE_S = 1.0

Dial = Callable[[Channel], TunnelClient]


class TunnelKeeper:
    """Dials a tunnel on each connection it is given.

    A tunnel that the hub wants replaced goes on until its streams end, beside the next one.
    """

    def __init__(self, dial: Dial, clock: Clock) -> None:
        self._dial = dial
        self._clock = clock

    async def run(self, channel: Channel, leaving: asyncio.Event) -> None:
        """Serve for ever; once `leaving` is set, until what is open has ended."""
        tasks, finishing = Tasks("tunnels"), set()
        backoff = Backoff()
        try:
            while not leaving.is_set():
                client = self._dial(channel)
                running = tasks.spawn("run", client.run())
                await _first(tasks, running, client.draining.wait(), leaving.wait())
                pause = _PAUSE_S
                if running.done():
                    pause = backoff.next()
                else:
                    finishing.add(tasks.spawn("finish", client.finish()))
                if not leaving.is_set():
                    await _first(tasks, None, self._clock.sleep(pause), leaving.wait())
            if finishing:
                await asyncio.wait(finishing)
        finally:
            await tasks.stop()


async def _first(
    tasks: Tasks, running: asyncio.Task[Any] | None, *others: Coroutine[Any, Any, Any]
) -> None:
    """Wait for the first of these to end; only `running` goes on after that."""
    waiting = {tasks.spawn("wait", other) for other in others}
    await asyncio.wait(waiting | ({running} if running else set()), return_when="FIRST_COMPLETED")
    for one in waiting:
        one.cancel()
