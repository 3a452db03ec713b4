"""The audit trail of both databases: chained, append-only, filtered, cut from its beginning."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from controlplane.audit.model.chains import AuditFilter, AuditKind
from controlplane.audit.operations.audit_log import check_chains
from controlplane.audit.ports import AuditLog
from controlplane.authorization import DEFAULT_PROJECT
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict
from controlplane.platform.ports import PageQuery, Store
from controlplane.platform.store.transaction import SqlStore
from core.identity import ClusterId

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def entry(number: int, action: str = "createCluster") -> AuditEntry:
    detail = {"n": number, "seconds": 0.000012, "deep": {"list": [1, "zwei", None, 1.5]}}
    at = NOW + timedelta(minutes=number)
    return AuditEntry(at, f"user{number % 3}", action, AuditVerdict.ALLOWED, detail=detail)


async def fill(store: Store, rows: int, action: str = "createCluster") -> None:
    async with store.write() as tx:
        await tx[AuditLog].append([entry(number, action) for number in range(rows)])


async def tamper(store: SqlStore, statement: str) -> None:
    async with store._engine.begin() as connection:
        await connection.execute(text(statement))


async def test_rows_of_many_writers_stand_in_one_whole_chain(store: Store) -> None:
    async def write(worker: int) -> None:
        for number in range(5):
            async with store.write() as tx:
                await tx[AuditLog].append([entry(number), entry(worker, "kubernetes.get")])

    await asyncio.gather(*(write(worker) for worker in range(6)))
    assert await check_chains(store) == (60, [])
    async with store.read() as tx:
        ends = {one.kind: one.number for one in await tx[AuditLog].chains()}
    assert ends[AuditKind.CHANGE] == ends[AuditKind.REQUEST] == 30


async def test_many_rows_at_once_are_kept_whole_and_in_order(store: Store) -> None:
    """More than a statement takes, and a rest; what is read again is what was given."""
    await fill(store, 600, "kubernetes.get")
    assert await check_chains(store) == (600, [])
    async with store.read() as tx:
        rows = await tx[AuditLog].behind(AuditKind.REQUEST, 0, 1000)
    plain = [replace(row, id=None, number=0, hash="") for row in rows]
    assert plain == [entry(number, "kubernetes.get") for number in range(600)]


async def test_what_is_rolled_back_leaves_no_gap(store: Store) -> None:
    await fill(store, 2)
    with pytest.raises(ZeroDivisionError):
        async with store.write() as tx:
            await tx[AuditLog].append([entry(9)])
            raise ZeroDivisionError
    await fill(store, 2)
    assert await check_chains(store) == (4, [])


@pytest.mark.parametrize(
    "statement",
    ["UPDATE audit SET actor = 'x' WHERE number = 2", "DELETE FROM audit WHERE number = 2"],
)
async def test_the_database_refuses_to_change_rows(sql_store: SqlStore, statement: str) -> None:
    await fill(sql_store, 3)
    with pytest.raises(DBAPIError, match="audit rows"):
        await tamper(sql_store, statement)
    assert await check_chains(sql_store) == (3, [])


async def test_what_was_changed_past_the_triggers_is_named(sql_store: SqlStore) -> None:
    """Whoever owns the database can drop triggers; the chain tells."""
    await fill(sql_store, 5)
    is_sqlite = sql_store._engine.dialect.name == "sqlite"
    drop = "DROP TRIGGER audit_no_update" if is_sqlite else "DROP TRIGGER audit_no_change ON audit"
    await tamper(sql_store, drop)
    await tamper(sql_store, "UPDATE audit SET actor = 'mallory' WHERE number = 3")
    _, (broken,) = await check_chains(sql_store)
    assert (broken.kind, broken.number) == (AuditKind.CHANGE, 3)
    assert "altered" in broken.text and "mallory" in broken.text


async def test_the_beginning_of_a_chain_goes_and_the_rest_stays_whole(store: Store) -> None:
    await fill(store, 10, "kubernetes.get")
    await fill(store, 3)
    async with store.write() as tx:
        cut = await tx[AuditLog].cut(AuditKind.REQUEST, NOW + timedelta(minutes=4), NOW, 100)
    assert cut == 4
    rows, broken = await check_chains(store)
    assert (rows, broken) == (10, [])  # 6 requests, 3 changes, and the row that tells of the cut.
    async with store.read() as tx:
        page = await tx[AuditLog].search(AuditFilter(action="expireAudit"), PageQuery())
    assert [(one.target, one.detail["rows"]) for one in page.items] == [("request", 4)]


async def test_filters_let_through_what_fits(store: Store) -> None:
    await fill(store, 9)
    refused = replace(
        entry(20, "kubernetes.delete"), verdict=AuditVerdict.REFUSED, target="dev: pods"
    )
    async with store.write() as tx:
        await tx[AuditLog].append([refused])
    hour = timedelta(hours=1)
    counts = {
        AuditFilter(actor="user1"): 3,
        AuditFilter(action="kubernetes.*"): 1,
        AuditFilter(action="createCluster"): 9,
        AuditFilter(target="dev: pods"): 1,
        AuditFilter(verdict=AuditVerdict.REFUSED): 1,
        AuditFilter(kind=AuditKind.CHANGE): 9,
        AuditFilter(since=NOW + timedelta(minutes=2), until=NOW + timedelta(minutes=5)): 3,
        AuditFilter(since=NOW + hour): 0,
    }
    async with store.read() as tx:
        for wanted, count in counts.items():
            page = await tx[AuditLog].search(wanted, PageQuery())
            assert len(page.items) == count, wanted


async def test_a_row_tells_where_its_target_stands_and_what_became_of_it(store: Store) -> None:
    cluster = Cluster(ClusterId("c1"), "dev", "dev", NOW, NOW)
    changed = AuditEntry(NOW, "ada", "updateCluster", AuditVerdict.ALLOWED, target_id="c1")
    async with store.write() as tx:
        await tx[ClusterStore].add(cluster)
        await tx[AuditLog].append([replace(changed, action="createCluster")])
    async with store.write() as tx:
        found = await tx[ClusterStore].get("c1")
        assert found is not None
        await tx[ClusterStore].put(replace(found, name="Dev"))
        await tx[AuditLog].append([changed])
    async with store.read() as tx:
        made, updated = (await tx[AuditLog].search(AuditFilter(cluster_id="c1"), PageQuery())).items
    assert made.project_id == DEFAULT_PROJECT
    assert made.before_digest == "" and len(made.after_digest) == 64
    assert updated.before_digest == made.after_digest != updated.after_digest
