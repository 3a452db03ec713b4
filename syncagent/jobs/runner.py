"""Runs each job exactly once, despite crashes and lost connections.
The order ensures this: store the job on disk, create it by name, watch it, write its end to disk
and to the outbox, then answer the command. A job whose creation was stored is never created again,
even after somebody has deleted it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from core.errors import Invalid, TowlineError, Unavailable
from core.runtime.backoff import Backoff
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from core.sealing import SealingKey, mask_secrets
from core.spec.jobs import JobPhase, JobSpec, JobStatus
from core.spec.objects import ObjectRef
from core.spec.reports.commands import CommandAnswer, CommandOutcome
from syncagent.domain.objects import KubeObject, ref_of
from syncagent.jobs.logs import LogFollower, tail_of
from syncagent.jobs.template import (
    JobProgress,
    is_ours,
    job_object,
    outputs_of,
    owned_by,
    progress,
    secret_object,
    secret_ref,
)
from syncagent.ports import (
    INTERNAL_ERROR,
    JobCluster,
    JobFences,
    JobReports,
    JobStore,
    LiveLog,
    RequestRefused,
)

log = structlog.get_logger(__name__)

_FIRST_POLL_S = 0.5
_MAX_POLL_S = 5.0
# The API server enforces the job's own deadline; this is only a fallback.
_GRACE = timedelta(seconds=30)
_KEPT = timedelta(days=1)
_DELETE_OLD_EVERY_S = 600.0
# Temporary errors: server failures, or permissions that are being changed.
_FAULTS = frozenset(range(500, 600))
_REFUSALS = _FAULTS | {403, 409}


@dataclass(slots=True)
class _Running:
    """A running job; `values` are its opened secrets, in memory only. `cluster` is behind the fence
    of its project.
    """

    spec: JobSpec
    status: JobStatus
    values: Mapping[str, str]
    cluster: JobCluster
    cancelled: asyncio.Event
    kept: bool = True

    @property
    def deadline(self) -> datetime:
        """Time when the started job is abandoned."""
        assert self.status.started_at is not None
        return self.status.started_at + timedelta(seconds=self.spec.timeout_s) + _GRACE


class JobRunner:
    """Implements `ports.JobCommands`.
    `allowed` gets all objects that a job would create, and raises Invalid if the job must not run
    here; the runner writes no other objects. Jobs of the agent itself are not checked.
    """

    def __init__(
        self,
        fences: JobFences,
        memory: JobStore,
        reports: JobReports,
        key: SealingKey,
        allowed: Callable[[Sequence[ObjectRef]], None],
        live: LiveLog,
        clock: Clock,
    ) -> None:
        self._fences = fences
        self._memory = memory
        self._reports = reports
        self._key = key
        self._allowed = allowed
        self._live = live
        self._clock = clock
        self._tasks = Tasks("jobs")
        self._running: dict[str, _Running] = {}

    @property
    def running(self) -> int:
        """Number of unfinished jobs."""
        return len(self._running)

    def start(self) -> None:
        """Resumes the unfinished jobs."""
        for spec, status in self._memory.jobs():
            if not status.phase.final:
                self._start_job(spec, status)
        self._tasks.forever("tidy", self._delete_old_jobs())

    async def stop(self) -> None:
        """Stops watching jobs; the next start resumes them."""
        await self._tasks.stop()

    def run(self, spec: JobSpec) -> None:
        """Runs a job, or reports its end again. Unavailable: the job could not be stored."""
        known = self._memory.job(spec.command_id)
        if known is None:
            status = JobStatus(spec.command_id, JobPhase.PENDING)
            self._memory.keep(spec, status)
            self._start_job(spec, status)
        elif known.phase.final:
            self._report_end(known)

    def cancel(self, command_id: str, job_id: str) -> None:
        """Cancels a job; its result is reported like that of any job."""
        known, running = self._memory.job(job_id), self._running.get(job_id)
        if running is not None:
            running.cancelled.set()
        outcome = CommandOutcome.SUCCEEDED if known is not None else CommandOutcome.REFUSED
        message = "" if known is not None else "the agent knows no such job"
        self._reports.done(CommandAnswer(command_id, outcome, message))

    def _start_job(self, spec: JobSpec, status: JobStatus) -> None:
        if spec.command_id not in self._running:
            job = _Running(spec, status, {}, self._fences.own, asyncio.Event())
            self._running[spec.command_id] = job
            self._tasks.spawn("job", self._execute(job))

    async def _execute(self, job: _Running) -> None:
        try:
            end = await self._run_to_end(job)
        except (Invalid, RequestRefused) as error:
            end = replace(job.status, phase=JobPhase.FAILED, message=error.message)
        except Exception:
            log.exception("job failed here", job=job.spec.command_id)
            end = replace(job.status, phase=JobPhase.FAILED, message=INTERNAL_ERROR)
        finally:
            self._running.pop(job.spec.command_id, None)
        await self._delete_secret(job)
        end = replace(end, finished_at=self._clock.now(), message=self._masked(job, end.message))
        await self._record_end(job, end)

    async def _record_end(self, job: _Running, end: JobStatus) -> None:
        backoff = Backoff(first=1.0, limit=30.0)
        while True:
            try:
                self._memory.keep(job.spec, end)
                self._report_end(end)
                return
            except Unavailable as error:
                log.error("a job's end cannot be stored", job=end.command_id, error=error.message)
                await self._clock.sleep(backoff.next())

    async def _run_to_end(self, job: _Running) -> JobStatus:
        """Creates the job unless it was created before, follows it, and returns its final
        status.
        """
        body = job_object(job.spec)
        job.cluster = self._cluster_of(job.spec)
        if job.status.ref is None:
            self._check_allowed(job.spec, ref_of(body))
        opened = {s.name: self._key.open(s, job.spec.command_id) for s in job.spec.secrets}
        job.values = {name: value.decode(errors="replace") for name, value in opened.items()}
        if job.status.ref is None:
            until = self._clock.now() + timedelta(seconds=job.spec.timeout_s)
            await self._with_retries(lambda: self._create_job(job, body), until, _FAULTS)
            now = self._clock.now()
            self._save_status(job, replace(job.status, ref=ref_of(body), started_at=now))
        return await self._watch_job(job, ref_of(body))

    def _cluster_of(self, spec: JobSpec) -> JobCluster:
        """Returns the cluster behind the fence of a job. Invalid: see `JobFences.within`."""
        return self._fences.own if spec.own else self._fences.within(spec.fence, spec.namespace)

    def _check_allowed(self, spec: JobSpec, ref: ObjectRef) -> None:
        if not spec.own:
            self._allowed([ref, secret_ref(ref)] if spec.secrets else [ref])

    async def _create_job(self, job: _Running, body: KubeObject) -> None:
        ref = ref_of(body)
        if job.values:
            secret = secret_object(ref, job.spec.command_id, job.values)
            await self._create_or_adopt(job, secret)
        live = await self._create_or_adopt(job, body)
        if job.values:
            await job.cluster.merge(secret_ref(ref), owned_by(live))

    async def _create_or_adopt(self, job: _Running, body: KubeObject) -> KubeObject:
        """Creates an object, or returns the one that was created before."""
        try:
            return await job.cluster.create(ref_of(body), body)
        except RequestRefused as error:
            if error.status != 409:
                raise
        live = await job.cluster.get(ref_of(body))
        if live is None:
            raise Unavailable("the object existed but was deleted meanwhile")
        if not is_ours(live, job.spec.command_id):
            raise Invalid(f"{ref_of(body)} exists and is not this job")
        return live

    async def _watch_job(self, job: _Running, ref: ObjectRef) -> JobStatus:
        poll_delay, follower = Backoff(first=_FIRST_POLL_S, limit=_MAX_POLL_S), None
        if job.spec.follow:
            follower = LogFollower(
                job.cluster, self._live, job.spec.command_id, job.values.values()
            )
        while True:
            try:
                live = await job.cluster.get(ref)
                pods = await self._pods(job, ref) if live else []
            except (Unavailable, RequestRefused) as error:
                self._raise_after_deadline(job, error)
                await self._clock.sleep(poll_delay.next())
                continue
            if live is None or not is_ours(live, job.spec.command_id):
                return replace(job.status, phase=JobPhase.FAILED, message=f"{ref} was deleted")
            current = progress(live, pods)
            if follower is not None:
                follower.look(pods, self._tasks)
            if current.phase.final:
                return await self._ended_status(job, current, pods)
            if job.cancelled.is_set() or self._clock.now() > job.deadline:
                return await self._end_without_job(job, ref, live, pods)
            self._save_status(
                job, replace(job.status, phase=current.phase, message=current.message)
            )
            await self._wait_or_cancelled(job, poll_delay.next())

    def _raise_after_deadline(self, job: _Running, error: TowlineError) -> None:
        """Raises Invalid for a refusal after the job's deadline; waits for an unreachable
        server.
        """
        if isinstance(error, RequestRefused) and self._clock.now() > job.deadline:
            raise Invalid(f"cannot read how the job ended: {error.message}") from error

    async def _pods(self, job: _Running, ref: ObjectRef) -> list[KubeObject]:
        """Lists the job's pods; none if access is still refused after the job's deadline."""
        try:
            return await job.cluster.pods(ref)
        except RequestRefused:
            if self._clock.now() <= job.deadline:
                raise
            return []

    async def _wait_or_cancelled(self, job: _Running, seconds: float) -> None:
        """Waits for some seconds, or until the job is cancelled."""
        sleeping = self._tasks.spawn("pause", self._clock.sleep(seconds))
        cancelled = self._tasks.spawn("cancelled", job.cancelled.wait())
        await asyncio.wait((sleeping, cancelled), return_when=asyncio.FIRST_COMPLETED)
        sleeping.cancel()
        cancelled.cancel()

    async def _ended_status(
        self, job: _Running, current: JobProgress, pods: list[KubeObject]
    ) -> JobStatus:
        tail = await tail_of(job.cluster, pods)
        values = job.values.values()
        return replace(
            job.status,
            phase=current.phase,
            message=current.message,
            exit_code=current.exit_code,
            log_tail=mask_secrets(tail, values),
            outputs={name: mask_secrets(text, values) for name, text in outputs_of(pods).items()},
        )

    async def _end_without_job(
        self, job: _Running, ref: ObjectRef, live: KubeObject, pods: list[KubeObject]
    ) -> JobStatus:
        """Stores the job's logs, then deletes it."""
        cancelled = job.cancelled.is_set()
        message = "cancelled" if cancelled else f"not done within {job.spec.timeout_s} s"
        phase = JobPhase.CANCELLED if cancelled else JobPhase.FAILED
        end = await self._ended_status(job, JobProgress(phase, message), pods)
        until = self._clock.now() + _GRACE
        await self._with_retries(lambda: job.cluster.delete(ref, live), until, _REFUSALS)
        return end

    async def _with_retries(
        self, work: Callable[[], Awaitable[object]], until: datetime, statuses: Collection[int]
    ) -> None:
        """Retries while the server is unreachable, and until the deadline after these statuses."""
        backoff = Backoff(first=0.5, limit=10.0)
        while True:
            try:
                await work()
                return
            except RequestRefused as error:
                if error.status not in statuses or self._clock.now() > until:
                    raise
            except Unavailable:
                pass
            await self._clock.sleep(backoff.next())

    def _save_status(self, job: _Running, status: JobStatus) -> None:
        """Stores and reports the status of a job if it has changed."""
        status = replace(status, message=self._masked(job, status.message))
        if status == job.status and job.kept:
            return
        job.status, job.kept = status, False
        try:
            self._memory.keep(job.spec, status)
            self._reports.job(status)
        except Unavailable as error:
            log.error(
                "a job's state cannot be stored yet", job=job.spec.command_id, error=str(error)
            )
        else:
            job.kept = True

    def _report_end(self, status: JobStatus) -> None:
        self._reports.job(status)
        good = status.phase is JobPhase.SUCCEEDED
        outcome = CommandOutcome.SUCCEEDED if good else CommandOutcome.FAILED
        self._reports.done(CommandAnswer(status.command_id, outcome, status.message))

    def _masked(self, job: _Running, message: str) -> str:
        return mask_secrets(message, job.values.values())

    async def _delete_secret(self, job: _Running) -> None:
        """Deletes the Secret of an ended job; elsewhere it is deleted with the job."""
        if not job.values:
            return
        ref = secret_ref(ref_of(job_object(job.spec)))
        try:
            live = await job.cluster.get(ref)
            if live is not None and is_ours(live, job.spec.command_id):
                await job.cluster.delete(ref, live)
        except TowlineError as error:
            log.warning(
                "a job's secrets cannot be deleted", job=job.spec.command_id, error=error.message
            )

    async def _delete_old_jobs(self) -> None:
        """Removes jobs that ended a day ago, with their pods."""
        while True:
            await self._clock.sleep(_DELETE_OLD_EVERY_S)
            for spec, status in self._memory.jobs():
                if status.finished_at and status.finished_at + _KEPT < self._clock.now():
                    await self._delete_job(spec, status)

    async def _delete_job(self, spec: JobSpec, status: JobStatus) -> None:
        try:
            cluster = self._cluster_of(spec)
            live = await cluster.get(status.ref) if status.ref else None
            if status.ref and live is not None and is_ours(live, status.command_id):
                await cluster.delete(status.ref, live)
            self._memory.forget_job(status.command_id)
        except TowlineError as error:
            log.warning("an old job cannot be deleted", job=status.command_id, error=error.message)
