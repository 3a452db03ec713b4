"""Summary of a service's phase from its components."""

from collections.abc import Iterable

from core.spec.health import HealthState
from core.spec.reports.inventory import ObservedComponent
from core.spec.status import Phase, Problem

MAX_PROBLEMS = 100


def summarize(
    components: Iterable[ObservedComponent], failures: Iterable[Problem]
) -> tuple[Phase, tuple[Problem, ...]]:
    """Computes phase and problems of a service whose bundle was applied, except for `failures`."""
    failed = list(failures)
    sick = [c for c in components if c.health == HealthState.FAILED]
    waiting = any(c.health in (HealthState.PROGRESSING, HealthState.MISSING) for c in components)
    problems = failed + [Problem(c.message, reason=c.reason, ref=c.ref) for c in sick]
    shown = tuple(problems[:MAX_PROBLEMS])
    if failed:
        return Phase.FAILED, shown
    if sick:
        return Phase.DEGRADED, shown
    return (Phase.APPLIED if waiting else Phase.HEALTHY), shown
