"""Metrics snapshot: a few counts, each answered by one index alone."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, case, func, select

from controlplane.clusters.model.cluster import SILENT_AFTER
from controlplane.clusters.model.commands import CommandState
from controlplane.clusters.store import clusters, commands
from controlplane.platform.store.connection import StoreConnection
from controlplane.platform.store.jobs import jobs
from controlplane.platform.store.transaction import Repositories
from controlplane.reports.model.installation_metrics import (
    DELIVERY_BOUNDS,
    RECENT,
    Liveness,
    MetricsSnapshot,
    QueueDepth,
)
from controlplane.reports.ports import MetricsSnapshotStore
from controlplane.services.store.tables import deployments, services


class SqlMetricsSnapshot:
    """Counts on a connection."""

    def __init__(self, connection: StoreConnection) -> None:
        self._connection = connection

    async def take(self, now: datetime) -> MetricsSnapshot:
        """Returns the counts of this moment."""
        statements = count_statements(now)
        by_liveness = dict(await self._rows(statements["clusters"]))
        times = await self._rows(statements["deliveries"])
        return MetricsSnapshot(
            services=dict(await self._rows(statements["services"])),
            clusters={liveness: by_liveness.get(liveness.value, 0) for liveness in Liveness},
            jobs=await self._queue_depth(statements["jobs"], now),
            commands=await self._queue_depth(statements["commands"], now),
            deliveries={None if bound < 0 else bound: count for bound, count, _ in times},
            delivery_seconds=sum(seconds for _, _, seconds in times),
        )

    async def _queue_depth(self, statement: Select, now: datetime) -> QueueDepth:
        ((count, oldest),) = await self._rows(statement)
        return QueueDepth(count, max((now - oldest).total_seconds(), 0.0) if oldest else 0.0)

    async def _rows(self, statement: Select) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self._connection.execute(statement)]


def count_statements(now: datetime) -> dict[str, Select]:
    """Returns the SELECT statements by the name of the count."""
    by_status = select(services.c.status_code, func.count()).group_by(services.c.status_code)
    liveness = _liveness(now)
    by_liveness = (
        select(liveness, func.count()).where(clusters.c.deleted_at.is_(None)).group_by(liveness)
    )
    bound = _duration_bound()
    lead = deployments.c.lead_s
    delivered = (
        select(bound, func.count(), func.sum(lead))
        .where(deployments.c.healthy_at > now - RECENT, lead.is_not(None))
        .group_by(bound)
    )
    due_jobs = select(func.count(), func.min(jobs.c.run_at)).where(jobs.c.run_at <= now)
    waiting_commands = select(func.count(), func.min(commands.c.inserted_at)).where(
        commands.c.state == CommandState.WAITING
    )
    return {
        "services": by_status,
        "clusters": by_liveness,
        "deliveries": delivered,
        "jobs": due_jobs,
        "commands": waiting_commands,
    }


def _liveness(now: datetime) -> ColumnElement[str]:
    pinged = clusters.c.pinged_at
    return case(
        (pinged.is_(None), Liveness.NEVER.value),
        (pinged < now - SILENT_AFTER, Liveness.OFFLINE.value),
        else_=Liveness.CONNECTED.value,
    )


def _duration_bound() -> ColumnElement[float]:
    """Returns the lowest bound above a delivery's duration; -1 if it exceeds all."""
    lead = deployments.c.lead_s
    return case(*((lead <= bound, bound) for bound in DELIVERY_BOUNDS), else_=-1.0)


REPOSITORIES: Repositories = {MetricsSnapshotStore: lambda tx: SqlMetricsSnapshot(tx.connection)}
