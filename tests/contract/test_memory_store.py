"""The store in memory and SQLite answer alike, whatever is done to them."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from sqlalchemy.exc import IntegrityError

from controlplane.access.ports import ProjectStore
from controlplane.audit.model.chains import AuditFilter
from controlplane.audit.ports import AuditLog
from controlplane.authorization import DEFAULT_PROJECT, Scope
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.notifications.ports import NotificationStore
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict
from controlplane.platform.jobs import Job
from controlplane.platform.labels import parse_selector
from controlplane.platform.ports import ANY, JobStore, PageQuery, Store, Transaction
from controlplane.platform.store.engine import make_engine
from controlplane.platform.store.transaction import SqlStore
from controlplane.reports.ports import DeploymentStore, MetricsSnapshotStore, ReportFilter
from controlplane.search.model import NamedItemKind, parse_search
from controlplane.search.ports import SearchStore
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.parts import ContextBinding
from controlplane.services.model.service import Component, ComponentState, Service
from controlplane.services.ports import (
    ComponentStore,
    ContextBindingStore,
    LedgerStore,
    ServiceStore,
)
from controlplane.store.repositories import REPOSITORIES
from core.errors import Conflict, Invalid
from core.identity import ClusterId, ServiceId
from core.spec.status import Phase
from tests import migrated
from tests.fakes.memory_store.constraints import BrokenConstraint
from tests.fakes.memory_store.repositories import MAKERS
from tests.fakes.memory_store.store import MemoryStore

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
CLUSTERS = st.sampled_from(["c0", "c1", "c2", "c3"])
SERVICES = st.sampled_from(["s0", "s1", "s2", "s3", "s4"])
PROJECTS = st.sampled_from([DEFAULT_PROJECT, "p1"])
MOMENTS = st.integers(0, 5).map(lambda minutes: NOW + timedelta(minutes=minutes))
NEVER_OR_MOMENTS = st.none() | MOMENTS
TAGS = st.dictionaries(st.sampled_from(["env", "tier"]), st.sampled_from(["a", "b"]), max_size=2)
SCOPES = st.sampled_from(
    [f"project:{DEFAULT_PROJECT}", "project:p1", "cluster:c1", "service:s1", "cluster:c2"]
).map(Scope)
VISIBLE = st.lists(st.frozensets(SCOPES, max_size=3), max_size=2).map(tuple)
WHATEVER: dict[str, st.SearchStrategy[Any]] = {
    "after": st.none() | CLUSTERS | SERVICES,
    "first": st.integers(1, 4),
    "text": st.none() | st.sampled_from(["a", "S1", "%", "web"]),
    "newest": st.booleans(),
    "backwards": st.booleans(),
    "visible": VISIBLE,
    "tags": st.lists(st.tuples(st.just("env"), st.sampled_from(["a", "b"])), max_size=1),
    "labels": st.sampled_from(
        ["", "env=a", "env!=a", "tier", "!tier", "env in (a,b)", "tier notin (a,)"]
    ).map(parse_selector),
    "counting": st.booleans(),
}
CLUSTER_COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "handle": st.sampled_from(["a", "b", "ab"]),
    "deleted_at": NEVER_OR_MOMENTS,
    "pinged_at": NEVER_OR_MOMENTS,
    "project_id": PROJECTS,
    "tags": TAGS,
}
SERVICE_COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "name": st.sampled_from(["web", "api"]),
    "cluster_id": CLUSTERS,
    "phase": st.none() | st.sampled_from(list(Phase)),
    "observed_generation": st.integers(0, 2),
    "paused": st.booleans(),
    "digest": st.sampled_from([None, "d"]),
    "deleted_at": NEVER_OR_MOMENTS,
    "project_id": PROJECTS,
}
SOME_CLUSTER_COLUMNS = st.fixed_dictionaries({}, optional=CLUSTER_COLUMNS)
SOME_SERVICE_COLUMNS = st.fixed_dictionaries({}, optional=SERVICE_COLUMNS)
Act = Callable[[Transaction], Awaitable[Any]]


class _Undo(Exception):
    """Ends a transaction that is not to be kept."""


async def outcome(store: Store, act: Act, *, is_kept: bool) -> Any:
    """Returns the answer of one transaction, or how it failed."""
    answer: Any = None
    try:
        async with store.write() as tx:
            answer = await act(tx)
            if not is_kept:
                raise _Undo
    except _Undo:
        return answer
    except (IntegrityError, BrokenConstraint):
        return "refused"
    except (Conflict, Invalid) as error:
        return type(error).__name__, error.message
    return answer


class TwoStores(RuleBasedStateMachine):
    """Does the same to both stores, and compares each answer."""

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._folder = tempfile.TemporaryDirectory(prefix="towline-twin-")
        url = migrated.put_sqlite(Path(self._folder.name))
        self._sql = SqlStore(make_engine(url), REPOSITORIES)
        self._memory = MemoryStore()

    def teardown(self) -> None:
        self._runner.run(self._sql.close())
        self._runner.close()
        self._folder.cleanup()

    def both(self, act: Act, *, is_kept: bool = True) -> Any:
        """Lets a transaction do the same on both stores; returns its answer."""
        result, expected = (
            self._runner.run(outcome(store, act, is_kept=is_kept))
            for store in (self._memory, self._sql)
        )
        assert result == expected
        return result

    @rule(id=CLUSTERS, handle=CLUSTER_COLUMNS["handle"], more=SOME_CLUSTER_COLUMNS)
    def add_cluster(self, id: str, handle: str, more: dict[str, Any]) -> None:
        row = replace(Cluster(ClusterId(id), handle, handle, NOW, NOW), **more)
        self.both(lambda tx: tx[ClusterStore].add(row))

    @rule(id=CLUSTERS, columns=SOME_CLUSTER_COLUMNS, is_kept=st.booleans())
    def change_cluster(self, id: str, columns: dict[str, Any], is_kept: bool) -> None:
        async def act(tx: Transaction) -> Any:
            before = await tx[ClusterStore].get(id)
            if columns:
                await tx[ClusterStore].change(id, **columns)
            entry = AuditEntry(NOW, "ada", "update", AuditVerdict.ALLOWED, target_id=id)
            await tx[AuditLog].append([entry])
            return before, await tx[ClusterStore].select(deleted_at=ANY)

        self.both(act, is_kept=is_kept)

    @rule(id=CLUSTERS)
    def remove_cluster(self, id: str) -> None:
        self.both(lambda tx: tx[ClusterStore].remove(id))

    @rule(id=SERVICES, cluster=CLUSTERS, more=SOME_SERVICE_COLUMNS)
    def add_service(self, id: str, cluster: str, more: dict[str, Any]) -> None:
        row = Service(ServiceId(id), ClusterId(cluster), None, "web", "shop", NOW, NOW)
        made = row.changed(**{"generation": 1, **more})
        self.both(lambda tx: tx[ServiceStore].add(made))

    @rule(changes=st.dictionaries(SERVICES, SOME_SERVICE_COLUMNS.filter(bool), max_size=3))
    def change_services(self, changes: dict[str, dict[str, Any]]) -> None:
        self.both(lambda tx: tx[ServiceStore].change_each(changes))

    @rule(id=SERVICES)
    def remove_service(self, id: str) -> None:
        self.both(lambda tx: tx[ServiceStore].remove(id))

    @rule(id=SERVICES, context=st.sampled_from(["x", "y"]))
    def bind_context(self, id: str, context: str) -> None:
        """Contexts do not exist here: both refuse the reference."""
        row = ContextBinding(f"{id}{context}", context, ServiceId(id))
        self.both(lambda tx: tx[ContextBindingStore].add(row))

    @rule(query=st.fixed_dictionaries({}, optional=WHATEVER), by_name=st.booleans())
    def list_rows(self, query: dict[str, Any], by_name: bool) -> None:
        for port, order in ((ClusterStore, "handle"), (ServiceStore, "name")):
            asked = PageQuery(**query, order=order if by_name else "id")
            self.both(lambda tx, port=port, asked=asked: tx[port].page(asked))
        asked = replace(PageQuery(**query), after=None, tags=(), labels=())
        self.both(lambda tx: tx[LedgerStore].page(asked))
        self.both(lambda tx: tx[AuditLog].search(AuditFilter(), asked))

    @rule(since=NEVER_OR_MOMENTS, until=NEVER_OR_MOMENTS, phase=SERVICE_COLUMNS["phase"])
    def filter_rows(
        self, since: datetime | None, until: datetime | None, phase: Phase | None
    ) -> None:
        seen = PageQuery(seen_since=since, not_seen_since=until, counting=True)
        self.both(lambda tx: tx[ClusterStore].page(seen))
        self.both(lambda tx: tx[ServiceStore].select(phase=phase))
        self.both(lambda tx: tx[ServiceStore].select(observed_generation=range(1, 3), name={"web"}))
        self.both(lambda tx: tx[ServiceStore].find(name="web", phase=phase, cluster_id="c1"))
        self.both(lambda tx: tx[ServiceStore].column("status_code", ["s0", "s1", "none"]))

    @rule(moment=MOMENTS, visible=VISIBLE)
    def look_at_changes(self, moment: datetime, visible: tuple[frozenset[Scope], ...]) -> None:
        async def act(tx: Transaction) -> Any:
            services = tx[ServiceStore]
            found = await services.since(("updated_at", "deleted_at"), moment, visible, 100)
            changed = await services.changed_since(moment, visible, 100)
            past = await tx[ClusterStore].past("pinged_at", moment)
            dependent = [row.id for row in await services.with_dependencies(visible, 100)]
            ids = {row.id for row in past}
            return set(found), set(changed), ids, dependent, await services.count()

        self.both(act)

    @rule(
        query=st.fixed_dictionaries(
            {}, optional={n: WHATEVER[n] for n in ("text", "visible", "labels")}
        )
    )
    def look_at_the_fleet(self, query: dict[str, Any]) -> None:
        async def act(tx: Transaction) -> Any:
            snapshot = await tx[MetricsSnapshotStore].take(NOW)
            return await tx[ServiceStore].fleet_map(PageQuery(**query)), snapshot

        self.both(act)

    @rule(
        id=SERVICES,
        cluster=CLUSTERS,
        stages=st.lists(st.sampled_from(list(LedgerStage)), min_size=1, max_size=4),
        sequence=st.integers(0, 3),
        at=MOMENTS,
    )
    def tell_the_ledger(
        self, id: str, cluster: str, stages: list[LedgerStage], sequence: int, at: datetime
    ) -> None:
        detail = {"committed_at": NOW.isoformat()}
        entries = [
            LedgerEntry(id, cluster, stage, at, sequence, sha="a" * 40, detail=detail)
            for stage in stages
        ]
        self.both(lambda tx: tx[LedgerStore].append(entries))

    @rule(at=MOMENTS, visible=VISIBLE)
    def report(self, at: datetime, visible: tuple[frozenset[Scope], ...]) -> None:
        async def act(tx: Transaction) -> Any:
            deployments, everything = tx[DeploymentStore], ReportFilter()
            figures = await deployments.figures(NOW, at, everything, visible)
            waiting = await tx[NotificationStore].waiting(100)
            return (
                await deployments.at(at, everything, visible, 100),
                await deployments.ended(0, 1000, 1000),
                figures.counts,
                [round(rank, 2) for rank in (figures.lead_p50, figures.restore_p90) if rank],
                await tx[NotificationStore].previous_stages([row.id or 0 for row in waiting]),
            )

        self.both(act)

    @rule(key=st.sampled_from(["j1", "j2"]), at=MOMENTS)
    def enqueue(self, key: str, at: datetime) -> None:
        self.both(lambda tx: tx[JobStore].enqueue(Job(key, "kind", key, at, {"at": str(at)})))

    @rule(now=MOMENTS, most=st.integers(1, 2), is_done=st.booleans(), is_late=st.booleans())
    def work(self, now: datetime, most: int, is_done: bool, is_late: bool) -> None:
        async def act(tx: Transaction) -> Any:
            claimed = await tx[JobStore].claim(["kind"], "me", now, most)
            answers: list[Any] = sorted(claimed, key=lambda job: job.id)
            for job in claimed:
                mine = replace(job, fence=job.fence - is_late)
                if is_done:
                    answers.append(await tx[JobStore].finish(mine))
                else:
                    answers.append(await tx[JobStore].retry(mine, now, "no"))
            return answers, await tx[JobStore].next_due(["kind"])

        self.both(act)

    @rule(
        id=st.sampled_from(["o1", "o2"]),
        service=SERVICES,
        cluster=CLUSTERS,
        images=st.lists(st.sampled_from(["nginx:1.2", "log4j:2.16"]), max_size=2),
        state=st.none() | st.sampled_from(list(ComponentState)),
    )
    def observe(
        self, id: str, service: str, cluster: str, images: list[str], state: ComponentState | None
    ) -> None:
        row = Component(
            id, ServiceId(service), ClusterId(cluster), "apps", "v1", "Deployment", "shop", id,
            f"uid-{id}", "uid-o1", state, "", True, tuple(images), NOW, {"app": "web"},
        )  # fmt: skip
        self.both(lambda tx: tx[ComponentStore].upsert([row]))

    @rule(
        text=st.sampled_from(
            ["o", "kind:deployment", "kind:Dep*", "image:log4j<2.17", "label:app=web", "owner:o1",
             "service:web", "cluster:a*", "api:apps/v1", "health:running", "ns:shop o2"]
        ),
        visible=VISIBLE,
    )  # fmt: skip
    def search(self, text: str, visible: tuple[frozenset[Scope], ...]) -> None:
        async def act(tx: Transaction) -> Any:
            named = await tx[SearchStore].places("a", {NamedItemKind.CLUSTER: visible})
            page = await tx[SearchStore].objects(parse_search(text), visible, 10, None)
            counts = await tx[ComponentStore].count_by_cluster(["c0", "c1", "c2"])
            return page, sorted(named, key=lambda item: item.id), counts

        self.both(act)

    @rule()
    def check_the_audit_log(self) -> None:
        """Numbers, digests and hashes are equal, so both chains have the same content."""

        async def act(tx: Transaction) -> Any:
            return await tx[AuditLog].chains(), await tx[AuditLog].search(
                AuditFilter(action="upd*"), PageQuery(100)
            )

        self.both(act)

    @rule()
    def read_what_migrations_added(self) -> None:
        self.both(lambda tx: tx[ProjectStore].all())


TestTwoStores = TwoStores.TestCase
TestTwoStores.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)


def test_every_port_of_the_sql_store_has_a_twin() -> None:
    assert MAKERS.keys() == REPOSITORIES.keys()


async def test_a_reader_refuses_writes_and_sees_one_moment() -> None:
    store, row = MemoryStore(), Cluster(ClusterId("c1"), "a", "a", NOW, NOW)
    async with store.read() as before:
        async with store.write() as tx:
            await tx[ClusterStore].add(row)
            assert await before[ClusterStore].all() == []
        assert await before[ClusterStore].all() == []
        with pytest.raises(RuntimeError, match="read-only"):
            await before[ClusterStore].add(row)
    async with store.read() as after:
        assert await after[ClusterStore].all() == [row]


async def test_a_transaction_ends_with_its_first_refused_write() -> None:
    """PostgreSQL drops such a transaction; code that goes on in it is wrong."""
    store, row = MemoryStore(), Cluster(ClusterId("c1"), "a", "a", NOW, NOW)
    with pytest.raises(RuntimeError, match="refused write"):
        async with store.write() as tx:
            await tx[ClusterStore].add(row)
            with pytest.raises(Conflict):
                await tx[ClusterStore].add(replace(row, id=ClusterId("c2")))
            await tx[ClusterStore].all()
    async with store.read() as tx:
        assert await tx[ClusterStore].all() == []
