"""States that no event reports: offline clusters, broken repositories and expiring tokens."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controlplane.clusters.ports import ClusterStore
from controlplane.notifications.operations.routing import (
    OFFLINE_AFTER,
    NotificationRouting,
    StateWatcher,
)
from controlplane.notifications.ports import NotificationKeyStore, NotificationStore
from controlplane.platform.notification import Notification
from controlplane.repositories.model.repository import GitHealth
from controlplane.repositories.ports import RepositoryStore
from core.identity import TokenKind
from tests.fakes.access import make_token, make_user
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    operations_over_memory,
)

ADA = make_user("ada")
DAY = timedelta(days=1)
WEEK = timedelta(days=7)
DEV = make_cluster("dev", pinged_at=START)
BROKEN = make_repository("fleet", health=GitHealth.FAILED, error="no such host")


@pytest.fixture
def world() -> MemoryOperations:
    return operations_over_memory()


@pytest.fixture
def watcher(world: MemoryOperations) -> StateWatcher:
    return StateWatcher(world.context)


async def reported(world: MemoryOperations) -> list[Notification]:
    """All notifications, oldest first."""
    async with world.store.read() as tx:
        return await tx[NotificationStore].select()


async def subjects(
    world: MemoryOperations, check: Callable[[], Awaitable[None]], times: int = 2
) -> list[str]:
    """Subjects of all notifications after some checks."""
    for _ in range(times):
        await check()
    return [notification.subject for notification in await reported(world)]


async def change_cluster(world: MemoryOperations, **columns: Any) -> None:
    async with world.store.write() as tx:
        await tx[ClusterStore].change("dev", **columns)


async def test_a_cluster_that_goes_offline_and_comes_back_is_reported_once_each(
    world: MemoryOperations, watcher: StateWatcher
) -> None:
    await world.given(replace(DEV, project_id="00000000-0000-7000-8000-000000000001"))
    await world.clock.advance(OFFLINE_AFTER.total_seconds() - 1)
    assert await subjects(world, watcher.check_clusters) == []
    await world.clock.advance(1)
    assert await subjects(world, watcher.check_clusters) == ["cluster dev is offline"]
    (away,) = await reported(world)
    assert away.text == "Its agent was last seen at 2026-01-01 00:00:00 UTC."
    assert (away.cluster_id, away.project_id) == ("dev", DEV.project_id)
    await change_cluster(world, pinged_at=world.clock.now())
    expected = ["cluster dev is offline", "cluster dev is online again"]
    assert await subjects(world, watcher.check_clusters) == expected
    await world.clock.advance(OFFLINE_AFTER.total_seconds())
    expected.append("cluster dev is offline")
    assert await subjects(world, watcher.check_clusters) == expected


async def test_a_cluster_whose_agent_never_connected_is_not_offline(
    world: MemoryOperations, watcher: StateWatcher
) -> None:
    await world.given(make_cluster("new"))
    await world.clock.advance(DAY.total_seconds())
    assert await subjects(world, watcher.check_clusters) == []


async def test_a_deleted_cluster_is_not_reported_at_all(
    world: MemoryOperations, watcher: StateWatcher
) -> None:
    """Neither as offline, nor as online again after it was offline."""
    await world.given(DEV, make_cluster("old", pinged_at=START, deleted_at=START))
    await world.clock.advance(DAY.total_seconds())
    assert await subjects(world, watcher.check_clusters) == ["cluster dev is offline"]
    await change_cluster(world, deleted_at=world.clock.now())
    assert await subjects(world, watcher.check_clusters) == ["cluster dev is offline"]
    assert await world.rows(NotificationKeyStore) == []


async def test_a_repository_that_fails_and_recovers_is_reported_once_each(
    world: MemoryOperations, watcher: StateWatcher
) -> None:
    await world.given(BROKEN)
    url = BROKEN.url
    broken = [f"repository {url} cannot be fetched"]
    assert await subjects(world, watcher.check_repositories) == broken
    assert [notification.text for notification in await reported(world)] == ["no such host"]
    async with world.store.write() as tx:
        await tx[RepositoryStore].change("fleet", health=GitHealth.PULLABLE)
    mended = [*broken, f"repository {url} is fetched again"]
    assert await subjects(world, watcher.check_repositories) == mended


async def test_a_deleted_repository_is_not_reported_as_mended(
    world: MemoryOperations, watcher: StateWatcher
) -> None:
    await world.given(BROKEN)
    await watcher.check_repositories()
    async with world.store.write() as tx:
        await tx[RepositoryStore].remove("fleet")
    assert len(await subjects(world, watcher.check_repositories)) == 1
    assert await world.rows(NotificationKeyStore) == []


@pytest.mark.parametrize(
    ("kind", "columns", "is_reported"),
    [
        (TokenKind.USER, {"expires_at": START + WEEK}, True),
        (TokenKind.SERVICE_ACCOUNT, {"expires_at": START + DAY}, True),
        (TokenKind.USER, {"expires_at": START + WEEK + DAY}, False),
        (TokenKind.USER, {"expires_at": START}, False),
        (TokenKind.USER, {"expires_at": START + DAY, "revoked_at": START}, False),
        (TokenKind.USER, {"expires_at": START + DAY, "parent_id": "family"}, False),
        (TokenKind.SESSION, {"expires_at": START + DAY}, False),
        (TokenKind.USER, {}, False),
    ],
)
async def test_a_lasting_token_is_reported_once_in_its_last_week(
    world: MemoryOperations,
    watcher: StateWatcher,
    kind: TokenKind,
    columns: dict[str, Any],
    is_reported: bool,
) -> None:
    """Programs renew tokens of a family, and users sign in anew after a session."""
    await world.given(ADA, make_token(ADA, kind, id="ci", **columns)[0])
    expected = ["token ci expires soon"] if is_reported else []
    assert await subjects(world, watcher.check_tokens) == expected


async def test_an_expiring_token_of_an_agent_is_reported_again_after_its_renewal(
    world: MemoryOperations, watcher: StateWatcher
) -> None:
    old = replace(DEV, id="old", handle="old", name="old", deleted_at=START)
    await world.given(
        replace(DEV, agent_token_expires_at=START + WEEK),
        replace(old, agent_token_expires_at=START + WEEK),
    )
    expected = ["the token of the agent of cluster dev expires soon"]
    assert await subjects(world, watcher.check_agent_tokens) == expected
    (ending,) = await reported(world)
    assert "towline clusters join dev --service-account" in ending.text
    await change_cluster(world, agent_token_expires_at=START + 3 * WEEK)
    assert await subjects(world, watcher.check_agent_tokens) == expected
    await world.clock.advance(2 * WEEK.total_seconds())
    assert await subjects(world, watcher.check_agent_tokens) == 2 * expected


async def test_notifications_are_forgotten_after_90_days(
    world: MemoryOperations, watcher: StateWatcher
) -> None:
    """A state that still holds is not reported anew."""
    token = make_token(ADA, id="ci", expires_at=START + DAY)[0]
    await world.given(ADA, token, DEV)
    await watcher.check_tokens()
    await world.clock.advance(OFFLINE_AFTER.total_seconds())
    await watcher.check_clusters()
    await world.clock.advance(90 * DAY.total_seconds())
    await NotificationRouting(world.context).forget()
    assert await subjects(world, watcher.check_clusters) == []
    assert [key.id for key in await world.rows(NotificationKeyStore)] == ["cluster:dev"]
