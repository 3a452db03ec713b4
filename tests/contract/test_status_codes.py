"""The stored status code of a service is that of the model, however the row was written."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest

from controlplane.authorization import Scope
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.parts import column_values
from controlplane.platform.ports import ANY, PageQuery, Store
from controlplane.reports.ports import MetricsSnapshotStore
from controlplane.services.model.service import Service, StatusFields
from controlplane.services.model.status_codes import ServiceStatus, StatusCode, status_codes_of
from controlplane.services.ports import ServiceStore
from core.identity import ClusterId, ServiceId
from core.spec.status import Phase

NOW = datetime(2026, 1, 2, tzinfo=UTC)
VALUES: dict[str, tuple[Any, ...]] = {
    "paused": (False, True),
    "render_error": (None, "", "no"),
    "waiting": (False, True),
    "digest": (None, "sha256:1"),
    "observed_generation": (0, 1),
    "generation": (1,),
    "phase": (None, *Phase),
    "dry_run": (False, True),
}
# These fields matter for applied services only, so each of them gets the phases alone.
APPLIED: dict[str, tuple[Any, ...]] = {
    "phase": (None, *Phase),
    "drifted": (0, 2),
    "pinned_sha": (None, "abc"),
    "promoted": (False, True),
}


def combinations(values: Mapping[str, tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(values, case, strict=True)) for case in product(*values.values())]


IN_SYNC = {"digest": "sha256:1", "observed_generation": 1, "generation": 1}
CASES = combinations(VALUES)
CASES += [IN_SYNC | case for case in combinations(APPLIED)]
Write = Callable[[ServiceStore, Mapping[str, dict[str, Any]]], Awaitable[None]]


async def cluster(store: Store, id: str, **more: object) -> None:
    async with store.write() as tx:
        await tx[ClusterStore].add(replace(Cluster(ClusterId(id), id, id, NOW, NOW), **more))


def service(id: str, cluster_id: str = "c1", **more: Any) -> Service:
    name = f"web-{id}"
    row = Service(ServiceId(id), ClusterId(cluster_id), None, name, "web", NOW, NOW)
    return row.changed(**{"generation": 1, **more})


async def add(rows: ServiceStore, cases: Mapping[str, dict[str, Any]]) -> None:
    for id, case in cases.items():
        await rows.add(service(id, **case))


async def add_each(rows: ServiceStore, cases: Mapping[str, dict[str, Any]]) -> None:
    await rows.add_each([service(id, **case) for id, case in cases.items()])


async def put(rows: ServiceStore, cases: Mapping[str, dict[str, Any]]) -> None:
    await rows.add_each([service(id, phase=Phase.FAILED) for id in cases])
    for id, case in cases.items():
        await rows.put(service(id, **case))


async def change(rows: ServiceStore, cases: Mapping[str, dict[str, Any]]) -> None:
    """Writes one column at a time."""
    await rows.add_each([service(id, waiting=True) for id in cases])
    for id, case in cases.items():
        for name, value in case.items():
            await rows.change(id, **{name: value})


async def change_each(rows: ServiceStore, cases: Mapping[str, dict[str, Any]]) -> None:
    """Writes one column of all rows at a time, and some columns without effect on the status."""
    await rows.add_each([service(id, waiting=True) for id in cases])
    for name in VALUES | APPLIED:
        await rows.change_each(
            {id: {name: case[name]} for id, case in cases.items() if name in case}
        )
    first = next(iter(cases))
    await rows.change_each(dict.fromkeys(cases, {"author": "a"}) | {first: cases[first]})


def test_every_field_of_the_status_has_values_here() -> None:
    """A new field of the status needs its values in VALUES, so that all writers are tried."""
    assert VALUES.keys() | APPLIED.keys() == {field.name for field in fields(StatusFields)}
    assert tuple(StatusCode) == tuple(dict.fromkeys(status_codes_of(ServiceStatus)))


WRITES: dict[str, Write] = {
    "add": add,
    "add_each": add_each,
    "put": put,
    "change": change,
    "change_each": change_each,
}


@pytest.mark.parametrize("name", WRITES)
async def test_the_stored_code_is_the_status_of_the_model(store: Store, name: str) -> None:
    """For every combination of the fields, and every way to write them."""
    await cluster(store, "c1")
    cases = {f"s{number:04}": case for number, case in enumerate(CASES)}
    async with store.write() as tx:
        await WRITES[name](tx[ServiceStore], cases)
    async with store.read() as tx:
        services = {str(one.id): one for one in await tx[ServiceStore].all()}
        stored = await tx[ServiceStore].column("status_code", cases)
    wrong = {
        id: f"{name} stores {stored[id]!r} for {case}, but the model says {code.value!r}"
        for id, case in cases.items()
        if (code := services[id].status_code) != stored[id]
        or stored[id] not in status_codes_of([services[id].status])
    }
    rows = {id: column_values(services[id]) for id in cases}
    assert {id: {key: rows[id][key] for key in case} for id, case in cases.items()} == cases
    assert list(wrong.values()) == []


@pytest.mark.parametrize(
    ("columns", "code", "status"),
    [
        ({"waiting": True}, "O", ServiceStatus.OUT_OF_SYNC),
        ({"generation": 2}, "O", ServiceStatus.OUT_OF_SYNC),
        ({"drifted": 1}, "R", ServiceStatus.DRIFTED),
        ({"pinned_sha": "abc"}, "N", ServiceStatus.PINNED),
    ],
)
async def test_a_state_besides_health_is_that_of_map_lists_and_counts(
    store: Store, columns: dict[str, Any], code: str, status: ServiceStatus
) -> None:
    """As its field `status` says: a healthy last report does not count while it waits."""
    await cluster(store, "c1")
    healthy: dict[str, Any] = {"digest": "d", "observed_generation": 1, "phase": Phase.HEALTHY}
    async with store.write() as tx:
        await tx[ServiceStore].add(service("s1", **healthy))
        await tx[ServiceStore].add(service("s2", **healthy))
        await tx[ServiceStore].change("s2", **columns)
    async with store.read() as tx:
        found = await tx[ServiceStore].get("s2")
        assert found is not None and found.status is status
        (row,) = await tx[ServiceStore].fleet_map(PageQuery())
        assert row.status_codes == f"H{code}"
        filtered = PageQuery(equals={"status_code": status_codes_of([status])})
        assert [one.id for one in (await tx[ServiceStore].page(filtered)).items] == ["s2"]
        counts = (await tx[MetricsSnapshotStore].take(NOW)).services
        assert counts == {"H": 1, code: 1}


async def test_lists_are_filtered_and_counted(store: Store) -> None:
    """By mark, tag and liveness of the cluster; pages go forward and back in one order."""
    await cluster(store, "c1", tags={"env": "prod", 'a"b': "x"}, pinged_at=NOW)
    await cluster(store, "c2", tags={"env": "dev"})
    async with store.write() as tx:
        for number in range(20):
            phase = Phase.HEALTHY if number % 2 else Phase.FAILED
            where = f"c{number % 4 // 2 + 1}"
            one = service(f"s{number:04}", where, digest="d", observed_generation=1, phase=phase)
            await tx[ServiceStore].add(one)
    async with store.read() as tx:
        failed = PageQuery(equals={"status_code": ("F",), "deleted_at": ANY})
        assert [one.id[-2:] for one in (await tx[ServiceStore].page(failed)).items] == [
            f"{n:02}" for n in range(0, 20, 2)
        ]
        prod = PageQuery(first=3, tags=[("env", "prod")])
        assert {one.cluster_id for one in (await tx[ServiceStore].page(prod)).items} == {"c1"}
        assert (await tx[ServiceStore].page(replace(prod, counting=True))).count == 10
        odd = PageQuery(tags=[('a"b', "x")], counting=True)
        assert (await tx[ServiceStore].page(odd)).count == 10
        assert (await tx[ServiceStore].page(replace(odd, tags=[("env", "%")]))).count == 0
        heard = PageQuery(seen_since=NOW)
        assert [one.id for one in (await tx[ClusterStore].page(heard)).items] == ["c1"]
        forward = (await tx[ServiceStore].page(PageQuery(first=7))).items
        last = await tx[ServiceStore].page(PageQuery(first=13, backwards=True))
        assert (*forward, *last.items) == tuple(await tx[ServiceStore].all()) and last.more
        before = PageQuery(first=3, after=forward[5].id, backwards=True)
        assert (await tx[ServiceStore].page(before)).items == forward[2:5]


async def test_a_map_of_a_filter_leaves_out_empty_clusters(store: Store) -> None:
    """Without a filter every cluster is on the map."""
    await cluster(store, "c1")
    await cluster(store, "c2")
    async with store.write() as tx:
        await tx[ServiceStore].add(service("s1", paused=True))
    async with store.read() as tx:
        whole = await tx[ServiceStore].fleet_map(PageQuery())
        narrow = await tx[ServiceStore].fleet_map(PageQuery(equals={"status_code": ("Z",)}))
    assert [(one.id, one.status_codes) for one in whole] == [("c1", "Z"), ("c2", "")]
    assert [one.id for one in narrow] == ["c1"]


async def test_the_fleet_map_shows_services_in_shared_clusters(store: Store) -> None:
    """Their project sees the handle of the cluster, but neither its name nor its tags."""
    await cluster(store, "c1", project_id="platform", tags={"env": "prod"})
    await cluster(store, "c2", project_id="platform")
    async with store.write() as tx:
        await tx[ServiceStore].add(service("s1", "c1", project_id="shop", paused=True))
        await tx[ServiceStore].add(service("s2", "c1", project_id="bank", paused=True))
    async with store.read() as tx:
        of_shop = PageQuery(visible=(frozenset({Scope("project:shop")}),))
        (row,) = await tx[ServiceStore].fleet_map(of_shop)
        assert (row.id, row.name, row.project_id, row.tags) == ("c1", row.handle, None, {})
        assert len(row.status_codes) == 1
        of_platform = PageQuery(visible=(frozenset({Scope("project:platform")}),))
        rows = await tx[ServiceStore].fleet_map(of_platform)
        assert [(row.id, row.status_codes, row.tags) for row in rows] == [
            ("c1", "", {"env": "prod"}),
            ("c2", "", {}),
        ]
