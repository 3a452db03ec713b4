"""What the use cases need of the world, as Protocols; `compose` fills them in."""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from controlplane.domain.access import Actor, Kind, Role, Visible
from controlplane.domain.audit import AuditFilter, AuditKind, Chain
from controlplane.domain.bindings import AccessRequest, Binding, Project
from controlplane.domain.clustergroups import ClusterGroup
from controlplane.domain.clusterjobs import ClusterJob
from controlplane.domain.clusters import Cluster
from controlplane.domain.commands import Command
from controlplane.domain.contexts import ContextBinding, ServiceContext
from controlplane.domain.datakeys import DataKey
from controlplane.domain.deployment import DeploymentSettings
from controlplane.domain.dora import Deployment, Figures, Period
from controlplane.domain.flow import ServiceExport, ServiceImport
from controlplane.domain.globals import GlobalOverride, GlobalService
from controlplane.domain.jobs import Job
from controlplane.domain.ledger import AuditEntry, Edge, LedgerEntry, Stage
from controlplane.domain.marks import MapRow
from controlplane.domain.namespaces import ManagedNamespace
from controlplane.domain.notifications import Delivery, Mark, Notification, Router, Sink
from controlplane.domain.objects import Plan
from controlplane.domain.overrides import ContextOverride
from controlplane.domain.people import Group, Login, Membership, Token, User
from controlplane.domain.promotion import (
    Pipeline,
    PipelineEvent,
    PipelineGate,
    PipelineService,
    PipelineTrigger,
    RefusedRevision,
)
from controlplane.domain.renderstate import RenderState
from controlplane.domain.repositories import Repository
from controlplane.domain.search import Found, Place, Question
from controlplane.domain.secrets import Secret, SecretUse, SecretVersion
from controlplane.domain.services import Component, Revision, Service
from controlplane.domain.sets import ServiceSet
from controlplane.domain.signin import Challenge, Claims, Failures, Issuer, TrustRule
from controlplane.domain.sources import ServiceSource
from controlplane.domain.spans import Ended, Span
from controlplane.domain.tunnels import Replica, Tunnel
from fleet.errors import Unavailable
from fleet.identity import RepositoryId
from fleet.source import (
    Commit,
    GitCredentials,
    Rendered,
    RenderRequest,
    RepositorySpec,
    RepositoryState,
)
from fleet.streams import FoundStreams, OpenStream, RecordingPart, StreamFilter

T = TypeVar("T")
MOST_ROWS_A_PAGE = 100
MOST_COUNTED = 10_000
MOST_FOUND = 1_000
"""No further than this is counted for an answer."""
ANY: Any = object()
"""Stands for every value of a column: `deleted_at=ANY` finds deleted rows as well."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """A page of rows in the order of their ids, or of the texts of a column, `order`, and then ids.

    `equals` compares columns, `text` is looked for in names; `after` is the id of the last row
    seen. `newest` turns the order round. `visible` leaves only rows in scopes that may be seen.
    `backwards` gives the rows before `after`, or the last ones, in the same order. `tags` are of
    clusters; `heard_since` and `silent_since` ask when their agents were last heard of.
    `counting` asks how many rows all pages have.
    """

    first: int = 50
    after: str | None = None
    equals: Mapping[str, Any] = field(default_factory=dict)
    text: str | None = None
    newest: bool = False
    visible: Visible = ()
    backwards: bool = False
    tags: Sequence[tuple[str, str]] = ()
    heard_since: datetime | None = None
    silent_since: datetime | None = None
    counting: bool = False
    order: str = "id"


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Rows of a page; `more` tells whether others follow, `count` of how many, if asked for.

    `MOST_COUNTED` + 1 means at least so many.
    """

    items: tuple[T, ...]
    more: bool
    count: int | None = None


class Reading(Protocol[T]):
    """Rows of one kind, as values of the domain. Absent rows are None, deleted ones are absent."""

    async def get(self, id: str) -> T | None: ...

    async def find(self, **equals: Any) -> T | None:
        """The one row whose columns equal the values."""
        ...

    async def peek(self, **equals: Any) -> T | None:
        """As `find`, of a row that is only looked at: others may write it meanwhile."""
        ...

    async def select(self, **equals: Any) -> list[T]:
        """All rows whose columns equal the values; a collection means any of them."""
        ...

    async def column(self, name: str, ids: Collection[str]) -> dict[str, Any]:
        """One value of each of these rows, by their ids, without reading the rest of them."""
        ...

    async def past(self, column: str, moment: datetime) -> list[T]:
        """All rows whose time in a column is not after a moment."""
        ...

    async def since(
        self, columns: Collection[str], moment: datetime, visible: Visible, most: int
    ) -> list[str]:
        """The ids of rows, deleted ones too, of which a time in the columns is not before."""
        ...

    async def page(self, query: PageQuery) -> Page[T]: ...


class Rows(Reading[T], Protocol[T]):
    """Rows that change."""

    async def lock(self, ids: Collection[str]) -> list[T]:
        """Rows by their ids, in that order; nobody else writes them until the transaction ends."""
        ...

    async def add(self, one: T) -> None:
        """Insert. Conflict: a row with the same unique name exists."""
        ...

    async def add_each(self, several: Iterable[T]) -> None: ...

    async def put(self, one: T) -> None:
        """Write all columns of an existing row."""
        ...

    async def change(self, id: str, **columns: Any) -> bool:
        """Write some columns; whether there was such a row."""
        ...

    async def change_each(self, changes: Mapping[str, Mapping[str, Any]]) -> None:
        """Write some columns of many rows, by their ids."""
        ...

    async def remove(self, id: str) -> None:
        """Delete for good."""
        ...

    async def remove_each(self, ids: Collection[str]) -> None: ...

    async def remove_before(self, column: str, moment: datetime) -> None:
        """Delete rows whose time in a column is past."""
        ...

    async def count(self) -> int:
        """How many rows there are."""
        ...


class Log(Protocol[T]):
    """Rows that are only ever added."""

    async def append(self, entries: Iterable[T]) -> None: ...

    async def page(self, query: PageQuery) -> Page[T]: ...

    async def select(self, **equals: Any) -> list[T]: ...


class AuditTrail(Log[AuditEntry], Protocol):
    """Rows in hash chains, one of each kind; see `controlplane.domain.audit`.

    What was appended gets its number and hash right before the transaction ends.
    """

    async def search(self, wanted: AuditFilter, query: PageQuery) -> Page[AuditEntry]:
        """A page of the rows that the filter lets through."""
        ...

    async def chains(self) -> list[Chain]:
        """Where each chain begins and ends."""
        ...

    async def behind(self, kind: AuditKind, number: int, most: int) -> list[AuditEntry]:
        """The next rows of a chain behind a number, in order."""
        ...

    async def cut(self, kind: AuditKind, before: datetime, now: datetime, most: int) -> int:
        """Remove the beginning of a chain, up to its first row that is not older; how many."""
        ...


class Notifications(Log[Notification], Protocol):
    """What people may want to know; written with what it is about, routed afterwards."""

    async def add(self, one: Notification) -> int:
        """Append one; its id."""
        ...

    async def waiting(self, most: int) -> list[Notification]:
        """Those that have not been routed yet, oldest first.

        Who may write has them for itself until the transaction ends.
        """
        ...

    async def routed(self, several: Iterable[Notification], now: datetime) -> None:
        """Note that these have been routed, as they then read."""
        ...

    async def drop(self, ids: Collection[int]) -> None:
        """Remove some that are no news after all."""
        ...

    async def forget(self, before: datetime) -> None:
        """Remove those that are older, and their deliveries."""
        ...

    async def stages_before(self, ids: Collection[int]) -> dict[int, Stage | None]:
        """The last word of the ledger on how the service of each of these was before it."""
        ...


class Deliveries(Rows[Delivery], Protocol):
    """Notifications on their way; claims are leases with the count of attempts for a fence."""

    async def claim(self, now: datetime, most: int) -> list[Delivery]:
        """Take those that are due; others may take them again after the lease."""
        ...

    async def settle(self, delivery: Delivery, **columns: Any) -> bool:
        """Write what became of a claim; False if somebody else holds it now."""
        ...


class Components(Reading[Component], Protocol):
    """The inventory."""

    async def upsert(self, components: Iterable[Component]) -> None: ...

    async def forget(self, ids: Collection[str]) -> None: ...

    async def forget_service(self, service_id: str) -> None: ...

    async def count_each(self, clusters: Collection[str]) -> dict[str, int]:
        """How many there are of each cluster that has some."""
        ...

    async def ids_of(self, services: Collection[str]) -> dict[str, set[str]]:
        """The ids of the components that services have, by the id of the service."""
        ...


class ServiceRows(Rows[Service], Protocol):
    """Services, and all of them at a glance."""

    async def fleet_map(
        self, query: PageQuery, clusters: Collection[str] | None = None
    ) -> list[MapRow]:
        """A row for each cluster, by handle, with the marks of the services that are asked for."""
        ...

    async def clusters_of(self, ids: Collection[str]) -> set[str]:
        """The ids of the clusters that these services are in."""
        ...

    async def changed_since(self, moment: datetime, visible: Visible, most: int) -> list[str]:
        """The ids of services that were changed, observed or removed since."""
        ...


@dataclass(frozen=True, slots=True)
class Within:
    """Where a report looks; all that is given must hold."""

    project_id: str | None = None
    cluster_id: str | None = None
    service_id: str | None = None
    repository_id: str | None = None


class Deployments(Protocol):
    """Reports over the ledger's deployments."""

    async def at(
        self, moment: datetime, within: Within, visible: Visible, most: int
    ) -> list[Deployment]:
        """What was desired at a moment, of each service that was there."""
        ...

    async def service_names(self, ids: Collection[str]) -> dict[str, str]:
        """The names of services that are still there."""
        ...

    async def cluster_handles(self, ids: Collection[str]) -> dict[str, str]:
        """The handles of clusters, by id."""
        ...

    async def of_commit(self, sha: str, visible: Visible) -> list[Deployment]:
        """All deployments of a commit, or of those whose id begins so."""
        ...

    async def newest(self, within: Within, visible: Visible, most: int) -> list[Deployment]:
        """The deployments that became desired last."""
        ...

    async def edge(self) -> Edge:
        """How far the ledger goes now."""
        ...

    async def ended(self, after: int, until: int, most: int) -> tuple[int, list[Ended]]:
        """What ended for the first time in rows behind `after` and up to `until`; the last row
        that was looked at."""
        ...

    async def figures(
        self,
        since: datetime,
        until: datetime,
        within: Within,
        visible: Visible,
        period: Period | None = None,
    ) -> Figures:
        """The figures of the deployments that became desired in `[since, until)`."""
        ...


@dataclass(frozen=True, slots=True)
class FoundPage:
    """Objects that a search found; `count` is `MOST_FOUND` + 1 for more than so many."""

    items: tuple[Found, ...]
    more: bool
    count: int


class Search(Protocol):
    """Finding objects of all clusters, and things by their names."""

    async def objects(
        self, question: Question, visible: Visible, first: int, after: str | None
    ) -> FoundPage: ...

    async def places(self, text: str, allowed: dict[Kind, Visible]) -> list[Place]:
        """Things whose names contain a text, of the kinds that are allowed; not yet ranked."""
        ...


class Jobs(Protocol):
    """The job table: claims are leases with a fence."""

    async def enqueue(self, job: Job) -> None:
        """Add a job; one with the same key is asked for anew, also while it is being done."""
        ...

    async def claim(
        self, kinds: Collection[str], holder: str, now: datetime, most: int
    ) -> list[Job]:
        """Lease jobs that are due to `holder`."""
        ...

    async def finish(self, job: Job) -> bool:
        """Remove a done job; False if the lease has passed to another."""
        ...

    async def retry(self, job: Job, run_at: datetime, error: str) -> bool:
        """Give a failed job back for later; False if the lease has passed to another."""
        ...

    async def next_due(self) -> datetime | None:
        """When the earliest waiting job is due."""
        ...


class Transaction(Protocol):
    """One consistent view of the store; what was written is kept or dropped as a whole."""

    @property
    def clusters(self) -> Rows[Cluster]: ...
    @property
    def repositories(self) -> Rows[Repository]: ...
    @property
    def services(self) -> ServiceRows: ...
    @property
    def render_states(self) -> Reading[RenderState]: ...
    @property
    def contexts(self) -> Rows[ServiceContext]: ...
    @property
    def context_bindings(self) -> Rows[ContextBinding]: ...
    @property
    def secrets(self) -> Rows[Secret]: ...
    @property
    def secret_versions(self) -> Rows[SecretVersion]: ...
    @property
    def secret_uses(self) -> Rows[SecretUse]: ...
    @property
    def service_exports(self) -> Rows[ServiceExport]: ...
    @property
    def service_imports(self) -> Rows[ServiceImport]: ...
    @property
    def context_overrides(self) -> Rows[ContextOverride]: ...
    @property
    def data_keys(self) -> Rows[DataKey]: ...
    @property
    def service_sources(self) -> Rows[ServiceSource]: ...
    @property
    def deployment_settings(self) -> Rows[DeploymentSettings]: ...
    @property
    def revisions(self) -> Rows[Revision]: ...
    @property
    def components(self) -> Components: ...
    @property
    def plans(self) -> Rows[Plan]: ...
    @property
    def pipelines(self) -> Rows[Pipeline]: ...
    @property
    def pipeline_services(self) -> Rows[PipelineService]: ...
    @property
    def pipeline_events(self) -> Rows[PipelineEvent]: ...
    @property
    def refused(self) -> Rows[RefusedRevision]: ...
    @property
    def pipeline_gates(self) -> Rows[PipelineGate]: ...
    @property
    def pipeline_triggers(self) -> Rows[PipelineTrigger]: ...
    @property
    def users(self) -> Rows[User]: ...
    @property
    def tokens(self) -> Rows[Token]: ...
    @property
    def groups(self) -> Rows[Group]: ...
    @property
    def memberships(self) -> Rows[Membership]: ...
    @property
    def logins(self) -> Rows[Login]: ...
    @property
    def projects(self) -> Rows[Project]: ...
    @property
    def roles(self) -> Rows[Role]: ...
    @property
    def bindings(self) -> Rows[Binding]: ...
    @property
    def access_requests(self) -> Rows[AccessRequest]: ...
    @property
    def challenges(self) -> Rows[Challenge]: ...
    @property
    def failures(self) -> Rows[Failures]: ...
    @property
    def trust_rules(self) -> Rows[TrustRule]: ...
    @property
    def commands(self) -> Rows[Command]: ...
    @property
    def cluster_jobs(self) -> Rows[ClusterJob]: ...
    @property
    def replicas(self) -> Rows[Replica]: ...
    @property
    def tunnels(self) -> Rows[Tunnel]: ...
    @property
    def cluster_groups(self) -> Rows[ClusterGroup]: ...
    @property
    def globals(self) -> Rows[GlobalService]: ...
    @property
    def overrides(self) -> Rows[GlobalOverride]: ...
    @property
    def sets(self) -> Rows[ServiceSet]: ...
    @property
    def namespaces(self) -> Rows[ManagedNamespace]: ...
    @property
    def ledger(self) -> Log[LedgerEntry]: ...
    @property
    def audit(self) -> AuditTrail: ...
    @property
    def notifications(self) -> Notifications: ...
    @property
    def marks(self) -> Rows[Mark]: ...
    @property
    def sinks(self) -> Rows[Sink]: ...
    @property
    def routers(self) -> Rows[Router]: ...
    @property
    def deliveries(self) -> Deliveries: ...
    @property
    def jobs(self) -> Jobs: ...
    @property
    def deployments(self) -> Deployments: ...
    @property
    def search(self) -> Search: ...


class SpanSink(Protocol):
    """Where traces are told."""

    async def export(self, spans: Sequence[Span]) -> None:
        """Take spans. Unavailable: they were not taken."""
        ...


class Collided(Unavailable):
    """A transaction and others waited for each other; nothing of it was written.

    It may be begun again at once: `controlplane.usecases.retrying` does so until it has `given_up`.
    """

    given_up = False


class Store(Protocol):
    """Where everything is kept."""

    def read(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction that only reads."""
        ...

    def write(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction that may write; committed when the block ends without an error.

        Collided: others were written in its place.
        """
        ...


Wake = tuple[str, str]
"""A topic and the key that was published to it."""
MISSED = "missed"
"""A topic: wakes of other replicas may have been lost, so look at everything. No key."""


class Bus(Protocol):
    """Wakes whoever waits for a topic, here and on other replicas. The store holds the truth."""

    def publish(self, topic: str, key: str = "") -> None: ...

    def subscribe(self, *topics: str | Wake) -> AsyncIterator[Wake]:
        """What is published from now on, for as long as the iterator is held.

        A topic alone means all of its keys. A slow reader gets each pair once, not each time.
        """
        ...


class Issuers(Protocol):
    """Identity providers that speak OpenID Connect, and tokens of issuers that rules trust."""

    def known(self) -> tuple[Issuer, ...]:
        """Those by which people may sign in, as configured."""
        ...

    async def begin(self, name: str, redirect: str, state: str, nonce: str, challenge: str) -> str:
        """Where a browser signs in. NotFound: no such issuer. Unavailable: it is away."""
        ...

    async def finish(
        self, name: str, redirect: str, code: str, verifier: str, nonce: str
    ) -> Claims:
        """Redeem a code. Unauthenticated: the issuer, or what it sent, is not to be believed."""
        ...

    def named_by(self, token: str) -> str:
        """Who a token says has made it, unverified. Unauthenticated: it is no token."""
        ...

    async def verify(self, token: str) -> Claims:
        """An ID token of a configured issuer, made for this installation. Unauthenticated: why."""
        ...

    async def verify_for(self, token: str, issuer: str, audience: str, keys: str | None) -> Claims:
        """A token of any issuer for an audience; `keys`: its JWKS, where discovery cannot reach."""
        ...


class Manifests(Protocol):
    """The git cache: follows repositories, renders folders, keeps bundles."""

    def follow(self, spec: RepositorySpec) -> None: ...

    def forget(self, repository_id: RepositoryId) -> None: ...

    def on_state(self, callback: Callable[[RepositoryState], None]) -> None: ...

    def state(self, repository_id: RepositoryId) -> RepositoryState | None: ...

    async def hint(
        self, repository_id: RepositoryId, announced: Mapping[str, str] | None = None
    ) -> None: ...

    async def trees(
        self, repository_id: RepositoryId, commit: str, folders: Collection[str]
    ) -> Mapping[str, str | None]: ...

    async def resolve(self, repository_id: RepositoryId, name: str) -> Commit: ...

    async def render(self, request: RenderRequest) -> Rendered: ...

    async def bundle(self, digest: str) -> bytes: ...

    async def folders(
        self, repository_id: RepositoryId, commit: str, base: str, depth: int
    ) -> list[str]:
        """Paths of all folders at most so many levels below a base. Unavailable, Invalid."""
        ...

    async def keep(self, data: bytes) -> Rendered:
        """Keep a bundle that comes from no repository. Unavailable."""
        ...


class Lender(Protocol):
    """What agents that render may read repositories with."""

    async def lend(self, repository_id: RepositoryId) -> GitCredentials | None:
        """Credentials that end within the hour and read this repository, no other.

        None: there are none to lend; the agent needs none, or has its own. Unavailable.
        """
        ...


class LiveObjects(Protocol):
    """What is in clusters at this moment, read as the user who asks."""

    async def read(self, actor: Actor, handle: str, path: str) -> Mapping[str, Any]:
        """The JSON at a path of a cluster's API.

        NotFound, Forbidden: as the cluster, or the door, says. LimitExceeded: it is too large.
        Unavailable: the cluster does not answer.
        """
        ...


class LiveLogs(Protocol):
    """What running jobs have just written; best effort, some of the newest jobs only."""

    def append(self, job_id: str, offset: int, data: bytes) -> None:
        """A piece of a log, where it belongs in the whole."""
        ...

    def read(self, job_id: str, offset: int) -> tuple[int, bytes]:
        """All from `offset` on that is still there, and where that begins."""
        ...


class Door(Protocol):
    """The Kubernetes door: requests that are under way, and recordings, of all replicas."""

    async def open_streams(self, wanted: StreamFilter) -> FoundStreams: ...

    async def end_stream(self, stream: OpenStream, by: str) -> bool:
        """End one; False: it has ended. Unavailable: its replica does not answer."""
        ...

    async def recording(self, request_id: str, offset: int, most: int) -> RecordingPart:
        """A part of a recording. NotFound; Unavailable: a replica that may keep it is silent."""
        ...


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer over HTTP; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Outward(Protocol):
    """Sends to addresses that users have given, never to where they must not reach."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        """The status of the answer. Unavailable: there is none, or the address is private."""
        ...

    async def ask(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> Reply:
        """What is answered, cut at 1 MiB. Unavailable: as above."""
        ...

    async def syslog(self, url: str, messages: Sequence[bytes]) -> None:
        """Hand over messages of RFC 5424. Unavailable: they were not taken."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class RegistryAccount:
    """As whom a registry is asked. Never printed."""

    username: str
    password: str


class Registries(Protocol):
    """Registries of images. `image` has its registry and no tag.

    Unavailable: it does not answer or not give that out; `retry_after` if it says when to come
    again. NotFound: it has no such image or tag. Invalid: there is too much of it.
    """

    async def tags(self, image: str, account: RegistryAccount | None) -> list[str]:
        """All tags of an image, 20,000 at most."""
        ...

    async def digest(self, image: str, tag: str, account: RegistryAccount | None) -> str:
        """The digest that a tag stands for now."""
        ...

    async def made(self, image: str, tag: str, account: RegistryAccount | None) -> datetime:
        """When the image of a tag was made."""
        ...
