"""The ledger and its deployments in memory."""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from operator import attrgetter
from typing import Any

from sqlalchemy import Table

from controlplane.authorization import Visible
from controlplane.clusters.store import clusters
from controlplane.notifications.model.notification import notification_for
from controlplane.notifications.ports import NotificationStore
from controlplane.reports.model.dora import (
    Deployment,
    DeploymentCounts,
    DoraMetrics,
    ReportPeriod,
    nearest_rank,
    period_edges,
)
from controlplane.reports.model.spans import EndedDeployment
from controlplane.reports.ports import DesiredBetween, ReportFilter
from controlplane.reports.store.deployments import (
    DESIRED_STAGES,
    FAILURE_STAGES,
    MAP_COLUMNS,
    MILESTONES,
    begun_deployment,
)
from controlplane.services.model.ledger import LedgerEntry, LedgerPosition, LedgerStage
from controlplane.services.ports import LedgerStore
from controlplane.services.store.tables import deployments, ledger, services
from tests.fakes.memory_store.connection import MemoryConnection, Predicate
from tests.fakes.memory_store.constraints import Row
from tests.fakes.memory_store.filters import by_id, every, labelled, visible_rows
from tests.fakes.memory_store.rows import MemoryLog, MemoryReading

Change = Callable[[Row], dict[str, Any]]


class MemoryLedger(MemoryLog[LedgerEntry], LedgerStore):
    """Implements `LedgerStore`; each append updates deployments and adds notifications."""

    def __init__(self, connection: MemoryConnection, notifications: NotificationStore) -> None:
        super().__init__(connection, ledger, LedgerEntry, ("message",))
        self._notifications = notifications

    async def append(self, entries: Iterable[LedgerEntry]) -> None:
        added = list(entries)
        await super().append(added)
        self._begin([entry for entry in added if entry.stage in DESIRED_STAGES and entry.sequence])
        by_service = sorted(added, key=attrgetter("service_id"))
        for stage, column in MILESTONES.items():
            for entry in by_service:
                if entry.stage is stage:
                    self._reach(entry, column)
        for entry in by_service:
            if entry.stage is LedgerStage.HEALTHY:
                self._restore(entry)
            if entry.stage is LedgerStage.REMOVED:
                self._update(entry, lambda row: row["removed_at"] is None, _at("removed_at", entry))
        news = [item for entry in added if (item := notification_for(entry)) is not None]
        await self._notifications.append(news)

    def _begin(self, entries: Sequence[LedgerEntry]) -> None:
        """Starts new desired states; the previous ones are replaced or reverted."""
        for entry in entries:
            if not self._connection.where(deployments, _is_of(entry)):
                self._connection.insert(deployments, [begun_deployment(entry)])
        for entry in [entry for entry in entries if not entry.detail.get("late")]:
            ends = ["replaced_at"]
            if entry.stage is LedgerStage.ROLLED_BACK:
                ends.append("reverted_at")
            self._update(entry, _is_replaced_by(entry), _at_each(ends, entry))
        for entry in [entry for entry in entries if entry.detail.get("late")]:
            self._end_late(entry)

    def _end_late(self, entry: LedgerEntry) -> None:
        """Places a deployment between those that were recorded before it."""
        rows = self._connection.where(
            deployments, lambda row: row["service_id"] == entry.service_id
        )
        later = [row["desired_at"] for row in rows if row["sequence"] > entry.sequence]

        def is_open(row: Row) -> bool:
            return row["sequence"] == entry.sequence and row["replaced_at"] is None

        def is_longer(row: Row) -> bool:
            end = row["replaced_at"]
            return row["sequence"] < entry.sequence and (end is None or end > entry.at)

        self._update(entry, is_open, lambda row: {"replaced_at": min(later, default=None)})
        self._update(entry, is_longer, _at("replaced_at", entry))

    def _reach(self, entry: LedgerEntry, column: str) -> None:
        def is_first(row: Row) -> bool:
            return row["sequence"] == entry.sequence and row[column] is None

        def reached(row: Row) -> dict[str, Any]:
            if column != "healthy_at":
                return {column: entry.at}
            return {column: entry.at, "lead_s": _seconds(row["committed_at"], entry.at)}

        self._update(entry, is_first, reached)

    def _restore(self, entry: LedgerEntry) -> None:
        """Ends all failures of a service up to this time."""

        def has_failed(row: Row) -> bool:
            failed_at = row["failed_at"]
            return failed_at is not None and failed_at <= entry.at and row["restored_at"] is None

        def restored(row: Row) -> dict[str, Any]:
            return {"restored_at": entry.at, "restore_s": _seconds(row["failed_at"], entry.at)}

        self._update(entry, has_failed, restored)

    def _update(self, entry: LedgerEntry, matches: Predicate, change: Change) -> None:
        """Changes the deployments of the entry's service that match."""

        def is_changed(row: Row) -> bool:
            return row["service_id"] == entry.service_id and matches(row)

        for row in self._connection.where(deployments, is_changed):
            key = (row["service_id"], row["sequence"])
            self._connection.update(deployments, [key], change(row))


class MemoryDeployments(MemoryReading[Deployment]):
    """Implements `DeploymentStore`."""

    def __init__(self, connection: MemoryConnection) -> None:
        super().__init__(connection, deployments, Deployment)

    async def at(
        self, moment: datetime, within: ReportFilter, visible: Visible, limit: int
    ) -> list[Deployment]:
        def has_stood(row: Row) -> bool:
            ends = (row["replaced_at"], row["removed_at"])
            return row["desired_at"] <= moment and all(end is None or end > moment for end in ends)

        rows = self._inside(within, visible, has_stood)
        rows.sort(key=lambda row: (row["cluster_id"], row["service_id"]))
        return [Deployment(**{name: row[name] for name in MAP_COLUMNS}) for row in rows[:limit]]

    async def service_names(self, ids: Collection[str]) -> dict[str, str]:
        return self._texts(services, "name", ids)

    async def cluster_handles(self, ids: Collection[str]) -> dict[str, str]:
        return self._texts(clusters, "handle", ids)

    async def label_values(self, key: str, visible: Visible, limit: int) -> list[str]:
        rows = self._connection.where(services, visible_rows(self._connection, services, visible))
        own = by_id(self._connection, "declared_resources", "labels")
        tags = by_id(self._connection, "clusters", "tags")
        sets = [
            *(own.get(row["id"], {}) for row in rows),
            *(tags.get(row["cluster_id"], {}) for row in rows),
        ]
        return sorted({labels[key] for labels in sets if key in labels})[:limit]

    async def deployments_of_commit(self, sha: str, visible: Visible) -> list[Deployment]:
        rows = self._inside(ReportFilter(), visible, lambda row: (row["sha"] or "").startswith(sha))
        rows.sort(key=lambda row: (row["service_id"], row["sequence"]))
        return [self._value(row) for row in rows]

    async def newest(
        self, within: ReportFilter, visible: Visible, limit: int, between: DesiredBetween
    ) -> list[Deployment]:
        rows = self._inside(
            within,
            visible,
            lambda row: (
                (between.since is None or row["desired_at"] >= between.since)
                and (between.until is None or row["desired_at"] < between.until)
            ),
        )
        rows.sort(key=lambda row: row["desired_at"], reverse=True)
        return [self._value(row) for row in rows[:limit]]

    async def edge(self) -> LedgerPosition:
        """Returns the ledger's position; with one writer, no transaction can be pending."""
        ids = [row["id"] for row in self._connection.rows(ledger)]
        return LedgerPosition(max(ids, default=0), 0, 0)

    async def ended(self, after: int, until: int, limit: int) -> tuple[int, list[EndedDeployment]]:
        rows = self._connection.where(ledger, lambda row: after < row["id"] <= until)
        rows.sort(key=lambda row: row["id"])
        rows = rows[:limit]
        last = rows[-1]["id"] if len(rows) == limit else max(after, until)
        found = [self._ended_by(row) for row in rows]
        return last, [ended for ended in found if ended is not None]

    async def figures(
        self,
        since: datetime,
        until: datetime,
        within: ReportFilter,
        visible: Visible,
        period: ReportPeriod | None = None,
    ) -> DoraMetrics:
        rows = self._inside(within, visible, lambda row: since <= row["desired_at"] < until)
        edges = period_edges(since, until, period)
        parts = tuple(
            _counts([row for row in rows if start <= row["desired_at"] < end])
            for start, end in pairwise(edges)
        )
        columns = [
            sorted(row[name] for row in rows if row[name] is not None)
            for name in ("lead_s", "restore_s")
        ]
        ranks = [
            values[nearest_rank(len(values), part)] if values else None
            for values in columns
            for part in (0.5, 0.9)
        ]
        return DoraMetrics(since, until, _counts(rows), *ranks, parts if period else ())

    def _ended_by(self, entry: Row) -> EndedDeployment | None:
        """Returns the deployment that first ended with a ledger row."""
        ends = {LedgerStage.HEALTHY: "healthy_at", **dict.fromkeys(FAILURE_STAGES, "failed_at")}
        column = ends.get(LedgerStage(entry["stage"]))
        if column is None:
            return None
        key = (entry["service_id"], entry["sequence"], entry["at"])
        names = ("service_id", "sequence", column)
        for row in self._connection.where(
            deployments, lambda row: tuple(row[name] for name in names) == key
        ):
            return self._named(row)
        return None

    def _named(self, row: Row) -> EndedDeployment | None:
        """Returns a deployment with its names, if its service and cluster still exist."""
        of_service = self._connection.where(services, lambda s: s["id"] == row["service_id"])
        of_cluster = self._connection.where(clusters, lambda c: c["id"] == row["cluster_id"])
        for service in of_service:
            for cluster in of_cluster:
                return EndedDeployment(
                    self._value(row), service["name"], cluster["handle"], service["repository_id"]
                )
        return None

    def _inside(self, within: ReportFilter, visible: Visible, matches: Predicate) -> list[Row]:
        terms = [matches, visible_rows(self._connection, deployments, visible)]
        if within.service_id:
            terms.append(lambda row: row["service_id"] == within.service_id)
        if within.cluster_id:
            terms.append(lambda row: row["cluster_id"] == within.cluster_id)
        if within.project_id:
            terms.append(lambda row: row["project_id"] == within.project_id)
        if within.repository_id:
            users = self._ids(services, "repository_id", within.repository_id)
            terms.append(lambda row: row["service_id"] in users)
        if within.labels:
            selects = every(labelled(self._connection, services, one) for one in within.labels)
            found = {row["id"] for row in self._connection.where(services, selects)}
            terms.append(lambda row: row["service_id"] in found)
        return self._connection.where(deployments, every(terms))

    def _ids(self, table: Table, column: str, value: str) -> set[str]:
        return {row["id"] for row in self._connection.where(table, lambda r: r[column] == value)}

    def _texts(self, table: Table, column: str, ids: Collection[str]) -> dict[str, str]:
        rows = self._connection.where(table, lambda row: row["id"] in ids)
        return {row["id"]: row[column] for row in rows}


def _counts(rows: Sequence[Row]) -> DeploymentCounts:
    healthy = sum(row["healthy_at"] is not None for row in rows)
    failed = sum((row["failed_at"] or row["reverted_at"]) is not None for row in rows)
    return DeploymentCounts(len(rows), healthy, failed)


def _is_of(entry: LedgerEntry) -> Predicate:
    return lambda row: (row["service_id"], row["sequence"]) == (entry.service_id, entry.sequence)


def _is_replaced_by(entry: LedgerEntry) -> Predicate:
    return lambda row: row["sequence"] < entry.sequence and row["replaced_at"] is None


def _at(column: str, entry: LedgerEntry) -> Change:
    return _at_each([column], entry)


def _at_each(columns: Sequence[str], entry: LedgerEntry) -> Change:
    return lambda row: dict.fromkeys(columns, entry.at)


def _seconds(start: datetime | None, end: datetime) -> float | None:
    return None if start is None else (end - start).total_seconds()
