"""Whether a bundle proves itself after it was applied: the policy, and what failed it.

The agent judges by itself, so that it can go back to the last good bundle with nobody to ask.
"""

from dataclasses import dataclass
from datetime import datetime

from controlplane.domain.names import check_text
from fleet.errors import Invalid
from fleet.thresholds import Comparison

MAX_VERIFICATION_SECONDS = 30 * 86_400
MAX_RESTARTS = 1_000_000
_LONGEST_ADDRESS, _LONGEST_QUERY = 512, 4096


@dataclass(frozen=True, slots=True)
class MetricCheck:
    """An instant query in PromQL to a Prometheus of the cluster, `namespace/service:port`."""

    address: str
    query: str
    threshold: float
    comparison: Comparison = Comparison.AT_MOST

    def check(self, field: str) -> None:
        """Raise Invalid, naming the field."""
        check_text(self.address, f"{field}.address", _LONGEST_ADDRESS)
        check_text(self.query, f"{field}.query", _LONGEST_QUERY)


@dataclass(frozen=True, slots=True)
class Verification:
    """A bundle is good once it was healthy on end for `seconds`, with no more restarts than that.

    One that is not is taken back to the last that was.
    """

    seconds: int
    max_restarts: int = 3
    metric: MetricCheck | None = None

    def check(self, field: str) -> None:
        """Raise Invalid, naming the field."""
        if not 1 <= self.seconds <= MAX_VERIFICATION_SECONDS:
            raise Invalid(f"between 1 and {MAX_VERIFICATION_SECONDS:,} seconds", field=field)
        if not 0 <= self.max_restarts <= MAX_RESTARTS:
            raise Invalid(f"between 0 and {MAX_RESTARTS:,} restarts", field=field)
        if self.metric is not None:
            self.metric.check(f"{field}.metric")


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a service does not have what it should; `instead` is the digest that it has.

    `digest` would have come, but is known to be bad, or its commit is. Once it was `lifted_by`
    somebody it may come, and has to prove itself anew.
    """

    digest: str
    reason: str
    at: datetime
    instead: str = ""
    lifted_by: str = ""

    def __str__(self) -> str:
        stays = f"; it stays at {self.instead[:19]}" if self.instead else ""
        return f"{self.digest[:19]} is known to be bad: {self.reason}{stays}"
