"""Path of a commit to each service: its current stage, and the reason why it is not live.

The stages are: committed, fetched, desired (rendered), offered to the agent, applied, healthy.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import pairwise

from controlplane.clusters.model.cluster import Cluster
from controlplane.reports.model.dora import Deployment, nearest_rank
from controlplane.services.model.service import Service
from core.spec.status import Phase

_STAGE_COLUMNS = (
    "committed_at",
    "fetched_at",
    "desired_at",
    "offered_at",
    "applied_at",
    "healthy_at",
)


class CommitStanding(StrEnum):
    """Stage of a commit in a service; stages before LIVE name what is pending."""

    LIVE = "LIVE"
    """The service is healthy with the commit."""
    SUPERSEDED = "SUPERSEDED"
    """A later state is desired."""
    UNCHANGED = "UNCHANGED"
    """The commit changes no file of the service."""
    HELD = "HELD"
    """A gate, rollback, dependency, quarantine or pause blocks it."""
    RENDERING = "RENDERING"
    """The commit is not rendered yet, or rendering failed."""
    OFFERING = "OFFERING"
    """The agent has not received the desired state yet."""
    APPLYING = "APPLYING"
    """The agent is applying the desired state."""
    CONFIRMING = "CONFIRMING"
    """Deletions await a confirmation."""
    BECOMING_HEALTHY = "BECOMING_HEALTHY"
    """Applied, waiting for health."""
    FAILED = "FAILED"
    """The service failed with the commit."""


ARRIVED = frozenset({CommitStanding.LIVE, CommitStanding.SUPERSEDED, CommitStanding.UNCHANGED})


@dataclass(frozen=True, slots=True)
class CommitPath:
    """Path of a commit in one service."""

    service: Service
    cluster: Cluster | None
    deployment: Deployment | None
    standing: CommitStanding
    """Current stage."""
    reason: str = ""
    """Reason of the wait or the failure. Empty if there is none."""
    since: datetime | None = None
    """Start of the current stage."""


@dataclass(frozen=True, slots=True)
class StageTime:
    """Duration of a stage over all services that completed it."""

    stage: str
    """Name of the stage."""
    count: int
    """Number of services."""
    p50: float
    """Median duration in seconds."""
    p99: float
    """99th percentile of the duration in seconds."""


def commit_path(
    service: Service, cluster: Cluster | None, deployment: Deployment | None, now: datetime
) -> CommitPath:
    """Locates a commit on its path to a service. Without a deployment the commit never became
    desired.
    """
    if deployment is None:
        standing, reason = _standing_without_deployment(service)
        return CommitPath(service, cluster, None, standing, reason, service.updated_at)
    standing, reason, since = _standing_of_deployment(service, deployment)
    if standing in (CommitStanding.OFFERING, CommitStanding.APPLYING) and (
        offline_reason := _offline_reason(cluster, now)
    ):
        reason = offline_reason
    return CommitPath(service, cluster, deployment, standing, reason, since)


def stage_times(deployments: Sequence[Deployment]) -> list[StageTime]:
    """Returns the duration of each stage, in order."""
    times = []
    for before, after in pairwise(_STAGE_COLUMNS):
        durations = sorted(_durations(deployments, before, after))
        if durations:
            p50, p99 = (durations[nearest_rank(len(durations), part)] for part in (0.5, 0.99))
            times.append(StageTime(after.removesuffix("_at"), len(durations), p50, p99))
    return times


def _durations(deployments: Iterable[Deployment], before: str, after: str) -> Iterable[float]:
    for deployment in deployments:
        start, end = getattr(deployment, before), getattr(deployment, after)
        if start is not None and end is not None:
            yield max(0.0, (end - start).total_seconds())


def _standing_without_deployment(service: Service) -> tuple[CommitStanding, str]:
    """Returns the reason why a commit never became the service's desired state."""
    if service.desired.render_error:
        return CommitStanding.RENDERING, service.desired.render_error
    if service.withheld_reasons:
        return CommitStanding.HELD, "; ".join(str(problem) for problem in service.withheld_reasons)
    if service.spec.promoted:
        return (
            CommitStanding.HELD,
            "the pipeline has not promoted this commit yet: a gate is still closed",
        )
    if service.desired.pinned_sha:
        return (
            CommitStanding.HELD,
            f"the service is pinned at {service.desired.pinned_sha[:12]} after a rollback",
        )
    if service.desired.digest is None:
        return CommitStanding.RENDERING, "not rendered yet"
    return CommitStanding.UNCHANGED, "the commit changes no file that the service uses"


def _standing_of_deployment(
    service: Service, deployment: Deployment
) -> tuple[CommitStanding, str, datetime]:
    if service.desired.generation > deployment.sequence:
        return (
            CommitStanding.SUPERSEDED,
            "superseded by a later desired state",
            deployment.replaced_at or deployment.desired_at,
        )
    problems = "; ".join(str(problem) for problem in service.errors[:3])
    if deployment.failed_at is not None and deployment.restored_at is None:
        return CommitStanding.FAILED, problems or service.observed.message, deployment.failed_at
    if deployment.healthy_at is not None:
        return CommitStanding.LIVE, "", deployment.healthy_at
    if deployment.applied_at is not None:
        text = problems or service.observed.message or "objects are not healthy yet"
        return CommitStanding.BECOMING_HEALTHY, text, deployment.applied_at
    if service.spec.paused:
        return (
            CommitStanding.HELD,
            "the service is paused; resume it to apply the change",
            deployment.desired_at,
        )
    if service.observed.phase is Phase.AWAITING:
        return CommitStanding.CONFIRMING, problems, deployment.offered_at or deployment.desired_at
    if deployment.offered_at is not None:
        return CommitStanding.APPLYING, problems or service.observed.message, deployment.offered_at
    return CommitStanding.OFFERING, "not sent to the agent yet", deployment.desired_at


def _offline_reason(cluster: Cluster | None, now: datetime) -> str:
    """Returns the reason why a cluster's agent is offline; empty if it is connected."""
    if cluster is None or cluster.pinged_at is None:
        return "the agent of this cluster has never connected"
    if cluster.is_silent(now):
        return f"the agent of {cluster.handle} is offline, last seen {cluster.pinged_at:%FT%TZ}"
    return ""
