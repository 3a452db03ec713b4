"""Runs the jobs of configuration sources, each in one replica at a time."""

import asyncio
from collections.abc import Callable
from functools import partial

import structlog

from controlplane.configuration_sources.operations.reconciler import SourceReconciler
from controlplane.configuration_sources.operations.sources import RECONCILE
from controlplane.platform.context import CONFIGURATION_SOURCE, OperationContext
from controlplane.platform.jobs import Job, retry_delay
from controlplane.platform.loops.retry import retry_forever
from controlplane.platform.ports import LOST_WAKES, JobStore
from core.runtime.tasks import Tasks
from core.runtime.work_queue import WorkQueue
from core.spec.source import RepositoryState

log = structlog.get_logger(__name__)

_MAX_WAIT = 30.0
_AT_ONCE = 4


class ConfigurationSourceLoop:
    """Drives `SourceReconciler`; `holder` identifies this replica in leases.

    `delivers` is True if this process handles a repository, and not another replica.
    """

    def __init__(
        self,
        reconciler: SourceReconciler,
        context: OperationContext,
        delivers: Callable[[str], bool],
        holder: str,
    ) -> None:
        self._reconciler = reconciler
        self._context = context
        self._delivers = delivers
        self._holder = holder
        self._under_way = 0
        self._wake = asyncio.Event()
        self.tasks = Tasks("configuration-sources")
        self._commits = WorkQueue(
            "source-commits", reconciler.commits_changed, self.tasks, context.clock
        )

    def start(self) -> None:
        """Starts in the background, with a run of all sources."""
        self._context.manifests.on_state(self._on_state)
        self.tasks.forever("wakes", self._follow())
        self.tasks.forever("jobs", self._run_jobs())

    def _on_state(self, state: RepositoryState) -> None:
        if self._delivers(state.repository_id):
            self._commits.add(state.repository_id)

    async def _follow(self) -> None:
        await retry_forever("sources", self._reconciler.schedule_all, self._context.clock)
        self._wake.set()
        async for topic, _ in self._context.bus.subscribe(CONFIGURATION_SOURCE, LOST_WAKES):
            if topic == LOST_WAKES:
                await retry_forever("sources", self._reconciler.schedule_all, self._context.clock)
            self._wake.set()

    async def _run_jobs(self) -> None:
        while True:
            self._wake.clear()
            if not await retry_forever("jobs", self._start_due_jobs, self._context.clock):
                await retry_forever("jobs", self._wait, self._context.clock)

    async def _start_due_jobs(self) -> int:
        """Starts due jobs, within the limit of concurrent jobs; returns their number."""
        room = _AT_ONCE - self._under_way
        if room <= 0:
            return 0
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            jobs = await tx[JobStore].claim([RECONCILE], self._holder, now, room)
        for job in jobs:
            self._under_way += 1
            self.tasks.spawn(f"job {job.key}", self._run_job(job))
        return len(jobs)

    async def _run_job(self, job: Job) -> None:
        try:
            await retry_forever("job", partial(self._do, job), self._context.clock)
        finally:
            self._under_way -= 1
            self._wake.set()

    async def _do(self, job: Job) -> None:
        try:
            await self._reconciler.run(job)
        except Exception as error:
            log.exception("job failed", action="job.failed", job=job.key, attempt=job.attempts)
            run_at = self._context.clock.now() + retry_delay(job.attempts)
            async with self._context.store.write() as tx:
                await tx[JobStore].retry(job, run_at, str(error)[:1000])

    async def _wait(self) -> None:
        """Waits until a job is due or may have been added."""
        async with self._context.store.read() as tx:
            due = await tx[JobStore].next_due([RECONCILE])
        seconds = _MAX_WAIT
        if due is not None and self._under_way < _AT_ONCE:
            seconds = min(seconds, max(0.0, (due - self._context.clock.now()).total_seconds()))
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass
