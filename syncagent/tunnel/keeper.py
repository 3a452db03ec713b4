"""Keeps a tunnel open on a connection, and replaces it without interrupting open streams."""

import asyncio
from collections.abc import Callable

import structlog

from core.rpc.calls import CallChannel
from core.runtime.backoff import Backoff
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks, Work
from syncagent.tunnel.client import TunnelClient

log = structlog.get_logger(__name__)

# A draining control plane also ends the link in a moment.
_PAUSE_S = 1.0

Dial = Callable[[CallChannel], TunnelClient]


class TunnelKeeper:
    """Dials a tunnel on each connection.
    A tunnel that the control plane wants replaced continues beside the next one until its streams
    end.
    """

    def __init__(self, dial: Dial, clock: Clock) -> None:
        self._dial = dial
        self._clock = clock

    async def run(self, channel: CallChannel, leaving: asyncio.Event) -> None:
        """Serves until cancelled; once `leaving` is set, until the open streams have ended."""
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


async def _first(tasks: Tasks, running: asyncio.Task[object] | None, *others: Work[object]) -> None:
    """Waits for the first of these to end; only `running` continues after that."""
    waiting = {tasks.spawn("wait", work) for work in others}
    await asyncio.wait(waiting | ({running} if running else set()), return_when="FIRST_COMPLETED")
    for task in waiting:
        task.cancel()
