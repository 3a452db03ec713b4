"""Each kind of gate is complete. A failure names the place that somebody forgot."""

import json
from dataclasses import replace
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import orjson
import pytest
from graphql import GraphQLInputObjectType, coerce_input_value
from strawberry.types.arguments import convert_argument

from controlplane.api.schema import schema
from controlplane.pipelines.api.gates import PipelineGateAttributes, PipelineStepAttributes
from controlplane.pipelines.api.kinds_schema import kinds_schema
from controlplane.pipelines.engine.codec import pipeline_from_json, pipeline_to_json
from controlplane.pipelines.gates import kinds
from controlplane.pipelines.model.gate_rules import WORKFLOW, CheckRule, GateRule, Step
from controlplane.platform.graphql.plugin_inputs import description_of, settings_of_kind
from controlplane.platform.plugin_settings import setting_fields
from core.errors import Invalid
from tests.fakes.pipelines import two_stages

ROOT = Path(__file__).parents[4]
REQUIRED = {"VERSION": {"service": "db"}, "EXTERNAL": {"account": "ci@example.org"}}
"""Settings that the examples of kinds leave to the user."""
EACH = pytest.mark.parametrize("kind", kinds.ALL, ids=lambda kind: kind.kind)


def example_of(kind: type[GateRule]) -> GateRule:
    """The rule that the API makes of the kind's example."""
    given = json.loads(orjson.dumps(kind.example()))
    if "job" in given:
        given["job"]["manifest"] = json.dumps(given["job"]["manifest"])
    target = PipelineGateAttributes if kind.in_gates else PipelineStepAttributes
    converter = schema.schema_converter
    published = converter.type_map[target.__name__].implementation
    assert isinstance(published, GraphQLInputObjectType)
    value = coerce_input_value({"name": "one", "type": kind.kind, **given}, published)
    attributes = convert_argument(value, target, converter.scalar_registry, schema.config)
    if isinstance(attributes, PipelineGateAttributes):
        return attributes.gate().rule
    assert isinstance(attributes, PipelineStepAttributes)
    return attributes.step().rule


def test_each_module_of_a_kind_is_registered() -> None:
    modules = {module.name for module in iter_modules(kinds.__path__)}
    registered = {kind.__module__.rpartition(".")[2] for kind in kinds.ALL}
    assert modules - registered == set(), "add the kind to `ALL` in gates/kinds/__init__.py"


@EACH
def test_a_kind_has_a_decision(kind: type[GateRule]) -> None:
    if kind.kind in (WORKFLOW, "WAIT"):  # The engine advances their steps.
        return
    decides = (
        kind.run is not CheckRule.run
        if issubclass(kind, CheckRule)
        else (kind.evaluate is not GateRule.evaluate)
    )
    assert decides, f"write `run` or `evaluate` of {kind.__name__}"


@EACH
def test_a_kind_and_its_settings_are_described(kind: type[GateRule]) -> None:
    assert kind.summary(), f"write the docstring of {kind.__name__}"
    for member in setting_fields(kind):
        text = description_of(kind, member)
        assert text[:1].isupper(), f"write the string below {kind.__name__}.{member.name}"


@EACH
def test_the_store_keeps_a_rule(kind: type[GateRule]) -> None:
    rule = example_of(kind)
    pipeline = two_stages()
    (edge,) = pipeline.edges
    gate = replace(edge.gates[0], rule=rule)
    pipeline = replace(pipeline, edges=(replace(edge, gates=(gate,)),))
    assert pipeline_from_json(json.loads(orjson.dumps(pipeline_to_json(pipeline)))) == pipeline


@EACH
def test_a_kind_is_refused_where_it_cannot_be_decided(kind: type[GateRule]) -> None:
    """Manifests can name every kind in every place."""
    rule: Any = example_of(kind)
    rule = replace(rule, **REQUIRED.get(kind.kind, {}))
    steps = kinds.WorkflowRule((Step("one", rule),))
    for placed, is_possible in ((rule, kind.in_gates), (steps, kind.in_workflows)):
        try:
            two_stages(placed)
        except Invalid as error:
            assert not is_possible and kind.kind in error.message
            assert error.field is not None and error.field.startswith("edges[0].gates[0]")
        else:
            assert is_possible


@EACH
def test_the_api_returns_settings_as_it_takes_them(kind: type[GateRule]) -> None:
    if kind.kind == WORKFLOW:
        return
    settings = settings_of_kind(example_of(kind))
    assert (
        set(settings) <= {kind.key}
        if kind.key
        else set(settings) <= {member.published for member in setting_fields(kind)}
    )


def test_the_published_kinds_are_up_to_date() -> None:
    published = ROOT / "console" / "src" / "api" / "pipeline_kinds.json"
    fresh = json.loads(orjson.dumps(kinds_schema()))
    assert json.loads(published.read_text()) == fresh, "run `make schema`"


@EACH
def test_the_console_has_the_form(kind: type[GateRule]) -> None:
    forms = (ROOT / "console" / "src" / "api" / "kinds.ts").read_text()
    assert f'"{kind.kind}": {{' in forms, "run `npm run generate` in console"


def test_an_encrypted_secret_has_no_limit_of_its_own() -> None:
    kinds.ExternalRule("ci@example.org", sealed="x" * 100_000).check("gates[0]")


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        (kinds.ApprovalRule(21), "gates[0].quorum"),
        (kinds.ApprovalRule(people=("a",) * 101), "gates[0].people"),
        (kinds.ManualRule("x" * 10_001), "gates[0].instructions"),
        (kinds.ExternalRule(" "), "gates[0].account"),
        (kinds.HttpRule("ftp://example.org"), "gates[0].http.url"),
        (kinds.HttpRule("https://example.org", 199), "gates[0].http.status"),
        (kinds.MetricRule("up", 1, url="https://a\nb"), "gates[0].metric.url"),
        (kinds.MetricRule("up", 1, service="m/p:1"), "gates[0].metric.clusterId"),
        (kinds.VersionRule("db", "one"), "gates[0].version.range"),
    ],
)
def test_a_setting_beyond_its_limit_is_refused_by_its_published_name(
    rule: GateRule, field: str
) -> None:
    with pytest.raises(Invalid) as error:
        rule.check("gates[0]")
    assert error.value.field == field
