"""Counts of existing and waiting items for monitoring."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

RECENT = timedelta(minutes=15)
DELIVERY_BOUNDS = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)


class Liveness(StrEnum):
    """Connection state of a cluster's agent."""

    CONNECTED = "connected"
    OFFLINE = "offline"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """Number of waiting items, and the age of the oldest in seconds."""

    count: int = 0
    oldest: float = 0.0


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """Counts at one moment.

    `services` are grouped by their `StatusCode`. `deliveries` counts deployments that became
    healthy within `RECENT` and whose commit is known. Its keys are the upper bounds of
    `DELIVERY_BOUNDS` in seconds; the last one is None. `sources` are configuration sources by
    the result of their last reconciliation, `cluster_sources` those of clusters.
    """

    services: Mapping[str, int] = field(default_factory=dict)
    clusters: Mapping[Liveness, int] = field(default_factory=dict)
    jobs: QueueDepth = QueueDepth()
    commands: QueueDepth = QueueDepth()
    deliveries: Mapping[float | None, int] = field(default_factory=dict)
    delivery_seconds: float = 0.0
    sources: Mapping[str, int] = field(default_factory=dict)
    cluster_sources: Mapping[str, int] = field(default_factory=dict)
