"""Verification of bundles and quarantined revisions in the API."""

import strawberry

from controlplane.platform.graphql.derive import Draft, Output, draft, output
from controlplane.services.model.verification import Quarantine
from core.spec.thresholds import Comparison
from core.spec.verification import MetricCheck, Verification

strawberry.enum(
    Comparison,
    name="MetricComparison",
    description="Comparison of a value with a threshold. NaN never meets it.",
)


@output(MetricCheck)
class ServiceMetricCheck(Output[MetricCheck]):
    """A PromQL instant query that a new bundle must pass."""


@output(Verification, rename={"soak_seconds": "soak_s"})
class ServiceVerification(Output[Verification]):
    """Verification of a new bundle. If it fails, the agent rolls back to the last verified
    bundle."""


@output(Quarantine, nullable={"instead", "lifted_by"})
class ServiceHold(Output[Quarantine]):
    """A denied or quarantined revision that a service does not get."""

    revision: str
    """Denied commit or digest."""


@draft(MetricCheck)
class MetricCheckAttributes(Draft[MetricCheck]):
    """A PromQL instant query that a new bundle must pass."""

    comparison: Comparison = Comparison.AT_MOST


@draft(Verification, rename={"soak_seconds": "soak_s"})
class VerificationAttributes(Draft[Verification]):
    """Verification of a new bundle. If it fails, the agent rolls back to the last verified
    bundle."""

    soak_seconds: int
    """Seconds for which the service must stay healthy. 0 disables the verification. Limit:
    2,592,000 (30 days)."""
    max_restarts: int = 3
