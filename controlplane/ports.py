"""Ports of the use cases: the services they need from outside, as Protocols. `compose` provides the
implementations.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from controlplane.domain.access import Actor, ResourceKind, Role, Visible
from controlplane.domain.audit import AuditFilter, AuditKind, ChainHead
from controlplane.domain.bindings import AccessRequest, Binding, Project
from controlplane.domain.clustergroups import ClusterGroup
from controlplane.domain.clusterjobs import ClusterJob
from controlplane.domain.clusters import Cluster
from controlplane.domain.commands import Command
from controlplane.domain.contexts import ContextBinding, ServiceContext
from controlplane.domain.datakeys import DataKey
from controlplane.domain.deployment import DeploymentSettings
from controlplane.domain.dora import Deployment, DoraMetrics, ReportPeriod
from controlplane.domain.flow import ServiceExport, ServiceImport
from controlplane.domain.globals import GlobalOverride, GlobalService
from controlplane.domain.jobs import Job
from controlplane.domain.ledger import AuditEntry, LedgerEntry, LedgerPosition, LedgerStage
from controlplane.domain.marks import ClusterMapRow
from controlplane.domain.namespaces import ManagedNamespace
from controlplane.domain.notifications import Delivery, Notification, NotificationKey, Router, Sink
from controlplane.domain.objects import DryRunResult
from controlplane.domain.overrides import ContextOverride
from controlplane.domain.people import Group, Login, Membership, Token, User
from controlplane.domain.promotion import (
    DeniedRevision,
    PipelineEvent,
    PipelineGate,
    PipelineRecord,
    PipelineService,
    PipelineTrigger,
)
from controlplane.domain.renderstate import RenderState
from controlplane.domain.repositories import Repository
from controlplane.domain.search import NamedItem, ParsedSearch, SearchHit
from controlplane.domain.secrets import Secret, SecretUse, SecretVersion
from controlplane.domain.services import Component, Revision, Service
from controlplane.domain.sets import ServiceSet
from controlplane.domain.signin import Claims, Issuer, SignInChallenge, SignInFailures, TrustRule
from controlplane.domain.sources import ServiceSource
from controlplane.domain.spans import EndedDeployment, Span
from controlplane.domain.tunnels import Replica, Tunnel
from core.errors import Unavailable
from core.identity import RepositoryId
from core.open_streams import FoundStreams, OpenStream, RecordingPart, StreamFilter
from core.spec.source import (
    Commit,
    GitCredentials,
    RenderedBundle,
    RenderRequest,
    RepositorySpec,
    RepositoryState,
)

T = TypeVar("T")
MAX_PAGE_ROWS = 100
MAX_COUNTED = 10_000
MAX_FOUND = 1_000
"""Maximum number of rows that a count reports."""
ANY: Any = object()
"""Matches every value of a column: `deleted_at=ANY` finds deleted rows as well."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """A page of rows, sorted by id, or by the text column `order` and then by id.

    `equals` compares columns, `text` is searched in names; `after` is the id of the last row of the
    previous page. `newest` reverses the order. `visible` keeps only rows in visible scopes.
    `backwards` returns the rows before `after`, or the last ones, in the same order. `tags` are of
    clusters; `seen_since` and `not_seen_since` compare when their agents were last seen. `counting`
    requests the total number of rows.
    """

    first: int = 50
    after: str | None = None
    equals: Mapping[str, Any] = field(default_factory=dict)
    text: str | None = None
    newest: bool = False
    visible: Visible = ()
    backwards: bool = False
    tags: Sequence[tuple[str, str]] = ()
    seen_since: datetime | None = None
    not_seen_since: datetime | None = None
    counting: bool = False
    order: str = "id"


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Rows of a page; `more` says whether others follow, `count` is the requested total.

    `MAX_COUNTED` + 1 means at least that many.
    """

    items: tuple[T, ...]
    more: bool
    count: int | None = None


class ReadableRows(Protocol[T]):
    """Rows of one kind, as domain values. Absent rows are None; deleted rows are absent."""

    async def get(self, id: str) -> T | None: ...

    async def find(self, **equals: Any) -> T | None:
        """Returns the one row whose columns equal the values."""
        ...

    async def peek(self, **equals: Any) -> T | None:
        """Same as `find`, without a lock: other transactions may change the row meanwhile."""
        ...

    async def select(self, **equals: Any) -> list[T]:
        """Returns all rows whose columns equal the values; a
        collection matches any of its members.
        """
        ...

    async def column(self, name: str, ids: Collection[str]) -> dict[str, Any]:
        """Returns one column of these rows by id, without reading the other columns."""
        ...

    async def past(self, column: str, moment: datetime) -> list[T]:
        """Returns all rows whose time in a column is not after a moment."""
        ...

    async def since(
        self, columns: Collection[str], moment: datetime, visible: Visible, most: int
    ) -> list[str]:
        """Returns the ids of rows, also deleted ones, with a time in one of the columns not before
        a moment.
        """
        ...

    async def page(self, query: PageQuery) -> Page[T]: ...


class Rows(ReadableRows[T], Protocol[T]):
    """Rows that can be changed."""

    async def lock(self, ids: Collection[str]) -> list[T]:
        """Locks rows, in the order of their ids, until the transaction ends, and returns them."""
        ...

    async def add(self, row: T) -> None:
        """Inserts a row. Raises Conflict if a row with the same unique name exists."""
        ...

    async def add_each(self, several: Iterable[T]) -> None: ...

    async def put(self, row: T) -> None:
        """Writes all columns of an existing row."""
        ...

    async def change(self, id: str, **columns: Any) -> bool:
        """Writes some columns; returns whether the row exists."""
        ...

    async def change_each(self, changes: Mapping[str, Mapping[str, Any]]) -> None:
        """Writes some columns of many rows, by id."""
        ...

    async def remove(self, id: str) -> None:
        """Deletes a row permanently."""
        ...

    async def remove_each(self, ids: Collection[str]) -> None: ...

    async def remove_before(self, column: str, moment: datetime) -> None:
        """Deletes rows whose time in a column is before a moment."""
        ...

    async def count(self) -> int:
        """Returns the number of rows."""
        ...


class AppendOnlyRows(Protocol[T]):
    """Append-only rows."""

    async def append(self, entries: Iterable[T]) -> None: ...

    async def page(self, query: PageQuery) -> Page[T]: ...

    async def select(self, **equals: Any) -> list[T]: ...


class AuditLogRows(AppendOnlyRows[AuditEntry], Protocol):
    """Audit rows in hash chains, one chain for each kind; see `controlplane.domain.audit`.

    Appended rows get their number and hash right before the transaction ends.
    """

    async def search(self, wanted: AuditFilter, query: PageQuery) -> Page[AuditEntry]:
        """Returns a page of the rows that match the filter."""
        ...

    async def chains(self) -> list[ChainHead]:
        """Returns the beginning and the end of each chain."""
        ...

    async def behind(self, kind: AuditKind, number: int, most: int) -> list[AuditEntry]:
        """Returns the next rows of a chain after a number, in order."""
        ...

    async def cut(self, kind: AuditKind, before: datetime, now: datetime, most: int) -> int:
        """Removes the oldest rows of a chain, up to the first newer one; returns their number."""
        ...


class Notifications(AppendOnlyRows[Notification], Protocol):
    """Notifications: written together with their cause, routed afterwards."""

    async def add(self, row: Notification) -> int:
        """Appends a notification; returns its id."""
        ...

    async def waiting(self, most: int) -> list[Notification]:
        """Returns notifications that are not routed yet, oldest first.

        A writing transaction locks them until it ends.
        """
        ...

    async def routed(self, several: Iterable[Notification], now: datetime) -> None:
        """Marks these notifications, with their final content, as routed."""
        ...

    async def drop(self, ids: Collection[int]) -> None:
        """Removes notifications that turned out to be obsolete."""
        ...

    async def forget(self, before: datetime) -> None:
        """Removes older notifications and their deliveries."""
        ...

    async def previous_stages(self, ids: Collection[int]) -> dict[int, LedgerStage | None]:
        """Returns the previous ledger stage of the service of each notification."""
        ...


class Deliveries(Rows[Delivery], Protocol):
    """Notifications that wait for delivery; claims are leases, fenced by the number of attempts."""

    async def claim(self, now: datetime, most: int) -> list[Delivery]:
        """Claims due deliveries; after the lease expires, others may claim them again."""
        ...

    async def settle(self, delivery: Delivery, **columns: Any) -> bool:
        """Stores the result of a claimed delivery; False if another worker has claimed it
        meanwhile.
        """
        ...


class ComponentRows(ReadableRows[Component], Protocol):
    """The inventory of cluster objects."""

    async def upsert(self, components: Iterable[Component]) -> None: ...

    async def forget(self, ids: Collection[str]) -> None: ...

    async def forget_service(self, service_id: str) -> None: ...

    async def count_by_cluster(self, clusters: Collection[str]) -> dict[str, int]:
        """Returns the number of components of each cluster that has some."""
        ...

    async def component_ids(self, services: Collection[str]) -> dict[str, set[str]]:
        """Returns the ids of components by the id of their service."""
        ...


class ServiceRows(Rows[Service], Protocol):
    """Services, and the fleet map."""

    async def fleet_map(
        self, query: PageQuery, clusters: Collection[str] | None = None
    ) -> list[ClusterMapRow]:
        """Returns one row for each cluster, sorted by handle, with the status codes of the matching
        services.
        """
        ...

    async def clusters_of(self, ids: Collection[str]) -> set[str]:
        """Returns the ids of the clusters of these services."""
        ...

    async def changed_since(self, moment: datetime, visible: Visible, most: int) -> list[str]:
        """Returns the ids of services that were changed, observed or removed since a moment."""
        ...


@dataclass(frozen=True, slots=True)
class ReportFilter:
    """Filter of a report; all given fields must match."""

    project_id: str | None = None
    cluster_id: str | None = None
    service_id: str | None = None
    repository_id: str | None = None


class DeploymentReports(Protocol):
    """Reports over the ledger's deployments."""

    async def at(
        self, moment: datetime, within: ReportFilter, visible: Visible, most: int
    ) -> list[Deployment]:
        """Returns the desired state of each service at a moment."""
        ...

    async def service_names(self, ids: Collection[str]) -> dict[str, str]:
        """Returns the names of those services that still exist."""
        ...

    async def cluster_handles(self, ids: Collection[str]) -> dict[str, str]:
        """Returns the handles of clusters, by id."""
        ...

    async def deployments_of_commit(self, sha: str, visible: Visible) -> list[Deployment]:
        """Returns all deployments of a commit, which may be abbreviated."""
        ...

    async def newest(self, within: ReportFilter, visible: Visible, most: int) -> list[Deployment]:
        """Returns the most recent deployments."""
        ...

    async def edge(self) -> LedgerPosition:
        """Returns the current position of the ledger."""
        ...

    async def ended(self, after: int, until: int, most: int) -> tuple[int, list[EndedDeployment]]:
        """Returns deployments that first ended in rows after `after` up to `until`, and the last
        examined row.
        """
        ...

    async def figures(
        self,
        since: datetime,
        until: datetime,
        within: ReportFilter,
        visible: Visible,
        period: ReportPeriod | None = None,
    ) -> DoraMetrics:
        """Returns the metrics of the deployments that became desired in `[since, until)`."""
        ...


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Objects found by a search; `count` is `MAX_FOUND` + 1 if there are more."""

    items: tuple[SearchHit, ...]
    more: bool
    count: int


class ObjectSearch(Protocol):
    """Search for objects of all clusters, and for items by name."""

    async def objects(
        self, question: ParsedSearch, visible: Visible, first: int, after: str | None
    ) -> SearchPage: ...

    async def places(self, text: str, allowed: dict[ResourceKind, Visible]) -> list[NamedItem]:
        """Returns items of the allowed kinds whose names contain a text, not yet ranked."""
        ...


class JobQueue(Protocol):
    """The job table: claims are leases with a fence."""

    async def enqueue(self, job: Job) -> None:
        """Adds a job. A job with the same key is scheduled again, even while it runs."""
        ...

    async def claim(
        self, kinds: Collection[str], holder: str, now: datetime, most: int
    ) -> list[Job]:
        """Leases due jobs to `holder`."""
        ...

    async def finish(self, job: Job) -> bool:
        """Removes a finished job; False if another worker holds the lease."""
        ...

    async def retry(self, job: Job, run_at: datetime, error: str) -> bool:
        """Returns a failed job to the queue for `run_at`; False if
        another worker holds the lease.
        """
        ...

    async def next_due(self) -> datetime | None:
        """Returns the time at which the next waiting job is due."""
        ...


class Transaction(Protocol):
    """One consistent view of the store; its writes are committed or rolled back as a whole."""

    @property
    def clusters(self) -> Rows[Cluster]: ...
    @property
    def repositories(self) -> Rows[Repository]: ...
    @property
    def services(self) -> ServiceRows: ...
    @property
    def render_states(self) -> ReadableRows[RenderState]: ...
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
    def components(self) -> ComponentRows: ...
    @property
    def plans(self) -> Rows[DryRunResult]: ...
    @property
    def pipelines(self) -> Rows[PipelineRecord]: ...
    @property
    def pipeline_services(self) -> Rows[PipelineService]: ...
    @property
    def pipeline_events(self) -> Rows[PipelineEvent]: ...
    @property
    def refused(self) -> Rows[DeniedRevision]: ...
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
    def challenges(self) -> Rows[SignInChallenge]: ...
    @property
    def failures(self) -> Rows[SignInFailures]: ...
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
    def ledger(self) -> AppendOnlyRows[LedgerEntry]: ...
    @property
    def audit(self) -> AuditLogRows: ...
    @property
    def notifications(self) -> Notifications: ...
    @property
    def marks(self) -> Rows[NotificationKey]: ...
    @property
    def sinks(self) -> Rows[Sink]: ...
    @property
    def routers(self) -> Rows[Router]: ...
    @property
    def deliveries(self) -> Deliveries: ...
    @property
    def jobs(self) -> JobQueue: ...
    @property
    def deployments(self) -> DeploymentReports: ...
    @property
    def search(self) -> ObjectSearch: ...


class SpanExporter(Protocol):
    """Export of traces."""

    async def export(self, spans: Sequence[Span]) -> None:
        """Exports spans. Raises Unavailable if the receiver did not accept them."""
        ...


class TransactionConflict(Unavailable):
    """A transaction failed because of a serialization failure or deadlock; nothing of it was
    written.

    It can be retried at once: `controlplane.usecases.retrying` does so until it has `given_up`.
    """

    given_up = False


class Store(Protocol):
    """The store of all persistent data."""

    def read(self) -> AbstractAsyncContextManager[Transaction]:
        """Opens a read-only transaction."""
        ...

    def write(self) -> AbstractAsyncContextManager[Transaction]:
        """Opens a writing transaction; it commits when the block ends without an error.

        Raises Collided on a serialization failure or deadlock.
        """
        ...


Wake = tuple[str, str]
"""A topic and the key that was published to it."""
LOST_WAKES = "missed"
"""Topic for lost wake-ups of other replicas: subscribers must check everything. Has no key."""


class Bus(Protocol):
    """Wakes subscribers of a topic on all replicas. The bus carries no data: the store does."""

    def publish(self, topic: str, key: str = "") -> None: ...

    def subscribe(self, *topics: str | Wake) -> AsyncIterator[Wake]:
        """Yields publications from now on, for as long as the iterator is held.

        A topic alone matches all of its keys. A slow reader receives each pair once, not once per
        publication.
        """
        ...


class Issuers(Protocol):
    """OpenID Connect identity providers, and verification of tokens of trusted issuers."""

    def known(self) -> tuple[Issuer, ...]:
        """Returns the configured issuers for sign-in."""
        ...

    async def begin(self, name: str, redirect: str, state: str, nonce: str, challenge: str) -> str:
        """Returns the URL at which a browser signs in.

        Raises NotFound for an unknown issuer, Unavailable if the issuer does not answer.
        """
        ...

    async def finish(
        self, name: str, redirect: str, code: str, verifier: str, nonce: str
    ) -> Claims:
        """Redeems a code. Raises Unauthenticated if the issuer's answer is not trustworthy."""
        ...

    def unverified_issuer(self, token: str) -> str:
        """Returns the unverified issuer of a token. Raises Unauthenticated if it is not a token."""
        ...

    async def verify(self, token: str) -> Claims:
        """Verifies an ID token of a configured issuer for this installation. Raises Unauthenticated
        with the reason.
        """
        ...

    async def verify_for_audience(
        self, token: str, issuer: str, audience: str, keys: str | None
    ) -> Claims:
        """Verifies a token of any issuer for an audience; `keys` is its JWKS if discovery cannot
        reach it.
        """
        ...


class ManifestSource(Protocol):
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

    async def render(self, request: RenderRequest) -> RenderedBundle: ...

    async def bundle(self, digest: str) -> bytes: ...

    async def folders(
        self, repository_id: RepositoryId, commit: str, base: str, depth: int
    ) -> list[str]:
        """Returns the paths of all folders at most `depth` levels below a base. Raises Unavailable,
        Invalid.
        """
        ...

    async def keep(self, data: bytes) -> RenderedBundle:
        """Stores a bundle that comes from no repository. Raises Unavailable."""
        ...


class CredentialIssuer(Protocol):
    """Repository credentials for agents that render."""

    async def issue_read_token(self, repository_id: RepositoryId) -> GitCredentials | None:
        """Returns credentials for this repository only, which expire within the hour.

        None: there are none to issue; the agent needs none, or has its own. Raises Unavailable.
        """
        ...


class LiveObjects(Protocol):
    """Live objects of clusters, read with the permissions of the requesting user."""

    async def read(self, actor: Actor, handle: str, path: str) -> Mapping[str, Any]:
        """Returns the JSON at a path of a cluster's API.

        Raises NotFound or Forbidden as the cluster or the Kubernetes proxy answers, LimitExceeded
        for an oversized answer, Unavailable if the cluster does not answer.
        """
        ...


class JobLogs(Protocol):
    """Recent log output of running jobs; best effort, for a limited number of jobs."""

    def append(self, job_id: str, offset: int, data: bytes) -> None:
        """Stores a piece of a log at its offset."""
        ...

    def read(self, job_id: str, offset: int) -> tuple[int, bytes]:
        """Returns the log from `offset` on, as far as it is kept, and
        the offset where it begins.
        """
        ...


class ProxySessions(Protocol):
    """The Kubernetes proxy: open streams and recordings of all replicas."""

    async def open_streams(self, wanted: StreamFilter) -> FoundStreams: ...

    async def end_stream(self, stream: OpenStream, by: str) -> bool:
        """Ends a stream; False: it had already ended. Raises Unavailable if its replica does not
        answer.
        """
        ...

    async def recording(self, request_id: str, offset: int, most: int) -> RecordingPart:
        """Returns a part of a recording.

        Raises NotFound, or Unavailable if a replica that may hold it does not answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An HTTP response; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class GuardedClient(Protocol):
    """Sends requests to addresses that users have configured, except forbidden ones."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        """Returns the status of the response. Raises Unavailable if there is none, or if the
        address is private.
        """
        ...

    async def ask(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> HttpReply:
        """Returns the response, truncated at 1 MiB. Raises Unavailable as `post` does."""
        ...

    async def syslog(self, url: str, messages: Sequence[bytes]) -> None:
        """Sends RFC 5424 messages. Raises Unavailable if they were not accepted."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class RegistryAccount:
    """Credentials for a registry. Never print them."""

    username: str
    password: str


class Registries(Protocol):
    """Image registries. `image` includes its registry and has no tag.

    Raises Unavailable if the registry does not answer or denies access (with `retry_after` if it
    gives a time), NotFound for a missing image or tag, Invalid for too large results.
    """

    async def tags(self, image: str, account: RegistryAccount | None) -> list[str]:
        """Returns all tags of an image, at most 20,000."""
        ...

    async def digest(self, image: str, tag: str, account: RegistryAccount | None) -> str:
        """Returns the current digest of a tag."""
        ...

    async def made(self, image: str, tag: str, account: RegistryAccount | None) -> datetime:
        """Returns the build time of a tag's image."""
        ...
