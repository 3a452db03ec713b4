"""Deployments as traces: one trace a commit, one branch in it for each service.

Ids derive from content, so that every replica creates the same spans and a repeated export is
harmless. As in OpenTelemetry, trace ids have 128 bits and span ids 64.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from itertools import pairwise

from controlplane.reports.model.dora import Deployment

_STAGES = (
    ("", "fetched_at"),
    ("render", "desired_at"),
    ("offer", "offered_at"),
    ("apply", "applied_at"),
    ("become healthy", "healthy_at"),
)


@dataclass(frozen=True, slots=True)
class EndedDeployment:
    """A deployment that just became healthy or failed, with the names for its spans."""

    deployment: Deployment
    service: str
    cluster: str
    repository_id: str | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """A span of a trace. `problem` describes a failure."""

    trace_id: int
    span_id: int
    parent_id: int | None
    name: str
    start: datetime
    end: datetime
    attributes: Mapping[str, str | int] = field(default_factory=dict)
    problem: str = ""


def spans_of(ended: EndedDeployment) -> list[Span]:
    """Creates a span for the whole path, and below it one for each completed stage."""
    deployment = ended.deployment
    trace_id, root_id = _trace_id(ended), _derived_id(64, _deployment_key(deployment))
    times = dict(_stage_times(deployment))
    start, end = min(times.values()), max(times.values())
    problem = "" if deployment.healthy_at else "the deployment failed"
    root = Span(
        trace_id,
        root_id,
        None,
        f"deploy {ended.cluster}/{ended.service}",
        start,
        end,
        _span_attributes(ended),
        problem,
    )
    stages = [(name, times[column]) for name, column in _STAGES if column in times]
    return [root] + [
        Span(
            trace_id,
            _derived_id(64, _deployment_key(deployment), name),
            root_id,
            name,
            since,
            max(since, until),
        )
        for (_, since), (name, until) in pairwise(stages)
    ]


def _stage_times(deployment: Deployment) -> Iterator[tuple[str, datetime]]:
    columns = [column for _, column in _STAGES]
    for column in columns if deployment.healthy_at else [*columns, "failed_at"]:
        at = getattr(deployment, column)
        if at is not None:
            yield column, at


def _span_attributes(ended: EndedDeployment) -> dict[str, str | int]:
    deployment = ended.deployment
    attributes: dict[str, str | int | None] = {
        "towline.service": ended.service,
        "towline.service.id": deployment.service_id,
        "towline.sequence": deployment.sequence,
        "towline.actor": deployment.actor,
        "k8s.cluster.name": ended.cluster,
        "vcs.ref.head.revision": deployment.sha,
        "towline.committed_at": deployment.committed_at.isoformat()
        if deployment.committed_at
        else None,
    }
    return {name: value for name, value in attributes.items() if value is not None}


def _trace_id(ended: EndedDeployment) -> int:
    """Returns the same trace id for all services that a commit of one repository reaches."""
    deployment = ended.deployment
    if deployment.sha and ended.repository_id:
        return _derived_id(128, ended.repository_id, deployment.sha)
    return _derived_id(128, _deployment_key(deployment))


def _deployment_key(deployment: Deployment) -> str:
    return f"{deployment.service_id}/{deployment.sequence}"


def _derived_id(bits: int, *parts: str) -> int:
    """Never 0, which the specification forbids."""
    digest = sha256("\n".join(parts).encode()).digest()
    return int.from_bytes(digest[: bits // 8]) or 1
