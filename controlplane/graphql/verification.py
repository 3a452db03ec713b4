"""How services prove themselves, and what they are held back from, in the API."""

from datetime import datetime

import strawberry

from controlplane.domain.verification import Hold, MetricCheck, Verification
from fleet.thresholds import Comparison

strawberry.enum(Comparison, name="MetricComparison")


@strawberry.type
class ServiceMetricCheck:
    """An instant query in PromQL; `address` is `namespace/service:port` within the cluster."""

    address: str
    query: str
    comparison: Comparison
    threshold: float


@strawberry.type
class ServiceVerification:
    """A bundle is good once it was healthy on end for so long, with no more restarts of
    containers. The agent goes back from one that is not."""

    soak_seconds: int
    max_restarts: int
    metric: ServiceMetricCheck | None

    @classmethod
    def of(cls, policy: Verification | None) -> "ServiceVerification | None":
        if policy is None:
            return None
        one = policy.metric
        metric = (
            ServiceMetricCheck(
                address=one.address,
                query=one.query,
                comparison=one.comparison,
                threshold=one.threshold,
            )
            if one
            else None
        )
        return cls(soak_seconds=policy.seconds, max_restarts=policy.max_restarts, metric=metric)


@strawberry.type
class ServiceHold:
    """What a service was held back from: `revision`, a commit or digest that is known to be bad.

    `instead` is the digest that it has. After `liftedBy` it may have it, and has to prove itself.
    """

    revision: str
    digest: str
    reason: str
    at: datetime
    instead: str | None
    lifted_by: str | None

    @classmethod
    def of(cls, held: str | None, hold: Hold | None) -> "ServiceHold | None":
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
    """An instant query in PromQL to `namespace/service:port` within the cluster."""

    address: str
    query: str
    threshold: float
    comparison: Comparison = Comparison.AT_MOST

    def check(self) -> MetricCheck:
        return MetricCheck(self.address, self.query, self.threshold, self.comparison)


@strawberry.input
class VerificationAttributes:
    """For how long a bundle must be healthy on end; 0 seconds: it need not prove itself."""

    soak_seconds: int
    max_restarts: int = 3
    metric: MetricCheckAttributes | None = None

    def policy(self) -> Verification:
        metric = self.metric.check() if self.metric else None
        return Verification(self.soak_seconds, self.max_restarts, metric)
