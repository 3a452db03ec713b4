"""Search by name, and the changes that subscribers missed."""

from datetime import timedelta

import pytest

from controlplane.authorization import ANONYMOUS, Actor, ResourceKind, Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.pipelines.model.records import PipelineRecord
from controlplane.platform.ports import ANY, PageQuery
from controlplane.search.model import NamedItemKind
from controlplane.search.operations import MAX_RESULTS, SearchOperations
from controlplane.services.model.service import Component, ComponentState, Service
from controlplane.services.ports import ComponentStore
from core.errors import Invalid, LimitExceeded, Unauthenticated
from tests.fakes.actors import ADMIN, NOBODY, person
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

DEV, PROD = make_cluster("dev"), make_cluster("prod")
WEB, API = make_service("web", DEV), make_service("api-dev", PROD)
OF_DEV = person(BuiltInRole.VIEWER, "dana", Scope("cluster:dev"))
LATER = START + timedelta(hours=1)


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(DEV, PROD, WEB, API, make_repository("dev-tools"))
    await world.given(PipelineRecord("p", "dev-to-prod", START, START))
    return world


@pytest.fixture
def search(world: MemoryOperations) -> SearchOperations:
    return SearchOperations(world.context)


def make_deployment(number: int, service: Service) -> Component:
    id = f"{service.id}/{number}"
    names = ("apps", "v1", "Deployment", "shop", f"web-{number}")
    place = (id, service.id, service.cluster_id)
    return Component(*place, *names, "", "", ComponentState.RUNNING, "", True, (), START)


async def test_resources_are_found_by_a_part_of_their_name(search: SearchOperations) -> None:
    found = [(item.kind, item.name) for item in await search.places(ADMIN, "dev")]
    assert found[0] == (NamedItemKind.CLUSTER, "dev"), "the exact name comes first"
    assert (NamedItemKind.SERVICE, "api-dev") in found
    assert (NamedItemKind.PIPELINE, "dev-to-prod") in found
    assert len(await search.places(ADMIN, "dev", 2)) == 2


async def test_only_visible_resources_are_found(search: SearchOperations) -> None:
    found = [(item.kind, item.name) for item in await search.places(OF_DEV, "dev")]
    assert found == [(NamedItemKind.CLUSTER, "dev")]
    assert list(await search.places(NOBODY, "dev")) == []


@pytest.mark.parametrize(("text", "most"), [("a" * 201, 10), ("a\x00", 10), ("a", 0), ("a", 51)])
async def test_an_invalid_search_is_refused(search: SearchOperations, text: str, most: int) -> None:
    assert MAX_RESULTS == 50
    with pytest.raises(Invalid):
        await search.places(ADMIN, text, most)


@pytest.mark.parametrize(
    ("text", "first"), [("status:Odd", 10), ("kind:Pod", 0), ("kind:Pod", 101)]
)
async def test_an_invalid_search_of_objects_is_refused(
    search: SearchOperations, text: str, first: int
) -> None:
    with pytest.raises(Invalid):
        await search.objects(ADMIN, text, first, None)


async def test_objects_are_found_where_the_caller_may_see_them(
    world: MemoryOperations, search: SearchOperations
) -> None:
    """In the order of their ids, page by page, with the number of all."""
    objects = [make_deployment(n, service) for service in (API, WEB) for n in (1, 2)]
    async with world.store.write() as tx:
        await tx[ComponentStore].upsert(objects)
    page = await search.objects(ADMIN, "kind:Deployment", 1, None)
    assert [(hit.component.id, hit.service, hit.cluster) for hit in page.items] == [
        ("dev-web/1", "web", "dev")
    ]
    assert (page.more, page.count) == (True, 4)
    page = await search.objects(ADMIN, "kind:Deployment", 100, "dev-web/1")
    assert [hit.component.id for hit in page.items] == [
        "dev-web/2",
        "prod-api-dev/1",
        "prod-api-dev/2",
    ]
    assert (page.more, page.count) == (False, 4)
    of_dev = await search.objects(OF_DEV, "kind:Deployment", 100, None)
    assert {hit.service for hit in of_dev.items} == {"web"}
    assert (await search.objects(NOBODY, "kind:Deployment", 100, None)).count == 0


async def test_a_search_needs_a_credential(search: SearchOperations) -> None:
    with pytest.raises(Unauthenticated):
        await search.objects(ANONYMOUS, "kind:Pod", 10, None)
    with pytest.raises(Unauthenticated):
        await search.fleet_map(ANONYMOUS, PageQuery())
    with pytest.raises(Unauthenticated):
        await search.places(ANONYMOUS, "dev")
    with pytest.raises(Unauthenticated):
        await search.changed_since(ANONYMOUS, ResourceKind.CLUSTER, START)
    with pytest.raises(Unauthenticated):
        await search.affected_clusters(ANONYMOUS, [], [])


async def test_a_subscriber_learns_of_the_changes_that_it_missed(
    world: MemoryOperations, search: SearchOperations
) -> None:
    """Also of changes in the minute before, whose transaction was perhaps still open."""
    await world.given(make_cluster("late", pinged_at=LATER))
    for kind, moment, found in (
        (ResourceKind.CLUSTER, START, ["dev", "late", "prod"]),
        (ResourceKind.CLUSTER, START + timedelta(seconds=59), ["dev", "late", "prod"]),
        (ResourceKind.CLUSTER, START + timedelta(seconds=61), ["late"]),
        (ResourceKind.SERVICE, START, [WEB.id, API.id]),
        (ResourceKind.PIPELINE, START, ["p"]),
        (ResourceKind.PIPELINE, LATER, []),
    ):
        assert sorted(await search.changed_since(ADMIN, kind, moment)) == sorted(found)
    assert await search.changed_since(OF_DEV, ResourceKind.CLUSTER, START) == ["dev"]
    assert await search.changed_since(OF_DEV, ResourceKind.SERVICE, START) == [WEB.id]


async def test_after_too_many_changes_a_subscriber_reads_the_list_again(
    world: MemoryOperations, search: SearchOperations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.search.operations.MAX_CHANGES", 2)
    assert len(await search.changed_since(ADMIN, ResourceKind.CLUSTER, START)) == 2
    await world.given(make_cluster("one-more"))
    with pytest.raises(LimitExceeded, match="more than 2 changes: read the list again"):
        await search.changed_since(ADMIN, ResourceKind.CLUSTER, START)


async def test_the_fleet_map_has_the_services_that_the_caller_may_see(
    search: SearchOperations,
) -> None:
    async def handles(actor: Actor, clusters: set[str] | None = None) -> dict[str, int]:
        rows = await search.fleet_map(actor, PageQuery(equals={"deleted_at": ANY}), clusters)
        return {row.handle: len(row.status_codes) for row in rows}

    assert await handles(ADMIN) == {"dev": 1, "prod": 1}
    assert await handles(ADMIN, {"prod"}) == {"prod": 1}
    assert await handles(OF_DEV) == {"dev": 1}
    assert await handles(NOBODY) == {}


async def test_changed_services_concern_their_clusters(search: SearchOperations) -> None:
    assert await search.affected_clusters(ADMIN, [WEB.id, "gone"], ["prod"]) == {"dev", "prod"}
    many = [f"c{number}" for number in range(1_000)]
    assert await search.affected_clusters(ADMIN, [], many) == {*many}
    assert await search.affected_clusters(ADMIN, ["gone"], many) is None
