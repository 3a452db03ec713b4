"""Runs due jobs, each in one replica at a time."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

import structlog

from controlplane.platform.context import OperationContext
from controlplane.platform.jobs import LEASE, MAX_ATTEMPTS, MAX_RUN, Job, retry_delay
from controlplane.platform.loops.retry import retry_forever
from controlplane.platform.ports import JobStore
from core.runtime.tasks import Tasks

log = structlog.get_logger(__name__)

_MAX_WAIT = 30.0
_RENEW_EVERY = LEASE / 3

JobWork = Callable[[Job], Awaitable[None]]


class JobRunner:
    """Runs jobs of the kinds in `work`, at most `max_concurrent` at the same time.

    `holder` identifies this replica in leases. A failed job is retried with a growing delay. A job
    ends with its success, or after 20 attempts. Work of `recurring` jobs ends or reschedules them
    itself, and they are retried without limit.
    """

    def __init__(
        self,
        context: OperationContext,
        tasks: Tasks,
        holder: str,
        work: Mapping[str, JobWork],
        max_concurrent: int,
        *,
        recurring: bool = False,
    ) -> None:
        self._context = context
        self._tasks = tasks
        self._holder = holder
        self._work = work
        self._at_once = max_concurrent
        self._recurring = recurring
        self._running = 0
        self._wake_event = asyncio.Event()

    def start(self) -> None:
        """Starts in the background."""
        self._tasks.forever("jobs", self._run())

    def wake(self) -> None:
        """Looks for due jobs now."""
        self._wake_event.set()

    async def _run(self) -> None:
        while True:
            self._wake_event.clear()
            if not await retry_forever("jobs", self._start_due_jobs, self._context.clock):
                await retry_forever("jobs", self._wait_for_due_job, self._context.clock)

    async def _start_due_jobs(self) -> int:
        """Starts due jobs, within the limit of concurrent jobs; returns their number."""
        free_slots = self._at_once - self._running
        if free_slots <= 0:
            return 0
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            jobs = await tx[JobStore].claim(self._work, self._holder, now, free_slots)
        for job in jobs:
            self._running += 1
            self._tasks.spawn(f"job {job.key}", self._run_job(job))
        return len(jobs)

    async def _run_job(self, job: Job) -> None:
        try:
            await retry_forever("job", partial(self._attempt, job), self._context.clock)
        finally:
            self._running -= 1
            self._wake_event.set()

    async def _attempt(self, job: Job) -> None:
        try:
            async with self._lease_kept(job):
                await self._work[job.kind](job)
        except Exception as error:
            log.exception("job failed", action="job.failed", job=job.key, attempt=job.attempts)
            if self._recurring or job.attempts < MAX_ATTEMPTS:
                run_at = self._context.clock.now() + retry_delay(job.attempts)
                async with self._context.store.write() as tx:
                    await tx[JobStore].retry(job, run_at, str(error)[:1000])
                return
        if not self._recurring:
            async with self._context.store.write() as tx:
                await tx[JobStore].finish(job)

    @asynccontextmanager
    async def _lease_kept(self, job: Job) -> AsyncGenerator[None]:
        """Renews the lease of a job while the block runs, so that no other worker claims it."""
        renewal = self._tasks.spawn(f"lease of {job.key}", self._renew_lease(job))
        try:
            yield
        finally:
            renewal.cancel()

    async def _renew_lease(self, job: Job) -> None:
        clock = self._context.clock
        for _ in range(MAX_RUN // _RENEW_EVERY):
            await clock.sleep(_RENEW_EVERY.total_seconds())
            if not await retry_forever("lease", partial(self._renew_once, job), clock):
                return
        log.warning("job hangs", action="job.hangs", job=job.key, minutes=MAX_RUN.seconds // 60)

    async def _renew_once(self, job: Job) -> bool:
        async with self._context.store.write() as tx:
            return await tx[JobStore].renew(job, self._context.clock.now())

    async def _wait_for_due_job(self) -> None:
        """Waits until a job is due or may have been added."""
        async with self._context.store.read() as tx:
            due = await tx[JobStore].next_due(self._work)
        seconds = _MAX_WAIT
        if due is not None and self._running < self._at_once:
            seconds = min(seconds, max(0.0, (due - self._context.clock.now()).total_seconds()))
        try:
            async with asyncio.timeout(seconds):
                await self._wake_event.wait()
        except TimeoutError:
            pass
