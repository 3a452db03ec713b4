"""Services are rendered soon after each change, by one replica, and in spite of outages."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from controlplane.delivery.loop import RenderLoop
from controlplane.delivery.operations.pinned_services import PinnedServices
from controlplane.delivery.operations.render_reconciler import RenderReconciler
from controlplane.platform.context import RENDER_SERVICES
from controlplane.platform.ports import LOST_WAKES
from controlplane.repositories.model.repository import GitHealth, Repository
from controlplane.repositories.operations import RepositoryOperations
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.ports import ServiceStore
from core.identity import RepositoryId
from tests.fakes.access import ReadOnlyStore
from tests.fakes.clock import settle
from tests.fakes.manifests import config_map
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

DEV = make_cluster("dev")
WEB = make_service("web", DEV, repository_id="fleet", folder="web")
API = make_service("api", DEV, repository_id="fleet", folder="api")
SWEEP = 60


class History:
    """The `GitHistory` port: three commits between any two."""

    async def count_commits(self, repository_id: RepositoryId, base: str, tip: str) -> int | None:
        return 3


@dataclass
class Delivery:
    """The loop over a store that can become read-only."""

    world: MemoryOperations
    store: ReadOnlyStore
    handled: set[str] = field(default_factory=lambda: {"fleet"})
    """Repositories that this replica handles."""
    history: History = field(default_factory=History)
    before_render: Callable[[], object] | None = None
    """Happens once, when the next render begins."""

    def __post_init__(self) -> None:
        context = replace(self.world.context, store=self.store)
        self.loop = RenderLoop(
            RenderReconciler(context),
            PinnedServices(context, self.history),
            RepositoryOperations(context),
            context,
            self._delivers,
        )

    def _delivers(self, repository_id: str) -> bool:
        happens, self.before_render = self.before_render, None
        if happens is not None:
            happens()
        return repository_id in self.handled

    def push(self, **folders: str) -> str:
        contents = {name: [config_map(value)] for name, value in folders.items()}
        return self.world.manifests.push("fleet", contents)

    async def start(self) -> None:
        await self.loop.start()
        await settle(100)

    async def rendered(self) -> dict[str, str | None]:
        """The commit of each service that was rendered."""
        await settle(100)
        rows = await self.world.rows(ServiceStore)
        return {row.name: row.desired.commit_sha for row in rows if row.desired.digest}

    async def repository(self) -> Repository:
        row = await self.world.row(RepositoryStore, "fleet")
        assert row is not None
        return row


@pytest.fixture
async def delivery() -> AsyncIterator[Delivery]:
    world = operations_over_memory()
    await world.given(DEV, make_repository("fleet"), WEB)
    store = ReadOnlyStore(world.context.store)
    store.is_read_only = False
    delivery = Delivery(world, store)
    yield delivery
    await delivery.loop.stop()


async def test_a_commit_is_rendered_and_its_repository_shows_it(delivery: Delivery) -> None:
    await delivery.start()
    sha = delivery.push(web="1")
    assert await delivery.rendered() == {"web": sha}
    row = await delivery.repository()
    assert (row.commits["main"].sha, row.health) == (sha, GitHealth.PULLABLE)


async def test_a_new_service_is_rendered_without_a_new_commit(delivery: Delivery) -> None:
    sha = delivery.push(web="1", api="1")
    await delivery.start()
    await delivery.world.given(API)
    assert "api" not in await delivery.rendered()
    delivery.world.bus.publish(RENDER_SERVICES, f"fleet/{API.id}")
    assert (await delivery.rendered())["api"] == sha


@pytest.mark.parametrize("wake", [(LOST_WAKES, ""), (RENDER_SERVICES, "fleet"), None])
async def test_all_services_are_rendered_after_lost_events(
    delivery: Delivery, wake: tuple[str, str] | None
) -> None:
    """At the latest after a minute."""
    sha = delivery.push(web="1", api="1")
    await delivery.start()
    await delivery.world.given(API)
    if wake:
        delivery.world.bus.publish(*wake)
    else:
        await delivery.world.clock.advance(SWEEP)
    assert await delivery.rendered() == {"web": sha, "api": sha}


async def test_another_replica_renders_its_own_repositories(delivery: Delivery) -> None:
    delivery.handled.clear()
    await delivery.start()
    sha = delivery.push(web="1")
    assert await delivery.rendered() == {}
    delivery.handled.add("fleet")
    await delivery.world.clock.advance(SWEEP)
    assert await delivery.rendered() == {"web": sha}


async def test_a_render_and_the_state_of_its_repository_survive_an_outage(
    delivery: Delivery,
) -> None:
    """The git cache reports each state once."""
    await delivery.start()
    delivery.store.is_read_only = True
    sha = delivery.push(web="1")
    assert await delivery.rendered() == {}
    delivery.store.is_read_only = False
    await delivery.world.clock.advance(5)
    assert await delivery.rendered() == {"web": sha}
    assert (await delivery.repository()).commits["main"].sha == sha


async def test_a_newer_state_replaces_one_that_could_not_be_stored(delivery: Delivery) -> None:
    """The newer one is reported while the store still refuses the older one."""
    await delivery.start()
    delivery.store.is_read_only = True
    delivery.push(web="1")
    delivery.before_render = lambda: delivery.push(web="2")
    await settle(100)
    sha = delivery.world.manifests.heads["fleet"]["main"].sha
    delivery.store.is_read_only = False
    await delivery.world.clock.advance(10)
    assert (await delivery.repository()).commits["main"].sha == sha


async def test_a_request_for_one_service_renders_only_that_one(delivery: Delivery) -> None:
    await delivery.world.given(API)
    delivery.push(web="1", api="1")
    await delivery.start()
    delivery.world.manifests.renders.clear()
    async with delivery.world.store.write() as tx:
        for service in (WEB, API):
            await tx[ServiceStore].change(service.id, input_digest=None)
    delivery.world.bus.publish(RENDER_SERVICES, f"fleet/{API.id}")
    await settle(100)
    assert [request.folder for request in delivery.world.manifests.renders] == ["api"]


@pytest.mark.parametrize("wake", [f"fleet/{WEB.id}", "fleet/", None])
async def test_a_changed_ref_is_followed_before_its_service_is_rendered(
    delivery: Delivery, wake: str | None
) -> None:
    """At the latest after a minute."""
    delivery.push(web="1")
    await delivery.start()
    sha = delivery.world.manifests.push("fleet", {"web": [config_map("2")]}, "next")
    async with delivery.world.store.write() as tx:
        await tx[ServiceStore].change(WEB.id, ref="next", input_digest=None)
    if wake:
        delivery.world.bus.publish(RENDER_SERVICES, wake)
    else:
        await delivery.world.clock.advance(SWEEP)
    assert await delivery.rendered() == {"web": sha}


@pytest.mark.parametrize("wake", [f"fleet/{WEB.id}", "fleet/"])
async def test_the_commits_after_a_rollback_are_counted_after_the_render(
    delivery: Delivery, wake: str
) -> None:
    delivery.push(web="1")
    await delivery.start()
    async with delivery.world.store.write() as tx:
        await tx[ServiceStore].change(WEB.id, pinned_sha="b" * 40)
    delivery.world.bus.publish(RENDER_SERVICES, wake)
    await settle(100)
    row = await delivery.world.row(ServiceStore, WEB.id)
    assert row is not None and row.desired.commits_behind == 3


async def test_requests_for_two_services_survive_an_outage(delivery: Delivery) -> None:
    await delivery.world.given(API)
    sha = delivery.push(web="1", api="1")
    await delivery.start()
    delivery.store.is_read_only = True
    for service in (WEB, API):
        delivery.world.bus.publish(RENDER_SERVICES, f"fleet/{service.id}")
    assert await delivery.rendered() == {}
    delivery.store.is_read_only = False
    await delivery.world.clock.advance(30)
    assert await delivery.rendered() == {"web": sha, "api": sha}


async def test_the_time_of_a_poll_without_news_is_stored_each_minute(delivery: Delivery) -> None:
    await delivery.start()
    delivery.push(web="1")
    await settle(100)
    before = (await delivery.repository()).polled_at
    state = delivery.world.manifests.state(RepositoryId("fleet"))
    assert state is not None and before is not None
    later = replace(state, polled_at=before + timedelta(seconds=30))
    delivery.world.manifests.state = lambda _: later  # ty: ignore[invalid-assignment]
    await delivery.world.clock.advance(SWEEP)
    assert (await delivery.repository()).polled_at == later.polled_at
