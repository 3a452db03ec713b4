"""Reports from the ledger equal what a plain recount of its rows gives, on either database."""

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.ports import Store
from controlplane.platform.store.transaction import SqlStore
from controlplane.reports.model.dora import DoraMetrics, ReportPeriod, compare_deployments
from controlplane.reports.ports import DeploymentStore, DesiredBetween, ReportFilter
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.status_codes import StatusCode
from controlplane.services.ports import LedgerStore
from core.identity import ClusterId
from tests.fakes.memory_store.store import MemoryStore

START = datetime(2026, 1, 1, tzinfo=UTC)
DESIRED = (LedgerStage.RENDERED, LedgerStage.PROMOTED, LedgerStage.ROLLED_BACK)
TOLD = (
    LedgerStage.OFFERED,
    LedgerStage.APPLIED,
    LedgerStage.HEALTHY,
    LedgerStage.DEGRADED,
    LedgerStage.FAILED,
)


def hour(number: float) -> datetime:
    return START + timedelta(hours=number)


@st.composite
def histories(draw: st.DrawFn) -> list[LedgerEntry]:
    """The ledger of a few services: time only goes on, stages come in any order."""
    rows: list[LedgerEntry] = []
    sequences = dict.fromkeys(["s1", "s2", "s3"], 0)
    for number in range(draw(st.integers(1, 25))):
        service = draw(st.sampled_from(sorted(sequences)))
        stage = draw(st.sampled_from([*DESIRED, *TOLD, *TOLD, LedgerStage.CREATED]))
        if stage in DESIRED:
            sequences[service] += 1
        detail = {"committed_at": hour(number - draw(st.integers(0, 3))).isoformat()}
        rows.append(
            LedgerEntry(
                service, "c1" if service == "s1" else "c2", stage, hour(number),
                max(0, sequences[service] - draw(st.integers(0, 1))) if stage in TOLD
                else sequences[service],
                sha=f"{number:040x}",
                detail=detail if stage in DESIRED else {},
            )
        )  # fmt: skip
    return rows


class Recount:
    """The figures, by looking at all rows again for every deployment."""

    def __init__(self, rows: list[LedgerEntry], since: datetime, until: datetime) -> None:
        self.rows = rows
        self.begun = [r for r in rows if r.stage in DESIRED and since <= r.at < until]
        healthy = [(r, self.first(r, LedgerStage.HEALTHY)) for r in self.begun]
        self.healthy = sum(at is not None for _, at in healthy)
        committed = [datetime.fromisoformat(r.detail["committed_at"]) for r, _ in healthy]
        self.leads = [at - c for (_, at), c in zip(healthy, committed, strict=True) if at]
        failed = [(r, self.first(r, LedgerStage.FAILED, LedgerStage.DEGRADED)) for r in self.begun]
        self.failed = sum(at is not None or self.was_reverted(r) for r, at in failed)
        self.restores = [
            back - at for r, at in failed if at and (back := self.healthy_after(r, at))
        ]

    def first(self, one: LedgerEntry, *stages: LedgerStage) -> datetime | None:
        same = (one.service_id, one.sequence)
        return min(
            (r.at for r in self.rows
             if r.stage in stages and (r.service_id, r.sequence) == same and r.at >= one.at),
            default=None,
        )  # fmt: skip

    def healthy_after(self, one: LedgerEntry, at: datetime) -> datetime | None:
        mine = [r for r in self.rows if r.service_id == one.service_id and r.at >= at]
        return min((r.at for r in mine if r.stage is LedgerStage.HEALTHY), default=None)

    def was_reverted(self, one: LedgerEntry) -> bool:
        mine = [r for r in self.rows if r.service_id == one.service_id and r.stage in DESIRED]
        later = [r for r in mine if r.sequence > one.sequence]
        return bool(later) and later[0].stage is LedgerStage.ROLLED_BACK

    def percentile(self, values: list[timedelta], part: float) -> float | None:
        if not values:
            return None
        return sorted(values)[math.ceil(len(values) * part) - 1].total_seconds()


def check(found: DoraMetrics, wanted: Recount) -> None:
    counts = (found.counts.begun, found.counts.healthy, found.counts.failed)
    assert counts == (len(wanted.begun), wanted.healthy, wanted.failed)
    for value, values, part in (
        (found.lead_p50, wanted.leads, 0.5),
        (found.lead_p90, wanted.leads, 0.9),
        (found.restore_p50, wanted.restores, 0.5),
        (found.restore_p90, wanted.restores, 0.9),
    ):
        assert value == pytest.approx(wanted.percentile(values, part), abs=0.01)


@pytest.fixture
async def emptied(store: Store):
    """A store that can be emptied between examples."""

    async def empty() -> Store:
        if not isinstance(store, SqlStore):
            return MemoryStore()
        async with store.write() as tx:
            for table in ("ledger", "deployments"):
                await tx.connection._connection.exec_driver_sql(f"DELETE FROM {table}")
        return store

    return empty


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(histories(), st.integers(0, 10), st.integers(11, 30))
async def test_figures_equal_a_recount(emptied, rows, since, until) -> None:
    """Whatever happened in which order, as one batch or row by row."""
    store = await emptied()
    async with store.write() as tx:
        for row in rows:
            await tx[LedgerStore].append([row])
    async with store.read() as tx:
        found = await tx[DeploymentStore].figures(
            hour(since), hour(until), ReportFilter(), (), ReportPeriod.DAY
        )
        one = await tx[DeploymentStore].figures(
            hour(since), hour(until), ReportFilter(cluster_id="c1"), (), None
        )
        listed = await tx[DeploymentStore].newest(
            ReportFilter(), (), 100, DesiredBetween(hour(since), hour(until))
        )
    begun = Recount(rows, hour(since), hour(until)).begun
    assert [row.sha for row in listed] == [row.sha for row in reversed(begun)]
    check(found, Recount(rows, hour(since), hour(until)))
    check(one, Recount([r for r in rows if r.cluster_id == "c1"], hour(since), hour(until)))
    assert sum(part.begun for part in found.parts) == found.counts.begun


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(histories(), st.integers(0, 26))
async def test_the_fleet_at_a_moment_equals_a_replay(emptied, rows, at) -> None:
    """Of each service what became desired last until then."""
    store = await emptied()
    async with store.write() as tx:
        await tx[LedgerStore].append(rows)
    async with store.read() as tx:
        found = await tx[DeploymentStore].at(hour(at), ReportFilter(), (), 100)
    wanted = {r.service_id: r.sha for r in rows if r.stage in DESIRED and r.at <= hour(at)}
    assert {one.service_id: one.sha for one in found} == wanted


async def test_marks_and_differences(store: Store) -> None:
    """Deployments at a moment, and differences between two moments."""
    stages = [
        (LedgerStage.RENDERED, 0),
        (LedgerStage.APPLIED, 1),
        (LedgerStage.HEALTHY, 2),
        (LedgerStage.DEGRADED, 4),
    ]
    rows = [LedgerEntry("s1", "c1", s, hour(n), 1, sha="a" * 40) for s, n in stages]
    rows += [LedgerEntry("s2", "c1", LedgerStage.RENDERED, hour(3), 1, sha="a" * 40)]
    rows += [LedgerEntry("s2", "c1", LedgerStage.REMOVED, hour(6), 1)]
    async with store.write() as tx:
        await tx[ClusterStore].add(Cluster(ClusterId("c1"), "dev", "dev", START, START))
        await tx[LedgerStore].append(rows)
    async with store.read() as tx:
        moments = [
            await tx[DeploymentStore].at(hour(n), ReportFilter(), (), 9) for n in (0, 1, 2, 5, 7)
        ]
        assert len(await tx[DeploymentStore].deployments_of_commit("a" * 7, ())) == 2
        assert await tx[DeploymentStore].deployments_of_commit("b" * 7, ()) == []
        assert await tx[DeploymentStore].cluster_handles({"c1"}) == {"c1": "dev"}
    marks = ["".join(one.status_code(hour(n)) for one in found)
             for n, found in zip((0, 1, 2, 5, 7), moments, strict=True)]  # fmt: skip
    assert marks == ["P", "S", "H", "FP", "F"]
    changes = compare_deployments(moments[2], hour(2), moments[3], hour(5))
    assert [(c.kind, c.status_before, c.status_after) for c in changes] == [
        ("CHANGED", StatusCode.HEALTHY, StatusCode.FAILED),
        ("ADDED", None, StatusCode.PROGRESSING),
    ]
