"""The number of commits that a rolled back service is behind its ref."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.delivery.operations.pinned_services import PinnedServices
from controlplane.platform.context import SERVICE
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.model.service import Service
from controlplane.services.ports import ServiceStore
from core.errors import Unavailable
from core.identity import RepositoryId
from core.spec.source import Commit, RepositoryKind, RepositorySpec
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

DEV = make_cluster("dev")
OLD, TIP = "a" * 40, "b" * 40
HEAD = Commit(TIP, "Ada <ada@example.org>", "Fix", datetime(2026, 1, 1, tzinfo=UTC))


def service(name: str, **columns: Any) -> Service:
    columns = {"repository_id": "fleet", "ref": "main", "pinned_sha": OLD} | columns
    return make_service(name, DEV).changed(**columns)


PINNED = service("pinned")


@dataclass
class FakeHistory:
    """The `GitHistory` port: one count or error for all questions."""

    count: int | None | Exception = 3
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    async def count_commits(self, repository_id: RepositoryId, base: str, tip: str) -> int | None:
        self.asked.append((repository_id, base, tip))
        if isinstance(self.count, Exception):
            raise self.count
        return self.count


@pytest.fixture
def history() -> FakeHistory:
    return FakeHistory()


@pytest.fixture
async def world() -> MemoryOperations:
    """A repository whose branch is at TIP."""
    world = operations_over_memory()
    await world.given(DEV, make_repository("fleet", commits={"main": HEAD}), PINNED)
    return world


async def behind(world: MemoryOperations) -> dict[str, int | None]:
    return {one.name: one.desired.commits_behind for one in await world.rows(ServiceStore)}


@pytest.mark.parametrize("key", ["fleet/", f"fleet/{PINNED.id}"])
async def test_commits_since_a_rollback_are_counted_and_announced(
    world: MemoryOperations, history: FakeHistory, key: str
) -> None:
    await PinnedServices(world.context, history).update(key)
    assert await behind(world) == {"pinned": 3}
    assert history.asked == [("fleet", OLD, TIP)]
    assert world.published == [(SERVICE, PINNED.id)]


async def test_a_pair_of_commits_is_counted_once(
    world: MemoryOperations, history: FakeHistory
) -> None:
    """For all services at the same commit, and however often they are looked at."""
    await world.given(service("second"))
    pinned = PinnedServices(world.context, history)
    for _ in range(2):
        await pinned.update("fleet/")
    assert await behind(world) == {"pinned": 3, "second": 3}
    assert len(history.asked) == 1
    assert sorted(world.published) == [(SERVICE, PINNED.id), (SERVICE, "dev-second")]


@pytest.mark.parametrize(
    "columns", [{"pinned_sha": None}, {"promoted": True}, {"repository_id": None}]
)
async def test_a_service_that_no_rollback_pinned_is_not_counted(
    world: MemoryOperations, history: FakeHistory, columns: dict[str, Any]
) -> None:
    await world.given(service("other", **columns))
    await PinnedServices(world.context, history).update("fleet/dev-other")
    assert history.asked == [] and world.published == []


async def test_only_the_named_service_is_counted(
    world: MemoryOperations, history: FakeHistory
) -> None:
    await world.given(service("second"))
    await PinnedServices(world.context, history).update("fleet/dev-second")
    assert await behind(world) == {"pinned": None, "second": 3}


async def test_the_git_cache_knows_the_newest_commit(
    world: MemoryOperations, history: FakeHistory
) -> None:
    """Its state is newer than the row of the repository."""
    newest = world.manifests.push("fleet", {})
    world.manifests.follow(
        RepositorySpec(RepositoryId("fleet"), "https://fleet.example.org", frozenset({"main"}))
    )
    await PinnedServices(world.context, history).update("fleet/")
    assert history.asked == [("fleet", OLD, newest)]


async def test_a_ref_without_a_commit_has_no_count(
    world: MemoryOperations, history: FakeHistory
) -> None:
    async with world.store.write() as tx:
        await tx[ServiceStore].put(service("pinned", ref="gone", commits_behind=3))
    await PinnedServices(world.context, history).update("fleet/")
    assert history.asked == []
    assert await behind(world) == {"pinned": None}


@pytest.mark.parametrize("count", [None, Unavailable("the server is away")])
async def test_a_server_that_does_not_tell_leaves_no_old_count(
    world: MemoryOperations, count: Any
) -> None:
    async with world.store.write() as tx:
        await tx[ServiceStore].put(replace(PINNED).changed(commits_behind=7))
    history = FakeHistory(count)
    pinned = PinnedServices(world.context, history)
    await pinned.update("fleet/")
    assert await behind(world) == {"pinned": None}
    await pinned.update("fleet/")
    assert len(history.asked) == 1, "the same commits are not asked for again"


@pytest.mark.parametrize("kind", [RepositoryKind.HELM, RepositoryKind.OCI])
async def test_only_git_has_commits(
    world: MemoryOperations, history: FakeHistory, kind: RepositoryKind
) -> None:
    async with world.store.write() as tx:
        await tx[RepositoryStore].change("fleet", kind=kind)
    await PinnedServices(world.context, history).update("fleet/")
    assert history.asked == []


async def test_a_process_without_a_history_counts_nothing(world: MemoryOperations) -> None:
    await PinnedServices(world.context, None).update("fleet/")
    assert await behind(world) == {"pinned": None} and world.published == []


async def test_another_rollback_meanwhile_is_not_given_the_old_count(
    world: MemoryOperations,
) -> None:
    class Racing(FakeHistory):
        async def count_commits(
            self, repository_id: RepositoryId, base: str, tip: str
        ) -> int | None:
            async with world.store.write() as tx:
                await tx[ServiceStore].put(service("pinned", pinned_sha="c" * 40))
            return await super().count_commits(repository_id, base, tip)

    await PinnedServices(world.context, Racing()).update("fleet/")
    assert await behind(world) == {"pinned": None}
