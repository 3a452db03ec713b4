"""What the use cases need of the world, as Protocols; `compose` fills them in."""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from controlplane.domain.clusters import Cluster
from controlplane.domain.commands import Command
from controlplane.domain.jobs import Job
from controlplane.domain.ledger import AuditEntry, LedgerEntry
from controlplane.domain.people import Token, User
from controlplane.domain.promotion import Pipeline
from controlplane.domain.repositories import Repository
from controlplane.domain.services import Component, Revision, Service
from fleet.identity import RepositoryId
from fleet.source import Rendered, RenderRequest, RepositorySpec, RepositoryState

T = TypeVar("T")
MOST_ROWS_A_PAGE = 100
ANY: Any = object()
"""Stands for every value of a column: `deleted_at=ANY` finds deleted rows as well."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """A page of rows by the order of their ids.

    `equals` compares columns, `text` is looked for in names; `after` is the id of the last row
    seen. `newest` turns the order round.
    """

    first: int = 50
    after: str | None = None
    equals: Mapping[str, Any] = field(default_factory=dict)
    text: str | None = None
    newest: bool = False


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Rows of a page; `more` tells whether others follow."""

    items: tuple[T, ...]
    more: bool


class Reading(Protocol[T]):
    """Rows of one kind, as values of the domain. Absent rows are None, deleted ones are absent."""

    async def get(self, id: str) -> T | None: ...

    async def find(self, **equals: Any) -> T | None:
        """The one row whose columns equal the values."""
        ...

    async def select(self, **equals: Any) -> list[T]:
        """All rows whose columns equal the values; a collection means any of them."""
        ...

    async def page(self, query: PageQuery) -> Page[T]: ...


class Rows(Reading[T], Protocol[T]):
    """Rows that change."""

    async def add(self, one: T) -> None:
        """Insert. Conflict: a row with the same unique name exists."""
        ...

    async def put(self, one: T) -> None:
        """Write all columns of an existing row."""
        ...

    async def change(self, id: str, **columns: Any) -> bool:
        """Write some columns; whether there was such a row."""
        ...

    async def remove(self, id: str) -> None:
        """Delete for good."""
        ...


class Log(Protocol[T]):
    """Rows that are only ever added."""

    async def append(self, entries: Iterable[T]) -> None: ...

    async def page(self, query: PageQuery) -> Page[T]: ...

    async def select(self, **equals: Any) -> list[T]: ...


class Components(Reading[Component], Protocol):
    """The inventory."""

    async def upsert(self, components: Iterable[Component]) -> None: ...

    async def forget(self, ids: Collection[str]) -> None: ...

    async def forget_service(self, service_id: str) -> None: ...


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
    def services(self) -> Rows[Service]: ...
    @property
    def revisions(self) -> Rows[Revision]: ...
    @property
    def components(self) -> Components: ...
    @property
    def pipelines(self) -> Rows[Pipeline]: ...
    @property
    def users(self) -> Rows[User]: ...
    @property
    def tokens(self) -> Rows[Token]: ...
    @property
    def commands(self) -> Rows[Command]: ...
    @property
    def ledger(self) -> Log[LedgerEntry]: ...
    @property
    def audit(self) -> Log[AuditEntry]: ...
    @property
    def jobs(self) -> Jobs: ...


class Store(Protocol):
    """Where everything is kept."""

    def read(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction that only reads."""
        ...

    def write(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction that may write; committed when the block ends without an error."""
        ...


Wake = tuple[str, str]
"""A topic and the key that was published to it."""


class Bus(Protocol):
    """Wakes whoever waits for a topic, here and on other replicas. The store holds the truth."""

    def publish(self, topic: str, key: str = "") -> None: ...

    def subscribe(self, *topics: str) -> AsyncIterator[Wake]:
        """What is published from now on, for as long as the iterator is held.

        A slow reader gets each pair once, not each time.
        """
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

    async def render(self, request: RenderRequest) -> Rendered: ...

    async def bundle(self, digest: str) -> bytes: ...


class Sealer(Protocol):
    """Encrypts secrets at rest; `context` must be the same for opening."""

    def seal(self, plain: bytes, context: str) -> bytes: ...

    def open(self, sealed: bytes, context: str) -> bytes: ...
