"""Ports of the agent; `compose` provides their implementations."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import core.spec.source
from core.errors import TowlineError, Unavailable
from core.spec.desired import Desired
from core.spec.fences import ServiceFence
from core.spec.input_checks import InputCheck
from core.spec.jobs import JobSpec, JobStatus
from core.spec.objects import GroupVersionKind, ObjectKey, ObjectRef
from core.spec.render_orders import RenderOrder
from core.spec.reports.commands import CommandAnswer
from core.spec.reports.drift import DriftFound
from core.spec.reports.inventory import InventoryChange
from core.spec.reports.local_services import LocalServiceReport
from core.spec.statements.signing_keys import SigningIdentity
from core.spec.status import StageTimes, SyncStatus
from core.spec.sync import ObjectSelection
from core.spec.verification import MetricCheck, VerificationResult
from syncagent.domain.events import Observation
from syncagent.domain.local_services import Document, ServiceDefinition
from syncagent.domain.managed_fields import Entry
from syncagent.domain.objects import KubeObject
from syncagent.domain.observed.inventory import OwnedObject
from syncagent.domain.sops_values import EncryptedValue
from syncagent.domain.sync_run import SyncRun
from syncagent.domain.verification import BundleVerification

INTERNAL_ERROR = "internal error of the agent; see its log"
"""Message of a failure that only the log explains."""


class RequestRefused(TowlineError):
    """The API server refused a request; a retry of the same request is unlikely to succeed.
    `reason` is its machine-readable reason (Invalid, Forbidden, Conflict, ...); the message is its
    own.
    """

    def __init__(self, message: str, *, status: int, reason: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class LinkDown(Unavailable):
    """The control plane cannot be reached now; the request will be retried."""


class UnknownApi(TowlineError):
    """The cluster does not serve this kind now."""

    def __init__(self, api: GroupVersionKind) -> None:
        super().__init__(f"the cluster does not serve {api}")
        self.api = api


Sink = Callable[[Observation], None]


@dataclass(frozen=True, slots=True)
class Deletion:
    """Result of a deletion: the object is gone, or finalizers still hold it."""

    gone: bool


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """A message for an event on an object; `count` is the number of its occurrences."""

    ref: ObjectRef
    uid: str
    reason: str
    message: str
    warns: bool
    count: int


class InputChecks(Protocol):
    """Rules of the cluster's operator about the inputs of bundles."""

    def check(self, desired: Desired) -> tuple[InputCheck, ...]:
        """Returns the checks of the signature and the sources. Raises Invalid if one fails."""
        ...


class ObjectApi(Protocol):
    """Objects of the API server. All methods raise `core.errors.Unavailable` when it cannot be
    reached.
    """

    async def namespaced(self, api: GroupVersionKind) -> bool:
        """Reports whether this kind is namespaced. UnknownApi."""
        ...

    async def apply(
        self, ref: ObjectRef, body: KubeObject, *, force: bool, dry_run: bool = False
    ) -> KubeObject:
        """Applies an object server-side as `towline` and returns it. Refused, UnknownApi."""
        ...

    async def get(self, ref: ObjectRef) -> KubeObject | None:
        """Returns the live object; None if it does not exist or its kind is not served."""
        ...

    async def delete(self, ref: ObjectRef, live: KubeObject, *, orphan: bool = False) -> Deletion:
        """Deletes exactly this version of this object. Refused.
        Dependants are deleted too; with `orphan` they stay and find a new owner.
        """
        ...

    async def replace_managed_fields(
        self, ref: ObjectRef, live: KubeObject, entries: list[Entry]
    ) -> KubeObject:
        """Replaces the managed fields of exactly this version of an object. Refused."""
        ...

    async def merge(self, ref: ObjectRef, patch: KubeObject) -> None:
        """Merge-patches an object; does nothing if it does not exist. Refused."""
        ...

    async def versions(
        self, api: GroupVersionKind, namespace: str, selector: str
    ) -> dict[ObjectKey, int]:
        """Returns the versions of all matching objects of a kind and namespace. Refused,
        UnknownApi.
        """
        ...


class KubeApi(ObjectApi, Protocol):
    """The API server, as the agent itself."""

    async def ping(self) -> None:
        """Checks the API server within some seconds; raises Unavailable otherwise."""
        ...

    async def follow(
        self, api: GroupVersionKind, namespace: str, selector: str, sink: Sink
    ) -> None:
        """Lists, then watches until cancelled, and passes all matching objects to `sink`.
        It begins with `Seen` for each object and one `WatchListed`, and does so again after the
        resource version has expired. An empty namespace means all namespaces.
        """
        ...

    async def log_tail(self, pod: ObjectRef, container: str, *, previous: bool) -> str:
        """Returns the last lines of a container's log, limited in size; empty if there is none.
        Refused.
        """
        ...

    async def warnings(self, ref: ObjectRef, uid: str) -> list[str]:
        """Returns the messages of an object's warning events, newest first. Refused."""
        ...

    async def write_event(self, event: ObjectEvent) -> None:
        """Writes an event on an object; an equal one only increases its count. Refused."""
        ...

    def find(self, selector: str) -> AsyncIterator[KubeObject]:
        """Iterates over the metadata of all matching objects of all kinds; for recovery only.
        It skips kinds that the agent may not list.
        """
        ...


@dataclass(frozen=True, slots=True)
class FencedCluster:
    """The cluster's objects within a fence; None: without one."""

    objects: ObjectApi
    fence: ServiceFence | None


class Fences(Protocol):
    """The fences of projects, as this cluster enforces them."""

    def within(self, fence: ServiceFence | None, namespace: str) -> FencedCluster:
        """Returns the objects for a service of a namespace. Invalid: its project is not a tenant
        of this cluster.
        """
        ...


class BundleStore(Protocol):
    """Verified bundles on the local disk."""

    def has(self, digest: str) -> bool:
        """Reports whether the bundle exists and is complete."""
        ...

    async def load(self, digest: str) -> bytes:
        """Reads a bundle. NotFound: absent, or the disk returned other bytes."""
        ...

    async def save(self, digest: str, data: bytes) -> None:
        """Stores a bundle. Invalid: wrong digest. Unavailable: the disk failed."""
        ...

    def part(self, digest: str, offset: int, length: int) -> bytes:
        """Reads some bytes of a stored bundle."""
        ...

    def keep_only(self, digests: Iterable[str]) -> None:
        """Deletes all other bundles."""
        ...


class BundleFetcher(Protocol):
    """Downloads bundles from the control plane."""

    async def fetch(self, digest: str, size: int) -> bytes:
        """Downloads the bundle of a digest. LinkDown; NotFound; Invalid: other bytes arrived."""
        ...


class DecryptionKeys(Protocol):
    """Private keys of this cluster, for values encrypted for it in git."""

    def open(self, value: EncryptedValue) -> bytes:
        """Decrypts a value. Invalid: no key fits, or the value was altered. Unavailable."""
        ...


class ServiceReports(Protocol):
    """Reports to the control plane, stored on disk until it has them."""

    def status(self, status: SyncStatus) -> None: ...

    def inventory(self, change: InventoryChange) -> None: ...

    def drift(self, found: DriftFound) -> None: ...

    def verified(self, verified: VerificationResult) -> None: ...

    def done(self, done: CommandAnswer) -> None: ...


@dataclass(frozen=True, slots=True)
class StoredService:
    """A service in the durable state.
    `current` is the desired state whose objects were applied last, completely or in part; None
    before the first. It differs from `desired` until a newer bundle has been fetched.
    """

    desired: Desired
    current: Desired | None
    stamps: StageTimes


class SyncRunStore(Protocol):
    """Progress of syncs with hooks or waves. Unavailable: the disk failed."""

    def get(self, service_id: str) -> SyncRun | None:
        """Returns the last stored run of a service."""
        ...

    def keep(self, run: SyncRun) -> None: ...


class VerificationStore(Protocol):
    """State of bundle verifications. Unavailable: the disk failed."""

    def get(self, service_id: str) -> BundleVerification | None: ...

    def all(self) -> Iterator[BundleVerification]: ...

    def keep(self, trial: BundleVerification) -> None: ...


class Metrics(Protocol):
    """Metrics from the cluster's metrics server."""

    async def value(self, check: MetricCheck) -> float | None:
        """Evaluates a query; None: no series, or several. Refused, Unavailable, Invalid."""
        ...


class StateStore(Protocol):
    """The agent's durable state. Each call is one transaction. Unavailable: the disk failed."""

    @property
    def runs(self) -> SyncRunStore: ...

    @property
    def trials(self) -> VerificationStore: ...

    fresh: bool
    """True until `mark_recovered`: a first start, or a lost disk; unknown objects may exist."""

    def mark_recovered(self) -> None:
        """Marks the state as complete: it contains all objects of the cluster from now on."""
        ...

    def load_services(self) -> list[StoredService]: ...

    def load_objects(self) -> list[OwnedObject]: ...

    def save_desired_state(self, desired: Desired, stamps: StageTimes) -> None:
        """Stores the newest desired state of a service."""
        ...

    def save_stage_times(self, service_id: str, stamps: StageTimes) -> None:
        """Stores the times when stages were completed."""
        ...

    def save_apply_intent(self, current: Desired, intended: Iterable[ObjectRef]) -> None:
        """Stores, before any write, that `current` is being applied and may create `intended`."""
        ...

    def save_objects(self, owned: Iterable[OwnedObject], gone: Iterable[OwnedObject] = ()) -> None:
        """Stores the state of objects, and deletes those that are gone."""
        ...

    def delete_service(self, service_id: str) -> None:
        """Deletes a service whose objects are all gone."""
        ...

    def find_answer(self, command_id: str) -> CommandAnswer | None:
        """Returns the answer to a command that was executed before."""
        ...

    def save_answer(self, done: CommandAnswer) -> None:
        """Stores the answer to an executed command."""
        ...


class Reconciler(Protocol):
    """Operations that the link calls."""

    def desire(self, desired: Desired) -> None:
        """Takes the newest desired state of a service. Unavailable: it could not be stored."""
        ...

    def stored_services(self) -> list[tuple[str, int]]:
        """Returns ids and sequences of all stored services."""
        ...

    def linked(self) -> None:
        """Handles a new connection to the control plane."""
        ...

    def report_all(self) -> None:
        """Reports all services again, after the control plane has lost its data."""
        ...

    def sync_now(
        self, command_id: str, service_id: str, selection: ObjectSelection | None = None
    ) -> None:
        """Syncs a service now, or only its selected objects, and answers the command."""
        ...

    def terminate(self, command_id: str, service_id: str) -> None:
        """Terminates the running sync of a service, and answers; its next change starts a
        new sync.
        """
        ...

    def refuse(self, command_id: str, reason: str) -> None:
        """Answers a command that cannot be executed."""
        ...


class FreezeConfigMap(Protocol):
    """The ConfigMap that may contain freeze statements."""

    async def statements(self) -> list[str]:
        """Returns the lines of its values. Unavailable, Refused: it cannot be read."""
        ...


class FreezeCommands(Protocol):
    """The freeze of this cluster by the holder of its freeze key."""

    @property
    def reason(self) -> str:
        """Why the cluster is frozen; empty: it is not."""
        ...

    def execute(self, command_id: str, statement: str) -> None:
        """Obeys a signed statement, and answers the command. Invalid: it does not count here."""
        ...


@dataclass(frozen=True, slots=True)
class PinnedKey:
    """The signing key of the installation that this agent joined.

    `public_key` are its 32 raw bytes. `expected` is the fingerprint that the settings had; empty:
    none, the agent took the key of its first connection. `problem` is the present reason to refuse
    the key of the control plane. `former` are the keys that this one replaced here.
    """

    public_key: bytes
    cluster_id: str
    expected: str = ""
    problem: str = ""
    former: tuple[bytes, ...] = ()

    @property
    def key_id(self) -> str:
        """The fingerprint of the key, `sha256:<hex>`."""
        return SigningIdentity(self.public_key).key_id


@dataclass(frozen=True, slots=True)
class AcceptedOrder:
    """The newest accepted order of a service; `fence` is the digest of its fence, or empty."""

    service_id: str
    generation: int
    fence: str


class OrderLedger(Protocol):
    """Accepted orders, so that an older one is refused."""

    def newest(self, service_id: str) -> AcceptedOrder | None:
        """Returns the newest accepted order of a service."""
        ...

    def accept(self, order: AcceptedOrder, forget_at: datetime | None, now: datetime) -> None:
        """Stores an order, until `forget_at` if its service is removed. Unavailable."""
        ...


@dataclass(frozen=True, slots=True)
class NumberedReport:
    """A numbered report; `at_ms` is the time of its event in milliseconds since 1970."""

    number: int
    at_ms: int
    body: bytes


Merge = Callable[[bytes, bytes], bytes | None]


class Outbox(Protocol):
    """Reports on disk until the control plane has them, for one sender at a time."""

    def put(self, topic: str, body: bytes, merge: Merge | None = None) -> None:
        """Adds a report, and replaces or merges an unsent one on the same topic.
        `merge` gets the older and the newer body; if it returns None, both stay. Unavailable: the
        disk failed.
        """
        ...

    def put_event(self, topic: str, body: bytes) -> None:
        """Adds a report of an event, which keeps its time and place if its body changes before it
        is sent. Unavailable: the disk failed.
        """
        ...

    def trim(self, group: str, max_entries: int) -> None:
        """Drops the oldest unsent reports on topics `<group>/…` above a number."""
        ...

    def acknowledge(self, number: int) -> None:
        """Marks all reports up to this number as committed by the control plane."""
        ...

    def acknowledged(self) -> int:
        """Returns the highest number that was ever acknowledged."""
        ...

    def sent(self) -> list[NumberedReport]:
        """Returns the reports that were sent but not acknowledged, in order."""
        ...

    def take(self, limit: int) -> list[NumberedReport]:
        """Numbers at most `limit` of the oldest waiting reports; they count as sent from now on."""
        ...

    async def wait(self) -> None:
        """Waits until a report may be available."""
        ...


LiveLog = Callable[[str, int, bytes], None]
"""Takes a piece of a job's log (command id, offset, bytes) and sends it if the link has room."""

TakeLine = Callable[[bytes], None]

Allowed = Callable[[ObjectRef], None]
"""Raises Invalid for an object that the agent must not write; see `autonomy.policy`."""

BodyAllowed = Callable[[ObjectRef, KubeObject], None]
"""Raises Invalid for an object with this body that the agent must not write."""


Load = Callable[[], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class LocalRender:
    """Result of a render: the bundle `digest` of `size` bytes, which `load` reads.
    `commit` is empty without a repository, and `committed_at` is its time.
    """

    digest: str
    size: int
    load: Load
    commit: str = ""
    committed_at: datetime | None = None


class LocalRenders(Protocol):
    """Renders the services that this cluster defines itself."""

    async def render(self, definition: ServiceDefinition) -> LocalRender:
        """Renders the present bundle. Invalid, NotFound, Unavailable: the render failed."""
        ...


class FollowedRepositories(LocalRenders, Protocol):
    """Git repositories that the agent follows itself, each from its first render on."""

    async def start(self, changed: Callable[[], None]) -> None:
        """Starts to follow; calls `changed` after each change of a repository."""
        ...

    async def stop(self) -> None: ...

    async def refresh(self) -> None:
        """Fetches from the servers now."""
        ...


class OrderedRenders(Protocol):
    """Executes render orders from repositories that are read for this purpose only."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def execute(self, order: RenderOrder) -> tuple[core.spec.source.RenderedBundle, bytes]:
        """Executes an order and returns the result and its bundle. Invalid, NotFound, Unavailable:
        the render failed.
        """
        ...


class Uploader(Protocol):
    """Uploads rendered bundles to the control plane."""

    async def upload(self, command_id: str, digest: str, data: bytes) -> None:
        """Uploads a bundle. LinkDown; NotFound: the order has expired; Invalid: it was refused."""
        ...


class CommandAnswers(Protocol):
    """Sends answers to commands."""

    def done(self, done: CommandAnswer) -> None:
        """Answers a command. Unavailable: the disk failed."""
        ...


class DefinitionSource(Protocol):
    """A place that defines services of the cluster's own."""

    async def documents(self) -> Sequence[Document]:
        """Reads all documents. Invalid, NotFound, Unavailable: the content is unknown."""
        ...


class ConfigMaps(Protocol):
    """ConfigMaps of a namespace."""

    async def labelled(self, namespace: str, label: str) -> list[KubeObject]:
        """Lists the ConfigMaps with a label. Refused, Unavailable; Invalid: too many."""
        ...


class LocalServiceReports(Protocol):
    """Reports services of the cluster's own."""

    def mirror(self, mirror: LocalServiceReport) -> None: ...


class JobCluster(Protocol):
    """API server operations for jobs. All raise Unavailable when it cannot be reached."""

    async def create(self, ref: ObjectRef, body: KubeObject) -> KubeObject:
        """Creates an object. Refused, with status 409 if the name exists."""
        ...

    async def get(self, ref: ObjectRef) -> KubeObject | None:
        """Returns the live object; None if it does not exist."""
        ...

    async def delete(self, ref: ObjectRef, live: KubeObject) -> Deletion:
        """Deletes exactly this object and its dependants."""
        ...

    async def merge(self, ref: ObjectRef, patch: KubeObject) -> None:
        """Merge-patches an object."""
        ...

    async def pods(self, ref: ObjectRef) -> list[KubeObject]:
        """Lists the pods of a Job, oldest first; a Pod is its own list."""
        ...

    async def job_log(self, pod: ObjectRef, container: str, max_bytes: int) -> str:
        """Returns the end of a container's log. Refused: it has none."""
        ...

    async def follow_log(self, pod: ObjectRef, container: str, take: TakeLine) -> None:
        """Passes a container's log on line by line, until it ends."""
        ...


class JobFences(Protocol):
    """The fences of projects, as this cluster enforces them for jobs."""

    @property
    def own(self) -> JobCluster:
        """The cluster without a fence, for jobs of the agent itself."""
        ...

    def within(self, fence: ServiceFence | None, namespace: str) -> JobCluster:
        """Returns the cluster for a job of a namespace. Invalid: its project is not a tenant of
        this cluster.
        """
        ...


class JobStore(Protocol):
    """Jobs on disk. Unavailable: the disk failed."""

    def jobs(self) -> list[tuple[JobSpec, JobStatus]]: ...

    def job(self, command_id: str) -> JobStatus | None: ...

    def keep(self, spec: JobSpec, status: JobStatus) -> None: ...

    def forget_job(self, command_id: str) -> None: ...


class JobReports(Protocol):
    """Reports about jobs to the control plane."""

    def job(self, status: JobStatus) -> None: ...

    def done(self, done: CommandAnswer) -> None: ...


class JobCommands(Protocol):
    """Job operations that the link calls."""

    def run(self, spec: JobSpec) -> None:
        """Runs a job, or reports its end again. Unavailable: the job could not be stored."""
        ...

    def cancel(self, command_id: str, job_id: str) -> None:
        """Cancels a job, and answers the command."""
        ...
