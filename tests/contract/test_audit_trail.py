"""The audit trail of both databases: chained, append-only, filtered, cut from its beginning."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from controlplane.access.model.bindings import Binding, SubjectKind
from controlplane.access.ports import RoleBindingStore
from controlplane.audit.model.chains import AuditFilter, AuditKind
from controlplane.audit.operations.audit_log import check_chains
from controlplane.audit.ports import AuditLog
from controlplane.authorization import DEFAULT_PROJECT, Scope
from controlplane.authorization.roles import VIEWER
from controlplane.cluster_sources.model.source import ClusterSource
from controlplane.cluster_sources.ports import ClusterSourceStore
from controlplane.clusters.model.bootstrap_tokens import BootstrapToken
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.ports import BootstrapTokenStore, ClusterGroupStore, ClusterStore
from controlplane.configuration.model.contexts import ServiceContext
from controlplane.configuration.ports import ContextStore
from controlplane.pipelines.model.records import PipelineGate, PipelineRecord
from controlplane.pipelines.ports import PipelineGateStore, PipelineStore
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict
from controlplane.platform.ports import PageQuery, Store, Transaction
from controlplane.platform.store.transaction import SqlStore
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.ports import RepositoryStore
from controlplane.secrets.model.secret import Secret
from controlplane.secrets.ports import SecretStore
from controlplane.services.model.quarantine import DeniedRevision
from controlplane.services.model.service import Service
from controlplane.services.ports import DeniedRevisionStore, ServiceStore
from core.errors import Unavailable
from core.identity import ClusterId, RepositoryId, ServiceId
from tests.fakes.audit_rows import audit_rows

_OF_3 = "block_id = (SELECT id FROM audit_blocks WHERE last_number = 3)"
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


async def drop_triggers(store: SqlStore) -> None:
    """The owner of the database can do that."""
    if store._engine.dialect.name == "sqlite":
        names = ("audit_no_update", "audit_no_delete", "audit_terms_no_update")
        drops = [f"DROP TRIGGER {name}" for name in (*names, "audit_terms_no_delete")]
    else:
        tables = {"audit": "audit_blocks", "audit_terms": "audit_terms"}
        drops = [f"DROP TRIGGER {name}_no_change ON {on}" for name, on in tables.items()]
    for drop in drops:
        await tamper(store, drop)


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
        rows = await tx[AuditLog].rows_after(AuditKind.REQUEST, 0, 1000)
    plain = [replace(row, id=None, number=0, hash="") for row in rows]
    assert plain == [entry(number, "kubernetes.get") for number in range(600)]


async def test_a_rolled_back_transaction_leaves_no_gap_in_the_chain(store: Store) -> None:
    await fill(store, 2)
    with pytest.raises(ZeroDivisionError):
        async with store.write() as tx:
            await tx[AuditLog].append([entry(9)])
            raise ZeroDivisionError
    await fill(store, 2)
    assert await check_chains(store) == (4, [])


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_blocks SET hash = 'x'",
        "DELETE FROM audit_blocks",
        "UPDATE audit_terms SET value = 'x'",
        "DELETE FROM audit_terms",
    ],
)
async def test_the_database_refuses_to_change_rows(sql_store: SqlStore, statement: str) -> None:
    await fill(sql_store, 3)
    with pytest.raises(DBAPIError, match="audit rows"):
        await tamper(sql_store, statement)
    assert await check_chains(sql_store) == (3, [])


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("UPDATE audit_blocks SET hash = previous_hash WHERE last_number = 3", "altered"),
        (
            "UPDATE audit_blocks SET packed = "
            "(SELECT packed FROM audit_blocks WHERE last_number = 2) WHERE last_number = 3",
            "altered",
        ),
        (f"UPDATE audit_terms SET value = 'mallory' WHERE field = 'actor' AND {_OF_3}", "altered"),
        (f"DELETE FROM audit_terms WHERE field = 'action' AND {_OF_3}", "altered"),
        ("DELETE FROM audit_blocks WHERE last_number = 3", "missing"),
        ("DELETE FROM audit_blocks WHERE last_number >= 3", "missing, and all up to 5"),
    ],
)
async def test_the_chain_check_names_rows_that_bypassed_the_triggers(
    sql_store: SqlStore, statement: str, found: str
) -> None:
    """The owner of the database can drop triggers; the chain shows it."""
    await fill(sql_store, 5)
    await drop_triggers(sql_store)
    await tamper(sql_store, statement)
    _, (broken,) = await check_chains(sql_store)
    assert (broken.kind, broken.number) == (AuditKind.CHANGE, 3)
    assert found in broken.text


async def test_a_damaged_block_is_an_error_of_a_search(sql_store: SqlStore) -> None:
    """A search that cannot read rows says so, and does not leave them out."""
    await fill(sql_store, 5)
    await drop_triggers(sql_store)
    is_sqlite = sql_store._engine.dialect.name == "sqlite"
    other = "x'00'" if is_sqlite else "'\\x00'::bytea"
    await tamper(sql_store, f"UPDATE audit_blocks SET packed = {other} WHERE last_number = 3")
    with pytest.raises(Unavailable, match="change rows 3 to 3"):
        async with sql_store.read() as tx:
            await tx[AuditLog].search(AuditFilter(), PageQuery())


class BusyStore:
    """A store to which others write while a transaction reads: once after its first read of a kind.

    `after` is the method of the audit log after which they do.
    """

    def __init__(self, store: Store, after: str, write: Callable[[], Awaitable[object]]) -> None:
        self._store, self._after, self._write = store, after, write

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[Transaction]:
        async with self._store.read() as tx:
            yield cast(Transaction, {AuditLog: _BusyLog(tx[AuditLog], self._after, self._write)})

    def write(self) -> AbstractAsyncContextManager[Transaction]:
        return self._store.write()


class _BusyLog:
    def __init__(self, log: AuditLog, after: str, write: Callable[[], Awaitable[object]]) -> None:
        self._log, self._after, self._write = log, after, write
        self._is_done = False

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: object) -> Any:
            result = await getattr(self._log, name)(*arguments)
            if name == self._after and not self._is_done:
                self._is_done = True
                await self._write()
            return result

        return call


@pytest.mark.parametrize("after", ["chains", "blocks"])
async def test_rows_written_during_a_check_break_no_chain(sql_store: SqlStore, after: str) -> None:
    """PostgreSQL shows each statement of a check the newest rows."""
    await fill(sql_store, 5)
    busy = BusyStore(sql_store, after, lambda: fill(sql_store, 2))
    rows, broken = await check_chains(busy)
    assert (rows in (5, 7), broken) == (True, [])


async def test_rows_that_expire_during_a_check_break_no_chain(sql_store: SqlStore) -> None:
    await fill(sql_store, 5)

    async def cut() -> None:
        async with sql_store.write() as tx:
            await tx[AuditLog].cut(AuditKind.CHANGE, NOW + timedelta(minutes=2), NOW, 100)

    assert (await check_chains(BusyStore(sql_store, "chains", cut)))[1] == []


async def test_a_row_after_the_recorded_end_of_a_chain_is_found(sql_store: SqlStore) -> None:
    await fill(sql_store, 5)
    await drop_triggers(sql_store)
    await tamper(sql_store, "UPDATE audit_chains SET number = 4 WHERE kind = 'change'")
    (broken,) = (await check_chains(sql_store))[1]
    assert (broken.number, "recorded end" in broken.text) == (5, True)


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


PLACED: Mapping[type[Any], Any] = {
    ClusterStore: Cluster(ClusterId("c1"), "dev", "dev", NOW, NOW),
    ServiceStore: Service(ServiceId("s1"), ClusterId("c1"), None, "web", "shop", NOW, NOW),
    RepositoryStore: Repository(RepositoryId("r1"), "https://git.example.org/r", NOW, NOW),
    SecretStore: Secret("k1", "password", NOW, NOW),
    ContextStore: ServiceContext("x1", "base", NOW, NOW),
    BootstrapTokenStore: BootstrapToken("b1", "edge", "hash", "ada", NOW, NOW),
    ClusterGroupStore: ClusterGroup("g1", "all", NOW, NOW, project_id=DEFAULT_PROJECT),
    ClusterSourceStore: ClusterSource("cs1", "capi", NOW, NOW),
    DeniedRevisionStore: DeniedRevision.of("a1b2", DEFAULT_PROJECT, "ada", "bad", NOW),
}
OF_CLUSTER, OF_PROJECT = ("c1", DEFAULT_PROJECT), ("", DEFAULT_PROJECT)


async def places(store: Store, *entries: AuditEntry) -> list[tuple[str, str]]:
    """Appends entries, and returns cluster and project of each."""
    async with store.write() as tx:
        await tx[AuditLog].append(entries)
    async with store.read() as tx:
        return [(row.cluster_id, row.project_id) for row in await audit_rows(tx)][-len(entries) :]


async def test_administrators_of_a_project_see_changes_to_all_kinds_of_its_rows(
    store: Store,
) -> None:
    async with store.write() as tx:
        for port, row in PLACED.items():
            await tx[port].add(row)
            await tx[AuditLog].append([replace(entry(0), target_id=row.id)])
    async with store.read() as tx:
        rows = {row.target_id: (row.cluster_id, row.project_id) for row in await audit_rows(tx)}
    assert rows == {"c1": OF_CLUSTER, "s1": OF_CLUSTER} | dict.fromkeys(
        ("r1", "k1", "x1", "b1", "g1", "cs1", f"{DEFAULT_PROJECT}:a1b2"), OF_PROJECT
    )


async def test_the_place_of_a_target_is_found_without_a_change_to_it(store: Store) -> None:
    """Denied calls and requests for work write no row of their target."""
    async with store.write() as tx:
        for port, row in PLACED.items():
            await tx[port].add(row)
        await tx[PipelineStore].add(PipelineRecord("p1", "release", NOW, NOW))
        await tx[PipelineGateStore].add(PipelineGate("p1/1", "p1"))
    targets = (*(row.id for row in PLACED.values()), "p1/1", DEFAULT_PROJECT, "none", "")
    assert await places(store, *(replace(entry(0), target_id=id) for id in targets)) == [
        *(OF_CLUSTER, OF_CLUSTER, *[OF_PROJECT] * (len(PLACED) - 2)),
        *(OF_PROJECT, OF_PROJECT, ("", ""), ("", "")),
    ]
    own = replace(entry(0), target_id="s1", cluster_id="c9")
    of_project = replace(entry(0), target_id="s1", project_id="p9")
    assert await places(store, own, of_project) == [("c9", DEFAULT_PROJECT), ("c1", "p9")]


@pytest.mark.parametrize(
    ("scope", "place"),
    [
        (f"project:{DEFAULT_PROJECT}", OF_PROJECT),
        ("cluster:c1", OF_CLUSTER),
        ("service:s1", OF_CLUSTER),
        ("installation", ("", "")),
    ],
)
async def test_a_role_binding_has_the_place_of_its_scope(
    store: Store, scope: str, place: tuple[str, str]
) -> None:
    async with store.write() as tx:
        for port in (ClusterStore, ServiceStore):
            await tx[port].add(PLACED[port])
        binding = Binding("rb", VIEWER.id, SubjectKind.USER, "u1", Scope(scope), NOW)
        await tx[RoleBindingStore].add(binding)
        await tx[AuditLog].append([replace(entry(0, "createRoleBinding"), target_id="rb")])
    await places(store, replace(entry(0), target_id="rb"))
    async with store.write() as tx:
        await tx[RoleBindingStore].lock(["rb"])
        await tx[RoleBindingStore].remove("rb")
        await tx[AuditLog].append([replace(entry(0, "deleteRoleBinding"), target_id="rb")])
    async with store.read() as tx:
        assert [(row.cluster_id, row.project_id) for row in await audit_rows(tx)] == [place] * 3


async def test_blocks_of_many_rows_are_searched_as_rows(store: Store) -> None:
    """Every filter and both orders, page by page, over blocks of one row and of hundreds."""
    rows = [_mixed(number) for number in range(1300)]
    for start, end in ((0, 1), (1, 700), (700, 702), (702, 1300)):
        async with store.write() as tx:
            await tx[AuditLog].append(rows[start:end])
    scopes = (frozenset({Scope("cluster:c1"), Scope("project:p2")}), frozenset({Scope("x:y")}))
    for number, (filter, query, matches) in enumerate(
        [
            (AuditFilter(), PageQuery(), lambda row: True),
            (AuditFilter(actor="user3"), PageQuery(), lambda row: row.actor == "user3"),
            (AuditFilter(target="t7"), PageQuery(), lambda row: row.target == "t7"),
            (AuditFilter(cluster_id="c1"), PageQuery(), lambda row: row.cluster_id == "c1"),
            (
                AuditFilter(actor="user3", verdict=AuditVerdict.REFUSED, action="kubernetes.*"),
                PageQuery(),
                lambda row: row.actor == "user3" and row.verdict is AuditVerdict.REFUSED,
            ),
            (
                AuditFilter(since=rows[600].at, until=rows[720].at, action="kubernetes.get"),
                PageQuery(),
                lambda row: rows[600].at <= row.at < rows[720].at,
            ),
            (AuditFilter(), PageQuery(text="USER4"), lambda row: row.actor == "user4"),
            (AuditFilter(), PageQuery(text="user_"), lambda row: False),
            (
                AuditFilter(),
                PageQuery(visible=scopes[:1]),
                lambda row: row.cluster_id == "c1" or row.project_id == "p2",
            ),
            (AuditFilter(), PageQuery(visible=scopes), lambda row: False),
        ]
    ):
        expected = [row.detail["n"] for row in rows if matches(row)]
        for newest in (False, True):
            found = await _paged(store, filter, replace(query, first=99, newest=newest))
            assert found == (expected[::-1] if newest else expected), number
    assert await check_chains(store) == (1300, [])


def _mixed(number: int) -> AuditEntry:
    return AuditEntry(
        NOW + timedelta(milliseconds=number),
        f"user{number % 5}",
        "kubernetes.get",
        AuditVerdict.REFUSED if number % 7 == 0 else AuditVerdict.ALLOWED,
        target=f"t{number % 11}",
        detail={"n": number},
        cluster_id=f"c{number % 3}",
        project_id=f"p{number % 4}",
    )


async def _paged(store: Store, filter: AuditFilter, query: PageQuery) -> list[object]:
    """Results of a search, page by page."""
    numbers: list[object] = []
    more = True
    while more:
        async with store.read() as tx:
            page = await tx[AuditLog].search(filter, query)
        numbers += [row.detail["n"] for row in page.items]
        more = page.more
        query = replace(query, after=str(page.items[-1].id) if page.items else None)
    return numbers


async def test_rows_within_a_minute_go_together(store: Store) -> None:
    """Retention deletes a block with its last row, so that it is late by at most a minute."""
    rows = [replace(entry(0, "kubernetes.get"), at=NOW + timedelta(seconds=n)) for n in range(90)]
    async with store.write() as tx:
        await tx[AuditLog].append(rows)
    for seconds, gone in ((59, 0), (60, 60), (89, 0), (90, 30)):
        async with store.write() as tx:
            until = NOW + timedelta(seconds=seconds)
            assert await tx[AuditLog].cut(AuditKind.REQUEST, until, NOW, 1000) == gone
    async with store.read() as tx:
        page = await tx[AuditLog].search(AuditFilter(action="kubernetes.*"), PageQuery())
    assert page.items == ()


async def test_a_chain_is_read_from_the_middle_of_a_block(store: Store) -> None:
    async with store.write() as tx:
        await tx[AuditLog].append([_mixed(number) for number in range(600)])
    async with store.read() as tx:
        rows = await tx[AuditLog].rows_after(AuditKind.REQUEST, 500, 50)
    assert [row.number for row in rows] == list(range(501, 551))
