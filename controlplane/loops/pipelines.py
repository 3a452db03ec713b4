"""Moves pipelines when their services change, and carries out what the engine asked for."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from controlplane.domain.jobs import MOST_ATTEMPTS, Job, retry_delay
from controlplane.loops.keyed import KeyedWork
from controlplane.loops.patient import patiently
from controlplane.ports import MISSED, Bus, Store
from controlplane.usecases.deps import PIPELINE, SERVICE
from controlplane.usecases.pipelines import PROMOTE, RENDER, TICK, Pipelines
from controlplane.usecases.promotions import Promotions
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks

log = structlog.get_logger(__name__)

_LONGEST_WAIT = 30.0
_SWEEP_SECONDS = 60.0
_JOBS_AT_ONCE = 16


class PipelineLoop:
    """Drives `Pipelines` and `Promotions`; `holder` names this replica in leases."""

    def __init__(
        self,
        pipelines: Pipelines,
        promotions: Promotions,
        store: Store,
        bus: Bus,
        clock: Clock,
        holder: str,
    ) -> None:
        self._pipelines = pipelines
        self._store = store
        self._bus = bus
        self._clock = clock
        self._holder = holder
        self._work: dict[str, Callable[[Job], Awaitable[None]]] = {
            RENDER: promotions.render,
            PROMOTE: promotions.promote,
            TICK: promotions.tick,
        }
        self._jobs_waiting = asyncio.Event()
        self.tasks = Tasks("pipelines")
        self._advances = KeyedWork("advance", pipelines.advance, self.tasks, clock)

    async def start(self) -> None:
        """Look at every pipeline, now and then, and follow changes."""
        self.tasks.forever("wakes", self._follow())
        self.tasks.forever("jobs", self._do_jobs())
        self.tasks.forever("sweep", self._sweep())

    async def _sweep(self) -> None:
        while True:
            for pipeline in await patiently("sweep", self._all, self._clock):
                self._advances.ask(pipeline)
            await self._clock.sleep(_SWEEP_SECONDS)

    async def _all(self) -> list[str]:
        async with self._store.read() as tx:
            return [row.id for row in await tx.pipelines.select()]

    async def _follow(self) -> None:
        async for topic, key in self._bus.subscribe(SERVICE, PIPELINE, MISSED):
            if topic == MISSED:
                for pipeline in await patiently("sweep", self._all, self._clock):
                    self._advances.ask(pipeline)
                self._jobs_waiting.set()
            elif topic == SERVICE:
                touched = partial(self._pipelines.touched, [key])
                for pipeline in await patiently("touched", touched, self._clock):
                    self._advances.ask(pipeline)
            else:
                self._advances.ask(key)
                self._jobs_waiting.set()

    async def _do_jobs(self) -> None:
        while True:
            self._jobs_waiting.clear()
            if not await patiently("jobs", self._do_due, self._clock):
                await patiently("jobs", self._wait, self._clock)

    async def _do_due(self) -> int:
        """Do the jobs that are due, or some of them; how many."""
        now = self._clock.now()
        async with self._store.write() as tx:
            jobs = await tx.jobs.claim(self._work, self._holder, now, _JOBS_AT_ONCE)
        await asyncio.gather(*(self._do(job) for job in jobs))
        return len(jobs)

    async def _do(self, job: Job) -> None:
        try:
            await self._work[job.kind](job)
        except Exception as error:
            log.exception("job failed", action="job.failed", job=job.key, attempt=job.attempts)
            if job.attempts < MOST_ATTEMPTS:
                run_at = self._clock.now() + retry_delay(job.attempts)
                async with self._store.write() as tx:
                    await tx.jobs.retry(job, run_at, str(error)[:1000])
                return
        async with self._store.write() as tx:
            await tx.jobs.finish(job)

    async def _wait(self) -> None:
        """Until a job is due, or may have been added."""
        async with self._store.read() as tx:
            due = await tx.jobs.next_due()
        seconds = _LONGEST_WAIT
        if due is not None:
            seconds = min(seconds, max(0.0, (due - self._clock.now()).total_seconds()))
        try:
            async with asyncio.timeout(seconds):
                await self._jobs_waiting.wait()
        except TimeoutError:
            pass
