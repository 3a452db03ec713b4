"""Keeps a tunnel open on a connection, and replaces it without interrupting open streams."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from core.rpc.calls import CallChannel
from core.runtime.backoff import Backoff
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks, Work
from syncagent.tunnel.client import TunnelClient

log = structlog.get_logger(__name__)

# A draining control plane soon ends the link, too.
_PAUSE_S = 1.0

Dial = Callable[[CallChannel], TunnelClient]
Check = Callable[[], Awaitable[str]]


async def _no_check() -> str:
    """Finds no problem."""
    return ""


class TunnelKeeper:
    """Dials a tunnel on each connection.
    A tunnel that the control plane wants replaced continues beside the next one until its streams
    end. `check` returns the reason if the API server must not get users' requests; then no tunnel
    is dialled.
    """

    def __init__(self, dial: Dial, clock: Clock, check: Check = _no_check) -> None:
        self._dial = dial
        self._clock = clock
        self._check = check
        self._client: TunnelClient | None = None
        self._clients: set[TunnelClient] = set()
        self._reason = ""

    @property
    def problem(self) -> str:
        """Reason why users cannot reach this cluster now; empty: the tunnel is open, or still
        connecting for the first time.
        """
        is_open = self._client is not None and self._client.is_open
        return f"no tunnel for kubectl: {self._reason}" if self._reason and not is_open else ""

    async def run(self, channel: CallChannel, leaving: asyncio.Event) -> None:
        """Serves until cancelled; after `leaving` is set, until the open streams have ended."""
        tasks, finishing = Tasks("tunnels"), set()
        backoff = Backoff()
        try:
            while not leaving.is_set():
                if not await self._is_safe():
                    await _wait_for_first(
                        tasks, None, self._clock.sleep(backoff.next()), leaving.wait()
                    )
                    continue
                client = self._client = self._dial(channel)
                running = tasks.spawn("run", self._serve(client))
                await _wait_for_first(tasks, running, client.draining.wait(), leaving.wait())
                pause = _PAUSE_S
                if running.done():
                    self._reason = running.result()
                    pause = backoff.next()
                else:
                    finishing.add(tasks.spawn("finish", client.finish()))
                if not leaving.is_set():
                    await _wait_for_first(tasks, None, self._clock.sleep(pause), leaving.wait())
            if finishing:
                await asyncio.wait(finishing)
        finally:
            self._reason = ""
            await tasks.stop()

    def end_streams(self, reason: str) -> None:
        """Ends all open requests of all tunnels at once."""
        for client in [*self._clients]:
            client.end_streams(reason)

    async def _serve(self, client: TunnelClient) -> str:
        self._clients.add(client)
        try:
            return await client.run()
        finally:
            self._clients.discard(client)

    async def _is_safe(self) -> bool:
        reason = await self._check()
        if reason and reason != self._reason:
            log.error("no tunnel", why=reason)
        self._reason = reason or self._reason
        return not reason


async def _wait_for_first(
    tasks: Tasks, running: asyncio.Task[object] | None, *others: Work[object]
) -> None:
    """Waits for the first of these to end; only `running` continues after that."""
    waiting = {tasks.spawn("wait", work) for work in others}
    await asyncio.wait(waiting | ({running} if running else set()), return_when="FIRST_COMPLETED")
    for task in waiting:
        task.cancel()
