"""Health of an object with its reason, and readers of an object's spec, status and conditions."""

from collections.abc import Iterator
from dataclasses import dataclass

from core.spec.health import HealthState
from syncagent.domain.objects import KubeFields, KubeObject, metadata_of


@dataclass(frozen=True, slots=True)
class HealthStatus:
    """Health with the reason (Kubernetes' term) and a message for people."""

    health: HealthState
    message: str = ""
    reason: str = ""


_MAX_DIGITS = 19
HEALTHY = HealthStatus(HealthState.HEALTHY)
UNOBSERVED = HealthStatus(HealthState.PROGRESSING, "its controller has not observed the change yet")


def parts_of(live: KubeObject) -> tuple[KubeFields, KubeFields]:
    """Returns spec and status; empty for values of another type."""
    spec, status = live.get("spec"), live.get("status")
    return spec if isinstance(spec, dict) else {}, status if isinstance(status, dict) else {}


def conditions_of(live: KubeObject) -> Iterator[KubeFields]:
    """Iterates over the conditions of an object."""
    conditions = parts_of(live)[1].get("conditions")
    for found in conditions if isinstance(conditions, list) else ():
        if isinstance(found, dict):
            yield found


def condition_of(live: KubeObject, name: str) -> KubeFields:
    """Returns the condition of a type; empty if there is none."""
    return next((found for found in conditions_of(live) if found.get("type") == name), {})


def condition_text(condition: KubeFields) -> str:
    """Returns the message of a condition, or its reason."""
    return str(condition.get("message") or "") or condition_reason(condition)


def condition_reason(condition: KubeFields) -> str:
    """Returns the reason of a condition; empty if there is none."""
    return str(condition.get("reason") or "")


def failed(condition: KubeFields) -> HealthStatus:
    """Builds the verdict of a condition that means failure."""
    return HealthStatus(HealthState.FAILED, condition_text(condition), condition_reason(condition))


def progressing(condition: KubeFields) -> HealthStatus:
    """Builds the verdict of a condition that is not met yet."""
    return HealthStatus(
        HealthState.PROGRESSING, condition_text(condition), condition_reason(condition)
    )


def not_observed(live: KubeObject) -> HealthStatus | None:
    """Returns a verdict if the controller has not observed the newest generation."""
    status = {"observedGeneration": 0} | parts_of(live)[1]
    return UNOBSERVED if is_older(status, metadata_of(live).get("generation") or 0) else None


def is_older(observation: KubeFields, generation: int) -> bool:
    """Reports whether a status or condition is from an older generation. Argo Rollouts write the
    number as text.
    """
    observed = observation.get("observedGeneration")
    if isinstance(observed, str) and observed.isdecimal() and len(observed) < _MAX_DIGITS:
        observed = int(observed)
    return isinstance(observed, int) and observed < generation
