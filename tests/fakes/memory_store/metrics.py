"""The metrics snapshot in memory."""

from collections import Counter
from datetime import datetime
from typing import Any

from controlplane.clusters.model.cluster import SILENT_AFTER
from controlplane.clusters.model.commands import CommandState
from controlplane.clusters.store import clusters, commands
from controlplane.platform.store.jobs import jobs
from controlplane.reports.model.installation_metrics import (
    DELIVERY_BOUNDS,
    RECENT,
    Liveness,
    MetricsSnapshot,
    QueueDepth,
)
from controlplane.services.store.tables import deployments, services
from tests.fakes.memory_store.connection import MemoryConnection
from tests.fakes.memory_store.constraints import Row


class MemoryMetricsSnapshot:
    """Implements `MetricsSnapshotStore`."""

    def __init__(self, connection: MemoryConnection) -> None:
        self._connection = connection

    async def take(self, now: datetime) -> MetricsSnapshot:
        def is_delivered(row: Row) -> bool:
            healthy_at, lead = row["healthy_at"], row["lead_s"]
            return healthy_at is not None and healthy_at > now - RECENT and lead is not None

        leads = [row["lead_s"] for row in self._connection.where(deployments, is_delivered)]
        present = self._connection.where(clusters, lambda row: row["deleted_at"] is None)
        alive = Counter(_liveness(row["pinged_at"], now) for row in present)
        due = self._connection.where(jobs, lambda row: row["run_at"] <= now)
        waiting = self._connection.where(commands, lambda row: row["state"] == CommandState.WAITING)
        return MetricsSnapshot(
            services=Counter(row["status_code"] for row in self._connection.rows(services)),
            clusters={liveness: alive[liveness] for liveness in Liveness},
            jobs=_depth([row["run_at"] for row in due], now),
            commands=_depth([row["inserted_at"] for row in waiting], now),
            deliveries=Counter(map(_bound, leads)),
            delivery_seconds=sum(leads),
        )


def _depth(moments: list[Any], now: datetime) -> QueueDepth:
    if not moments:
        return QueueDepth()
    return QueueDepth(len(moments), max((now - min(moments)).total_seconds(), 0.0))


def _liveness(pinged_at: datetime | None, now: datetime) -> Liveness:
    if pinged_at is None:
        return Liveness.NEVER
    return Liveness.OFFLINE if pinged_at < now - SILENT_AFTER else Liveness.CONNECTED


def _bound(lead: float) -> float | None:
    return next((bound for bound in DELIVERY_BOUNDS if lead <= bound), None)
