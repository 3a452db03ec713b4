"""Background tasks with a name, an owner and a consequence.

A bare `asyncio.create_task` is banned by the linter: its failure is nobody's, and the loop may
drop it. `Tasks` owns what it starts, and `Tasks.failed` tells the process when one that
should run for ever has ended.
"""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

import structlog

log = structlog.get_logger(__name__)

T = TypeVar("T")


class Tasks:
    """The tasks of one owner.

    `forever` starts work that must not end before `stop`; if it does, `failed` is set with the
    reason. `spawn` starts work that ends by itself; its failure is logged.
    """

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.failed: asyncio.Future[BaseException] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stopping = False

    def forever(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start work that is to run until `stop`."""
        task = self._start(name, work)
        task.add_done_callback(self._ended)
        return task

    def spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start work that ends by itself."""
        task = self._start(name, work)
        task.add_done_callback(self._finished)
        return task

    async def stop(self, grace: float = 5.0) -> None:
        """Cancel all tasks and wait until they have ended, `grace` seconds at most."""
        self._stopping = True
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            _, pending = await asyncio.wait(tuple(self._tasks), timeout=grace)
            for task in pending:
                log.warning("task did not stop", owner=self.owner, task=task.get_name())

    async def wait_failed(self) -> BaseException:
        """Wait until a task that should run for ever has ended; the reason."""
        if self.failed is None:
            self.failed = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self.failed)

    def _start(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work, name=f"{self.owner}/{name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if self._stopping or task.cancelled():
            return
        reason = task.exception() or RuntimeError(f"{task.get_name()} ended")
        log.error("task ended", owner=self.owner, task=task.get_name(), exc_info=reason)
        if self.failed is None:
            self.failed = task.get_loop().create_future()
        if not self.failed.done():
            self.failed.set_result(reason)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (reason := task.exception()) is not None:
            log.error("task failed", owner=self.owner, task=task.get_name(), exc_info=reason)


async def finished(work: Awaitable[T]) -> T:
    """The result of work that goes on to its end even if the caller is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()
