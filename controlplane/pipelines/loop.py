"""Advances pipelines when their services change, and runs the jobs of their effects."""

from datetime import timedelta
from functools import partial
from itertools import islice

from controlplane.pipelines.operations import engine_runner as jobs
from controlplane.pipelines.operations.gate_checks import CheckRunner
from controlplane.pipelines.operations.promotions import Promotions
from controlplane.pipelines.operations.trigger_rows import TRIGGER
from controlplane.pipelines.operations.triggers import Triggers
from controlplane.pipelines.ports import PipelineStore
from controlplane.platform.context import (
    CLUSTER_JOB,
    GENERATORS,
    PIPELINE,
    SERVICE,
    OperationContext,
)
from controlplane.platform.loops.background import BackgroundLoop
from controlplane.platform.loops.jobs import JobRunner, JobWork
from controlplane.platform.loops.retry import retry_forever
from controlplane.platform.ports import LOST_WAKES
from core.errors import TowlineError
from core.runtime.work_queue import WorkQueue

_SWEEP_SECONDS = 60.0
_OVERLAP = timedelta(seconds=60)
_SWEEPS_OF_ALL = 60
_JOBS_AT_ONCE = 64
_MAX_SERVICES_PER_QUERY = 1000


class PipelineLoop(BackgroundLoop):
    """Drives `EngineRunner` and `Promotions`; `holder` identifies this replica in leases."""

    def __init__(
        self,
        engine: jobs.EngineRunner,
        promotions: Promotions,
        checks: CheckRunner,
        triggers: Triggers,
        context: OperationContext,
        holder: str,
    ) -> None:
        super().__init__("pipelines", context.clock)
        self._engine = engine
        self._context = context
        work: dict[str, JobWork] = {
            jobs.RENDER: promotions.render,
            jobs.PROMOTE: promotions.promote,
            jobs.FOLLOW_REQUEST: promotions.follow_request,
            jobs.WRITE: triggers.write,
            TRIGGER: triggers.poll,
            jobs.CHECK: checks.run,
            jobs.TICK: promotions.tick,
            jobs.CLEAN_UP: promotions.clean_up,
        }
        self._swept_at, self._sweeps = context.clock.now(), 0
        self._jobs = JobRunner(context, self.tasks, holder, work, _JOBS_AT_ONCE)
        self._advance_queue = WorkQueue("advance", engine.advance, self.tasks, context.clock)
        self._changed_services: set[str] = set()
        self._changed_services_queue = WorkQueue(
            "touched", self._advance_changed_services, self.tasks, context.clock
        )
        self._changed_repositories = WorkQueue(
            "hint", promotions.hint_merges, self.tasks, context.clock
        )

    async def start(self) -> None:
        """Follows changes in the background, and sweeps all pipelines now and periodically."""
        self._context.manifests.on_state(
            lambda state: self._changed_repositories.add(state.repository_id)
        )
        self.tasks.forever("wakes", self._follow_bus())
        self._jobs.start()
        self._every(_SWEEP_SECONDS, "sweep", self._sweep)

    async def _sweep(self) -> None:
        """Covers missed events: pipelines with recent changes, and periodically all."""
        started_at, is_full = self._clock.now(), self._sweeps % _SWEEPS_OF_ALL == 0
        if is_full:
            await self._engine.delete_old_events()
            changed = await self._all_pipelines()
        else:
            changed = await self._engine.pipelines_changed_since(self._swept_at - _OVERLAP)
        for pipeline in changed:
            self._advance_queue.add(pipeline)
        self._swept_at = started_at
        self._sweeps += 1

    async def _all_pipelines(self) -> list[str]:
        async with self._context.store.read() as tx:
            return [row.id for row in await tx[PipelineStore].all()]

    async def _follow_bus(self) -> None:
        async for topic, key in self._context.bus.subscribe(
            SERVICE, PIPELINE, CLUSTER_JOB, GENERATORS, LOST_WAKES
        ):
            if topic == LOST_WAKES or (topic, key) == (GENERATORS, ""):
                for pipeline in await retry_forever("sweep", self._all_pipelines, self._clock):
                    self._advance_queue.add(pipeline)
                self._jobs.wake()
            elif topic == SERVICE:
                self._changed_services.add(key)
                self._changed_services_queue.add("services")
            elif topic == CLUSTER_JOB:
                await self._advance_for_job(key)
            elif topic == PIPELINE:
                self._advance_queue.add(key)
                self._jobs.wake()

    async def _advance_changed_services(self, key: str) -> None:
        """Finds the pipelines of services that changed since the last run, in one query."""
        service_ids = set(islice(self._changed_services, _MAX_SERVICES_PER_QUERY))
        self._changed_services -= service_ids
        try:
            pipelines = await self._engine.pipelines_of_services(service_ids)
        except TowlineError:
            self._changed_services |= service_ids
            raise
        for pipeline in pipelines:
            self._advance_queue.add(pipeline)
        if self._changed_services:
            self._changed_services_queue.add(key)

    async def _advance_for_job(self, id: str) -> None:
        find = partial(self._engine.pipeline_of_job, id)
        pipeline = await retry_forever("job", find, self._clock)
        if pipeline is not None:
            self._advance_queue.add(pipeline)
