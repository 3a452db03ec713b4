"""Health of a custom resource by the conventions of its status.
The conventions of kstatus come first (observedGeneration; conditions Stalled, Reconciling, Ready),
then a phase or state. Without a schema, any field may have any type.
"""

from core.spec.health import HealthState
from syncagent.domain.objects import KubeFields, KubeObject, metadata_of
from syncagent.domain.observed.object_status import (
    HEALTHY,
    HealthStatus,
    condition_of,
    condition_reason,
    conditions_of,
    failed,
    is_older,
    not_observed,
    parts_of,
    progressing,
)
from syncagent.domain.observed.status_words import health_of_word

_FAILURES = ("Stalled", "Failed", "Failure", "Degraded", "Error")
_FINAL_CONDITIONS = ("Succeeded", "Complete", "Completed")
# All of them must be true.
_SUCCESS_CONDITIONS = {
    *("Ready", "Healthy", "Available", "Accepted", "Programmed", "ResolvedRefs", "Synced"),
    *("Synchronized", "Reconciled", "Valid", "Established", "Initialized", "Installed"),
}
_PARTS = ("Ready", "Healthy", "Available")
_WORD_FIELDS = (
    *("phase", "state", "health", "status", "currentState", "currentStatus", "applicationState"),
)
_INNER_FIELDS = ("state", "status", "phase")
_FLAGS = ("ready", "readyToUse", "healthy")
_UNREADABLE = HealthStatus(
    HealthState.UNKNOWN,
    "its status has no condition, phase or state that expresses health; add a health rule",
    "Unknown",
)


def by_convention(live: KubeObject) -> HealthStatus:
    """Assesses an object by the conventions. An object without a status is healthy, as in
    kstatus: many kinds have none.
    """
    if not live.get("status"):
        return HEALTHY
    status = parts_of(live)[1]
    if "observedGeneration" in status and (stale := not_observed(live)):
        return stale
    word = by_word(status)
    if decisive := _by_final_condition(live, word):
        return decisive
    known = word if word is not None and word.health != HealthState.UNKNOWN else None
    return (
        _by_success_conditions(live)
        or known
        or _by_flag_or_replicas(live)
        or word
        or _by_observed_generation(status)
    )


def by_word(status: KubeFields) -> HealthStatus | None:
    """Assesses a status by its phase or state; a failure takes precedence."""
    words = [word for name in _WORD_FIELDS if (word := _status_word(status.get(name)))]
    verdicts = [(health_of_word(word), word) for word in words]
    if not verdicts:
        return None
    bad = [verdict for verdict in verdicts if verdict[0] == HealthState.FAILED]
    health, word = (bad or verdicts)[0]
    if health == HealthState.HEALTHY:
        return HEALTHY
    message = status.get("message") or status.get("reason")
    return HealthStatus(health, f"{word}: {message}" if message else word, word)


def _by_final_condition(live: KubeObject, word: HealthStatus | None) -> HealthStatus | None:
    """Returns the verdict of a failure, an ongoing change or an end; None if there is none."""
    conditions = list(conditions_of(live))
    if failure := next(filter(_is_failure, conditions), None):
        return failed(failure)
    if word is not None and word.health == HealthState.FAILED:
        return word
    true = {found.get("type") for found in conditions if _is_true(found)}
    if "Reconciling" in true:
        return progressing(condition_of(live, "Reconciling"))
    return None if true.isdisjoint(_FINAL_CONDITIONS) else HEALTHY


def _is_failure(condition: KubeFields) -> bool:
    kind, reason = condition.get("type"), condition_reason(condition)
    if _is_true(condition):
        ended_badly = kind in _FINAL_CONDITIONS and health_of_word(reason) == HealthState.FAILED
        return kind in _FAILURES or ended_badly
    late = kind == "Progressing" and reason == "ProgressDeadlineExceeded"
    return late or kind == "Succeeded" and condition.get("status") == "False"


def _is_true(condition: KubeFields) -> bool:
    return condition.get("status") == "True"


def _by_success_conditions(live: KubeObject) -> HealthStatus | None:
    """Assesses an object by its conditions for success and for its end."""
    generation = metadata_of(live).get("generation") or 0
    expected = [found for found in conditions_of(live) if found.get("type") in _SUCCESS_CONDITIONS]
    for found in expected:
        if not _is_true(found) or is_older(found, generation):
            return progressing(found)
    if expected:
        return HEALTHY
    unfinished = (found for found in conditions_of(live) if _is_unfinished(found))
    return next(map(progressing, unfinished), None)


def _is_unfinished(condition: KubeFields) -> bool:
    """Reports whether a condition for a part, such as `DatabaseReady`, or for the end is open."""
    kind = str(condition.get("type"))
    return (kind in _FINAL_CONDITIONS or kind.endswith(_PARTS)) and not _is_true(condition)


def _status_word(value: object) -> str:
    if isinstance(value, dict):
        value = next((value[name] for name in _INNER_FIELDS if name in value), "")
    return value if isinstance(value, str) else ""


def _by_flag_or_replicas(live: KubeObject) -> HealthStatus | None:
    """Assesses an object by a flag or by its numbers of replicas."""
    spec, status = parts_of(live)
    flags = [status[name] for name in _FLAGS if isinstance(status.get(name), bool)]
    if flags:
        return HEALTHY if all(flags) else HealthStatus(HealthState.PROGRESSING, "is not ready")
    ready, wanted = status.get("readyReplicas"), spec.get("replicas", status.get("replicas"))
    if not isinstance(ready, int) or not isinstance(wanted, int):
        return None
    text = f"{ready} of {wanted} replicas ready"
    return HEALTHY if ready >= wanted else HealthStatus(HealthState.PROGRESSING, text)


def _by_observed_generation(status: KubeFields) -> HealthStatus:
    # A controller that has observed the object and has nothing to add is content.
    content = {name for name, value in status.items() if value}
    return HEALTHY if content == {"observedGeneration"} else _UNREADABLE
