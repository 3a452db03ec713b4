"""Why a commit is not live: where each service's walk stands, and what it waits for.

A commit walks: committed, fetched, desired (rendered), offered to its agent, applied, healthy.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from controlplane.domain.clusters import SILENT_AFTER, Cluster
from controlplane.domain.dora import Deployment, nearest_rank
from controlplane.domain.services import Phase, Service

_WALK = ("committed_at", "fetched_at", "desired_at", "offered_at", "applied_at", "healthy_at")


class Standing(StrEnum):
    """Stage of a commit in a service; stages before LIVE name what is pending."""

    LIVE = "LIVE"
    """The service is healthy with the commit."""
    SUPERSEDED = "SUPERSEDED"
    """A later state is desired."""
    UNCHANGED = "UNCHANGED"
    """The commit changes no file of the service."""
    HELD = "HELD"
    """A pipeline gate or a rollback keeps the commit back."""
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


ARRIVED = frozenset({Standing.LIVE, Standing.SUPERSEDED, Standing.UNCHANGED})


@dataclass(frozen=True, slots=True)
class Walk:
    """A service's walk with a commit. `since` is when it came to where it stands."""

    service: Service
    cluster: Cluster | None
    deployment: Deployment | None
    standing: Standing
    reason: str = ""
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class StageTime:
    """How long a stage took over all services that passed it, in seconds."""

    stage: str
    count: int
    p50: float
    p99: float


def walk(
    service: Service, cluster: Cluster | None, deployment: Deployment | None, now: datetime
) -> Walk:
    """Where a service stands with a commit; without a deployment it never got there."""
    if deployment is None:
        standing, reason = _before(service)
        return Walk(service, cluster, None, standing, reason, service.updated_at)
    standing, reason, since = _stage(service, deployment)
    if standing in (Standing.OFFERING, Standing.APPLYING) and (silence := _silence(cluster, now)):
        reason = silence
    return Walk(service, cluster, deployment, standing, reason, since)


def stage_times(deployments: Sequence[Deployment]) -> list[StageTime]:
    """How long each stage took, in the order of the walk."""
    found = []
    for before, after in zip(_WALK, _WALK[1:], strict=False):
        taken = sorted(_taken(deployments, before, after))
        if taken:
            p50, p99 = (taken[nearest_rank(len(taken), part)] for part in (0.5, 0.99))
            found.append(StageTime(after.removesuffix("_at"), len(taken), p50, p99))
    return found


def _taken(deployments: Iterable[Deployment], before: str, after: str) -> Iterable[float]:
    for one in deployments:
        start, end = getattr(one, before), getattr(one, after)
        if start is not None and end is not None:
            yield max(0.0, (end - start).total_seconds())


def _before(service: Service) -> tuple[Standing, str]:
    """Why a commit never became what the service should be."""
    if service.render_error:
        return Standing.RENDERING, service.render_error
    if service.promoted:
        return Standing.HELD, "it takes commits from its pipeline: a gate is not open yet"
    if service.pinned:
        return Standing.HELD, f"it is held at {service.pinned[:12]} since a rollback"
    if service.digest is None:
        return Standing.RENDERING, "nothing was rendered yet"
    return Standing.UNCHANGED, "the commit changes nothing that it reads"


def _stage(service: Service, one: Deployment) -> tuple[Standing, str, datetime]:
    if service.sequence > one.sequence:
        return Standing.SUPERSEDED, "a later state is desired", one.replaced_at or one.desired_at
    problems = "; ".join(problem.message for problem in service.errors[:3])
    if one.failed_at is not None and one.restored_at is None:
        return Standing.FAILED, problems or service.message, one.failed_at
    if one.healthy_at is not None:
        return Standing.LIVE, "", one.healthy_at
    if one.applied_at is not None:
        text = problems or service.message or "its objects are not healthy yet"
        return Standing.BECOMING_HEALTHY, text, one.applied_at
    if service.paused:
        return Standing.HELD, "it is paused: nothing is applied until it is resumed", one.desired_at
    if service.phase is Phase.AWAITING:
        return Standing.CONFIRMING, problems, one.offered_at or one.desired_at
    if one.offered_at is not None:
        return Standing.APPLYING, problems or service.message, one.offered_at
    return Standing.OFFERING, "its agent was not told yet", one.desired_at


def _silence(cluster: Cluster | None, now: datetime) -> str:
    """What is wrong with the line to a cluster; empty if it was heard of of late."""
    if cluster is None or cluster.pinged_at is None:
        return "the agent of its cluster has never come"
    if now - cluster.pinged_at > SILENT_AFTER:
        return f"the agent of {cluster.handle} was last heard of at {cluster.pinged_at:%FT%TZ}"
    return ""
