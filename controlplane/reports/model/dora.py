"""Deployments from the ledger, and the four DORA metrics over them.

A deployment is one desired state of one service, from the commit to the result in its cluster. The
metrics cover deployments that became desired in a window: number that became healthy, lead time
from commit to healthy, failure rate, and time to restore.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from controlplane.services.model.ledger import LedgerStage
from controlplane.services.model.status_codes import StatusCode


@dataclass(frozen=True, slots=True)
class Deployment:
    """One desired state of a service, with the time of each of its stages.

    `failed_at`: it first failed or degraded. `restored_at`: the service was healthy again.
    `reverted_at`: a user returned to an earlier state. `replaced_at`: the next state became
    desired. `removed_at`: the service's objects were gone.
    """

    service_id: str
    sequence: int
    cluster_id: str
    stage: LedgerStage
    desired_at: datetime
    sha: str | None = None
    revision_id: str | None = None
    actor: str = ""
    committed_at: datetime | None = None
    fetched_at: datetime | None = None
    offered_at: datetime | None = None
    applied_at: datetime | None = None
    healthy_at: datetime | None = None
    failed_at: datetime | None = None
    restored_at: datetime | None = None
    reverted_at: datetime | None = None
    replaced_at: datetime | None = None
    removed_at: datetime | None = None

    def status_code(self, at: datetime) -> StatusCode:
        """Returns the service's status code at a moment at which this was its desired state."""
        failed = _by(self.failed_at, at) and not _by(self.restored_at, at)
        if failed:
            return StatusCode.FAILED
        if _by(self.healthy_at, at):
            return StatusCode.HEALTHY
        return StatusCode.SYNCED if _by(self.applied_at, at) else StatusCode.PROGRESSING


class ReportPeriod(StrEnum):
    """Length of the parts of a report."""

    DAY = "DAY"
    """One day."""
    WEEK = "WEEK"
    """Seven days."""
    MONTH = "MONTH"
    """Thirty days."""

    @property
    def length(self) -> timedelta:
        """Returns the length; a month counts as 30 days, so that all parts are of equal length."""
        return timedelta(
            days={ReportPeriod.DAY: 1, ReportPeriod.WEEK: 7, ReportPeriod.MONTH: 30}[self]
        )


@dataclass(frozen=True, slots=True)
class DeploymentCounts:
    """Numbers of deployments that began, became healthy, and failed
    or were reverted in a window.
    """

    begun: int = 0
    healthy: int = 0
    failed: int = 0

    @property
    def failure_rate(self) -> float | None:
        """Returns the failed share of all deployments; None without any."""
        return self.failed / self.begun if self.begun else None


@dataclass(frozen=True, slots=True)
class DoraMetrics:
    """The four metrics of a window; times in seconds, None if nothing was measured."""

    since: datetime
    until: datetime
    counts: DeploymentCounts
    lead_p50: float | None = None
    lead_p90: float | None = None
    restore_p50: float | None = None
    restore_p90: float | None = None
    parts: Sequence[DeploymentCounts] = ()

    @property
    def per_day(self) -> float:
        """Returns the number of deployments per day that became healthy."""
        days = (self.until - self.since) / timedelta(days=1)
        return self.counts.healthy / days if days else 0.0


class DeploymentChangeKind(StrEnum):
    """Kind of difference of a service between two moments."""

    ADDED = "ADDED"
    """The service had no desired state before and has one now."""
    REMOVED = "REMOVED"
    """The service had a desired state before and has none now."""
    CHANGED = "CHANGED"
    """The desired state or the status of the service differs."""


@dataclass(frozen=True, slots=True)
class DeploymentChange:
    """A service at two moments; None where it did not exist."""

    kind: DeploymentChangeKind
    before: Deployment | None
    after: Deployment | None
    status_before: StatusCode | None = None
    status_after: StatusCode | None = None


def compare_deployments(
    before: Sequence[Deployment], then: datetime, after: Sequence[Deployment], now: datetime
) -> list[DeploymentChange]:
    """Compares all services at two moments: their commits and their status codes."""
    old = {deployment.service_id: deployment for deployment in before}
    new = {deployment.service_id: deployment for deployment in after}
    changes = []
    for id in sorted(old.keys() | new.keys()):
        was, is_now = old.get(id), new.get(id)
        marks = was.status_code(then) if was else None, is_now.status_code(now) if is_now else None
        if was and is_now and (was.sequence, marks[0]) == (is_now.sequence, marks[1]):
            continue
        changes.append(DeploymentChange(_kind(was, is_now), was, is_now, *marks))
    return changes


def nearest_rank(count: int, part: float) -> int:
    """Returns the zero-based rank of a percentile among `count` sorted values (nearest rank)."""
    return max(0, -int(-count * part // 1) - 1)


def _kind(was: Deployment | None, is_now: Deployment | None) -> DeploymentChangeKind:
    if was is None:
        return DeploymentChangeKind.ADDED
    return DeploymentChangeKind.CHANGED if is_now else DeploymentChangeKind.REMOVED


def _by(moment: datetime | None, at: datetime) -> bool:
    return moment is not None and moment <= at
