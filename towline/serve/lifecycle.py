"""Lifecycle of a process: start, run until a signal or a failure, stop."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Protocol

from core.runtime.process import raise_descriptor_limit, stop_on_signal
from core.runtime.tasks import Tasks


class ManagedProcess(Protocol):
    """A process that can fail and be stopped."""

    async def stop(self) -> None: ...

    async def wait_failed(self) -> BaseException: ...


async def wait_for_failure(tasks: Tasks, task_groups: Collection[Tasks]) -> BaseException:
    """Waits until a background task ends unexpectedly; returns the reason."""
    waiting = [tasks.spawn("failure", group.wait_failed()) for group in task_groups]
    done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    return done.pop().result()


async def run_until_stopped(process: ManagedProcess, start: Callable[[], Awaitable[None]]) -> None:
    """Serves until SIGTERM or SIGINT; raises if a background task fails."""
    raise_descriptor_limit()
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
