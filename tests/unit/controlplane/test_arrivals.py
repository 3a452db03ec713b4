"""Deploy tokens read for many agents at once: fresh, whole, and whoever leaves meanwhile."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from controlplane.access.model.users import Token
from controlplane.access.ports import TokenStore
from controlplane.clusters.operations.deploy_tokens import DeployTokenReader
from controlplane.platform.ports import Transaction
from core.errors import Unavailable
from core.identity import TokenKind
from tests.fakes.clock import START
from tests.fakes.memory_store.store import MemoryStore
from tests.fakes.operations import make_cluster, operations_over_memory


class SlowStore:
    """A store that answers as late as the test wants."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.reads = 0
        self.away = False
        self.gate = asyncio.Event()

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[Transaction, None]:
        self.reads += 1
        async with self._store.read() as tx:
            await self.gate.wait()
            if self.away:
                raise Unavailable("the store cannot be read")
            yield tx

    def write(self) -> AbstractAsyncContextManager[Transaction]:
        return self._store.write()


@pytest.fixture
async def tokens() -> SlowStore:
    world = operations_over_memory()
    await world.given(make_cluster("c1"), make_cluster("c2"), make_cluster("c0", deleted_at=START))
    for hash, cluster in (("t1", "c1"), ("t2", "c2"), ("gone", "c0")):
        await world.given(Token(hash, TokenKind.AGENT, hash, hash, START, cluster_id=cluster))
    return SlowStore(world.store)


@pytest.fixture
def arrivals(tokens: SlowStore) -> DeployTokenReader:
    return DeployTokenReader(tokens)


async def found(work: "asyncio.Task[Any]") -> str | None:
    answer = await work
    return answer and answer[1]


async def asked(arrivals: DeployTokenReader, *hashes: str) -> list["asyncio.Task[Any]"]:
    """Each asks in a task of its own; all of them wait when this returns."""
    work = [asyncio.ensure_future(arrivals.find(one)) for one in hashes]
    for _ in range(3):
        await asyncio.sleep(0)
    return work


async def test_all_who_wait_are_read_at_once(
    arrivals: DeployTokenReader, tokens: SlowStore
) -> None:
    """The first one alone, the others together; each gets its own answer."""
    first = await asked(arrivals, "t1")
    others = await asked(arrivals, "t2", "t1", "gone", "unknown", *["t2"] * 50)
    tokens.gate.set()
    assert [await found(one) for one in first + others[:4]] == ["c1", "c2", "c1", None, None]
    assert {await found(one) for one in others[4:]} == {"c2"}
    assert tokens.reads == 2


async def test_no_answer_is_older_than_its_question(
    arrivals: DeployTokenReader, tokens: SlowStore
) -> None:
    """A token that was revoked while others were read is not taken for good."""
    (before,) = await asked(arrivals, "t1")
    async with tokens.write() as tx:
        await tx[TokenStore].remove("t1")
    (after,) = await asked(arrivals, "t1")
    tokens.gate.set()
    assert (await found(before), await after) == ("c1", None)


async def test_a_cancelled_lookup_strands_no_other_caller(
    arrivals: DeployTokenReader, tokens: SlowStore
) -> None:
    """Also where others wait for the same answer."""
    first, same, other = await asked(arrivals, "t1", "t1", "t2")
    first.cancel()
    await asyncio.sleep(0)
    tokens.gate.set()
    assert (await found(same), await found(other)) == ("c1", "c2")
    assert first.cancelled()


async def test_every_waiting_lookup_fails_when_the_store_is_away(
    arrivals: DeployTokenReader, tokens: SlowStore
) -> None:
    """By one attempt for all who wait and two by themselves; whoever comes later asks anew."""
    tokens.away = True
    work = await asked(arrivals, "t1")
    work += await asked(arrivals, "t2", "gone", "unknown")
    tokens.gate.set()
    for one in work:
        with pytest.raises(Unavailable):
            await one
    assert tokens.reads == 4
    tokens.away = False
    assert await arrivals.find("t1")
