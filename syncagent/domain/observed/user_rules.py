"""Users' rules for custom resources: health rules and ignored differences."""

from collections.abc import Sequence

from core.json_object import JsonValue
from core.spec.health import FieldCondition, HealthRule, HealthState
from core.spec.objects import ObjectRef
from core.spec.sync import IgnoredDifference
from syncagent.domain.json_pointers import MISSING, find, steps_of
from syncagent.domain.objects import KubeObject, api_of, metadata_of
from syncagent.domain.observed.health import assess
from syncagent.domain.observed.object_status import HealthStatus

_FINE = (HealthState.HEALTHY, HealthState.PAUSED)


def matches_object(ignored: IgnoredDifference, ref: ObjectRef) -> bool:
    """Reports whether an ignored difference matches an object."""
    pairs = (
        (ignored.group, ref.group),
        (ignored.kind, ref.kind),
        (ignored.namespace, ref.namespace),
        (ignored.name, ref.name),
    )
    return all(wanted in ("", "*", actual) for wanted, actual in pairs)


def health_of(live: KubeObject, rules: Sequence[HealthRule]) -> HealthStatus:
    """Assesses an object by the user's rules, or by the built-in rules of its kind."""
    if not rules or metadata_of(live).get("deletionTimestamp"):
        return assess(live)
    return health_by_rules(live, rules) or assess(live)


def health_by_rules(live: KubeObject, rules: Sequence[HealthRule]) -> HealthStatus | None:
    """Returns the verdict of the first matching rule; None if no rule is for this kind.
    Rules for a kind replace the built-in ones: if none matches, the object is progressing.
    """
    api = api_of(live)
    mine = [rule for rule in rules if (rule.group, rule.kind) == (api.group, api.kind)]
    for rule in mine:
        if all(_holds(condition, live) for condition in rule.conditions):
            found = find(live, steps_of(rule.message)) if rule.message else ""
            reason = "" if rule.health in _FINE else rule.health.name.title()
            return HealthStatus(rule.health, "" if found is MISSING else _text(found), reason)
    return (
        HealthStatus(HealthState.PROGRESSING, "no health rule matches yet", "Rules")
        if mine
        else None
    )


def _holds(condition: FieldCondition, live: KubeObject) -> bool:
    found = find(live, steps_of(condition.pointer))
    return found is not MISSING and _text(found) in condition.any_of


def _text(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
