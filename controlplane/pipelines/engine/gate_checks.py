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
    key_prefix = f"check/{context.gate.id}/{context.release}/{context.attempt}/{content}"
    approved = verdict is not None and verdict.status is GateStatus.OPEN
    steps = context.gate.rule.steps_with(context.gate.patience)
    progress = evaluate_steps(steps, context.state.checks, key_prefix, draft.now, approved=approved)
    _request_checks(draft, context, progress)
    checks = dict(progress.states)
    if progress.failure_reason is not None:
        return GateVerdict(GateStatus.CLOSED, progress.failure_reason), checks
    if progress.passed:
        return GateVerdict(GateStatus.OPEN, "all steps passed"), checks
    return GateVerdict(GateStatus.RUNNING, progress.reason), checks


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
    draft.wake_at(until)
    return verdict


def _request_checks(draft: StateDraft, context: GateContext, progress: StepProgress) -> None:
    for request in progress.requests:
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
    for wake in progress.wakes:
        draft.wake_at(wake)
