"""Signing secrets of gates: received in plain text, stored encrypted, decrypted to sign."""

import base64
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.gate_rules import (
    ExternalRule,
    HttpRule,
    Rule,
    Step,
    WorkflowRule,
    rules_of,
)
from controlplane.platform.sealing import Sealer
from controlplane.platform.webhook_signatures import decode_webhook_secret

_CONTEXT = "pipeline-gate"
Signing = HttpRule | ExternalRule
S = TypeVar("S", bound=Signing)


def sealed_rule(sealer: Sealer, rule: Rule, before: Rule | None) -> Rule:
    """The rule with new secrets encrypted; a secret that is not given again is kept.

    Invalid: a secret is not in the format of Standard Webhooks.
    """
    if isinstance(rule, Signing):
        return _sealed(sealer, rule, before)
    if not isinstance(rule, WorkflowRule):
        return rule
    known = before.steps if isinstance(before, WorkflowRule) else ()
    old = {step.name: step.rule for step in known}
    steps = [_sealed_step(sealer, step, old.get(step.name)) for step in rule.steps]
    return replace(rule, steps=tuple(steps))


def open_gate_secret(sealer: Sealer, rule: Signing) -> str:
    """The signing secret of a rule; empty if it has none."""
    if not rule.sealed:
        return ""
    return sealer.open(base64.b64decode(rule.sealed), _CONTEXT).decode()


def needs_reseal(sealer: Sealer, spec: pipeline.Pipeline) -> bool:
    """True if an older key encrypts a secret of the pipeline."""
    rules = [rule for _, gate in spec.asked for rule in rules_of(gate.rule)]
    return any(_is_behind(sealer, rule) for rule in rules if isinstance(rule, Signing))


def resealed(sealer: Sealer, spec: pipeline.Pipeline) -> pipeline.Pipeline:
    """The pipeline with all secrets encrypted by the current key."""

    def again(rule: Signing) -> Signing:
        behind = _is_behind(sealer, rule)
        return (
            replace(rule, sealed=_box(sealer, open_gate_secret(sealer, rule))) if behind else rule
        )

    return _with_signing(spec, again)


def without_secrets(spec: pipeline.Pipeline) -> pipeline.Pipeline:
    """The pipeline without secrets, for its history."""
    return _with_signing(spec, lambda rule: replace(rule, sealed=""))


def _with_signing(
    spec: pipeline.Pipeline, change: Callable[[Signing], Signing]
) -> pipeline.Pipeline:
    """The pipeline with `change` applied to each rule that may have a secret."""

    def changed(gate: pipeline.Gate) -> pipeline.Gate:
        rule = gate.rule
        if isinstance(rule, Signing):
            return replace(gate, rule=change(rule))
        if not isinstance(rule, WorkflowRule):
            return gate
        steps = (
            replace(step, rule=change(step.rule)) if isinstance(step.rule, HttpRule) else step
            for step in rule.steps
        )
        return replace(gate, rule=replace(rule, steps=tuple(steps)))

    edges = (replace(edge, gates=tuple(map(changed, edge.gates))) for edge in spec.edges)
    stages = (
        replace(stage, workflow=changed(stage.workflow)) if stage.workflow else stage
        for stage in spec.stages
    )
    return replace(spec, edges=tuple(edges), stages=tuple(stages))


def _is_behind(sealer: Sealer, rule: Signing) -> bool:
    return bool(rule.sealed) and not sealer.is_current(base64.b64decode(rule.sealed))


def _sealed_step(sealer: Sealer, step: Step, before: object) -> Step:
    if not isinstance(step.rule, HttpRule):
        return step
    return replace(step, rule=_sealed(sealer, step.rule, before))


def _sealed(sealer: Sealer, rule: S, before: object) -> S:
    """Encrypts `rule.sealed`, which contains plain text here."""
    if not rule.sealed:
        same = isinstance(before, Signing) and _receiver(before) == _receiver(rule)
        return replace(rule, sealed=before.sealed if same else "")
    decode_webhook_secret(rule.sealed)
    return replace(rule, sealed=_box(sealer, rule.sealed))


def _box(sealer: Sealer, plain: str) -> str:
    return base64.b64encode(sealer.seal(plain.encode(), _CONTEXT)).decode()


def _receiver(rule: Signing) -> str:
    """The receiver of a secret; a secret is never used for another receiver."""
    return rule.url if isinstance(rule, HttpRule) else rule.account
