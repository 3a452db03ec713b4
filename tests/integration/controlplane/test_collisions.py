"""Changes at the same time on PostgreSQL: none waits for what it only looks at, none is lost."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, cast

import pytest
from sqlalchemy import text

from controlplane.access.model.bindings import SubjectKind
from controlplane.access.model.users import Group
from controlplane.access.operations.binding_subjects import Subjects
from controlplane.access.operations.groups import GroupChange
from controlplane.access.operations.projects import ProjectChange
from controlplane.access.ports import ProjectStore
from controlplane.authorization import UNRESTRICTED
from controlplane.authorization.roles import BuiltInRole as Role
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.ports import ClusterGroupStore, ClusterStore
from controlplane.notifications.operations.routing import NotificationRouting
from controlplane.notifications.ports import NotificationStore
from controlplane.pipelines.model.records import PipelineRecord
from controlplane.pipelines.ports import PipelineStore
from controlplane.platform.context import OperationContext
from controlplane.platform.notification import NotificationKind, notification
from controlplane.platform.ports import TransactionConflict
from controlplane.platform.retry import retry_operations
from controlplane.platform.store.transaction import SqlStore
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.operations.services import ServiceChange
from controlplane.services.ports import ServiceStore
from core.runtime.clock import SystemClock
from tests.integration.controlplane.conftest import World

PATIENCE = 60.0


@retry_operations
class Crossing:
    """A verb that holds one row and then wants another one."""

    def __init__(self, deps: OperationContext) -> None:
        self._context = deps
        self._met = asyncio.Barrier(2)
        self.tries: list[str] = []

    async def describe(self, first: str, then: str) -> None:
        """Write its own name into two projects. The first try of both meets half-way."""
        self.tries.append(first)
        async with self._context.store.write() as tx:
            await tx[ProjectStore].get(first)
            if self.tries.count(first) == 1:
                await self._met.wait()
            row = await tx[ProjectStore].get(then)
            assert row is not None
            await tx[ProjectStore].put(replace(row, description=(row.description or "") + first))


async def test_transactions_that_wait_for_each_other_both_succeed(postgres_world: World) -> None:
    """A real deadlock: PostgreSQL gives one of them up, and it is begun again."""
    world = postgres_world
    one, two = [
        await world.projects.create(world.admin, ProjectChange(name=n, fence=UNRESTRICTED))
        for n in "ab"
    ]
    crossing = Crossing(replace(world.deps, clock=SystemClock()))
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(crossing.describe(one.id, two.id), crossing.describe(two.id, one.id))
    assert len(crossing.tries) > 2
    rows = await world.projects.readable_by_id(world.admin, [one.id, two.id])
    assert rows[one.id].description == two.id
    assert rows[two.id].description == one.id


async def test_without_a_retry_one_transaction_conflicts(
    postgres_world: World,
) -> None:
    """A transaction without a retry says that nothing was written, and when to retry."""
    world = postgres_world
    one, two = [
        await world.projects.create(world.admin, ProjectChange(name=n, fence=UNRESTRICTED))
        for n in "ab"
    ]
    crossing = Crossing(world.deps)
    verb: Any = Crossing.describe
    once = verb.__wrapped__
    async with asyncio.timeout(PATIENCE):
        found = await asyncio.gather(
            once(crossing, one.id, two.id), once(crossing, two.id, one.id), return_exceptions=True
        )
    (failed,) = [error for error in found if error is not None]
    assert isinstance(failed, TransactionConflict)
    assert failed.retry_after and "try again" in failed.message


async def waiting(store: SqlStore) -> int:
    """Number of transactions that wait for others."""
    asked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = {}"
    async with store.read() as tx:
        found = await tx.connection.execute(text(asked.format("current_database()")))
        return found.scalar_one()


async def test_many_rows_are_locked_in_the_order_of_ids_whatever_changes_of_each(
    postgres_world: World,
) -> None:
    """Agents tell of many services at once, each of something else, while a context is saved."""
    world = postgres_world
    store = cast("SqlStore", world.deps.store)
    rows = [
        await world.projects.create(world.admin, ProjectChange(name=name, fence=UNRESTRICTED))
        for name in "abc"
    ]
    first, second, third = sorted(one.id for one in rows)
    changes = {first: {"name": "x"}, second: {"description": "y"}, third: {"name": "z"}}

    async def change_all() -> None:
        async with store.write() as tx:
            await tx[ProjectStore].change_each(changes)

    async with asyncio.timeout(PATIENCE), store.write() as tx:
        await tx[ProjectStore].get(second)
        changing = asyncio.ensure_future(change_all())
        while not await waiting(store):
            await asyncio.sleep(0.01)
        assert await tx[ProjectStore].get(third) is not None
    async with asyncio.timeout(PATIENCE):
        await changing


async def test_news_of_a_pipeline_do_not_wait_for_it(postgres_world: World) -> None:
    """Those of many are routed together: held, pipelines would be taken in the order of news."""
    world, now = postgres_world, postgres_world.clock.now()
    announcement = notification(NotificationKind.PROMOTION_DONE, now, "done", pipeline_id="p")
    async with world.deps.store.write() as tx:
        await tx[PipelineStore].add(PipelineRecord("p", "shop", now, now))
        await tx[NotificationStore].append([announcement])
    async with asyncio.timeout(PATIENCE), world.deps.store.write() as tx:
        assert await tx[PipelineStore].get("p") is not None
        assert await NotificationRouting(world.deps).route() == 1


class Room:
    """Things of all kinds, and who has which role in them."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def fill(self) -> "Room":
        """Make them: a group writes to the project, the cluster and the service."""
        world, admin = self.world, self.world.admin
        self.project = await world.projects.create(
            admin, ProjectChange(name="payments", fence=UNRESTRICTED)
        )
        self.cluster, repository = await world.cluster(connected=False), await world.repository()
        self.service = await world.service(self.cluster, repository)
        self.group = await world.groups.create(admin, GroupChange(name="team"))
        given: dict[str, Subjects] = {Role.EDITOR: Subjects(groups=frozenset({self.group.id}))}
        for one in (self.project, self.cluster, self.service):
            await world.bindings.set_subjects(admin, one.target.scope, given)
        frozen = ClusterGroup("frozen", "frozen", world.clock.now(), world.clock.now(), frozen=True)
        async with world.deps.store.write() as tx:
            await tx[ClusterGroupStore].add(frozen)
        return self

    async def open_group(self) -> Group:
        """What a group may is held against what the caller may."""
        change = GroupChange(everyone=False)
        return await self.world.groups.update(self.world.admin, self.group.id, change)

    async def join_group(self) -> object:
        user = await self.world.people.upsert(self.world.admin, "ada@example.org", None, None)
        return await self.world.groups.add_member(self.world.admin, self.group.id, user.id)

    async def unbind(self) -> object:
        bindings, admin = self.world.bindings, self.world.admin
        bound = await bindings.all(admin, self.cluster.target.scope)
        (one,) = [view for view in bound if view.row.subject_kind is SubjectKind.GROUP]
        return await bindings.delete(admin, one.row.id)

    async def change_service(self) -> object:
        """Some group is frozen: whether the service's cluster is in it is looked up."""
        change = ServiceChange(folder="other")
        return await self.world.services.update(self.world.admin, self.service.id, change)

    async def delete_service(self) -> object:
        return await self.world.services.delete(self.world.admin, self.service.id)


@pytest.mark.parametrize(
    ("verb", "held"),
    [
        (Room.open_group, (ProjectStore, ClusterStore, ServiceStore)),
        (Room.join_group, (ProjectStore, ClusterStore, ServiceStore)),
        (Room.unbind, (ProjectStore, ClusterStore, ServiceStore)),
        (Room.change_service, (ClusterStore, RepositoryStore)),
        (Room.delete_service, (RepositoryStore,)),
    ],
)
async def test_a_change_does_not_wait_for_what_it_only_looks_at(
    postgres_world: World, verb: Callable[[Room], Awaitable[object]], held: tuple[type[Any], ...]
) -> None:
    """Others write those rows meanwhile: held, they would be taken in two orders."""
    room = await Room(postgres_world).fill()
    store = postgres_world.deps.store
    ids: dict[type[Any], str] = {
        ProjectStore: room.project.id,
        ClusterStore: room.cluster.id,
        ServiceStore: room.service.id,
        RepositoryStore: str(room.service.repository_id),
    }
    async with AsyncExitStack() as others:
        tx = await others.enter_async_context(store.write())
        for port in held:
            assert await tx[port].find(id=ids[port]) is not None
        async with asyncio.timeout(PATIENCE):
            await verb(room)
