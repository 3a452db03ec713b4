"""Search gives the same on either database: objects by what they are, things by their names."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from sqlalchemy import func

from controlplane.authorization import Scope
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.ports import Store
from controlplane.platform.store.connection import transaction
from controlplane.platform.store.engine import make_engine
from controlplane.platform.store.transaction import SqlStore
from controlplane.search.model import NamedItemKind, parse_search, rank_by_name
from controlplane.search.ports import SearchStore
from controlplane.search.store import SqlSearch
from controlplane.services.model.service import Component, ComponentState, Service
from controlplane.services.ports import ComponentStore, ServiceStore
from core.errors import LimitExceeded
from core.identity import ClusterId, ServiceId

NOW = datetime(2026, 1, 2, tzinfo=UTC)
POD = Component(
    id="", service_id=ServiceId("s1"), cluster_id=ClusterId("c1"), group="", version="v1",
    kind="Pod", namespace="shop", name="", uid="", owner_uid="", state=ComponentState.RUNNING,
    message="", synced=True, images=(), updated_at=NOW,
)  # fmt: skip
COMPONENTS = [
    replace(POD, id="1", name="web-1", uid="u1", owner_uid="u3", images=("apache/log4j:2.16",),
            labels={"app": "web", "tier/x": "a\"b"}),
    replace(POD, id="2", name="db-1", images=("log4j:2.17.1", "nginx"), namespace="data",
            state=ComponentState.FAILED, labels={"app": "db"}),
    replace(POD, id="3", kind="Deployment", group="apps", name="web", uid="u3",
            service_id=ServiceId("s2"), cluster_id=ClusterId("c2")),
    replace(POD, id="4", kind="CronJob", group="batch", version="v1beta1", name="nightly_100%",
            state=None),
]  # fmt: skip


async def fill(store: Store) -> Store:
    async with store.write() as tx:
        for id, service, name in (("c1", "s1", "payments-api"), ("c2", "s2", "shop-front")):
            await tx[ClusterStore].add(
                Cluster(ClusterId(id), f"prod-{id}", id, NOW, NOW, pinged_at=NOW)
            )
            await tx[ServiceStore].add(
                Service(ServiceId(service), ClusterId(id), None, name, "shop", NOW, NOW)
            )
        await tx[ComponentStore].upsert(COMPONENTS)
    return store


@pytest.fixture
async def filled(store: Store) -> Store:
    return await fill(store)


FOUND = {
    "web": "13",
    "kind:pod": "12",
    "kind:Pod ns:data": "2",
    "image:log4j<2.17": "1",
    "image:log4j": "12",
    "image:nothing": "",
    "label:app=web": "1",
    "label:app": "12",
    'label:tier/x=a"b': "",
    "label:a%p": "",
    "owner:web": "1",
    "service:shop-*": "3",
    "cluster:prod-c2": "3",
    "health:failed": "2",
    "health:unknown": "4",
    "health:failed state:unknown": "24",
    "api:apps/v1": "3",
    "deprecated:1.25": "4",
    "deprecated:1.24": "",
    "100%": "4",
    "name:nightly_*": "4",
    "name:nightlyx*": "",
    "kind:Pod kind:Deployment web": "13",
}


async def test_objects(filled: Store) -> None:
    """By every key of the language; what has a meaning in SQL has none here."""
    found = {}
    async with filled.read() as tx:
        for text in FOUND:
            page = await tx[SearchStore].objects(parse_search(text), (), 10, None)
            found[text] = "".join(one.component.id for one in page.items)
            assert (page.more, page.count) == (False, len(found[text]))
    assert found == FOUND


async def test_pages_and_where_things_are(filled: Store) -> None:
    async with filled.read() as tx:
        first = await tx[SearchStore].objects(parse_search("kind:*"), (), 3, None)
        rest = await tx[SearchStore].objects(
            parse_search("kind:*"), (), 3, first.items[-1].component.id
        )
    assert [one.component.id for one in (*first.items, *rest.items)] == list("1234")
    assert (first.more, rest.more, first.count) == (True, False, 4)
    assert [one.service for one in first.items] == ["payments-api", "payments-api", "shop-front"]
    assert {(one.cluster, one.pinged_at) for one in rest.items} == {("prod-c1", NOW)}


async def test_only_what_may_be_seen_is_found(filled: Store) -> None:
    visible = (frozenset({Scope("cluster:c2")}),)
    async with filled.read() as tx:
        page = await tx[SearchStore].objects(parse_search("web"), visible, 10, None)
        places = await tx[SearchStore].places("o", {NamedItemKind.SERVICE: visible})
    assert [one.component.id for one in page.items] == ["3"]
    assert [one.name for one in places] == ["shop-front"]


async def test_any_part_of_a_name_finds_it(filled: Store) -> None:
    """Among many that are alike, it is one of the best five."""
    async with filled.write() as tx:
        for n in range(300):
            one = Service(ServiceId(f"x{n}"), ClusterId("c2"), None, f"web-{n}", "x", NOW, NOW)
            await tx[ServiceStore].add(one)
    async with filled.read() as tx:
        for part in ("payments", "api", "ENTS-A", "payments-api"):
            found = await tx[SearchStore].places(
                part, {NamedItemKind.SERVICE: (), NamedItemKind.CLUSTER: ()}
            )
            names = [(one.name, one.within) for one in rank_by_name(found, part, 5)]
            assert ("payments-api", "prod-c1") in names
        best = {
            "prod-c1/payments-api": "payments-api",
            "c2/front": "shop-front",
            "C1/": "payments-api",
        }
        for part, name in best.items():
            found = await tx[SearchStore].places(part, {NamedItemKind.SERVICE: ()})
            assert rank_by_name(found, part, 5)[0].name == name
        found = await tx[SearchStore].places("none/payments", {NamedItemKind.SERVICE: ()})
        assert found == []


@pytest.mark.parametrize("migrated_url", ["postgres"], indirect=True)
async def test_the_planner_is_held_to_indexes_for_one_statement_alone(
    migrated_url: str, sql_store: SqlStore
) -> None:
    """Else it reads all objects for words that few have; the connection serves others after."""
    await fill(sql_store)
    engine = make_engine(migrated_url)
    is_held = func.current_setting("enable_seqscan") == "off"
    async with transaction(engine, read_only=True) as connection:
        search = SqlSearch(connection)
        assert await search._limited_ids(is_held, by_indexes=True) == list("1234")
        assert await search._limited_ids(is_held, by_indexes=False) == []
    await engine.dispose()


async def test_a_search_with_too_many_images_is_refused_and_not_cut(filled: Store) -> None:
    """Results that lack some of the matches would look complete."""
    many = tuple(f"apache/log4j:3.{number}" for number in range(2_001))
    async with filled.write() as tx:
        await tx[ComponentStore].upsert([replace(COMPONENTS[0], id="5", images=many)])
    async with filled.read() as tx:
        with pytest.raises(LimitExceeded, match="more than 2,000 images"):
            await tx[SearchStore].objects(parse_search("image:log4j"), (), 10, None)
