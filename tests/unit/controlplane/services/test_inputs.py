"""Inputs of services as the values that operations get."""

from typing import Any

from controlplane.services.api.inputs import HealthConditionAttributes, HealthRuleAttributes
from controlplane.services.model.service import ComponentState
from core.spec.health import FieldCondition, HealthRule, HealthState


def test_a_health_rule_without_a_group_is_for_the_core_group() -> None:
    made: Any = HealthRuleAttributes
    condition: Any = HealthConditionAttributes
    conditions = [condition(pointer="/a", any_of=["b"])]
    given = made(kind="Pod", state=ComponentState.RUNNING, conditions=conditions).change()
    assert given == HealthRule("", "Pod", HealthState.HEALTHY, (FieldCondition("/a", ("b",)),))
