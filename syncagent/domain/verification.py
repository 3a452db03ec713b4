"""Verification of bundles by the agent, from its observations after the apply."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from core.spec.desired import Desired
from core.spec.status import Phase
from core.spec.verification import MetricCheck, Verification

# Time beyond the soak time to become healthy.
TIMEOUT_MS = 900_000
# A metric may be wrong once if it is read while it is being collected.
_BREACHES = 2
# A shorter failure may be a busy server or a container's first start.
_FAILING_MS = 20_000


class VerificationOutcome(StrEnum):
    """Result of a verification so far."""

    PENDING = "pending"
    GOOD = "good"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class BundleVerification:
    """Verification of the bundle `digest` since `begun_ms`, healthy since `since_ms` (0: not
    healthy).
    `good`: the newest verified desired state. `bad`: the digest that last failed, and `reason` why.
    `restarts`: container restarts by pod uid at the beginning. `breaches`: consecutive failures of
    the metric. `failing_ms`: time of the first failure (0: none).
    """

    service_id: str
    digest: str = ""
    begun_ms: int = 0
    since_ms: int = 0
    good: Desired | None = None
    bad: str = ""
    reason: str = ""
    restarts: Mapping[str, int] = field(default_factory=dict)
    breaches: int = 0
    failing_ms: int = 0

    def is_decided(self, digest: str) -> bool:
        """Reports whether this bundle was decided before."""
        good = self.good.spec.digest if self.good and self.good.spec else ""
        return digest in (good, self.bad)

    def begin(self, digest: str, now_ms: int, restarts: Mapping[str, int]) -> "BundleVerification":
        """Begins the verification of another bundle."""
        return BundleVerification(
            self.service_id, digest, now_ms, 0, self.good, self.bad, self.reason, dict(restarts)
        )

    def decided(
        self, desired: Desired, finding: VerificationOutcome, reason: str
    ) -> "BundleVerification":
        """Ends the verification of the desired state."""
        assert desired.spec is not None
        if finding == VerificationOutcome.GOOD:
            return BundleVerification(self.service_id, good=desired)
        return BundleVerification(
            self.service_id, good=self.good, bad=desired.spec.digest, reason=reason
        )


@dataclass(frozen=True, slots=True)
class ObservedService:
    """Observed state of a service; `metric` is None if the query has no result."""

    phase: Phase
    why: str
    restarts: Mapping[str, int]
    metric: float | None


def judge_bundle(
    trial: BundleVerification, policy: Verification, seen: ObservedService, now_ms: int
) -> tuple[BundleVerification, VerificationOutcome, str]:
    """Judges an observation; returns the new state, the finding, and the reason of a bad one."""
    failing = seen.phase in (Phase.FAILED, Phase.DEGRADED)
    healthy, holds = seen.phase == Phase.HEALTHY, _holds(policy.metric, seen.metric)
    trial = replace(
        trial,
        failing_ms=(trial.failing_ms or now_ms) if failing else 0,
        since_ms=(trial.since_ms or now_ms) if healthy else 0,
        breaches=trial.breaches + 1 if holds is False else 0,
    )
    if failing and now_ms - trial.failing_ms >= _FAILING_MS:
        return trial, VerificationOutcome.BAD, seen.why
    if (more := _more(trial.restarts, seen.restarts)) > policy.max_restarts:
        return (
            trial,
            VerificationOutcome.BAD,
            f"{more} container restarts, more than the limit of {policy.max_restarts}",
        )
    if trial.breaches >= _BREACHES:
        return (
            trial,
            VerificationOutcome.BAD,
            f"{_metric_text(policy.metric)} does not hold: {seen.metric:g}",
        )
    soaked = trial.since_ms and now_ms - trial.since_ms >= policy.soak_s * 1000
    if soaked and holds:
        return trial, VerificationOutcome.GOOD, ""
    if now_ms - trial.begun_ms > policy.soak_s * 1000 + TIMEOUT_MS:
        return trial, VerificationOutcome.BAD, _overdue(policy, seen)
    return trial, VerificationOutcome.PENDING, ""


def _more(before: Mapping[str, int], now: Mapping[str, int]) -> int:
    return sum(max(0, count - before.get(uid, 0)) for uid, count in now.items())


def _holds(check: MetricCheck | None, value: float | None) -> bool | None:
    """Evaluates the check; None: the value is unknown."""
    if check is None:
        return True
    if value is None or math.isnan(value):
        return None
    return check.comparison.holds(value, check.threshold)


def _metric_text(check: MetricCheck | None) -> str:
    assert check is not None
    return f"{check.query[:200]} {check.comparison.sign} {check.threshold:g}"


def _overdue(policy: Verification, seen: ObservedService) -> str:
    if seen.phase == Phase.HEALTHY and policy.metric is not None:
        return f"{_metric_text(policy.metric)}: the query has no result"
    return f"was not healthy for {policy.soak_s} s before the verification timed out"
