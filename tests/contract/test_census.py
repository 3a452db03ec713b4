"""Metrics snapshots count the same as the rows, by indexes alone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from controlplane.clusters.model.cluster import SILENT_AFTER, Cluster
from controlplane.clusters.model.commands import Command, CommandKind, CommandState
from controlplane.clusters.ports import ClusterStore, CommandStore
from controlplane.platform.jobs import Job
from controlplane.platform.ports import JobStore, Store
from controlplane.platform.store.engine import make_engine
from controlplane.reports.model.installation_metrics import Liveness, MetricsSnapshot, QueueDepth
from controlplane.reports.ports import MetricsSnapshotStore
from controlplane.reports.store.installation_metrics import count_statements
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.service import Service
from controlplane.services.ports import LedgerStore, ServiceStore
from core.identity import ClusterId, ServiceId
from core.spec.status import Phase
from tests import migrated

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def cluster(id: str, pinged_at: datetime | None = None, **more: datetime) -> Cluster:
    made = Cluster(ClusterId(id), id, id, NOW, NOW, pinged_at=pinged_at)
    return replace(made, **more)


def service(number: int, phase: Phase) -> Service:
    id = ServiceId(f"s{number}")
    row = Service(id, ClusterId("c1"), None, id, "web", NOW, NOW)
    return row.changed(generation=1, digest="sha256:1", observed_generation=1, phase=phase)


def ago(**time: float) -> datetime:
    return NOW - timedelta(**time)


async def test_an_empty_store_has_nothing(store: Store) -> None:
    async with store.read() as tx:
        census = await tx[MetricsSnapshotStore].take(NOW)
    assert census == MetricsSnapshot(clusters=dict.fromkeys(Liveness, 0))


async def test_everything_is_counted_once(store: Store) -> None:
    """By status, by liveness, by age; what is done, deleted or not due yet is left out."""
    async with store.write() as tx:
        for one in (
            cluster("c1", pinged_at=NOW),
            cluster("c2", pinged_at=NOW - SILENT_AFTER - timedelta(seconds=1)),
            cluster("c3"),
            cluster("c4", pinged_at=NOW, deleted_at=NOW),
        ):
            await tx[ClusterStore].add(one)
        for number in range(5):
            await tx[ServiceStore].add(service(number, Phase.HEALTHY if number else Phase.FAILED))
        for id, due in (("j1", ago(seconds=30)), ("j2", ago(seconds=90)), ("j3", ago(hours=-1))):
            await tx[JobStore].enqueue(Job(id, "deliver", id, due))
        for id, state in (("o1", CommandState.WAITING), ("o2", CommandState.SUCCEEDED)):
            await tx[CommandStore].add(
                Command(id, ClusterId("c1"), CommandKind.SYNC_NOW, ago(minutes=1), state=state)
            )
    async with store.read() as tx:
        census = await tx[MetricsSnapshotStore].take(NOW)
    assert census.services == {"H": 4, "F": 1}
    assert census.clusters == dict.fromkeys(Liveness, 1)
    assert census.jobs == QueueDepth(2, 90.0)
    assert census.commands == QueueDepth(1, 60.0)


async def test_deliveries_are_those_of_the_last_minutes(store: Store) -> None:
    """By the bound below which they stayed; without a commit there is no time."""
    rows = [
        (1, ago(minutes=1), 0.5),
        (2, ago(minutes=2), 1.0),
        (3, ago(minutes=3), 45.0),
        (4, ago(minutes=4), 9999.0),
        (5, ago(minutes=5), None),
        (6, ago(minutes=16), 2.0),
    ]
    async with store.write() as tx:
        for number, at, lead in rows:
            committed = {} if lead is None else {"committed_at": str(at - timedelta(seconds=lead))}
            begun = LedgerEntry("s1", "c1", LedgerStage.RENDERED, at, number, detail=committed)
            await tx[LedgerStore].append([begun, replace(begun, stage=LedgerStage.HEALTHY)])
    async with store.read() as tx:
        census = await tx[MetricsSnapshotStore].take(NOW)
    assert census.deliveries == {1.0: 2, 60.0: 1, None: 1}
    assert census.delivery_seconds == pytest.approx(0.5 + 1.0 + 45.0 + 9999.0)


async def test_no_row_is_read(tmp_path: Path) -> None:
    """Each statement is answered by one index that holds all that it asks for.

    Of SQLite: an empty PostgreSQL prefers to read its tables.
    """
    engine = make_engine(migrated.put_sqlite(tmp_path / "data"))
    async with engine.connect() as connection:
        for name, statement in count_statements(NOW).items():
            asked = statement.compile(engine, compile_kwargs={"literal_binds": True})
            plan = await connection.execute(text(f"EXPLAIN QUERY PLAN {asked}"))
            first = plan.all()[0][3]
            assert "COVERING INDEX" in first, (name, first)
    await engine.dispose()
