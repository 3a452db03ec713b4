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
    """One desired state of a service, with the time of each of its stages."""

    service_id: str
    """ID of the service."""
    sequence: int
    """Generation of the desired state."""
    cluster_id: str
    """ID of the cluster."""
    stage: LedgerStage
    """Last stage, such as `rendered`, `applied` or `healthy`."""
    desired_at: datetime
    """Time at which the commit became the desired state."""
    sha: str | None = None
    """Full SHA of the commit. None for a service without a Git repository."""
    revision_id: str | None = None
    """ID of the revision."""
    actor: str = ""
    """Author of the commit, or e-mail address of the user, that caused the deployment."""
    committed_at: datetime | None = None
    """Time of the commit."""
    fetched_at: datetime | None = None
    """Time at which the git cache fetched the commit."""
    offered_at: datetime | None = None
    """Time at which the agent received the desired state."""
    applied_at: datetime | None = None
    """Time at which all objects were applied."""
    healthy_at: datetime | None = None
    """Time at which all objects were healthy."""
    failed_at: datetime | None = None
    """Time of the first failure."""
    restored_at: datetime | None = None
    """Time at which the service was healthy again after a failure."""
    reverted_at: datetime | None = None
    """Time of a rollback to an earlier state."""
    replaced_at: datetime | None = None
    """Time at which the next desired state replaced this one."""
    removed_at: datetime | None = None
    """Time at which all objects were removed."""

    def status_code(self, at: datetime) -> StatusCode:
        """Returns the service's status code at a moment at which this was its desired state."""
        failed = _happened_by(self.failed_at, at) and not _happened_by(self.restored_at, at)
        if failed:
            return StatusCode.FAILED
        if _happened_by(self.healthy_at, at):
            return StatusCode.HEALTHY
        return StatusCode.SYNCED if _happened_by(self.applied_at, at) else StatusCode.PROGRESSING


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
    """Numbers of deployments in a window."""

    begun: int = 0
    """Deployments that became the desired state."""
    healthy: int = 0
    """Deployments that became healthy."""
    failed: int = 0
    """Deployments that failed, degraded or were rolled back."""

    @property
    def failure_rate(self) -> float | None:
        """Returns the failed share of all deployments; None without any."""
        return self.failed / self.begun if self.begun else None


@dataclass(frozen=True, slots=True)
class DoraMetrics:
    """The four metrics of a window."""

    since: datetime
    """Start of the time range."""
    until: datetime
    """End of the time range."""
    counts: DeploymentCounts
    """Counts over the whole range."""
    lead_p50: float | None = None
    """Median lead time from commit to healthy, in seconds. None without data."""
    lead_p90: float | None = None
    """90th percentile of the lead time, in seconds. None without data."""
    restore_p50: float | None = None
    """Median time from failure to healthy again, in seconds. None without data."""
    restore_p90: float | None = None
    """90th percentile of the time to restore, in seconds. None without data."""
    parts: Sequence[DeploymentCounts] = ()
    """Counts per period, oldest first. Empty without periods."""

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
    """Kind of difference."""
    latest: Deployment
    """Deployment at the second moment, or at the first one if the service did not exist later."""
    before: Deployment | None
    after: Deployment | None
    status_before: StatusCode | None = None
    """State at the first point in time."""
    status_after: StatusCode | None = None
    """State at the second point in time."""


def compare_deployments(
    before: Sequence[Deployment], then: datetime, after: Sequence[Deployment], now: datetime
) -> list[DeploymentChange]:
    """Compares all services at two moments: their commits and their status codes."""
    old = {deployment.service_id: deployment for deployment in before}
    new = {deployment.service_id: deployment for deployment in after}
    changes = []
    for id, latest in sorted((old | new).items()):
        earlier, later = old.get(id), new.get(id)
        codes = (
            earlier.status_code(then) if earlier else None,
            later.status_code(now) if later else None,
        )
        if earlier and later and (earlier.sequence, codes[0]) == (later.sequence, codes[1]):
            continue
        changes.append(
            DeploymentChange(_change_kind(earlier, later), latest, earlier, later, *codes)
        )
    return changes


def period_edges(since: datetime, until: datetime, period: ReportPeriod | None) -> list[datetime]:
    """Returns the start of each period of a window, and its end; the last period may be shorter.

    Without a period, the window is one.
    """
    if period is None:
        return [since, until]
    count = max(1, -((since - until) // period.length))
    return [*(since + number * period.length for number in range(count)), until]


def nearest_rank(count: int, part: float) -> int:
    """Returns the zero-based rank of a percentile among `count` sorted values (nearest rank)."""
    return max(0, -int(-count * part // 1) - 1)


def _change_kind(earlier: Deployment | None, later: Deployment | None) -> DeploymentChangeKind:
    if earlier is None:
        return DeploymentChangeKind.ADDED
    return DeploymentChangeKind.CHANGED if later else DeploymentChangeKind.REMOVED


def _happened_by(moment: datetime | None, at: datetime) -> bool:
    return moment is not None and moment <= at
