"""Contract of every store."""

import asyncio
import subprocess
import sys
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.jobs import LEASE, Job
from controlplane.platform.parts import column_values
from controlplane.platform.ports import ANY, JobStore, PageQuery, Rows, Store
from controlplane.platform.store.engine import make_engine
from controlplane.platform.store.transaction import SqlStore
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.render_state import RenderState
from controlplane.services.model.service import Component, ComponentState, Service
from controlplane.services.ports import ComponentStore, LedgerStore, RenderStateStore, ServiceStore
from controlplane.store import migrations
from controlplane.store.migrate import known_revisions, migrate, revisions
from controlplane.store.repositories import REPOSITORIES
from core.errors import Conflict, Invalid
from core.identity import ClusterId, RepositoryId, ServiceId
from core.spec.objects import ObjectRef
from core.spec.source import Commit
from core.spec.status import Phase, Problem
from core.spec.sync import SyncOptions
from tests.fakes.operations import make_cluster

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def a_cluster(number: int = 1) -> Cluster:
    return Cluster(
        ClusterId(f"cluster-{number:04}"), f"c{number}", f"Cluster {number}", NOW, NOW,
        tags={"region": "eu"}, metadata={"deep": {"list": [1, "two", None]}},
    )  # fmt: skip


def a_service(number: int = 1, cluster: int = 1) -> Service:
    return Service(
        ServiceId(f"service-{number:04}"), ClusterId(f"cluster-{cluster:04}"), None,
        f"s{number}", "shop", NOW, NOW,
    )  # fmt: skip


async def test_rows_are_written_together_each_with_its_own_columns(store: Store) -> None:
    """Lists, times and nothing at all come back as they were given; others stay as they were."""
    problem = Problem("no such image", source="Failed")
    changes = {
        "service-0001": {"problems": (problem,), "observed_generation": 7, "observed_at": NOW},
        "service-0002": {"problems": (), "observed_generation": 8, "observed_at": None},
        "service-0003": {"message": "waits"},
        "service-0009": {"message": "is not there"},
    }
    async with store.write() as tx:
        await tx[ClusterStore].add(a_cluster())
        for number in range(1, 5):
            await tx[ServiceStore].add(a_service(number))
        await tx[ServiceStore].change_each(changes)
        await tx[ServiceStore].change_each({})
        found = await tx[ServiceStore].all()
    expected = [a_service(n).changed(**changes.get(f"service-{n:04}", {})) for n in range(1, 5)]
    assert found == expected


async def test_render_state_has_the_fields_of_the_service(store: Store) -> None:
    """The narrow view of a service has the fields of the service, and none of a deleted one."""
    made = a_service().changed(ref="v1", folder="web", reads={"web": "1" * 40}, pinned_sha="2" * 40)
    gone = replace(a_service(2), deleted_at=NOW)
    async with store.write() as tx:
        await tx[ClusterStore].add(a_cluster())
        for one in (made, gone):
            await tx[ServiceStore].add(one)
        (seen,) = await tx[RenderStateStore].select(cluster_id=made.cluster_id)
    assert asdict(seen) == {
        field.name: column_values(made)[field.name] for field in fields(RenderState)
    }


async def test_values_come_back_as_they_were_put(store: Store) -> None:
    """Times with microseconds and zone, nested JSON, enums and tuples survive."""
    service = Service(
        ServiceId("s"),
        ClusterId("cluster-0001"),
        None,
        "web",
        "shop",
        NOW,
        NOW,
    ).changed(
        configuration={"key": "välue"},
        options=SyncOptions(create_namespace=False, namespace_labels={"a": "b"}),
        phase=Phase.DEGRADED,
        problems=(Problem("no"),),
        reads={"apps/web": "abc"},
    )
    repository = Repository(
        RepositoryId("r"), "https://example.org/x.git", NOW, NOW,
        sealed=b"\x00\xff", commits={"main": Commit("c" * 40, "Ada", "Begin", NOW)},
    )  # fmt: skip
    async with store.write() as tx:
        await tx[ClusterStore].add(a_cluster())
        await tx[ServiceStore].add(service)
        await tx[RepositoryStore].add(repository)
    async with store.read() as tx:
        assert await tx[ClusterStore].get("cluster-0001") == a_cluster()
        assert await tx[ServiceStore].get("s") == service
        assert await tx[RepositoryStore].get("r") == repository


async def test_a_block_that_raises_leaves_nothing(store: Store) -> None:
    """A transaction is kept or dropped as a whole."""
    with pytest.raises(RuntimeError):
        async with store.write() as tx:
            await tx[ClusterStore].add(a_cluster())
            raise RuntimeError
    async with store.read() as tx:
        assert await tx[ClusterStore].all() == []


async def test_a_taken_name_is_a_conflict(store: Store) -> None:
    """Handles are unique among clusters that exist; a deleted one gives its handle free."""
    async with store.write() as tx:
        await tx[ClusterStore].add(a_cluster())
    again = Cluster(ClusterId("other"), "c1", "Other", NOW, NOW)
    with pytest.raises(Conflict, match="cluster already exists"):
        async with store.write() as tx:
            await tx[ClusterStore].add(again)
    async with store.write() as tx:
        await tx[ClusterStore].delete("cluster-0001", NOW)
        await tx[ClusterStore].add(again)
    async with store.read() as tx:
        assert (await tx[ClusterStore].by_handle("c1")) == again


async def test_a_taken_name_is_a_conflict_among_many_rows_as_well(store: Store) -> None:
    async with store.write() as tx:
        await tx[ClusterStore].add_each([a_cluster(1), a_cluster(2)])
    with pytest.raises(Conflict, match="cluster already exists"):
        async with store.write() as tx:
            await tx[ClusterStore].add_each([a_cluster(3), replace(a_cluster(4), handle="c2")])
    taken = {str(a_cluster(1).id): {"handle": a_cluster(2).handle}}
    with pytest.raises(Conflict, match="cluster already exists"):
        async with store.write() as tx:
            await tx[ClusterStore].change_each(taken)


async def test_a_read_only_transaction_refuses_to_write(store: Store) -> None:
    with pytest.raises(RuntimeError, match="read-only"):
        async with store.read() as tx:
            await tx[ClusterStore].add(a_cluster())
    async with store.read() as tx:
        assert await tx[ClusterStore].all() == []


async def test_deleted_rows_are_absent_unless_asked_for(store: Store) -> None:
    """`deleted_at=ANY` finds what every other question passes over."""
    async with store.write() as tx:
        await tx[ClusterStore].add(a_cluster())
        await tx[ClusterStore].delete("cluster-0001", NOW)
    async with store.read() as tx:
        assert await tx[ClusterStore].get("cluster-0001") is None
        assert await tx[ClusterStore].all() == []
        assert len(await tx[ClusterStore].select(deleted_at=ANY)) == 1


async def test_pages_join_to_the_whole(store: Store) -> None:
    """Following cursors gives each row once, both ways round, with filters and text."""
    async with store.write() as tx:
        for number in range(1, 8):
            await tx[ClusterStore].add(a_cluster(number))
    for newest in (False, True):
        seen: list[str] = []
        after = None
        while True:
            async with store.read() as tx:
                page = await tx[ClusterStore].page(PageQuery(3, after, newest=newest))
            seen += [row.handle for row in page.items]
            after = page.items[-1].id
            if not page.more:
                break
        expected = [f"c{number}" for number in range(1, 8)]
        assert seen == (expected[::-1] if newest else expected)
    async with store.read() as tx:
        found = await tx[ClusterStore].page(PageQuery(text="LUSTER 7"))
        wild = await tx[ClusterStore].page(PageQuery(text="%"))
    assert [row.handle for row in found.items] == ["c7"]
    assert wild.items == ()


async def test_a_text_is_found_in_any_case_of_any_letters(postgres_store_url: str) -> None:
    """SQLite knows the case of ASCII letters only."""
    engine = make_engine(postgres_store_url)
    store = SqlStore(engine, REPOSITORIES)
    async with store.write() as tx:
        await tx[ClusterStore].add(replace(make_cluster("eu"), name="Zürich EU"))
    async with store.read() as tx:
        for text, count in (("zürich", 1), ("ÜRICH", 1), ("RICH eu", 1), ("zurich", 0)):
            found = await tx[ClusterStore].page(PageQuery(text=text))
            assert len(found.items) == count, text
    await engine.dispose()


async def test_pages_by_name_join_to_the_whole(store: Store) -> None:
    """Rows of one name stand in the order of their ids; both ways round, and with a filter."""
    names = ["web", "api", "web", "db", "api", "web", "cache"]
    async with store.write() as tx:
        for number, name in enumerate(names):
            await tx[ClusterStore].add(a_cluster(number))
            await tx[ServiceStore].add(replace(a_service(number, number), name=name))
    wanted = sorted((name, f"service-{n:04}") for n, name in enumerate(names))
    for backwards in (False, True):
        seen: list[tuple[str, str]] = []
        query = PageQuery(2, order="name", backwards=backwards)
        more = True
        while more:
            async with store.read() as tx:
                page = await tx[ServiceStore].page(query)
            found = [(row.name, row.id) for row in page.items]
            seen = [*found, *seen] if backwards else [*seen, *found]
            query = replace(query, after=found[0 if backwards else -1][1])
            more = page.more
        assert seen == wanted
    async with store.write() as tx:
        await tx[ServiceStore].remove("service-0003")
    with pytest.raises(Invalid, match="start again"):
        async with store.read() as tx:
            await tx[ServiceStore].page(PageQuery(2, "service-0003", order="name"))


async def test_one_column_is_read_of_rows_that_are_there(store: Store) -> None:
    """With more rows than one statement takes, and with none."""
    many = [a_cluster(number) for number in range(1, 603)]
    async with store.write() as tx:
        await tx[ClusterStore].add_each([replace(one, alarm=one.handle) for one in many])
        await tx[ClusterStore].delete(many[0].id, NOW)
    async with store.read() as tx:
        found = await tx[ClusterStore].column("alarm", [*(one.id for one in many), "never"])
        assert found == {one.id: one.handle for one in many[1:]}
        assert await tx[ClusterStore].column("alarm", ()) == {}
        assert await tx[ClusterStore].column("alarm") == found


async def test_a_cursor_of_another_list_is_invalid(store: Store) -> None:
    """A ledger cursor is a number; anything else gets a clear error, not a crash."""
    with pytest.raises(Invalid, match="cursor"):
        async with store.read() as tx:
            await tx[LedgerStore].page(PageQuery(after="nonsense"))


@pytest.mark.parametrize(("port", "order"), [(LedgerStore, "id"), (ClusterStore, "handle")])
@pytest.mark.parametrize(("backwards", "argument"), [(False, "after"), (True, "before")])
async def test_an_error_about_a_cursor_names_its_argument(
    store: Store, port: type[Rows[Any]], order: str, backwards: bool, argument: str
) -> None:
    with pytest.raises(Invalid) as error:
        async with store.read() as tx:
            await tx[port].page(PageQuery(after="nonsense", backwards=backwards, order=order))
    assert error.value.field == argument


async def test_ledger_numbers_its_entries_in_order(store: Store) -> None:
    """Entries come back in the order of appending, with rising ids."""
    entries = [
        LedgerEntry("s", "c", stage, NOW, detail={"n": 1}) for stage in list(LedgerStage)[:5]
    ]
    async with store.write() as tx:
        await tx[LedgerStore].append(entries)
        await tx[LedgerStore].append([])
    async with store.read() as tx:
        rows = await tx[LedgerStore].select(service_id="s")
    assert [row.stage for row in rows] == [entry.stage for entry in entries]
    ids = [row.id for row in rows if row.id is not None]
    assert len(ids) == len(rows)
    assert ids == sorted(set(ids))


async def test_inventory_is_replaced_by_id(store: Store) -> None:
    """Upserting the same component twice keeps one row with the newest values."""
    component = Component(
        "id", ServiceId("s"), ClusterId("c"), "apps", "v1", "Deployment", "shop", "web", "u", "",
        ComponentState.PENDING, "", False, ("nginx",), NOW,
    )  # fmt: skip
    healthy = Component(
        "id", ServiceId("s"), ClusterId("c"), "apps", "v1", "Deployment", "shop", "web", "u", "",
        ComponentState.RUNNING, "", True, ("nginx", "b"), NOW,
    )  # fmt: skip
    async with store.write() as tx:
        await tx[ComponentStore].upsert([component])
        await tx[ComponentStore].upsert([healthy])
        await tx[ComponentStore].upsert([])
    async with store.read() as tx:
        assert await tx[ComponentStore].of_services("s") == [healthy]
        deployment = ObjectRef("apps", "", "Deployment", "shop", "web")
        assert await tx[ComponentStore].objects("s") == {"id": deployment}
        assert await tx[ComponentStore].objects("other") == {}
        assert await tx[ComponentStore].component_ids({"s", "other"}) == {"s": {"id"}}
        assert await tx[ComponentStore].component_ids(()) == {}
    async with store.write() as tx:
        await tx[ComponentStore].forget(["id"])
    async with store.read() as tx:
        assert await tx[ComponentStore].all() == []


async def test_a_job_is_claimed_once_until_its_lease_ends(store: Store) -> None:
    """Claims are leases; the fence refuses a holder whose lease has passed on."""
    async with store.write() as tx:
        await tx[JobStore].enqueue(Job("j", "kind", "key", NOW, {"a": 1}))
        await tx[JobStore].enqueue(Job("j2", "kind", "later", NOW + timedelta(hours=1)))
    async with store.write() as tx:
        (first,) = await tx[JobStore].claim(["kind"], "one", NOW, 10)
        assert await tx[JobStore].claim(["kind"], "two", NOW, 10) == []
        assert await tx[JobStore].claim(["kind"], "two", NOW + LEASE, 10) == []
    late = NOW + LEASE + timedelta(seconds=1)
    async with store.write() as tx:
        (second,) = await tx[JobStore].claim(["kind"], "two", late, 10)
        assert second.fence == first.fence + 1
        assert not await tx[JobStore].finish(first)
        assert not await tx[JobStore].retry(first, late, "no")
        assert await tx[JobStore].finish(second)
        assert await tx[JobStore].next_due(["kind"]) == NOW + timedelta(hours=1)
        assert await tx[JobStore].next_due(["another kind"]) is None


async def test_a_running_job_keeps_its_lease(store: Store) -> None:
    """A holder whose lease has passed on renews nothing, and no waiting job gets a lease."""
    half = LEASE / 2
    async with store.write() as tx:
        jobs = tx[JobStore]
        await jobs.enqueue(Job("j", "kind", "key", NOW))
        (first,) = await jobs.claim(["kind"], "one", NOW, 10)
        assert await jobs.renew(first, NOW + half)
        assert await jobs.claim(["kind"], "two", NOW + half + LEASE, 10) == []
        (second,) = await jobs.claim(["kind"], "two", NOW + 2 * LEASE, 10)
        assert not await jobs.renew(first, NOW + 3 * LEASE)
        assert await jobs.next_due(["kind"]) == NOW + 3 * LEASE
        assert await jobs.retry(second, NOW + 2 * LEASE, "no connection")
        assert not await jobs.renew(second, NOW + 2 * LEASE)
        assert await jobs.next_due(["kind"]) == NOW + 2 * LEASE
        (third,) = await jobs.claim(["kind"], "one", NOW + 2 * LEASE, 10)
        assert await jobs.finish(third)
        assert not await jobs.renew(third, NOW + 2 * LEASE)


async def test_a_failed_job_waits_for_its_next_time_with_its_error(store: Store) -> None:
    """Jobs beside it, of the same worker, stay as they are."""
    minute = timedelta(minutes=1)
    async with store.write() as tx:
        for id in ("failed", "running"):
            await tx[JobStore].enqueue(Job(id, "kind", id, NOW, {"id": id}))
        claimed = await tx[JobStore].claim(["kind"], "one", NOW, 10)
        failed, running = sorted(claimed, key=lambda job: job.id)
        assert await tx[JobStore].retry(failed, NOW + minute / 2, "no connection")
        assert not await tx[JobStore].retry(replace(running, fence=0), NOW, "stale")
    async with store.write() as tx:
        jobs = tx[JobStore]
        assert await jobs.next_due(["kind"]) == NOW + minute / 2
        assert await jobs.claim(["kind"], "two", NOW + minute / 2 - timedelta.resolution, 10) == []
        assert await jobs.claim(["kind"], "two", NOW + minute / 2, 10) == [
            replace(failed, run_at=NOW + minute / 2, attempts=2, fence=2, error="no connection")
        ]
        assert not await jobs.finish(failed)
        assert await jobs.finish(running)


async def test_the_same_key_is_the_same_job(store: Store) -> None:
    """A second request moves the job instead of doubling it."""
    later = NOW + timedelta(hours=1)
    async with store.write() as tx:
        await tx[JobStore].enqueue(Job("a", "kind", "key", later, {"n": 1}))
        await tx[JobStore].enqueue(Job("b", "kind", "key", NOW, {"n": 2}))
        (job,) = await tx[JobStore].claim(["kind"], "me", NOW, 10)
    assert (job.id, job.payload) == ("a", {"n": 2})


async def test_a_job_that_is_enqueued_again_starts_with_no_attempts(store: Store) -> None:
    """Work that asks for itself again each time never uses up its attempts."""
    async with store.write() as tx:
        for _ in range(3):
            await tx[JobStore].enqueue(Job("a", "kind", "key", NOW))
            (job,) = await tx[JobStore].claim(["kind"], "me", NOW, 10)
    assert job.attempts == 1


async def test_claims_of_many_workers_never_overlap(store: Store) -> None:
    """Workers that claim at the same time get each job once, all together all of them."""
    async with store.write() as tx:
        for number in range(60):
            await tx[JobStore].enqueue(Job(f"j{number}", "kind", f"k{number}", NOW))

    async def worker(name: str) -> list[str]:
        mine = []
        while True:
            async with store.write() as tx:
                jobs = await tx[JobStore].claim(["kind"], name, NOW, 3)
            if not jobs:
                return mine
            mine += [job.id for job in jobs]

    claimed = await asyncio.gather(*(worker(f"w{number}") for number in range(4)))
    everything = [id for mine in claimed for id in mine]
    assert sorted(everything) == sorted(f"j{number}" for number in range(60))


_COUNT_UP = """
import asyncio, sys
from controlplane.platform.store.engine import make_engine
from controlplane.platform.store.transaction import SqlStore
from controlplane.store.repositories import REPOSITORIES
from controlplane.clusters.ports import ClusterStore

async def run():
    store = SqlStore(make_engine(sys.argv[1]), REPOSITORIES)
    for _ in range(int(sys.argv[2])):
        async with store.write() as tx:
            cluster = await tx[ClusterStore].get("cluster-0001")
            await tx[ClusterStore].change("cluster-0001", acknowledged=cluster.acknowledged + 1)
    await store.close()

asyncio.run(run())
"""


def count_up(url: str) -> None:
    """Count 40 up in a process of its own."""
    subprocess.run([sys.executable, "-c", _COUNT_UP, url, "40"], check=True)


async def test_tasks_that_read_then_write_lose_no_update(store: Store) -> None:
    """Rows read by a writing transaction stay unchanged until it ends."""
    async with store.write() as tx:
        await tx[ClusterStore].add(a_cluster())

    async def count_one() -> None:
        async with store.write() as tx:
            cluster = await tx[ClusterStore].get("cluster-0001")
            assert cluster is not None
            await asyncio.sleep(0)
            await tx[ClusterStore].change("cluster-0001", acknowledged=cluster.acknowledged + 1)

    await asyncio.gather(*(count_one() for _ in range(20)))
    async with store.read() as tx:
        cluster = await tx[ClusterStore].get("cluster-0001")
    assert cluster is not None and cluster.acknowledged == 20


async def test_a_job_asked_for_while_it_runs_is_done_again(store: Store) -> None:
    """Who works on it cannot end what was asked for after the beginning."""
    async with store.write() as tx:
        await tx[JobStore].enqueue(Job("j", "kind", "key", NOW))
        (running,) = await tx[JobStore].claim(["kind"], "one", NOW, 1)
        await tx[JobStore].enqueue(Job("again", "kind", "key", NOW + timedelta(hours=1)))
        assert not await tx[JobStore].finish(running)
        assert await tx[JobStore].next_due(["kind"]) == NOW + timedelta(hours=1)


async def test_a_value_that_cannot_be_kept_is_no_outage(store: Store) -> None:
    """Too long a value is the caller's mistake; on SQLite it fits."""
    long = Cluster(ClusterId("long"), "x" * 64, "Long", NOW, NOW)
    try:
        async with store.write() as tx:
            await tx[ClusterStore].add(long)
    except Invalid as error:
        assert "too long" in error.message


async def test_processes_that_read_then_write_lose_no_update(tmp_path: Path) -> None:
    """SQLite: BEGIN IMMEDIATE makes read-then-write one step, across processes."""
    url = f"sqlite:///{tmp_path / 'towline.db'}"
    engine = make_engine(url)
    await migrate(engine)
    store = SqlStore(engine, REPOSITORIES)
    async with store.write() as tx:
        await tx[ClusterStore].add(a_cluster())
    await asyncio.gather(*(asyncio.to_thread(count_up, url) for _ in range(3)))
    async with store.read() as tx:
        cluster = await tx[ClusterStore].get("cluster-0001")
    await store.close()
    assert cluster is not None and cluster.acknowledged == 120


@pytest.mark.filterwarnings("ignore:autogenerate skipping .* expression-based index")
async def test_tables_are_what_the_migrations_make(store_url: str) -> None:
    """The metadata that queries use and the migrated schema do not differ."""
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    from controlplane.platform.store.schema import metadata

    engine = make_engine(store_url)
    await migrate(engine)

    # Alembic compares indexes of one dialect with all databases.
    indexes = [index for table in metadata.tables.values() for index in table.indexes]
    of_one_dialect = {index.name for index in indexes if index._ddl_if is not None}

    def is_everywhere(_object, name, kind, *_):
        return kind != "index" or name not in of_one_dialect

    def differences(connection):
        options = {"include_object": is_everywhere}
        return compare_metadata(MigrationContext.configure(connection, opts=options), metadata)

    async with engine.connect() as connection:
        assert await connection.run_sync(differences) == []
    current, head = await revisions(engine)
    assert current == head
    await engine.dispose()


def test_names_of_migrations_begin_with_the_revisions_of_alembic() -> None:
    from alembic.script import ScriptDirectory

    folder = Path(migrations.__file__).parent
    revisions = [script.revision for script in ScriptDirectory(folder).walk_revisions()]
    assert known_revisions() == revisions[::-1]


def test_an_installation_without_migrations_says_so(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="installation is incomplete"):
        known_revisions(tmp_path)


async def test_a_store_of_a_newer_version_is_refused(store_url: str) -> None:
    """An older program names the problem and touches nothing."""
    engine = make_engine(store_url)
    await migrate(engine)
    async with engine.begin() as connection:
        await connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(Conflict, match="newer"):
        await migrate(engine)
    await engine.dispose()


def test_other_databases_are_refused() -> None:
    """A database that is not supported gets a sentence, not a traceback from a driver."""
    with pytest.raises(Invalid, match="sqlite or postgresql"):
        make_engine("mysql://localhost/x")
