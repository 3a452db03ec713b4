"""What a user says of custom resources: how their health is read, which fields others may set."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from syncagent.domain.health import Health, Verdict
from syncagent.domain.objects import KubeObject, ObjectRef, api_of
from syncagent.domain.pointers import MISSING, find, steps_of

_FOREVER_HEALTHY = (Health.HEALTHY, Health.PAUSED)


@dataclass(frozen=True, slots=True)
class FieldCondition:
    """The text at `pointer` is one of `any_of`."""

    pointer: str
    any_of: tuple[str, ...]

    def holds(self, live: KubeObject) -> bool:
        found = find(live, steps_of(self.pointer))
        return found is not MISSING and _text(found) in self.any_of


@dataclass(frozen=True, slots=True)
class HealthRule:
    """Objects of a kind are in `health` when all conditions hold; `message` points to the why."""

    group: str
    kind: str
    health: Health
    conditions: tuple[FieldCondition, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True)
class IgnoredDifference:
    """Fields of matching objects that others may set; an empty selector matches all.

    `pointers` are RFC 6901, `managers` are field managers whose fields are left to them.
    """

    group: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    pointers: tuple[str, ...] = ()
    managers: tuple[str, ...] = ()

    def matches(self, ref: ObjectRef) -> bool:
        pairs = (
            (self.group, ref.group),
            (self.kind, ref.kind),
            (self.namespace, ref.namespace),
            (self.name, ref.name),
        )
        return all(wanted in ("", "*", actual) for wanted, actual in pairs)


def judge(live: KubeObject, rules: Sequence[HealthRule]) -> Verdict | None:
    """The verdict of the first rule that holds; None if no rule speaks of this kind.

    Rules for a kind replace all else that is known of it: where none holds it is progressing.
    """
    api = api_of(live)
    mine = [rule for rule in rules if (rule.group, rule.kind) == (api.group, api.kind)]
    for rule in mine:
        if all(condition.holds(live) for condition in rule.conditions):
            found = find(live, steps_of(rule.message)) if rule.message else ""
            reason = "" if rule.health in _FOREVER_HEALTHY else rule.health.name.title()
            return Verdict(rule.health, "" if found is MISSING else _text(found), reason)
    return Verdict(Health.PROGRESSING, "no rule of health holds yet", "Rules") if mine else None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
