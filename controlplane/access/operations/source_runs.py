"""Runs of sources: what the control plane reconciles again and again, as a service account."""

from datetime import timedelta
from typing import Generic, Protocol, TypeVar

from controlplane.access.model.users import User
from controlplane.access.ports import UserStore
from controlplane.platform.context import Change, OperationContext
from controlplane.platform.jobs import Job
from controlplane.platform.parts import column_values
from controlplane.platform.ports import JobStore, Rows, Transaction
from controlplane.platform.retry import retry_on_collision
from core.errors import Conflict


class SourceSettings(Protocol):
    """The settings that all sources have."""

    @property
    def service_account_id(self) -> str: ...

    @property
    def suspended(self) -> bool: ...


class Source(Protocol):
    """A source."""

    @property
    def id(self) -> str: ...

    @property
    def settings(self) -> SourceSettings: ...


S = TypeVar("S", bound=Source)


class SourceRuns(Generic[S]):
    """Schedules the runs of all sources of one kind: each source has one job of kind `job_kind`.

    The loop that runs the jobs listens to `topic`.
    """

    def __init__(
        self, context: OperationContext, job_kind: str, topic: str, port: type[Rows[S]]
    ) -> None:
        self._context = context
        self._job_kind = job_kind
        self._topic = topic
        self._port = port

    async def request(self, tx: Transaction | Change, id: str) -> None:
        """Schedules a run now, in place of a later one."""
        key, now = f"{self._topic}/{id}", self._context.clock.now()
        await tx[JobStore].enqueue(
            Job(self._context.new_id(), self._job_kind, key, now, {"source": id})
        )

    async def request_all(self) -> None:
        """Schedules runs of all sources, as after a start or lost wake-ups."""
        async with self._context.store.read() as tx:
            sources = await tx[self._port].all()
        active = [source for source in sources if not source.settings.suspended]
        if active:
            async with self._context.store.write() as tx:
                for source in active:
                    await self.request(tx, source.id)

    async def begin(self, job: Job) -> S | None:
        """Returns the source of a job. None: it is gone or suspended, and the job has ended."""
        async with self._context.store.read() as tx:
            source = await tx[self._port].get(str(job.payload["source"]))
        if source is not None and not source.settings.suspended:
            return source
        async with self._context.store.write() as tx:
            await tx[JobStore].finish(job)
        return None

    @retry_on_collision
    async def end(self, job: Job, status: object, delay: timedelta) -> None:
        """Writes the status of the source, and schedules its next run.

        After a newer request, the next run writes the status: the settings may differ.
        """
        id, run_at = str(job.payload["source"]), self._context.clock.now() + delay
        async with self._context.store.write() as tx:
            if await tx[JobStore].retry(job, run_at, ""):
                await tx[self._port].change(id, **column_values(status))
        self._context.bus.publish(self._topic, id)


async def account_of(tx: Transaction, source: Source) -> User:
    """Returns the service account of a source. Conflict: it is disabled or was deleted."""
    account = await tx[UserStore].get(source.settings.service_account_id)
    if account is None or account.disabled_at is not None:
        raise Conflict("the service account is disabled: enable it, or choose another one")
    return account
