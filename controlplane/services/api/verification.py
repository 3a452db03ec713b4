"""Verification of bundles and quarantined revisions in the API."""

from datetime import datetime

import strawberry

from controlplane.services.model.verification import Quarantine
from core.spec.thresholds import Comparison
from core.spec.verification import MetricCheck, Verification

strawberry.enum(
    Comparison,
    name="MetricComparison",
    description="Comparison of a value with a threshold. NaN never meets it.",
)


@strawberry.type
class ServiceMetricCheck:
    """A PromQL instant query that a new bundle must pass."""

    address: str
    """Prometheus in the cluster, as `namespace/service:port`."""
    query: str
    """PromQL query."""
    comparison: Comparison
    """Comparison of the value with the threshold."""
    threshold: float
    """Threshold for the value."""


@strawberry.type
class ServiceVerification:
    """Verification of a new bundle. If it fails, the agent rolls back to the last verified
    bundle."""

    soak_seconds: int
    """Seconds for which the service must stay healthy."""
    max_restarts: int
    """Maximum number of container restarts during that time."""
    metric: ServiceMetricCheck | None
    """Metric query. Null without one."""

    @classmethod
    def of(cls, policy: Verification | None) -> "ServiceVerification | None":
        if policy is None:
            return None
        check = policy.metric
        metric = (
            ServiceMetricCheck(
                address=check.address,
                query=check.query,
                comparison=check.comparison,
                threshold=check.threshold,
            )
            if check
            else None
        )
        return cls(soak_seconds=policy.soak_s, max_restarts=policy.max_restarts, metric=metric)


@strawberry.type
class ServiceHold:
    """A denied or quarantined revision that a service does not get."""

    revision: str
    """Denied commit or digest."""
    digest: str
    """Digest that the service would have."""
    reason: str
    """Reason of the denial."""
    at: datetime
    """Time of the denial."""
    instead: str | None
    """Digest that the service keeps. Null without one."""
    lifted_by: str | None
    """E-mail address of the user who allowed the revision again. It must pass the verification.
    Null before that."""

    @classmethod
    def of(cls, held: str | None, hold: Quarantine | None) -> "ServiceHold | None":
        if held is None or hold is None:
            return None
        return cls(
            revision=held,
            digest=hold.digest,
            reason=hold.reason,
            at=hold.at,
            instead=hold.instead or None,
            lifted_by=hold.lifted_by or None,
        )


@strawberry.input
class MetricCheckAttributes:
    """A PromQL instant query that a new bundle must pass."""

    address: str
    """Prometheus in the cluster, as `namespace/service:port`. Limit: 512 characters."""
    query: str
    """PromQL query. Limit: 4,096 characters."""
    threshold: float
    """Threshold for the value."""
    comparison: Comparison = Comparison.AT_MOST
    """Comparison of the value with the threshold. Default: `AT_MOST`."""

    def check(self) -> MetricCheck:
        return MetricCheck(self.address, self.query, self.threshold, self.comparison)


@strawberry.input
class VerificationAttributes:
    """Verification of a new bundle. If it fails, the agent rolls back to the last verified
    bundle."""

    soak_seconds: int
    """Seconds for which the service must stay healthy. 0 disables the verification. Limit:
    2,592,000 (30 days)."""
    max_restarts: int = 3
    """Maximum number of container restarts during that time. Default: 3."""
    metric: MetricCheckAttributes | None = None
    """Metric query. Default: none."""

    def policy(self) -> Verification:
        metric = self.metric.check() if self.metric else None
        return Verification(self.soak_seconds, self.max_restarts, metric)
