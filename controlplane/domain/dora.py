"""Deployments as the ledger tells them, and the four figures of delivery over them.

A deployment is one desired state of one service: from the commit to what its cluster made of it.
The figures are those of DORA, over the deployments that became desired in a window:
how many became healthy, how long from commit to healthy, which part failed, how long until healthy
again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from controlplane.domain.ledger import Stage
from controlplane.domain.marks import Mark


@dataclass(frozen=True, slots=True)
class Deployment:
    """One desired state of a service, with the time of each stage of its walk.

    `failed_at` is when it first failed or degraded, `restored_at` when the service was healthy
    again, `reverted_at` when somebody returned to an earlier one, `replaced_at` when the next one
    became desired, `removed_at` when the service's objects were gone.
    """

    service_id: str
    sequence: int
    cluster_id: str
    stage: Stage
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

    def mark(self, at: datetime) -> Mark:
        """What the service was at, at a moment at which this was what it should be."""
        failed = _by(self.failed_at, at) and not _by(self.restored_at, at)
        if failed:
            return Mark.FAILED
        if _by(self.healthy_at, at):
            return Mark.HEALTHY
        return Mark.SYNCED if _by(self.applied_at, at) else Mark.PROGRESSING


class Period(StrEnum):
    """Length of the parts of a report."""

    DAY = "DAY"
    """One day."""
    WEEK = "WEEK"
    """Seven days."""
    MONTH = "MONTH"
    """Thirty days."""

    @property
    def length(self) -> timedelta:
        """A month is thirty days: parts are compared, so they are of equal length."""
        return timedelta(days={Period.DAY: 1, Period.WEEK: 7, Period.MONTH: 30}[self])


@dataclass(frozen=True, slots=True)
class Counts:
    """Deployments of a stretch of time: begun, become healthy, failed or reverted."""

    begun: int = 0
    healthy: int = 0
    failed: int = 0

    @property
    def failure_rate(self) -> float | None:
        """Which part of all failed; None without any."""
        return self.failed / self.begun if self.begun else None


@dataclass(frozen=True, slots=True)
class Figures:
    """The four figures of a window; times in seconds, None where nothing was measured."""

    since: datetime
    until: datetime
    counts: Counts
    lead_p50: float | None = None
    lead_p90: float | None = None
    restore_p50: float | None = None
    restore_p90: float | None = None
    parts: Sequence[Counts] = ()

    @property
    def per_day(self) -> float:
        """Deployments that became healthy, a day."""
        days = (self.until - self.since) / timedelta(days=1)
        return self.counts.healthy / days if days else 0.0


class ChangeKind(StrEnum):
    """Kind of difference of a service between two moments."""

    ADDED = "ADDED"
    """The service had no desired state before and has one now."""
    REMOVED = "REMOVED"
    """The service had a desired state before and has none now."""
    CHANGED = "CHANGED"
    """The desired state or the status of the service differs."""


@dataclass(frozen=True, slots=True)
class Change:
    """A service at two moments; what did not exist then is None."""

    kind: ChangeKind
    before: Deployment | None
    after: Deployment | None
    mark_before: Mark | None = None
    mark_after: Mark | None = None


def difference(
    before: Sequence[Deployment], then: datetime, after: Sequence[Deployment], now: datetime
) -> list[Change]:
    """What differs between the fleet at two moments: commits, and what services were at."""
    old = {one.service_id: one for one in before}
    new = {one.service_id: one for one in after}
    changes = []
    for id in sorted(old.keys() | new.keys()):
        was, is_now = old.get(id), new.get(id)
        marks = was.mark(then) if was else None, is_now.mark(now) if is_now else None
        if was and is_now and (was.sequence, marks[0]) == (is_now.sequence, marks[1]):
            continue
        changes.append(Change(_kind(was, is_now), was, is_now, *marks))
    return changes


def nearest_rank(count: int, part: float) -> int:
    """The place, from 0, of a percentile among so many sorted values (nearest rank)."""
    return max(0, -int(-count * part // 1) - 1)


def _kind(was: Deployment | None, is_now: Deployment | None) -> ChangeKind:
    if was is None:
        return ChangeKind.ADDED
    return ChangeKind.CHANGED if is_now else ChangeKind.REMOVED


def _by(moment: datetime | None, at: datetime) -> bool:
    return moment is not None and moment <= at
