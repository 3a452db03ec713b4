"""Signing secrets of gates: received in plain text, stored encrypted, decrypted to sign."""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from controlplane.pipelines.engine import codec
from controlplane.pipelines.gates.kinds.workflow import WorkflowRule
from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.gate_rules import GateRule, SignedRule
from controlplane.pipelines.model.records import PipelineRecord
from controlplane.platform.ports import Rows
from controlplane.platform.sealing import Sealer
from controlplane.platform.webhook_signatures import decode_webhook_secret

_CONTEXT = "pipeline-gate"
_WHOLE_GATE = ""
RuleChange = Callable[[str, SignedRule], SignedRule]
"""Change of a rule, given the name of its step; `_WHOLE_GATE` for a gate without steps."""


@dataclass(slots=True)
class SealedGates:
    """Signing secrets in the gate rules of pipelines."""

    rows: Rows[PipelineRecord]
    noun: str = "gates of pipeline"

    def is_behind(self, sealer: Sealer, row: PipelineRecord) -> bool:
        gates = codec.pipeline_from_json(row.spec).all_gates
        rules = [rule for _, gate in gates for rule in gate.rule.leaf_rules()]
        return any(_is_behind(sealer, rule) for rule in rules if isinstance(rule, SignedRule))

    def resealed(self, sealer: Sealer, row: PipelineRecord) -> Mapping[str, object]:
        spec = with_resealed_secrets(sealer, codec.pipeline_from_json(row.spec))
        return {"spec": codec.pipeline_to_json(spec), "version": row.version + 1}


def sealed_rule(sealer: Sealer, rule: GateRule, before: GateRule | None) -> GateRule:
    """The rule with new secrets encrypted; a secret that is not given again is kept.

    Invalid: a secret is not in the format of Standard Webhooks.
    """
    old_rules: dict[str, GateRule | None] = {_WHOLE_GATE: before}
    if isinstance(before, WorkflowRule):
        old_rules = {step.name: step.rule for step in before.steps}
    return _map_signed_rules(rule, lambda step, new: _seal_rule(sealer, new, old_rules.get(step)))


def open_sealed(sealer: Sealer, sealed: str) -> str:
    """The signing secret that a rule keeps encrypted."""
    return sealer.open(base64.b64decode(sealed), _CONTEXT).decode()


def with_resealed_secrets(sealer: Sealer, spec: pipeline.Pipeline) -> pipeline.Pipeline:
    """The pipeline with all secrets encrypted by the current key."""

    def reseal(_: str, rule: SignedRule) -> SignedRule:
        if not _is_behind(sealer, rule):
            return rule
        return replace(rule, sealed=_encrypt(sealer, open_sealed(sealer, rule.sealed)))

    return _map_pipeline(spec, reseal)


def with_plain_secrets(sealer: Sealer, spec: pipeline.Pipeline) -> pipeline.Pipeline:
    """The pipeline with plain secrets: the caller must drop it."""

    def open_rule(_: str, rule: SignedRule) -> SignedRule:
        return replace(rule, sealed=open_sealed(sealer, rule.sealed)) if rule.sealed else rule

    return _map_pipeline(spec, open_rule)


def without_secrets(spec: pipeline.Pipeline) -> pipeline.Pipeline:
    """The pipeline without secrets, for its history."""
    return _map_pipeline(spec, lambda _, rule: replace(rule, sealed=""))


def _map_signed_rules(rule: GateRule, change: RuleChange) -> GateRule:
    """The rule of a gate with `change` applied to each rule that may have a secret."""
    if isinstance(rule, SignedRule):
        return change(_WHOLE_GATE, rule)
    if not isinstance(rule, WorkflowRule):
        return rule
    steps = (
        replace(step, rule=change(step.name, step.rule))
        if isinstance(step.rule, SignedRule)
        else step
        for step in rule.steps
    )
    return replace(rule, steps=tuple(steps))


def _map_pipeline(spec: pipeline.Pipeline, change: RuleChange) -> pipeline.Pipeline:
    """The pipeline with `change` applied to each rule that may have a secret."""

    def changed(gate: pipeline.Gate) -> pipeline.Gate:
        return replace(gate, rule=_map_signed_rules(gate.rule, change))

    edges = (replace(edge, gates=tuple(map(changed, edge.gates))) for edge in spec.edges)
    stages = (
        replace(stage, workflow=changed(stage.workflow)) if stage.workflow else stage
        for stage in spec.stages
    )
    return replace(spec, edges=tuple(edges), stages=tuple(stages))


def _is_behind(sealer: Sealer, rule: SignedRule) -> bool:
    return bool(rule.sealed) and not sealer.is_current(base64.b64decode(rule.sealed))


def _seal_rule(sealer: Sealer, rule: SignedRule, before: GateRule | None) -> SignedRule:
    """Encrypts `rule.sealed`, which contains plain text here."""
    if not rule.sealed:
        has_same_receiver = isinstance(before, SignedRule) and before.receiver == rule.receiver
        return replace(rule, sealed=before.sealed if has_same_receiver else "")
    decode_webhook_secret(rule.sealed)
    return replace(rule, sealed=_encrypt(sealer, rule.sealed))


def _encrypt(sealer: Sealer, plain: str) -> str:
    return base64.b64encode(sealer.seal(plain.encode(), _CONTEXT)).decode()
