"""Evaluation of each kind of gate. A new kind needs a rule in `gate_rules`, and a judge here."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.pipelines.model.gate_rules import (
    ApprovalRule,
    ExternalRule,
    ManualRule,
    Rule,
    SoakRule,
    WindowRule,
    WorkflowRule,
)
from controlplane.pipelines.model.state import Approval, Digests, GateState, GateStatus, StageState


@dataclass(frozen=True, slots=True)
class GateInputs:
    """Inputs of a gate's evaluation. `digests` are those that would
    enter the stage after the gate.
    """

    source: StageState
    digests: Digests
    approvals: tuple[Approval, ...]
    now: datetime


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """Result of a gate; `wake` is when it may change without an event."""

    status: GateStatus
    reason: str
    wake: datetime | None = None


def needs_approval(rule: Rule, state: GateState) -> bool:
    """Returns whether users decide now; a workflow asks for approval once
    the preceding steps have passed.
    """
    if state.status is not GateStatus.RUNNING:
        return False
    if not isinstance(rule, WorkflowRule):
        return isinstance(rule, ApprovalRule | ManualRule)
    people = {step.name for step in rule.steps if isinstance(step.rule, ApprovalRule)}
    return any(
        name in people and check.status is GateStatus.RUNNING
        for name, check in state.checks.items()
    )


def evaluate_gate(rule: Rule, situation: GateInputs) -> GateVerdict:
    """Evaluates a gate whose source stage is healthy with the release."""
    match rule:
        case ApprovalRule():
            return _evaluate_approval(rule, situation)
        case SoakRule():
            return _evaluate_soak(rule, situation)
        case WindowRule():
            return _evaluate_window(rule, situation.now)
        case ManualRule():
            return _evaluate_manual(rule, situation)
        case ExternalRule():
            return _evaluate_external(rule, situation)
        case _:
            raise TypeError(f"{rule.kind} is decided by its steps")


def _evaluate_approval(rule: ApprovalRule, situation: GateInputs) -> GateVerdict:
    actors = sorted({a.actor for a in situation.approvals if a.digests == situation.digests})
    names = ", ".join(actors)
    if len(actors) >= rule.quorum:
        return GateVerdict(GateStatus.OPEN, f"approved by {names}")
    so_far = f", so far {names}" if names else ""
    return GateVerdict(GateStatus.RUNNING, f"{len(actors)} of {rule.quorum} approvals{so_far}")


def _evaluate_soak(rule: SoakRule, situation: GateInputs) -> GateVerdict:
    since = situation.source.healthy_since or situation.now
    until = since + timedelta(seconds=rule.seconds)
    if situation.now >= until:
        return GateVerdict(GateStatus.OPEN, f"healthy since {since:%Y-%m-%d %H:%M:%S} UTC")
    return GateVerdict(GateStatus.RUNNING, f"soaking until {until:%Y-%m-%d %H:%M:%S} UTC", until)


def _evaluate_window(rule: WindowRule, now: datetime) -> GateVerdict:
    closed, change = rule.calendar.closed(now), rule.calendar.next_change(now)
    if closed is None:
        return GateVerdict(GateStatus.OPEN, "within opening hours", change)
    opens = f", opens {change:%Y-%m-%d %H:%M} UTC" if change else ", and never opens again"
    return GateVerdict(GateStatus.RUNNING, f"{closed}{opens}", change)


def _evaluate_manual(rule: ManualRule, situation: GateInputs) -> GateVerdict:
    actors = sorted(a.actor for a in situation.approvals if a.digests == situation.digests)
    if actors:
        return GateVerdict(GateStatus.OPEN, f"verified by {actors[0]}")
    instructions = f": {rule.instructions}" if rule.instructions else ""
    return GateVerdict(GateStatus.RUNNING, f"waiting for manual verification{instructions}")


def _evaluate_external(rule: ExternalRule, situation: GateInputs) -> GateVerdict:
    given = [a for a in situation.approvals if a.digests == situation.digests]
    if given:
        return GateVerdict(GateStatus.OPEN, f"passed by {given[0].actor}: {given[0].comment}")
    return GateVerdict(GateStatus.RUNNING, f"waiting for the answer of {rule.account}")
