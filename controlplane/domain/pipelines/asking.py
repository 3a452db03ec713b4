"""Requests to workers for the checks of a gate, and timeouts of gates."""

from datetime import timedelta

from controlplane.domain.pipelines.checks import Walk, steps_of, walk
from controlplane.domain.pipelines.draft import Draft
from controlplane.domain.pipelines.effects import RunCheck
from controlplane.domain.pipelines.gates import Situation, Verdict, judge
from controlplane.domain.pipelines.model import Gate
from controlplane.domain.pipelines.rules import CheckRule, approval_of
from controlplane.domain.pipelines.seats import Seat
from controlplane.domain.pipelines.state import (
    CheckState,
    GateState,
    GateStatus,
    StageState,
    fingerprint,
)


def walked(draft: Draft, seat: Seat, source: StageState) -> tuple[Verdict, dict[str, CheckState]]:
    """Advances the steps of a gate; `source` is the stage that has the release."""
    people = approval_of(seat.gate.rule)
    situation = Situation(source, seat.digests, seat.state.approvals, draft.now)
    verdict = judge(people, situation) if people else None
    content = fingerprint(seat.render or {})
    base = f"check/{seat.gate.id}/{seat.release}/{seat.attempt}/{content}"
    approved = verdict is not None and verdict.status is GateStatus.OPEN
    steps = steps_of(seat.gate.rule, seat.gate.patience)
    now = walk(steps, seat.state.checks, base, draft.now, approved=approved)
    _ask(draft, seat, now)
    checks = dict(now.states)
    if now.failed is not None:
        return Verdict(GateStatus.CLOSED, now.failed), checks
    if now.passed:
        return Verdict(GateStatus.OPEN, "all steps passed"), checks
    return Verdict(GateStatus.RUNNING, now.reason), checks


def in_time(draft: Draft, gate: Gate, state: GateState, verdict: Verdict) -> Verdict:
    """Returns the verdict, or a timeout of the gate as a whole. Checks have their own timeouts."""
    seconds = gate.patience.timeout_seconds
    is_check = isinstance(gate.rule, CheckRule)
    if not seconds or is_check or verdict.status is not GateStatus.RUNNING:
        return verdict
    until = (state.since or draft.now) + timedelta(seconds=seconds)
    if draft.now >= until:
        return Verdict(GateStatus.CLOSED, f"not decided within {seconds} s: {verdict.reason}")
    draft.wake(until)
    return verdict


def _ask(draft: Draft, seat: Seat, now: Walk) -> None:
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
