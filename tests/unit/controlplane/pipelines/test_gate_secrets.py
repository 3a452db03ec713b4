"""Signing secrets of gates: sealed, kept for the same receiver only, and never in a history."""

import base64
from dataclasses import replace

import pytest

from controlplane.pipelines.gates.kinds import (
    ExternalRule,
    HttpRule,
    SoakRule,
    WaitRule,
    WorkflowRule,
)
from controlplane.pipelines.model.gate_rules import GateRule, SignedRule, Step
from controlplane.pipelines.model.pipeline import Gate, GateId, Pipeline, Stage, StageId, validate
from controlplane.pipelines.operations.gate_secrets import (
    open_sealed,
    sealed_rule,
    with_plain_secrets,
    with_resealed_secrets,
    without_secrets,
)
from controlplane.secrets.backends.envelope import EnvelopeSealer
from core.errors import Invalid
from tests.fakes.pipelines import make_pipeline

SEALER = EnvelopeSealer(b"k" * 32)
SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
OTHER = "whsec_" + base64.b64encode(b"t" * 32).decode()
URL = "https://shop.example.org/gate"
HTTP = HttpRule(URL, sealed=SECRET)
EXTERNAL = ExternalRule("ci@example.org", sealed=SECRET)
SIGNED = [HTTP, EXTERNAL]


def sealed(rule: GateRule, before: GateRule | None = None) -> GateRule:
    return sealed_rule(SEALER, rule, before)


def opened(rule: GateRule) -> str:
    """The secret of a sealed rule; empty without one."""
    assert isinstance(rule, SignedRule)
    return open_sealed(SEALER, rule.sealed) if rule.sealed else ""


@pytest.mark.parametrize("rule", SIGNED)
def test_a_secret_is_sealed(rule: SignedRule) -> None:
    after = sealed(rule)
    assert isinstance(after, SignedRule) and SECRET not in after.sealed
    assert opened(after) == SECRET
    assert replace(after, sealed=SECRET) == rule, "nothing else changes"


@pytest.mark.parametrize("rule", SIGNED)
def test_a_secret_that_is_not_given_again_is_kept(rule: SignedRule) -> None:
    before = sealed(rule)
    assert sealed(replace(rule, sealed=""), before) == before
    assert opened(sealed(replace(rule, sealed=OTHER), before)) == OTHER


@pytest.mark.parametrize(
    "rule",
    [
        HttpRule("https://evil.example.org/gate"),
        HttpRule(URL + "/"),
        ExternalRule("ci@example.org"),
    ],
)
def test_another_receiver_gets_no_secret_of_the_one_before(rule: SignedRule) -> None:
    """Else whoever may change a pipeline could have it sign for an own server."""
    assert opened(sealed(rule, sealed(HTTP))) == ""


def test_another_account_answers_with_no_secret_of_the_one_before() -> None:
    assert opened(sealed(ExternalRule("eve@example.org"), sealed(EXTERNAL))) == ""


@pytest.mark.parametrize("before", [None, SoakRule(60), WorkflowRule((Step("a", HTTP),))])
def test_a_rule_without_a_secret_has_none(before: GateRule | None) -> None:
    assert opened(sealed(HttpRule(URL), before)) == ""


@pytest.mark.parametrize("secret", ["plain", "whsec_", "whsec_not base64!", "x" * 10_000])
def test_a_secret_in_another_format_is_refused(secret: str) -> None:
    for rule in (
        HttpRule(URL, sealed=secret),
        WorkflowRule((Step("a", replace(HTTP, sealed=secret)),)),
    ):
        with pytest.raises(Invalid):
            sealed(rule)


def workflow(*rules: GateRule) -> WorkflowRule:
    return WorkflowRule(tuple(Step(f"step-{number}", rule) for number, rule in enumerate(rules)))


def test_steps_keep_their_secrets_by_name() -> None:
    before = sealed(workflow(HTTP, replace(HTTP, sealed=OTHER), SoakRule(60)))
    assert isinstance(before, WorkflowRule)
    assert [opened(step.rule) for step in before.steps[:2]] == [SECRET, OTHER]
    swapped = WorkflowRule(
        (Step("step-1", HttpRule(URL)), Step("step-0", HttpRule("https://evil.example.org")))
    )
    after = sealed(swapped, before)
    assert isinstance(after, WorkflowRule)
    assert [opened(step.rule) for step in after.steps] == [OTHER, ""]


def test_a_rule_of_another_kind_is_as_it_was() -> None:
    assert sealed(SoakRule(60), sealed(HTTP)) == SoakRule(60)


@pytest.fixture
def pipeline() -> Pipeline:
    """Secrets in a gate, in a step of a gate, and in the workflow of a stage."""
    rules = (sealed(EXTERNAL), sealed(workflow(HTTP, WaitRule(60))), SoakRule(60))
    made = make_pipeline({"dev prod": rules})
    own = Gate(GateId("own"), "own", sealed(workflow(HTTP)))
    prod: Stage = replace(made.stage[StageId("prod")], workflow=own)
    return validate(replace(made, stages=(made.first, prod)))


def secrets_of(pipeline: Pipeline) -> list[str]:
    rules = [rule for _, gate in pipeline.all_gates for rule in gate.rule.leaf_rules()]
    return [rule.sealed for rule in rules if isinstance(rule, SignedRule)]


def test_a_history_has_no_secret(pipeline: Pipeline) -> None:
    assert len(secrets_of(pipeline)) == 3 and all(secrets_of(pipeline))
    assert secrets_of(without_secrets(pipeline)) == ["", "", ""]


def test_plain_secrets_are_those_that_were_given(pipeline: Pipeline) -> None:
    assert secrets_of(with_plain_secrets(SEALER, pipeline)) == [SECRET] * 3
    assert secrets_of(with_plain_secrets(SEALER, without_secrets(pipeline))) == [""] * 3


def test_secrets_of_the_current_key_stay_as_they_are(pipeline: Pipeline) -> None:
    assert with_resealed_secrets(SEALER, pipeline) == pipeline


def test_a_secret_is_shown_in_no_text(pipeline: Pipeline) -> None:
    plain = with_plain_secrets(SEALER, pipeline)
    assert SECRET not in repr(plain) and SECRET not in repr(HTTP) and SECRET not in repr(EXTERNAL)
