"""What every kind of process does: start, say where it is, run until told or failed, stop."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Protocol

from fleet.runtime.process import stop_on_signal
from fleet.runtime.tasks import Tasks


class Runs(Protocol):
    """A process from start to end."""

    async def stop(self) -> None: ...

    async def wait_failed(self) -> BaseException: ...


async def wait_failed(tasks: Tasks, parts: Collection[Tasks]) -> BaseException:
    """Wait until a part that should run for ever has ended; the reason."""
    waiting = [tasks.spawn("failure", part.wait_failed()) for part in parts]
    done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    return done.pop().result()


async def run_until_stopped(process: Runs, start: Callable[[], Awaitable[None]]) -> None:
    """Serve until SIGTERM or SIGINT; raises if a part has failed."""
    async with stop_on_signal() as stop:
        await start()
        tasks = Tasks("run")
        failed = tasks.spawn("failed", process.wait_failed())
        stopping = tasks.spawn("signal", stop.wait())
        await asyncio.wait((failed, stopping), return_when=asyncio.FIRST_COMPLETED)
        try:
            await process.stop()
        finally:
            await tasks.stop()
        if failed.done() and not failed.cancelled():
            raise failed.result()
