"""Ports that operations of every noun use, as Protocols. `compose` provides the implementations."""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from controlplane.authorization import Visible
from controlplane.platform.audit_entry import AuditEntry
from controlplane.platform.jobs import Job
from controlplane.platform.labels import LabelRequirement
from controlplane.platform.limits import check_range
from controlplane.platform.notification import Notification
from core.errors import Unavailable

T = TypeVar("T")
P = TypeVar("P")
MAX_PAGE_ROWS = 1_000
MAX_COUNTED = 10_000
"""Maximum number of rows that a count reports."""
MAX_FOUND = 1_000
"""Maximum number of rows of a search."""
ANY = object()
"""Matches every value of a column: `deleted_at=ANY` finds deleted rows as well."""
Ids = str | Collection[str]
"""An id, or several of which any matches."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """A page of rows, sorted by id, or by the text column `order` and then by id.

    `equals` compares columns, `text` is searched in names; `after` is the id of the last row of the
    previous page. `newest` reverses the order. `visible` keeps only rows in visible scopes.
    `backwards` returns the rows before `after`, or the last ones, in the same order. `tags` are of
    clusters, `labels` of the rows; `seen_since` and `not_seen_since` compare when their agents were
    last seen. `counting` requests the total number of rows.
    """

    first: int = 50
    after: str | None = None
    equals: Mapping[str, object] = field(default_factory=dict)
    text: str | None = None
    newest: bool = False
    visible: Visible = ()
    backwards: bool = False
    tags: Sequence[tuple[str, str]] = ()
    labels: Sequence[LabelRequirement] = ()
    seen_since: datetime | None = None
    not_seen_since: datetime | None = None
    counting: bool = False
    order: str = "id"

    def __post_init__(self) -> None:
        check_range(self.first, "first", 1, MAX_PAGE_ROWS)

    @property
    def cursor_argument(self) -> str:
        """Name of the argument with the cursor `after`, for errors."""
        return "before" if self.backwards else "after"


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Rows of a page; `more` says whether others follow, `count` is the requested total.

    `MAX_COUNTED` + 1 means at least that many.
    """

    items: tuple[T, ...]
    more: bool
    count: int | None = None


class ReadableRows(Protocol[T]):
    """Rows of one kind, as domain values. Absent rows are None; deleted rows are absent.

    The ports of the nouns add verbs, which say what they ask. Only verbs use `find`, `select`,
    `find_unlocked` and `change`, which name columns.
    """

    async def get(self, id: str) -> T | None:
        return await self.find(id=id)

    async def peek(self, id: str) -> T | None:
        """Same as `get`, without a lock: other transactions may change the row meanwhile."""
        return await self.find_unlocked(id=id)

    async def by_ids(self, ids: Collection[str]) -> list[T]:
        return await self.select(id=ids)

    async def all(self) -> list[T]:
        return await self.select()

    async def prefetch_each(self, ids: Collection[str]) -> None:
        """Reads rows that the transaction reads one by one later."""
        await self.prefetch("id", ids)

    async def prefetch(self, column: str, values: Collection[str]) -> None:
        """Reads rows of which the transaction selects those with one value at a time later.

        Without a cache in the store, nothing happens.
        """
        ...

    async def prefetch_keys(
        self, columns: Sequence[str], keys: Collection[Sequence[str]], **equals: object
    ) -> None:
        """Reads rows that the transaction finds one at a time later by these columns."""
        ...

    def mark_absent(self, column: str, value: str) -> None:
        """Tells that no row has this value, such as the ID of a new row: reads need no query."""
        ...

    async def with_labels(self, labels: Sequence[LabelRequirement]) -> list[T]:
        """Returns all rows that meet label requirements."""
        ...

    async def find(self, **equals: object) -> T | None:
        """Returns the one row whose columns equal the values."""
        ...

    async def find_unlocked(self, **equals: object) -> T | None:
        """Same as `find`, without a lock."""
        ...

    async def select(self, **equals: object) -> list[T]:
        """Returns all rows whose columns equal the values; a
        collection matches any of its members.
        """
        ...

    async def column(self, name: str, ids: Collection[str] | None = None) -> dict[str, Any]:
        """Returns one column of these rows, by default of all, by id. Reads no other columns."""
        ...

    async def past(self, column: str, moment: datetime) -> list[T]:
        """Returns all rows whose time in a column is not after a moment."""
        ...

    async def since(
        self, columns: Collection[str], moment: datetime, visible: Visible, limit: int
    ) -> list[str]:
        """Returns the ids of rows, also deleted ones, with a time in one of the columns not before
        a moment.
        """
        ...

    async def page(self, query: PageQuery) -> Page[T]: ...


async def count_each(
    rows: ReadableRows[T], column: str, values: type[StrEnum], **equals: object
) -> dict[str, int]:
    """Counts rows for each value of a column, at most to `MAX_COUNTED` + 1."""
    counts: dict[str, int] = {}
    for value in values:
        query = PageQuery(first=1, equals={**equals, column: value}, counting=True)
        counts[value.value] = (await rows.page(query)).count or 0
    return counts


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

    async def change(self, id: str, **columns: object) -> bool:
        """Writes some columns; returns whether the row exists."""
        ...

    async def change_each(self, changes: Mapping[str, Mapping[str, object]]) -> None:
        """Writes some columns of many rows, by id."""
        ...

    async def remove(self, id: str) -> None:
        """Deletes a row permanently."""
        ...

    async def remove_each(self, ids: Collection[str]) -> None: ...

    async def remove_before(self, column: str, moment: datetime) -> None:
        """Deletes rows whose time in a column is not after a moment."""
        ...

    async def count(self) -> int:
        """Returns the number of rows."""
        ...


class NamedRows(Rows[T], Protocol[T]):
    """Rows with unique names."""

    async def by_name(self, name: str) -> T | None:
        return await self.find(name=name)

    async def by_names(self, names: Collection[str]) -> list[T]:
        return await self.select(name=names)

    async def by_id_or_name(self, id: str | None, name: str | None) -> T | None:
        """Returns the row with this ID; without an ID, the one with this name."""
        return await self.get(id) if id else await self.by_name(name or "")


class ProjectRows(Rows[T], Protocol[T]):
    """Rows of projects."""

    async def of_project(self, project_id: str) -> list[T]:
        return await self.select(project_id=project_id)


class DeletableRows(Rows[T], Protocol[T]):
    """Rows that stay after their deletion, until the last reference to them is gone."""

    async def get(self, id: str, *, deleted: bool = False) -> T | None:
        """Returns a row; with `deleted`, also a deleted one."""
        return await (self.find(id=id, deleted_at=ANY) if deleted else self.find(id=id))

    async def peek(self, id: str, *, deleted: bool = False) -> T | None:
        more = {"deleted_at": ANY} if deleted else {}
        return await self.find_unlocked(id=id, **more)

    async def by_ids(self, ids: Collection[str], *, deleted: bool = False) -> list[T]:
        return await (self.select(id=ids, deleted_at=ANY) if deleted else self.select(id=ids))


class AppendOnlyRows(Protocol[T]):
    """Append-only rows."""

    async def append(self, entries: Iterable[T]) -> None: ...

    async def page(self, query: PageQuery) -> Page[T]: ...

    async def select(self, **equals: object) -> list[T]: ...


class JobStore(Protocol):
    """The job table: claims are leases with a fence."""

    async def enqueue(self, job: Job) -> None:
        """Adds a job. A job with the same key is scheduled again, even while it runs."""
        ...

    async def claim(
        self, kinds: Collection[str], holder: str, now: datetime, limit: int
    ) -> list[Job]:
        """Leases due jobs to `holder`."""
        ...

    async def renew(self, job: Job, now: datetime) -> bool:
        """Extends the lease of a running job; False if it has ended."""
        ...

    async def finish(self, job: Job) -> bool:
        """Removes a finished job; False if another worker holds the lease."""
        ...

    async def retry(self, job: Job, run_at: datetime, error: str) -> bool:
        """Returns a failed job to the queue for `run_at`; False if
        another worker holds the lease.
        """
        ...

    async def next_due(self, kinds: Collection[str]) -> datetime | None:
        """Returns the time at which the next waiting job of these kinds is due."""
        ...


class Transaction(Protocol):
    """A view of the store; the store keeps or drops its writes as a whole.

    `tx[ClusterStore]` is the repository behind the port `ClusterStore` in this transaction.
    """

    def __getitem__(self, port: type[P]) -> P: ...

    @property
    def has_writes(self) -> bool:
        """True after the first write of a row."""
        ...


class TransactionConflict(Unavailable):
    """A transaction failed because of a serialization failure or deadlock; nothing of it was
    written.

    It can be retried at once: `controlplane.platform.retry` does so until it has `given_up`.
    """

    given_up = False


class AuditTrail(Protocol):
    """The end of the audit log that operations write to."""

    async def append(self, entries: Iterable[AuditEntry]) -> None: ...


class NotificationOutbox(Protocol):
    """The end of the notifications that operations write to; routing happens later."""

    async def append(self, entries: Iterable[Notification]) -> None: ...


class Store(Protocol):
    """The store of all persistent data."""

    def read(self) -> AbstractAsyncContextManager[Transaction]:
        """Opens a read-only transaction.

        On PostgreSQL, each of its statements sees the newest rows of others.
        """
        ...

    def write(self) -> AbstractAsyncContextManager[Transaction]:
        """Opens a writing transaction; it commits when the block ends without an error.

        Raises TransactionConflict on a serialization failure or deadlock.
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
