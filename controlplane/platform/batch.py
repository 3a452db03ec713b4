"""Batches: several operations in one transaction, which the store keeps or drops as a whole."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol, TypeVar

from controlplane.platform.ports import Bus, Store, Transaction, Wake

T = TypeVar("T", contravariant=True)


class Log(Protocol[T]):
    """Rows that are only appended."""

    async def append(self, rows: Iterable[T], /) -> None: ...


class Batch:
    """An open batch. `drop` ends it without a commit."""

    def __init__(self, tx: Transaction) -> None:
        self.tx = tx
        self.after_commit: list[Callable[[], None]] = []
        self.appended: dict[type[Log[Any]], list[object]] = {}
        self.is_dropped = False

    def drop(self) -> None:
        """Undoes all writes at the end of the batch, and forgets its publications."""
        self.is_dropped = True


_OPEN: ContextVar[Batch | None] = ContextVar("batch", default=None)


class _DroppedError(Exception):
    """Ends the transaction of a dropped batch without a commit."""


def is_batch_open() -> bool:
    """Returns whether the caller runs inside a batch."""
    return _OPEN.get() is not None


def after_commit(action: Callable[[], None]) -> None:
    """Runs an action at once; inside a batch, after its commit, and never if it is dropped."""
    batch = _OPEN.get()
    if batch is None:
        action()
    else:
        batch.after_commit.append(action)


async def append_last(tx: Transaction, port: type[Log[T]], rows: Iterable[T]) -> None:
    """Appends rows at once; inside a batch, those of all operations together at its end."""
    batch = _OPEN.get()
    if batch is None:
        await tx[port].append(rows)
    else:
        batch.appended.setdefault(port, []).extend(rows)


@asynccontextmanager
async def open_batch(store: Store) -> AsyncGenerator[Batch, None]:
    """Opens a transaction that all operations of the block join, on the store and the bus below.

    Raises what `Store.write` raises. Nothing is written or published if the block raises.
    """
    try:
        async with store.write() as tx:
            batch = Batch(tx)
            token = _OPEN.set(batch)
            try:
                yield batch
            finally:
                _OPEN.reset(token)
            if batch.is_dropped:
                raise _DroppedError
            for port, rows in batch.appended.items():
                await tx[port].append(rows)
    except _DroppedError:
        return
    for action in batch.after_commit:
        action()


class BatchedStore:
    """A `Store` whose transactions join the open batch."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self) -> AbstractAsyncContextManager[Transaction]:
        """Opens a read-only transaction, or returns that of the batch."""
        batch = _OPEN.get()
        return self._store.read() if batch is None else nullcontext(batch.tx)

    def write(self) -> AbstractAsyncContextManager[Transaction]:
        """Opens a writing transaction, or returns that of the batch."""
        batch = _OPEN.get()
        return self._store.write() if batch is None else nullcontext(batch.tx)


class BatchedBus:
    """A `Bus` that publishes what a batch publishes after its commit."""

    def __init__(self, bus: Bus) -> None:
        self.inner = bus

    def publish(self, topic: str, key: str = "") -> None:
        """Publishes now, or after the commit of the batch."""
        after_commit(partial(self.inner.publish, topic, key))

    def subscribe(self, *topics: str | Wake) -> AsyncIterator[Wake]:
        """Yields publications from now on."""
        return self.inner.subscribe(*topics)
