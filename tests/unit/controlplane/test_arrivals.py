"""Deploy tokens read for many agents at once: fresh, whole, and whoever leaves meanwhile."""

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from controlplane.ports import Store
from controlplane.usecases.arrivals import DeployTokenReader
from core.errors import Unavailable


class Tokens:
    """A store of tokens and clusters, read as slowly as the test wants."""

    def __init__(self) -> None:
        self.clusters = {"t1": "c1", "t2": "c2", "gone": "c0"}
        self.reads = 0
        self.away = False
        self.gate = asyncio.Event()

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[Any, None]:
        self.reads += 1
        seen = dict(self.clusters)
        await self.gate.wait()
        if self.away:
            raise Unavailable("the store cannot be read")

        async def tokens(hash: Collection[str]) -> list[Any]:
            return [SimpleNamespace(hash=h, cluster_id=seen[h]) for h in hash if h in seen]

        async def clusters(name: str, ids: Collection[str]) -> dict[str, str]:
            return {one: one for one in ids if one != "c0"}

        yield SimpleNamespace(
            tokens=SimpleNamespace(select=tokens), clusters=SimpleNamespace(column=clusters)
        )


@pytest.fixture
def tokens() -> Tokens:
    return Tokens()


@pytest.fixture
def arrivals(tokens: Tokens) -> DeployTokenReader:
    return DeployTokenReader(cast(Store, tokens))


async def found(work: "asyncio.Task[Any]") -> str | None:
    answer = await work
    return answer and answer[1]


async def asked(arrivals: DeployTokenReader, *hashes: str) -> list["asyncio.Task[Any]"]:
    """Each asks in a task of its own; all of them wait when this returns."""
    work = [asyncio.ensure_future(arrivals.find(one)) for one in hashes]
    for _ in range(3):
        await asyncio.sleep(0)
    return work


async def test_all_who_wait_are_read_at_once(arrivals: DeployTokenReader, tokens: Tokens) -> None:
    """The first one alone, the others together; each gets its own answer."""
    first = await asked(arrivals, "t1")
    others = await asked(arrivals, "t2", "t1", "gone", "unknown", *["t2"] * 50)
    tokens.gate.set()
    assert [await found(one) for one in first + others[:4]] == ["c1", "c2", "c1", None, None]
    assert {await found(one) for one in others[4:]} == {"c2"}
    assert tokens.reads == 2


async def test_no_answer_is_older_than_its_question(
    arrivals: DeployTokenReader, tokens: Tokens
) -> None:
    """A token that was revoked while others were read is not taken for good."""
    (before,) = await asked(arrivals, "t1")
    del tokens.clusters["t1"]
    (after,) = await asked(arrivals, "t1")
    tokens.gate.set()
    assert (await found(before), await after) == ("c1", None)


async def test_who_leaves_in_the_middle_leaves_nobody_behind(
    arrivals: DeployTokenReader, tokens: Tokens
) -> None:
    """Also where others wait for the same answer."""
    first, same, other = await asked(arrivals, "t1", "t1", "t2")
    first.cancel()
    await asyncio.sleep(0)
    tokens.gate.set()
    assert (await found(same), await found(other)) == ("c1", "c2")
    assert first.cancelled()


async def test_everybody_is_told_that_the_store_is_away(
    arrivals: DeployTokenReader, tokens: Tokens
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
