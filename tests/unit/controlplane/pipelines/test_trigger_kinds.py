"""Each kind of trigger is complete. A failure names the place that somebody forgot."""

import json
from dataclasses import replace
from pkgutil import iter_modules
from types import SimpleNamespace

import orjson
import pytest

from controlplane.pipelines.engine.codec import pipeline_from_json, pipeline_to_json
from controlplane.pipelines.model.triggers import Trigger, TriggerRule
from controlplane.pipelines.triggers import kinds
from controlplane.platform.graphql.plugin_inputs import (
    description_of,
    settings_from,
    settings_of_kind,
)
from controlplane.platform.plugin_settings import setting_fields
from tests.fakes.pipelines import two_stages

EACH = pytest.mark.parametrize("kind", kinds.ALL, ids=lambda kind: kind.kind)


def example_of(kind: type[TriggerRule]) -> TriggerRule:
    """The rule that the API makes of the kind's example."""
    absent = {member.public_name: None for member in setting_fields(kind)}
    return settings_from(kind, SimpleNamespace(**absent | kind.example()), "one")


def test_each_module_of_a_kind_is_registered() -> None:
    modules = {module.name for module in iter_modules(kinds.__path__)}
    registered = {kind.__module__.rpartition(".")[2] for kind in kinds.ALL}
    assert modules - registered == set(), "add the kind to `ALL` in triggers/kinds/__init__.py"


@EACH
def test_a_kind_that_polls_discovers_versions(kind: type[TriggerRule]) -> None:
    discovers = kind.discover is not TriggerRule.discover
    assert discovers == kind.watches, f"write `discover` of {kind.__name__}"


@EACH
def test_a_kind_and_its_settings_are_described(kind: type[TriggerRule]) -> None:
    assert kind.summary(), f"write the docstring of {kind.__name__}"
    for member in setting_fields(kind):
        text = description_of(kind, member)
        assert text[:1].isupper(), f"write the string below {kind.__name__}.{member.name}"


@EACH
def test_the_example_of_a_kind_is_valid_and_stored(kind: type[TriggerRule]) -> None:
    rule = example_of(kind)
    rule.check("triggers[0]")
    assert settings_of_kind(rule) == kind.example()
    pipeline = replace(two_stages(), triggers=(Trigger("t", "one", rule),))
    assert pipeline_from_json(json.loads(orjson.dumps(pipeline_to_json(pipeline)))) == pipeline
