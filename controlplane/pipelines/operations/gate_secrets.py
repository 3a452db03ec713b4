"""Signing secrets of gates: received in plain text, stored encrypted, decrypted to sign."""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from controlplane.pipelines.engine import codec
from controlplane.pipelines.gates.kinds.workflow import WorkflowRule
from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.gate_rules import GateRule, SignedRule, Step
from controlplane.pipelines.model.records import PipelineRecord
from controlplane.platform.ports import Rows
from controlplane.platform.sealing import Sealer
from controlplane.platform.webhook_signatures import decode_webhook_secret

_CONTEXT = "pipeline-gate"


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
    if isinstance(rule, SignedRule):
        return _seal_rule(sealer, rule, before)
    if not isinstance(rule, WorkflowRule):
        return rule
    old_steps = before.steps if isinstance(before, WorkflowRule) else ()
    old_rules = {step.name: step.rule for step in old_steps}
    steps = [_seal_step(sealer, step, old_rules.get(step.name)) for step in rule.steps]
    return replace(rule, steps=tuple(steps))


def open_sealed(sealer: Sealer, sealed: str) -> str:
    """The signing secret that a rule keeps encrypted."""
    return sealer.open(base64.b64decode(sealed), _CONTEXT).decode()


def with_resealed_secrets(sealer: Sealer, spec: pipeline.Pipeline) -> pipeline.Pipeline:
    """The pipeline with all secrets encrypted by the current key."""

    def reseal(rule: SignedRule) -> SignedRule:
        if not _is_behind(sealer, rule):
            return rule
        return replace(rule, sealed=_encrypt(sealer, open_sealed(sealer, rule.sealed)))

    return _map_signed_rules(spec, reseal)


def with_plain_secrets(sealer: Sealer, spec: pipeline.Pipeline) -> pipeline.Pipeline:
    """The pipeline with plain secrets: the caller must drop it."""

    def open_rule(rule: SignedRule) -> SignedRule:
        return replace(rule, sealed=open_sealed(sealer, rule.sealed)) if rule.sealed else rule

    return _map_signed_rules(spec, open_rule)


def without_secrets(spec: pipeline.Pipeline) -> pipeline.Pipeline:
    """The pipeline without secrets, for its history."""
    return _map_signed_rules(spec, lambda rule: replace(rule, sealed=""))


def _map_signed_rules(
    spec: pipeline.Pipeline, change: Callable[[SignedRule], SignedRule]
) -> pipeline.Pipeline:
    """The pipeline with `change` applied to each rule that may have a secret."""

    def changed(gate: pipeline.Gate) -> pipeline.Gate:
        rule = gate.rule
        if isinstance(rule, SignedRule):
            return replace(gate, rule=change(rule))
        if not isinstance(rule, WorkflowRule):
            return gate
        steps = (
            replace(step, rule=change(step.rule)) if isinstance(step.rule, SignedRule) else step
            for step in rule.steps
        )
        return replace(gate, rule=replace(rule, steps=tuple(steps)))

    edges = (replace(edge, gates=tuple(map(changed, edge.gates))) for edge in spec.edges)
    stages = (
        replace(stage, workflow=changed(stage.workflow)) if stage.workflow else stage
        for stage in spec.stages
    )
    return replace(spec, edges=tuple(edges), stages=tuple(stages))


def _is_behind(sealer: Sealer, rule: SignedRule) -> bool:
    return bool(rule.sealed) and not sealer.is_current(base64.b64decode(rule.sealed))


def _seal_step(sealer: Sealer, step: Step, before: object) -> Step:
    if not isinstance(step.rule, SignedRule):
        return step
    return replace(step, rule=_seal_rule(sealer, step.rule, before))


def _seal_rule(sealer: Sealer, rule: SignedRule, before: object) -> SignedRule:
    """Encrypts `rule.sealed`, which contains plain text here."""
    if not rule.sealed:
        has_same_receiver = isinstance(before, SignedRule) and before.receiver == rule.receiver
        return replace(rule, sealed=before.sealed if has_same_receiver else "")
    decode_webhook_secret(rule.sealed)
    return replace(rule, sealed=_encrypt(sealer, rule.sealed))


def _encrypt(sealer: Sealer, plain: str) -> str:
    return base64.b64encode(sealer.seal(plain.encode(), _CONTEXT)).decode()
