"""Requests to workers for the checks of a gate, and timeouts of gates."""

from datetime import timedelta

from controlplane.pipelines.engine.effects import RunCheck
from controlplane.pipelines.engine.gate_context import GateContext
from controlplane.pipelines.engine.state_draft import StateDraft
from controlplane.pipelines.gates.kinds.approval import approval_of
from controlplane.pipelines.gates.steps import StepProgress, evaluate_steps
from controlplane.pipelines.model.gate_rules import CheckRule, GateInputs, GateVerdict
from controlplane.pipelines.model.pipeline import Gate
from controlplane.pipelines.model.state import (
    CheckState,
    GateState,
    GateStatus,
    StageState,
    fingerprint,
)


def advance_steps(
    draft: StateDraft, context: GateContext, source: StageState
) -> tuple[GateVerdict, dict[str, CheckState]]:
    """Advances the steps of a gate; `source` is the stage that has the release."""
    approval = approval_of(context.gate.rule)
    inputs = GateInputs(source, context.digests, context.state.approvals, draft.now)
    verdict = approval.evaluate(inputs) if approval else None
    content = fingerprint(context.render or {})
    base = f"check/{context.gate.id}/{context.release}/{context.attempt}/{content}"
    approved = verdict is not None and verdict.status is GateStatus.OPEN
    steps = context.gate.rule.steps_with(context.gate.patience)
    now = evaluate_steps(steps, context.state.checks, base, draft.now, approved=approved)
    _request_checks(draft, context, now)
    checks = dict(now.states)
    if now.failed is not None:
        return GateVerdict(GateStatus.CLOSED, now.failed), checks
    if now.passed:
        return GateVerdict(GateStatus.OPEN, "all steps passed"), checks
    return GateVerdict(GateStatus.RUNNING, now.reason), checks


def apply_timeout(
    draft: StateDraft, gate: Gate, state: GateState, verdict: GateVerdict
) -> GateVerdict:
    """Returns the verdict, or a timeout of the gate as a whole. Checks have their own timeouts."""
    seconds = gate.patience.timeout_seconds
    is_check = isinstance(gate.rule, CheckRule)
    if not seconds or is_check or verdict.status is not GateStatus.RUNNING:
        return verdict
    until = (state.since or draft.now) + timedelta(seconds=seconds)
    if draft.now >= until:
        return GateVerdict(GateStatus.CLOSED, f"not decided within {seconds} s: {verdict.reason}")
    draft.wake(until)
    return verdict


def _request_checks(draft: StateDraft, context: GateContext, now: StepProgress) -> None:
    for request in now.requests:
        if isinstance(request.step.rule, CheckRule):
            draft.emit(
                RunCheck(
                    key=request.key,
                    attempt_key=request.attempt_key,
                    gate=context.gate.id,
                    step=request.step.name,
                    stage=context.stage,
                    release=context.release,
                    rule=request.step.rule,
                    commits=draft.releases[context.release].commits,
                    digests=context.digests,
                    inputs=request.inputs,
                )
            )
    for wake in now.wakes:
        draft.wake(wake)
