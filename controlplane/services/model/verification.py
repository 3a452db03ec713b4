"""Verification of a bundle after its apply: the policy, and a failure's cause.

The agent verifies on its own, so that it can roll back to the last verified bundle without the
control plane.
"""

from dataclasses import dataclass
from datetime import datetime

from controlplane.platform.limits import check_range
from controlplane.platform.names import check_text
from core.spec.verification import Verification

MAX_VERIFICATION_SECONDS = 30 * 86_400
MAX_RESTARTS = 1_000_000
_MAX_ADDRESS, _MAX_QUERY = 512, 4096


def check_verification(verification: Verification, field: str) -> None:
    """Raises Invalid, naming the field, for a verification beyond the limits."""
    check_range(verification.soak_s, field, 1, MAX_VERIFICATION_SECONDS, "seconds")
    check_range(verification.max_restarts, field, 0, MAX_RESTARTS, "restarts")
    if (metric := verification.metric) is not None:
        check_text(metric.address, f"{field}.metric.address", _MAX_ADDRESS)
        check_text(metric.query, f"{field}.metric.query", _MAX_QUERY)


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A denied or quarantined revision that a service does not get."""

    digest: str
    """Digest that the service would have."""
    reason: str
    """Reason of the denial."""
    at: datetime
    """Time of the denial."""
    instead: str = ""
    """Digest that the service keeps. Empty without one."""
    lifted_by: str = ""
    """E-mail address of the user who allowed the revision again. It must pass the verification.
    Empty before that."""

    def __str__(self) -> str:
        suffix = f"; it stays at {self.instead[:19]}" if self.instead else ""
        return f"{self.digest[:19]} is known to be bad: {self.reason}{suffix}"
