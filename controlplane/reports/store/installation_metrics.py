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
        asked = questions(now)
        alive = dict(await self._rows(asked["clusters"]))
        times = await self._rows(asked["deliveries"])
        return MetricsSnapshot(
            services=dict(await self._rows(asked["services"])),
            clusters={liveness: alive.get(liveness.value, 0) for liveness in Liveness},
            jobs=await self._waiting(asked["jobs"], now),
            commands=await self._waiting(asked["commands"], now),
            deliveries={None if bound < 0 else bound: count for bound, count, _ in times},
            delivery_seconds=sum(seconds for _, _, seconds in times),
        )

    async def _waiting(self, question: Select, now: datetime) -> QueueDepth:
        ((count, oldest),) = await self._rows(question)
        return QueueDepth(count, max((now - oldest).total_seconds(), 0.0) if oldest else 0.0)

    async def _rows(self, question: Select) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self._connection.execute(question)]


def questions(now: datetime) -> dict[str, Select]:
    """Returns the SELECT statements by the name of the count."""
    marks = select(services.c.status_code, func.count()).group_by(services.c.status_code)
    word = _liveness(now)
    alive = select(word, func.count()).where(clusters.c.deleted_at.is_(None)).group_by(word)
    bound = _bound()
    lead = deployments.c.lead_s
    delivered = (
        select(bound, func.count(), func.sum(lead))
        .where(deployments.c.healthy_at > now - RECENT, lead.is_not(None))
        .group_by(bound)
    )
    due = select(func.count(), func.min(jobs.c.run_at)).where(jobs.c.run_at <= now)
    asked = select(func.count(), func.min(commands.c.inserted_at)).where(
        commands.c.state == CommandState.WAITING
    )
    return {
        "services": marks,
        "clusters": alive,
        "deliveries": delivered,
        "jobs": due,
        "commands": asked,
    }


def _liveness(now: datetime) -> ColumnElement[str]:
    pinged = clusters.c.pinged_at
    return case(
        (pinged.is_(None), Liveness.NEVER.value),
        (pinged < now - SILENT_AFTER, Liveness.OFFLINE.value),
        else_=Liveness.CONNECTED.value,
    )


def _bound() -> ColumnElement[float]:
    """Returns the lowest bound above a delivery's duration; -1 if it exceeds all."""
    lead = deployments.c.lead_s
    return case(*((lead <= bound, bound) for bound in DELIVERY_BOUNDS), else_=-1.0)


REPOSITORIES: Repositories = {MetricsSnapshotStore: lambda tx: SqlMetricsSnapshot(tx.connection)}
