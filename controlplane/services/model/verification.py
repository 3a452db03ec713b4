"""Verification of a bundle after its apply: the policy, and a failure's cause.

The agent verifies on its own, so that it can roll back to the last good bundle without the control
plane.
"""

from dataclasses import dataclass
from datetime import datetime

from controlplane.platform.names import check_text
from core.errors import Invalid
from core.spec.thresholds import Comparison

MAX_VERIFICATION_SECONDS = 30 * 86_400
MAX_RESTARTS = 1_000_000
_MAX_ADDRESS, _MAX_QUERY = 512, 4096


@dataclass(frozen=True, slots=True)
class MetricCheck:
    """An instant PromQL query to a Prometheus of the cluster, at `namespace/service:port`."""

    address: str
    query: str
    threshold: float
    comparison: Comparison = Comparison.AT_MOST

    def check(self, field: str) -> None:
        """Raises Invalid, naming the field."""
        check_text(self.address, f"{field}.address", _MAX_ADDRESS)
        check_text(self.query, f"{field}.query", _MAX_QUERY)


@dataclass(frozen=True, slots=True)
class Verification:
    """A bundle is good after it was continuously healthy for `seconds` with at most `max_restarts`.

    The agent rolls a failed bundle back to the last good one.
    """

    seconds: int
    max_restarts: int = 3
    metric: MetricCheck | None = None

    def check(self, field: str) -> None:
        """Raises Invalid, naming the field."""
        if not 1 <= self.seconds <= MAX_VERIFICATION_SECONDS:
            raise Invalid(f"must be 1 to {MAX_VERIFICATION_SECONDS:,} seconds", field=field)
        if not 0 <= self.max_restarts <= MAX_RESTARTS:
            raise Invalid(f"must be 0 to {MAX_RESTARTS:,} restarts", field=field)
        if self.metric is not None:
            self.metric.check(f"{field}.metric")


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Reason why a service is quarantined; `instead` is the digest that it runs.

    `digest`, or its commit, is known to be bad. After the user `lifted_by` lifts the quarantine,
    it may be applied again and must pass verification again.
    """

    digest: str
    reason: str
    at: datetime
    instead: str = ""
    lifted_by: str = ""

    def __str__(self) -> str:
        stays = f"; it stays at {self.instead[:19]}" if self.instead else ""
        return f"{self.digest[:19]} is known to be bad: {self.reason}{stays}"


@dataclass(frozen=True, slots=True)
class VerifiedReport:
    """Result of an agent's verification of a bundle, with the `reason` for a failure.

    `instead` is the bundle that the agent rolled back to; empty if there was none.
    """

    service_id: str
    sequence: int
    digest: str
    ok: bool
    reason: str
    instead: str
