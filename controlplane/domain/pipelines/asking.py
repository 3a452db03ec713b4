"""Requests to workers for the checks of a gate, and timeouts of gates."""

from datetime import timedelta

from controlplane.domain.pipelines.checks import StepProgress, evaluate_steps, steps_of
from controlplane.domain.pipelines.draft import Draft
from controlplane.domain.pipelines.effects import RunCheck
from controlplane.domain.pipelines.gates import GateInputs, GateVerdict, evaluate_gate
from controlplane.domain.pipelines.model import Gate
from controlplane.domain.pipelines.rules import CheckRule, approval_of
from controlplane.domain.pipelines.seats import GateContext
from controlplane.domain.pipelines.state import (
    CheckState,
    GateState,
    GateStatus,
    StageState,
    fingerprint,
)


def advance_steps(
    draft: Draft, seat: GateContext, source: StageState
) -> tuple[GateVerdict, dict[str, CheckState]]:
    """Advances the steps of a gate; `source` is the stage that has the release."""
    people = approval_of(seat.gate.rule)
    situation = GateInputs(source, seat.digests, seat.state.approvals, draft.now)
    verdict = evaluate_gate(people, situation) if people else None
    content = fingerprint(seat.render or {})
    base = f"check/{seat.gate.id}/{seat.release}/{seat.attempt}/{content}"
    approved = verdict is not None and verdict.status is GateStatus.OPEN
    steps = steps_of(seat.gate.rule, seat.gate.patience)
    now = evaluate_steps(steps, seat.state.checks, base, draft.now, approved=approved)
    _ask(draft, seat, now)
    checks = dict(now.states)
    if now.failed is not None:
        return GateVerdict(GateStatus.CLOSED, now.failed), checks
    if now.passed:
        return GateVerdict(GateStatus.OPEN, "all steps passed"), checks
    return GateVerdict(GateStatus.RUNNING, now.reason), checks


def apply_timeout(draft: Draft, gate: Gate, state: GateState, verdict: GateVerdict) -> GateVerdict:
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


def _ask(draft: Draft, seat: GateContext, now: StepProgress) -> None:
    for question in now.questions:
        if isinstance(question.step.rule, CheckRule):
            draft.emit(
                RunCheck(
                    key=question.key,
                    attempt_key=question.attempt_key,
                    gate=seat.gate.id,
                    step=question.step.name,
                    stage=seat.stage,
                    release=seat.release,
                    rule=question.step.rule,
                    commits=draft.releases[seat.release].commits,
                    digests=seat.digests,
                    inputs=question.inputs,
                )
            )
    for wake in now.wakes:
        draft.wake(wake)
