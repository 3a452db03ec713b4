"""The stored letter of a service is what the domain says, however the row was written."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from typing import Any

from controlplane.domain.clusters import Cluster
from controlplane.domain.marks import status_codes_of
from controlplane.domain.services import Phase, Service
from controlplane.ports import ANY, PageQuery
from controlplane.storage.store import SqlStore
from core.identity import ClusterId, ServiceId

NOW = datetime(2026, 1, 2, tzinfo=UTC)
CASES: list[dict[str, Any]] = [
    dict(zip(("paused", "render_error", "digest", "observed", "phase"), case, strict=True))
    for case in product((False, True), (None, "", "no"), (None, "sha256:1"), (0, 1), (None, *Phase))
]


async def cluster(store: SqlStore, id: str, **more: object) -> None:
    async with store.write() as tx:
        await tx.clusters.add(replace(Cluster(ClusterId(id), id, id, NOW, NOW), **more))


def service(number: int, cluster_id: str = "c1", **more: Any) -> Service:
    id, name = ServiceId(f"s{number:04}"), f"web-{number:04}"
    row = Service(id, ClusterId(cluster_id), None, name, "web", NOW, NOW, sequence=1)
    return replace(row, **more)


async def test_the_mark_is_the_status(store: SqlStore) -> None:
    """Inserted, written as a whole, by single columns, by itself and with others: over all that
    decides it."""
    await cluster(store, "c1")
    async with store.write() as tx:
        for number, case in enumerate(CASES):
            if number % 4 == 0:
                await tx.services.add(service(number, **case))
            else:
                await tx.services.add(service(number, phase=Phase.FAILED))
            if number % 4 == 1:
                await tx.services.put(service(number, **case))
            for name, value in case.items() if number % 4 == 2 else ():
                await tx.services.change(f"s{number:04}", **{name: value})
        together = {f"s{n:04}": case for n, case in enumerate(CASES) if n % 4 == 3}
        await tx.services.change_each(together)
    async with store.read() as tx:
        services = await tx.services.select()
        (row,) = await tx.services.fleet_map(PageQuery())
    assert len(row.marks) == len(CASES)
    wrong = [
        (one, letter)
        for one, letter in zip(sorted(services, key=lambda s: s.name), row.marks, strict=True)
        if letter not in status_codes_of([one.status])
        or (letter == "A") != (one.status.value == "STALE" and one.phase is Phase.AWAITING
                               and one.digest is not None and one.observed >= one.sequence)
    ]  # fmt: skip
    assert wrong == []


async def test_lists_are_filtered_and_counted(store: SqlStore) -> None:
    """By mark, tag and liveness of the cluster; pages go forward and back in one order."""
    await cluster(store, "c1", tags={"env": "prod", 'a"b': "x"}, pinged_at=NOW)
    await cluster(store, "c2", tags={"env": "dev"})
    async with store.write() as tx:
        for number in range(20):
            phase = Phase.HEALTHY if number % 2 else Phase.FAILED
            one = service(number, f"c{number % 4 // 2 + 1}", digest="d", observed=1, phase=phase)
            await tx.services.add(one)
    async with store.read() as tx:
        failed = PageQuery(equals={"mark": ("F",), "deleted_at": ANY})
        assert [one.id[-2:] for one in (await tx.services.page(failed)).items] == [
            f"{n:02}" for n in range(0, 20, 2)
        ]
        prod = PageQuery(first=3, tags=[("env", "prod")])
        assert {one.cluster_id for one in (await tx.services.page(prod)).items} == {"c1"}
        assert (await tx.services.page(replace(prod, counting=True))).count == 10
        odd = PageQuery(tags=[('a"b', "x")], counting=True)
        assert (await tx.services.page(odd)).count == 10
        assert (await tx.services.page(replace(odd, tags=[("env", "%")]))).count == 0
        heard = PageQuery(seen_since=NOW)
        assert [one.id for one in (await tx.clusters.page(heard)).items] == ["c1"]
        forward = (await tx.services.page(PageQuery(first=7))).items
        last = await tx.services.page(PageQuery(first=13, backwards=True))
        assert (*forward, *last.items) == tuple(await tx.services.select()) and last.more
        before = PageQuery(first=3, after=forward[5].id, backwards=True)
        assert (await tx.services.page(before)).items == forward[2:5]


async def test_a_map_of_a_filter_leaves_out_empty_clusters(store: SqlStore) -> None:
    """Without a filter every cluster is on the map."""
    await cluster(store, "c1")
    await cluster(store, "c2")
    async with store.write() as tx:
        await tx.services.add(service(1, "c1", paused=True))
    async with store.read() as tx:
        whole = await tx.services.fleet_map(PageQuery())
        narrow = await tx.services.fleet_map(PageQuery(equals={"mark": ("Z",)}))
    assert [(one.id, one.marks) for one in whole] == [("c1", "Z"), ("c2", "")]
    assert [one.id for one in narrow] == ["c1"]
