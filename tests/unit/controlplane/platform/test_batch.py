"""Batches: several operations in one transaction, kept or dropped as a whole."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.access.ports import GroupStore
from controlplane.platform.batch import after_commit, append_last, is_batch_open, open_batch
from controlplane.platform.context import ACCESS
from controlplane.platform.ports import Store, Transaction
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.ports import LedgerStore
from core.errors import Conflict, Unavailable
from tests.fakes.access import make_group
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_service,
    operations_over_memory,
)


@pytest.fixture
def world() -> MemoryOperations:
    return operations_over_memory()


async def add_group(world: MemoryOperations, name: str) -> None:
    """One operation: it writes, and publishes."""
    async with world.context.store.write() as tx:
        await tx[GroupStore].add(make_group(name))
    world.context.bus.publish(ACCESS, name)


async def groups(world: MemoryOperations) -> list[str]:
    return sorted(row.name for row in await world.rows(GroupStore))


async def test_a_batch_is_committed_and_published_as_a_whole(world: MemoryOperations) -> None:
    """Operations see what others of the batch wrote, and nobody else does before its end."""
    async with open_batch(world.store):
        await add_group(world, "a")
        await add_group(world, "b")
        async with world.context.store.read() as tx:
            assert len(await tx[GroupStore].select()) == 2
        assert is_batch_open() and world.published == []
    assert not is_batch_open()
    assert await groups(world) == ["a", "b"]
    assert world.published == [(ACCESS, "a"), (ACCESS, "b")]
    await add_group(world, "c")
    assert world.published[-1] == (ACCESS, "c")


@pytest.mark.parametrize("end", ["dropped", "refused"])
async def test_a_batch_that_does_not_succeed_leaves_no_trace(
    world: MemoryOperations, end: str
) -> None:
    actions: list[str] = []
    try:
        async with open_batch(world.store) as batch:
            await add_group(world, "a")
            after_commit(lambda: actions.append("ran"))
            if end == "refused":
                raise Conflict("the second operation is refused")
            batch.drop()
    except Conflict:
        assert end == "refused"
    assert await groups(world) == [] and world.published == [] and actions == []
    assert not is_batch_open()
    await add_group(world, "b")
    assert await groups(world) == ["b"]


async def test_a_commit_that_fails_publishes_nothing(world: MemoryOperations) -> None:
    class Failing:
        """Gives its transactions up at their end."""

        read = world.store.read

        @asynccontextmanager
        async def write(self) -> AsyncGenerator[Transaction]:
            async with world.store.write() as tx:
                yield tx
                raise Unavailable("the database went away")

    store: Store = Failing()
    with pytest.raises(Unavailable):
        async with open_batch(store):
            await add_group(world, "a")
    assert await groups(world) == [] and world.published == []


async def test_rows_that_are_only_appended_come_last(world: MemoryOperations) -> None:
    """So that operations of a batch lock the log once, after all other rows."""
    dev = make_cluster("dev")
    web = make_service("web", dev)
    await world.given(dev, web)
    stages = [LedgerStage.APPLIED, LedgerStage.HEALTHY]
    rows = [LedgerEntry.of(web, stage, START) for stage in stages]
    async with open_batch(world.store) as batch:
        for row in rows:
            await append_last(batch.tx, LedgerStore, [row])
        async with world.context.store.read() as tx:
            assert await tx[LedgerStore].select() == []
    assert [row.stage for row in await world.ledger()] == stages
    async with world.store.write() as tx:
        await append_last(tx, LedgerStore, rows[:1])
    assert len(await world.ledger()) == 3


async def test_a_batch_is_its_own_tasks(world: MemoryOperations) -> None:
    """Others write and publish beside it."""
    opened, closing = asyncio.Event(), asyncio.Event()

    async def beside() -> bool:
        await opened.wait()
        is_open = is_batch_open()
        world.context.bus.publish(ACCESS, "beside")
        closing.set()
        return is_open

    other = asyncio.ensure_future(beside())
    async with open_batch(world.store) as batch:
        world.context.bus.publish(ACCESS, "inside")
        opened.set()
        await closing.wait()
        batch.drop()
    assert await other is False
    assert world.published == [(ACCESS, "beside")]


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(["keep", "drop", "fail"])), max_size=5
    )
)
def test_only_batches_that_are_kept_count(batches: list[tuple[str, str]]) -> None:
    async def run() -> None:
        world = operations_over_memory()
        expected: list[tuple[str, str]] = []
        names: set[str] = set()
        for name, end in batches:
            try:
                async with open_batch(world.store) as batch:
                    await add_group(world, name)
                    if end == "fail":
                        raise Unavailable("away")
                    if end == "drop":
                        batch.drop()
            except (Conflict, Unavailable):
                continue
            if end == "keep":
                names.add(name)
                expected.append((ACCESS, name))
        assert await groups(world) == sorted(names)
        assert world.published == expected

    asyncio.run(run())
