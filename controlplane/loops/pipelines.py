"""Advances pipelines when their services change, and runs the jobs of their effects."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from itertools import count, islice

import structlog

from controlplane.domain.jobs import MOST_ATTEMPTS, Job, retry_delay
from controlplane.loops.keyed import KeyedWork
from controlplane.loops.patient import patiently
from controlplane.ports import MISSED, Bus, Manifests, Store
from controlplane.usecases.checks import Checks
from controlplane.usecases.deps import CLUSTER_JOB, PIPELINE, SERVICE, TARGETS
from controlplane.usecases.pipelines import (
    CHECK,
    FOLLOW,
    PROMOTE,
    RENDER,
    TICK,
    TIDY,
    WRITE,
    Pipelines,
)
from controlplane.usecases.promotions import Promotions
from controlplane.usecases.triggerrows import TRIGGER
from controlplane.usecases.triggers import Triggers
from fleet.errors import TowlineError
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks

log = structlog.get_logger(__name__)

_LONGEST_WAIT = 30.0
_SWEEP_SECONDS = 60.0
_OVERLAP = timedelta(seconds=60)
_SWEEPS_OF_ALL = 60
_JOBS_AT_ONCE = 64
_MOST_TOUCHED = 1000


class PipelineLoop:
    """Drives `Pipelines` and `Promotions`; `holder` identifies this replica in leases."""

    def __init__(
        self,
        pipelines: Pipelines,
        promotions: Promotions,
        checks: Checks,
        triggers: Triggers,
        manifests: Manifests,
        store: Store,
        bus: Bus,
        clock: Clock,
        holder: str,
    ) -> None:
        self._pipelines = pipelines
        self._promotions = promotions
        self._manifests = manifests
        self._store = store
        self._bus = bus
        self._clock = clock
        self._holder = holder
        self._work: dict[str, Callable[[Job], Awaitable[None]]] = {
            RENDER: promotions.render,
            PROMOTE: promotions.promote,
            FOLLOW: promotions.follow,
            WRITE: triggers.write,
            TRIGGER: triggers.look,
            CHECK: checks.run,
            TICK: promotions.tick,
            TIDY: promotions.tidy,
        }
        self._under_way = 0
        self._jobs_waiting = asyncio.Event()
        self._swept_at = clock.now()
        self.tasks = Tasks("pipelines")
        self._advances = KeyedWork("advance", pipelines.advance, self.tasks, clock)
        self._touched: set[str] = set()
        self._looks = KeyedWork("touched", self._look_at_touched, self.tasks, clock)
        self._hints = KeyedWork("hint", self._hint, self.tasks, clock)

    async def start(self) -> None:
        """Starts in the background: follows changes, and sweeps all pipelines now and
        periodically."""
        self._manifests.on_state(lambda state: self._hints.ask(state.repository_id))
        self.tasks.forever("wakes", self._follow())
        self.tasks.forever("jobs", self._do_jobs())
        self.tasks.forever("sweep", self._sweep())

    async def _hint(self, repository_id: str) -> None:
        """Wakes pipelines that wait for a merge in a changed repository."""
        for pipeline in self._promotions.waiting(repository_id):
            await self._promotions.hinted(pipeline, repository_id)

    async def _sweep(self) -> None:
        """Covers missed events: pipelines with recent changes, and periodically all."""
        for number in count():
            begun = self._clock.now()
            whole = number % _SWEEPS_OF_ALL == 0
            if whole:
                await patiently("forget", self._pipelines.forget, self._clock)
            which = self._all if whole else self._lately
            for pipeline in await patiently("sweep", which, self._clock):
                self._advances.ask(pipeline)
            self._swept_at = begun
            await self._clock.sleep(_SWEEP_SECONDS)

    async def _lately(self) -> list[str]:
        changed = await self._pipelines.touched_since(self._swept_at - _OVERLAP)
        return sorted({*changed, *await self._pipelines.by_selector()})

    async def _all(self) -> list[str]:
        async with self._store.read() as tx:
            return [row.id for row in await tx.pipelines.select()]

    async def _follow(self) -> None:
        async for topic, key in self._bus.subscribe(
            SERVICE, PIPELINE, CLUSTER_JOB, TARGETS, MISSED
        ):
            if topic == MISSED or (topic, key) == (TARGETS, ""):
                for pipeline in await patiently("sweep", self._all, self._clock):
                    self._advances.ask(pipeline)
                self._jobs_waiting.set()
            elif topic == SERVICE:
                self._touched.add(key)
                self._looks.ask("services")
            elif topic == CLUSTER_JOB:
                await self._follow_job(key)
            elif topic == PIPELINE:
                self._advances.ask(key)
                self._jobs_waiting.set()

    async def _look_at_touched(self, key: str) -> None:
        """Finds the pipelines of services that changed since the last run, in one query."""
        touched = set(islice(self._touched, _MOST_TOUCHED))
        self._touched -= touched
        try:
            pipelines = await self._pipelines.touched(touched)
        except TowlineError:
            self._touched |= touched
            raise
        for pipeline in pipelines:
            self._advances.ask(pipeline)
        if self._touched:
            self._looks.ask(key)

    async def _follow_job(self, id: str) -> None:
        asked = partial(self._pipelines.asked_for, id)
        pipeline = await patiently("job", asked, self._clock)
        if pipeline is not None:
            self._advances.ask(pipeline)

    async def _do_jobs(self) -> None:
        while True:
            self._jobs_waiting.clear()
            if not await patiently("jobs", self._do_due, self._clock):
                await patiently("jobs", self._wait, self._clock)

    async def _do_due(self) -> int:
        """Starts due jobs, within the limit of concurrent jobs; returns their number."""
        room = _JOBS_AT_ONCE - self._under_way
        if room <= 0:
            return 0
        now = self._clock.now()
        async with self._store.write() as tx:
            jobs = await tx.jobs.claim(self._work, self._holder, now, room)
        for job in jobs:
            self._under_way += 1
            self.tasks.spawn(f"job {job.key}", self._do_in_turn(job))
        return len(jobs)

    async def _do_in_turn(self, job: Job) -> None:
        try:
            await patiently("job", partial(self._do, job), self._clock)
        finally:
            self._under_way -= 1
            self._jobs_waiting.set()

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
        """Waits until a job is due or may have been added."""
        async with self._store.read() as tx:
            due = await tx.jobs.next_due()
        seconds = _LONGEST_WAIT
        if due is not None and self._under_way < _JOBS_AT_ONCE:
            seconds = min(seconds, max(0.0, (due - self._clock.now()).total_seconds()))
        try:
            async with asyncio.timeout(seconds):
                await self._jobs_waiting.wait()
        except TimeoutError:
            pass
