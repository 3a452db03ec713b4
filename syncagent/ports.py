"""What the agent's use cases need of the world; each is filled in by `compose`."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import fleet.source
from fleet.errors import TowlineError, Unavailable
from fleet.orders import RenderOrder
from syncagent.domain.encrypted import EncryptedValue
from syncagent.domain.events import CommandDone, DriftFound, Sighting
from syncagent.domain.fields import Entry
from syncagent.domain.inventory import InventoryChange, Owned
from syncagent.domain.jobs import JobSpec, JobStatus
from syncagent.domain.mirrors import Definition, Document, Mirror
from syncagent.domain.objects import Api, KubeObject, ObjectKey, ObjectRef
from syncagent.domain.runs import Run
from syncagent.domain.services import Desired, MetricCheck, Stamps, Status, Verified
from syncagent.domain.verification import Trial


class Refused(TowlineError):
    """The API server answered and said no; trying again as it is will hardly help.

    `reason` is its word (Invalid, Forbidden, Conflict, ...), the message its own sentence.
    """

    def __init__(self, message: str, *, status: int, reason: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class LinkDown(Unavailable):
    """The control plane cannot be asked now; it will be again."""


class UnknownApi(TowlineError):
    """The cluster does not serve this kind (now)."""

    def __init__(self, api: Api) -> None:
        super().__init__(f"the cluster does not know {api}")
        self.api = api


Sink = Callable[[Sighting], None]


@dataclass(frozen=True, slots=True)
class Deletion:
    """Whether an object has gone already, or is only marked and held by finalizers."""

    gone: bool


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence to be shown where people look at an object; `count` is how often it was so."""

    ref: ObjectRef
    uid: str
    reason: str
    message: str
    warns: bool
    count: int


class Cluster(Protocol):
    """The API server. All raise `fleet.errors.Unavailable` when it cannot be asked."""

    async def ping(self) -> None:
        """Ask for a sign of life; answered, or Unavailable, within some seconds."""
        ...

    async def namespaced(self, api: Api) -> bool:
        """Whether objects of this kind live in namespaces. UnknownApi."""
        ...

    async def apply(
        self, ref: ObjectRef, body: KubeObject, *, force: bool, dry_run: bool = False
    ) -> KubeObject:
        """Server-side apply as `towline`; the object as it is then. Refused, UnknownApi."""
        ...

    async def get(self, ref: ObjectRef) -> KubeObject | None:
        """The live object; None if there is none (or its kind is not served)."""
        ...

    async def delete(self, ref: ObjectRef, live: KubeObject, *, orphan: bool = False) -> Deletion:
        """Delete exactly this object, in exactly this version. Refused.

        Dependants follow; with `orphan` they stay and find a new owner.
        """
        ...

    async def assign(self, ref: ObjectRef, live: KubeObject, entries: list[Entry]) -> KubeObject:
        """Write who owns which field of exactly this version of an object. Refused."""
        ...

    async def merge(self, ref: ObjectRef, patch: KubeObject) -> None:
        """Merge-patch an object; nothing if it is not there. Refused."""
        ...

    async def follow(self, api: Api, namespace: str, selector: str, sink: Sink) -> None:
        """List, then watch, for ever: everything that matches is told to `sink`.

        Begins (and begins again, when the server has forgotten its place) with `Seen` for each
        object and one `Relisted`. An empty namespace means all.
        """
        ...

    async def log_tail(self, pod: ObjectRef, container: str, *, previous: bool) -> str:
        """The last lines of a container's log, bounded; empty if there is none. Refused."""
        ...

    async def warnings(self, ref: ObjectRef, uid: str) -> list[str]:
        """What the newest events say that warn of an object, newest first. Refused."""
        ...

    async def tell(self, notice: Notice) -> None:
        """Write an event on an object; the same notice again only counts it up. Refused."""
        ...

    async def versions(self, api: Api, namespace: str, selector: str) -> dict[ObjectKey, int]:
        """The versions of all objects of a kind and namespace that match. Refused, UnknownApi."""
        ...

    def find(self, selector: str) -> AsyncIterator[KubeObject]:
        """Metadata of all objects of all kinds that match, one by one; for recovery only.

        Kinds that may not be listed are left out.
        """
        ...


class Bundles(Protocol):
    """Verified bundles on this machine's disk."""

    def has(self, digest: str) -> bool:
        """Whether the bundle is there and whole."""
        ...

    async def load(self, digest: str) -> bytes:
        """Its bytes. NotFound: absent, or the disk returned something else."""
        ...

    async def save(self, digest: str, data: bytes) -> None:
        """Keep a bundle. Invalid: wrong digest; Unavailable: the disk refuses."""
        ...

    def part(self, digest: str, offset: int, length: int) -> bytes:
        """Some bytes of a bundle that is there."""
        ...

    def keep_only(self, digests: Iterable[str]) -> None:
        """Remove all others."""
        ...


class Fetcher(Protocol):
    """The control plane as a source of bundles."""

    async def fetch(self, digest: str, size: int) -> bytes:
        """The bytes that the digest names. LinkDown; NotFound; Invalid: other bytes came."""
        ...


class Identities(Protocol):
    """Keys of this cluster, by which it opens what was encrypted for it in git."""

    def open(self, one: EncryptedValue) -> bytes:
        """The plain value. Invalid: it is for none of them, or was altered. Unavailable."""
        ...


class Reports(Protocol):
    """What goes upwards; kept on disk until the control plane has it."""

    def status(self, status: Status) -> None: ...

    def inventory(self, change: InventoryChange) -> None: ...

    def drift(self, found: DriftFound) -> None: ...

    def verified(self, verified: Verified) -> None: ...

    def done(self, done: CommandDone) -> None: ...


@dataclass(frozen=True, slots=True)
class KnownService:
    """A service as the disk remembers it.

    `current` is the desired state whose objects were applied last (whole or in part); `None`
    before the first. It differs from `desired` while a newer bundle has not been fetched.
    """

    desired: Desired
    current: Desired | None
    stamps: Stamps


class Runs(Protocol):
    """How far syncs with hooks or waves have come. Unavailable: the disk refuses."""

    def get(self, service_id: str) -> Run | None:
        """The last run of a service that had to be remembered."""
        ...

    def keep(self, run: Run) -> None: ...


class Trials(Protocol):
    """What is known of bundles on trial. Unavailable: the disk refuses."""

    def get(self, service_id: str) -> Trial | None: ...

    def all(self) -> Iterator[Trial]: ...

    def keep(self, trial: Trial) -> None: ...


class Metrics(Protocol):
    """Metrics that are gathered in the cluster."""

    async def value(self, check: MetricCheck) -> float | None:
        """What a query gives now; None: no series, or several. Refused, Unavailable, Invalid."""
        ...


class Memory(Protocol):
    """The agent's durable state. Each call is one transaction. Unavailable: the disk refuses."""

    @property
    def runs(self) -> Runs: ...

    @property
    def trials(self) -> Trials: ...

    fresh: bool
    """True until `recovered`: first boot or a lost disk, the cluster may hold unknown objects."""

    def recovered(self) -> None:
        """All that the cluster holds is remembered from now on."""
        ...

    def services(self) -> list[KnownService]: ...

    def owned(self) -> list[Owned]: ...

    def desire(self, desired: Desired, stamps: Stamps) -> None:
        """Remember the newest desired state of a service."""
        ...

    def stamp(self, service_id: str, stamps: Stamps) -> None:
        """Remember when stages were reached."""
        ...

    def begin(self, current: Desired, intended: Iterable[ObjectRef]) -> None:
        """Before anything is written: `current` is being applied and may create `intended`."""
        ...

    def record(self, owned: Iterable[Owned], gone: Iterable[Owned] = ()) -> None:
        """Remember objects as they are, and forget those that have gone."""
        ...

    def forget(self, service_id: str) -> None:
        """The service and all its objects are gone."""
        ...

    def answered(self, command_id: str) -> CommandDone | None:
        """The answer to a command that was executed before."""
        ...

    def answer(self, done: CommandDone) -> None:
        """Remember that a command was executed."""
        ...


class Reconciler(Protocol):
    """What the link tells the use cases, and asks them."""

    def desire(self, desired: Desired) -> None:
        """The newest desired state of a service. Unavailable: it could not be kept."""
        ...

    def held(self) -> list[tuple[str, int]]:
        """Ids and sequences of all services kept."""
        ...

    def linked(self) -> None:
        """The control plane can be reached from now on."""
        ...

    def retell(self) -> None:
        """The control plane has forgotten what it was told: say how all services are."""
        ...

    def sync_now(self, command_id: str, service_id: str) -> None:
        """Check a service now, and answer."""
        ...

    def terminate(self, command_id: str, service_id: str) -> None:
        """Stop what is being applied for a service, and answer; its next change starts anew."""
        ...

    def refuse(self, command_id: str, reason: str) -> None:
        """Answer a command that cannot be executed."""
        ...


@dataclass(frozen=True, slots=True)
class Numbered:
    """A report as it is sent; `at_ms` is when it happened, milliseconds since 1970."""

    number: int
    at_ms: int
    body: bytes


Merge = Callable[[bytes, bytes], bytes | None]


class Outbox(Protocol):
    """Reports on disk until the control plane has them; one sender at a time."""

    def put(self, topic: str, body: bytes, merge: Merge | None = None) -> None:
        """Add a report. One on the same topic that was not sent yet is replaced, or merged.

        `merge` is given the older and the newer body; None leaves them as two. Unavailable: the
        disk refuses.
        """
        ...

    def acknowledge(self, number: int) -> None:
        """Everything up to this number is committed at the other side."""
        ...

    def acknowledged(self) -> int:
        """The highest number that was ever acknowledged."""
        ...

    def sent(self) -> list[Numbered]:
        """Reports that were sent before and are not acknowledged, in order."""
        ...

    def take(self, limit: int) -> list[Numbered]:
        """Number the oldest waiting reports, `limit` at most; they count as sent from now on."""
        ...

    async def wait(self) -> None:
        """Until there may be something to take."""
        ...


LiveLog = Callable[[str, int, bytes], None]
"""Takes a piece of a job's log (command id, offset, bytes) and sends it if that is possible now."""

TakeLine = Callable[[bytes], None]

Allowed = Callable[[ObjectRef], None]
"""Raises Invalid for an object that nobody may have this agent write; see `autonomy.policy`."""


Load = Callable[[], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A render of a definition: the bundle `digest` of `size` bytes, which `load` brings.

    `commit` is empty for what comes from no repository.
    """

    digest: str
    size: int
    load: Load
    commit: str = ""


class Renders(Protocol):
    """Makes bundles of what this cluster defines itself."""

    async def render(self, definition: Definition) -> Rendered:
        """The bundle as it is now. Invalid, NotFound, Unavailable: why there is none."""
        ...


class Repositories(Renders, Protocol):
    """Git repositories that the agent follows itself, from the first render of each on."""

    async def start(self, changed: Callable[[], None]) -> None:
        """Begin; `changed` is called whenever a repository has news."""
        ...

    async def stop(self) -> None: ...

    async def refresh(self) -> None:
        """Ask the servers now."""
        ...


class OrderedRenders(Protocol):
    """Renders from repositories that are read for that only."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def carry_out(self, order: RenderOrder) -> tuple[fleet.source.Rendered, bytes]:
        """What an order asks for, and its bundle. Invalid, NotFound, Unavailable: why not."""
        ...


class Uploader(Protocol):
    """The way of a rendered bundle to who ordered it."""

    async def upload(self, command_id: str, digest: str, data: bytes) -> None:
        """Send it. LinkDown; NotFound: nobody waits for it any more; Invalid: it was refused."""
        ...


class Answers(Protocol):
    """Where commands are answered."""

    def done(self, done: CommandDone) -> None:
        """Answer. Unavailable: the disk refuses."""
        ...


class DefinitionSource(Protocol):
    """A place where services of the cluster's own are defined."""

    async def documents(self) -> Sequence[Document]:
        """All that is there. Invalid, NotFound, Unavailable: nothing is known of what is there."""
        ...


class ConfigMaps(Protocol):
    """ConfigMaps of a namespace."""

    async def labelled(self, namespace: str, label: str) -> list[KubeObject]:
        """Those that carry a label. Refused, Unavailable; Invalid: too many."""
        ...


class MirrorReports(Protocol):
    """Where services of the cluster's own are shown."""

    def mirror(self, mirror: Mirror) -> None: ...


class JobCluster(Protocol):
    """What jobs need of the API server. All raise Unavailable when it cannot be asked."""

    async def create(self, ref: ObjectRef, body: KubeObject) -> KubeObject:
        """Create an object. Refused, with status 409 if there is one of this name."""
        ...

    async def get(self, ref: ObjectRef) -> KubeObject | None:
        """The live object; None if there is none."""
        ...

    async def delete(self, ref: ObjectRef, live: KubeObject) -> Deletion:
        """Delete exactly this object; dependants follow."""
        ...

    async def merge(self, ref: ObjectRef, patch: KubeObject) -> None:
        """Merge-patch an object."""
        ...

    async def pods(self, ref: ObjectRef) -> list[KubeObject]:
        """The pods of a Job, oldest first; of a Pod itself."""
        ...

    async def job_log(self, pod: ObjectRef, container: str, most: int) -> str:
        """The end of a container's log. Refused: it has none."""
        ...

    async def follow_log(self, pod: ObjectRef, container: str, take: TakeLine) -> None:
        """Give a container's log line by line, until it ends."""
        ...


class JobMemory(Protocol):
    """Jobs on disk. Unavailable: the disk refuses."""

    def jobs(self) -> list[tuple[JobSpec, JobStatus]]: ...

    def job(self, command_id: str) -> JobStatus | None: ...

    def keep(self, spec: JobSpec, status: JobStatus) -> None: ...

    def forget_job(self, command_id: str) -> None: ...


class JobReports(Protocol):
    """What is said upwards of jobs."""

    def job(self, status: JobStatus) -> None: ...

    def done(self, done: CommandDone) -> None: ...


class Jobs(Protocol):
    """What the link asks of jobs."""

    def run(self, spec: JobSpec) -> None:
        """Run a job, or say again what became of it. Unavailable: it could not be remembered."""
        ...

    def cancel(self, command_id: str, job_id: str) -> None:
        """End a job, and answer."""
        ...
