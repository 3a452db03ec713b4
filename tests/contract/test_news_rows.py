"""Notifications on both databases: claimed by one, routed together, with what was before."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.notifications.ports import NotificationStore
from controlplane.platform.notification import NotificationKind, notification
from controlplane.platform.ports import Store
from controlplane.platform.store.engine import make_engine
from controlplane.platform.store.transaction import SqlStore
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.ports import LedgerStore
from controlplane.store.repositories import REPOSITORIES
from tests import migrated
from tests.fakes.clock import START
from tests.servers.postgres import Postgres

TEST = [notification(NotificationKind.TEST, START, f"n{number}") for number in range(4)]


async def test_routed_or_dropped_notifications_leave_the_queue(store: Store) -> None:
    async with store.write() as tx:
        await tx[NotificationStore].append(TEST)
    async with store.write() as tx:
        waiting = await tx[NotificationStore].waiting(3)
        first, second, third = waiting
        assert [one.subject for one in waiting] == ["n0", "n1", "n2"]
        routed = [replace(one, subject="told", detail={"a": "b"}) for one in (first, second)]
        await tx[NotificationStore].mark_routed(routed, START)
        await tx[NotificationStore].drop([third.id or 0])
        await tx[NotificationStore].mark_routed([], START)
        await tx[NotificationStore].drop([])
    async with store.read() as tx:
        assert [one.subject for one in await tx[NotificationStore].waiting(9)] == ["n3"]
        assert await tx[NotificationStore].select(subject="told") == [
            replace(one, routed_at=START) for one in routed
        ]
        assert len(await tx[NotificationStore].select()) == 3


async def test_two_who_route_at_once_take_different_ones(postgres: Postgres) -> None:
    """Neither waits for the other. SQLite has one writer at a time."""
    url = migrated.new_postgres(postgres)
    store = SqlStore(make_engine(url), REPOSITORIES)
    async with store.write() as tx:
        await tx[NotificationStore].append(TEST)
    async with store.write() as one, store.write() as another:
        first = await one[NotificationStore].waiting(3)
        second = await another[NotificationStore].waiting(3)
        assert [len(first), len(second)] == [3, 1]
        await one[NotificationStore].mark_routed(first, START)
        await another[NotificationStore].mark_routed(second, START)
    async with store.read() as tx:
        assert await tx[NotificationStore].waiting(9) == []
    await store.close()
    postgres.drop_database(url)


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ([], None),
        ([LedgerStage.HEALTHY], LedgerStage.HEALTHY),
        ([LedgerStage.HEALTHY, LedgerStage.DEGRADED], LedgerStage.DEGRADED),
        ([LedgerStage.FAILED, LedgerStage.APPLIED], LedgerStage.FAILED),
    ],
)
async def test_previous_stages_are_those_before_the_notification(
    store: Store, stages: list[LedgerStage], expected: LedgerStage | None
) -> None:
    """Of each service its own, and nothing of what came later."""
    now = START + timedelta(hours=1)
    earlier = [LedgerEntry("s", "c", stage, START) for stage in stages]
    async with store.write() as tx:
        await tx[LedgerStore].append([*earlier, LedgerEntry("other", "c", LedgerStage.HELD, START)])
        for one in await tx[NotificationStore].waiting(9):
            await tx[NotificationStore].drop([one.id or 0])
        kind = NotificationKind.SERVICE_RECOVERED
        id = await tx[NotificationStore].add(notification(kind, now, "", service_id="s"))
        await tx[LedgerStore].append([LedgerEntry("s", "c", LedgerStage.DEGRADED, now)])
        assert await tx[NotificationStore].previous_stages([id]) == {id: expected}
        assert await tx[NotificationStore].previous_stages([]) == {}
