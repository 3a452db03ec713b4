"""Sources: what the control plane reconciles again and again, as a service account."""

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Generic, Protocol, TypeVar

from controlplane.access.model.users import User
from controlplane.access.ports import UserStore
from controlplane.authorization import Actor, Resource, Verb
from controlplane.platform.context import Change, NamedOperations, OperationContext
from controlplane.platform.jobs import Job
from controlplane.platform.parts import column_values
from controlplane.platform.ports import JobStore, Rows, Transaction
from controlplane.platform.retry import retry_on_collision
from core.errors import Conflict, Invalid


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
    def name(self) -> str: ...

    @property
    def target(self) -> Resource: ...

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


class SourceOperations(NamedOperations[S]):
    """Operations that all kinds of sources share. A change is followed by a run."""

    job_kind: str
    """Kind of the job of each source."""
    topic: str
    """Topic of the loop that runs the jobs."""
    immutable_name: str
    """Reason why the name of a source cannot be changed."""

    def __init__(self, context: OperationContext) -> None:
        self._context = context
        self._runs = self.runs(context)

    @classmethod
    def runs(cls, context: OperationContext) -> SourceRuns[S]:
        """Returns the runs of all sources of the kind."""
        return SourceRuns(context, cls.job_kind, cls.topic, cls.port)

    async def accounts(self, actor: Actor, sources: Collection[S]) -> Mapping[str, str]:
        """E-mail addresses of the service accounts that the actor may read, by ID."""
        ids = {source.settings.service_account_id for source in sources}
        async with self._context.read(actor) as tx:
            rows = await tx[UserStore].by_ids(ids)
        return {row.id: row.email for row in rows if actor.may(Verb.READ, row.target)}

    async def _request(self, tx: Change, source: S) -> None:
        """Schedules a run after the commit."""
        await self._runs.request(tx, source.id)
        tx.publish(self.topic, source.id)

    def _check_same_name(self, source: S, name: str | None) -> None:
        """Invalid: a change has another name."""
        if name not in (None, source.name):
            raise Invalid(f"cannot be changed: {self.immutable_name}", field="name")

    def _check_active(self, source: S) -> None:
        """Conflict: the source is suspended."""
        if source.settings.suspended:
            raise Conflict(f"{self.noun} {source.name!r} is suspended: resume it first")


def changed_settings(before: object, after: object) -> set[str]:
    """Returns the names of the settings that differ."""
    old, new = column_values(before), column_values(after)
    return {name for name in new if new[name] != old[name]}


async def account_of(tx: Transaction, source: Source) -> User:
    """Returns the service account of a source. Conflict: it is disabled or was deleted."""
    account = await tx[UserStore].get(source.settings.service_account_id)
    if account is None or account.disabled_at is not None:
        raise Conflict("the service account is disabled: enable it, or choose another one")
    return account
