"""Reads that a transaction on SQLite does not repeat."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import (
    Column,
    Integer,
    MetaData,
    String,
    Table,
    delete,
    insert,
    select,
    text,
    update,
)

from controlplane.clusters.ports import ClusterStore
from controlplane.platform.batch import open_batch
from controlplane.platform.ports import ANY
from controlplane.platform.store.engine import make_engine
from controlplane.platform.store.remembered import RememberedReads, read_key
from controlplane.platform.store.transaction import SqlStore
from controlplane.services.ports import ServiceStore
from controlplane.store.repositories import REPOSITORIES
from core.errors import Conflict
from core.identity import ServiceId
from tests import migrated
from tests.fakes.operations import make_cluster, make_service

TABLES = MetaData()
SERVICES = Table("services", TABLES, Column("id", Integer), Column("name", String))
CLUSTERS = Table("clusters", TABLES, Column("id", Integer))
ASKED = read_key(str, {"name": "web"})


def reads(*, enabled: bool = True) -> RememberedReads:
    made = RememberedReads(enabled=enabled)
    made.store(SERVICES, ASKED, ["web"])
    made.store(CLUSTERS, ASKED, [])
    return made


def test_an_absent_row_is_remembered_and_an_unasked_one_is_unknown() -> None:
    found = reads()
    assert found.get(SERVICES, ASKED) == ["web"]
    assert found.get(CLUSTERS, ASKED) == []
    assert found.get(SERVICES, read_key(str, {"name": "other"})) is None


def test_a_write_forgets_its_own_table() -> None:
    for statement in (insert(SERVICES), update(SERVICES)):
        found = reads()
        found.invalidate(statement)
        assert found.get(SERVICES, ASKED) is None
        assert found.get(CLUSTERS, ASKED) == []


def test_a_deletion_or_unknown_text_forgets_everything() -> None:
    for statement in (delete(SERVICES), text("PRAGMA optimize")):
        found = reads()
        found.invalidate(statement)
        assert found.get(CLUSTERS, ASKED) is None


def test_a_select_forgets_nothing() -> None:
    found = reads()
    found.invalidate(select(SERVICES))
    assert found.get(SERVICES, ASKED) == ["web"]


def test_nothing_is_remembered_where_others_may_write() -> None:
    assert reads(enabled=False).get(SERVICES, ASKED) is None


def test_a_callers_changes_to_a_result_are_not_remembered() -> None:
    found = reads()
    rows = found.get(SERVICES, ASKED)
    assert rows is not None
    rows.clear()
    assert found.get(SERVICES, ASKED) == ["web"]


def test_a_write_of_one_row_forgets_it_and_all_reads_that_it_may_join() -> None:
    found = RememberedReads(enabled=True)
    by_id = {id: read_key(str, {"id": id}) for id in ("a", "b")}
    for id, asked in by_id.items():
        found.store(SERVICES, asked, [id])
    found.store(SERVICES, ASKED, [])
    found.store(SERVICES, read_key(str, {"id": ["a", "b"]}), ["a", "b"])
    found.invalidate(update(SERVICES), "a")
    assert found.get(SERVICES, by_id["a"]) is None
    assert found.get(SERVICES, by_id["b"]) == ["b"]
    assert found.get(SERVICES, ASKED) is None
    assert found.get(SERVICES, read_key(str, {"id": ["a", "b"]})) is None


def test_a_new_row_forgets_the_reads_that_it_matches() -> None:
    found = RememberedReads(enabled=True)
    of_web = read_key(str, {"name": "web", "deleted_at": ANY}, first=True)
    of_other, several = read_key(str, {"name": "api"}), read_key(str, {"name": ["web", "api"]})
    everything, by_id = read_key(str, {}), read_key(str, {"id": "a"})
    listed = read_key(str, {"labels": "x"})
    for asked in (of_web, of_other, several, everything, by_id, listed):
        found.store(SERVICES, asked, [])
    found.invalidate_added(SERVICES, {"id": "a", "name": "web", "deleted_at": None, "labels": {}})
    assert found.get(SERVICES, of_other) == []
    for asked in (of_web, several, everything, by_id, listed):
        assert found.get(SERVICES, asked) is None


def test_an_absent_value_is_known_until_a_row_has_it() -> None:
    found = RememberedReads(enabled=True)
    for id in ("a", "b"):
        found.mark_absent(SERVICES, "cluster", id)
    asked = {id: read_key(str, {"cluster": id, "name": ["x", "y"]}) for id in ("a", "b", "c")}
    assert [found.get(SERVICES, one) for one in asked.values()] == [[], [], None]
    found.invalidate_added(SERVICES, {"id": "1", "cluster": "a"})
    assert [found.get(SERVICES, one) for one in asked.values()] == [None, [], None]
    found.invalidate(update(SERVICES), "2")
    assert found.get(SERVICES, asked["b"]) is None


async def test_later_writes_come_before_other_statements_and_the_commit(tmp_path: Path) -> None:
    store = SqlStore(make_engine(migrated.put_sqlite(tmp_path)), REPOSITORIES)
    dev = make_cluster("dev")
    async with store.write() as tx:
        await tx[ClusterStore].add(dev)
    async with open_batch(store) as batch:
        tx = batch.tx
        services = tx[ServiceStore]
        await services.prefetch_names([("dev", "a"), ("dev", "b"), ("dev", "c")])
        for name in ("a", "b"):
            await services.add(make_service(name, dev))
        assert await services.by_name("dev", "c") is None
        known = await services.by_name("dev", "a")
        assert known is not None
        for name in ("a", "b"):
            await services.put(replace(make_service(name, dev), namespace="other"))
    async with store.read() as tx:
        assert [row.namespace for row in await tx[ServiceStore].all()] == ["other", "other"]
    with pytest.raises(Conflict, match="already exists"):
        async with open_batch(store) as batch:
            await batch.tx[ServiceStore].add(replace(make_service("a", dev), id=ServiceId("twin")))
    async with store.read() as tx:
        assert await tx[ServiceStore].get("twin") is None
    await store.close()


async def test_later_writes_of_several_tables_keep_their_order(tmp_path: Path) -> None:
    """A service needs the cluster that the same batch has added before."""
    store = SqlStore(make_engine(migrated.put_sqlite(tmp_path)), REPOSITORIES)
    async with open_batch(store) as batch:
        for handle in ("a", "b"):
            cluster = make_cluster(handle)
            await batch.tx[ClusterStore].add(cluster)
            await batch.tx[ServiceStore].add(make_service("web", cluster))
            await batch.tx[ServiceStore].put(make_service("web", cluster, ref="main"))
    async with store.read() as tx:
        assert [row.id for row in await tx[ClusterStore].all()] == ["a", "b"]
        services = await tx[ServiceStore].all()
    assert [(row.id, row.spec.ref) for row in services] == [("a-web", "main"), ("b-web", "main")]
    await store.close()


async def test_a_transaction_on_sqlite_reads_its_own_writes_after_a_prefetch(
    tmp_path: Path,
) -> None:
    """Reads by id, by name and of all rows are those of a store without a cache."""
    store = SqlStore(make_engine(migrated.put_sqlite(tmp_path)), REPOSITORIES)
    async with store.write() as tx:
        for handle in ("a", "b"):
            await tx[ClusterStore].add(make_cluster(handle))
    async with store.write() as tx:
        clusters = tx[ClusterStore]
        await clusters.prefetch_each(["a", "b", "c"])
        before = await clusters.get("a")
        assert before is not None
        assert await clusters.get("c") is None
        await clusters.put(replace(before, name="renamed"))
        await clusters.add(make_cluster("c"))
        known = {id: await clusters.get(id) for id in ("a", "b", "c")}
        assert [row and row.name for row in known.values()] == ["renamed", "b", "c"]
        assert [row.name for row in await clusters.by_ids(["a", "b", "c"])] == ["renamed", "b", "c"]
        await clusters.remove("b")
        assert await clusters.get("b") is None
        assert [row.id for row in await clusters.all()] == ["a", "c"]
    await store.close()
