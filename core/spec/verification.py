"""Verification of a bundle after its apply."""

from dataclasses import dataclass

from core.spec.thresholds import Comparison


@dataclass(frozen=True, slots=True)
class MetricCheck:
    """A PromQL instant query whose value must satisfy a comparison."""

    address: str
    """Prometheus in the cluster, `namespace/service:port`, with the prefix `https:` for TLS."""
    query: str
    threshold: float
    comparison: Comparison = Comparison.AT_MOST
    """Operator between the value and the threshold."""


@dataclass(frozen=True, slots=True)
class Verification:
    """Conditions of a good bundle. The agent rolls a failed bundle back to the last good one."""

    soak_s: int
    """Time that the service must stay healthy, in seconds."""
    max_restarts: int = 3
    """Maximum number of container restarts since the bundle was applied."""
    metric: MetricCheck | None = None


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """Result of the verification of a bundle."""

    service_id: str
    sequence: int
    digest: str
    """Digest of the verified bundle."""
    ok: bool
    reason: str = ""
    """Cause of a failure."""
    instead: str = ""
    """Digest of the bundle after the rollback; empty if there was none."""
