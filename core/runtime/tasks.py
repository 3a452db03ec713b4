"""Background tasks with a name and an owner.

The linter bans `asyncio.create_task`: nobody handles its failure, and the loop may drop the
task. `Tasks` owns the tasks that it starts, and `Tasks.failed` reports a permanent task that
has ended.
"""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

import structlog

log = structlog.get_logger(__name__)

T = TypeVar("T")
Work = Coroutine[Any, Any, T]


class Tasks:
    """The tasks of one owner.

    `forever` starts work that must not end before `stop`; if it ends, `failed` gets the reason.
    `spawn` starts work that ends by itself; its failure is logged.
    """

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.failed: asyncio.Future[BaseException] | None = None
        self._tasks: set[asyncio.Task[object]] = set()
        self.stopping = False

    def forever(self, name: str, work: Work[T]) -> asyncio.Task[T]:
        """Starts work that must run until `stop`."""
        task = self._start(name, work)
        task.add_done_callback(self._on_permanent_ended)
        return task

    def spawn(self, name: str, work: Work[T]) -> asyncio.Task[T]:
        """Starts work that ends by itself."""
        task = self._start(name, work)
        task.add_done_callback(self._on_spawned_ended)
        return task

    async def stop(self, grace: float = 5.0) -> None:
        """Cancels all tasks and waits for their end, at most `grace` seconds."""
        self.stopping = True
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            _, pending = await asyncio.wait(tuple(self._tasks), timeout=grace)
            for task in pending:
                log.warning("task did not stop", owner=self.owner, task=task.get_name())

    async def wait_failed(self) -> BaseException:
        """Waits until a permanent task has ended; returns the reason."""
        if self.failed is None:
            self.failed = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self.failed)

    def _start(self, name: str, work: Work[T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, name=f"{self.owner}/{name}")
        self._tasks.add(task)
        return task

    def _on_permanent_ended(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if self.stopping or task.cancelled():
            return
        reason = task.exception() or RuntimeError(f"{task.get_name()} ended")
        log.error("task ended", owner=self.owner, task=task.get_name(), exc_info=reason)
        if self.failed is None:
            self.failed = task.get_loop().create_future()
        if not self.failed.done():
            self.failed.set_result(reason)

    def _on_spawned_ended(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (reason := task.exception()) is not None:
            log.error("task failed", owner=self.owner, task=task.get_name(), exc_info=reason)


async def run_to_completion(work: Awaitable[T]) -> T:
    """Runs work to its end, even if the caller is cancelled, and returns its result."""
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
