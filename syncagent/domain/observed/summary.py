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


def describe_waiting(components: Iterable[ObservedComponent]) -> str:
    """Describes the applied objects that are not healthy yet. The first one with a reason stands
    first; empty if there are none.
    """
    waiting = [c for c in components if c.health in WAITING and not c.owner_uid]
    if not waiting:
        return ""
    first = min(waiting, key=lambda component: (not component.reason, not component.message))
    more = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
    return f"waiting for {first.ref}{more}: {_describe(first)}"


def _describe(component: ObservedComponent) -> str:
    reason, message = component.reason, component.message
    if not message:
        return reason or "not healthy yet"
    return message if not reason or reason in message else f"{reason}: {message}"
