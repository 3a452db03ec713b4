"""Verification of a bundle after its apply."""

from dataclasses import dataclass

from core.spec.thresholds import Comparison


@dataclass(frozen=True, slots=True)
class MetricCheck:
    """A PromQL instant query whose value must satisfy a comparison."""

    address: str
    """Prometheus in the cluster, as `namespace/service:port`, with the prefix `https:` for TLS.
    The cluster's operator lists it in `autonomy.metrics`. Limit: 512 characters."""
    query: str
    """PromQL query. Limit: 4,096 characters."""
    threshold: float
    """Threshold for the value."""
    comparison: Comparison = Comparison.AT_MOST
    """Comparison of the value with the threshold. Default: `AT_MOST`."""


@dataclass(frozen=True, slots=True)
class Verification:
    """Conditions of a good bundle. The agent rolls a failed bundle back to the last good one."""

    soak_s: int
    """Seconds for which the service must stay healthy. Limit: 2,592,000 (30 days)."""
    max_restarts: int = 3
    """Maximum number of container restarts during that time. Default: 3."""
    metric: MetricCheck | None = None
    """Metric query. None without one."""


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
