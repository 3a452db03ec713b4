"""Summary of a service's phase from its components."""

from collections.abc import Iterable

from core.spec.health import HealthState
from core.spec.reports.inventory import ObservedComponent
from core.spec.status import Phase, Problem

MAX_PROBLEMS = 100
# States of an object that keep its service from being healthy without being a failure.
WAITING = (HealthState.PROGRESSING, HealthState.MISSING, HealthState.UNKNOWN)


def summarize(
    components: Iterable[ObservedComponent], failures: Iterable[Problem]
) -> tuple[Phase, tuple[Problem, ...]]:
    """Computes phase and problems of a service whose bundle was applied, except for `failures`."""
    failed = list(failures)
    sick = [c for c in components if c.health == HealthState.FAILED]
    waiting = any(c.health in WAITING for c in components)
    problems = failed + [Problem(c.message, reason=c.reason, ref=c.ref) for c in sick]
    shown = tuple(problems[:MAX_PROBLEMS])
    if failed:
        return Phase.FAILED, shown
    if sick:
        return Phase.DEGRADED, shown
    return (Phase.APPLIED if waiting else Phase.HEALTHY), shown
