"""Evaluation of each kind of gate. A new kind of gate needs a rule in `model` and a judge here."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.domain.pipelines.rules import (
    ApprovalRule,
    ExternalRule,
    ManualRule,
    Rule,
    SoakRule,
    WindowRule,
    WorkflowRule,
)
from controlplane.domain.pipelines.state import (
    Approval,
    Digests,
    GateState,
    GateStatus,
    StageState,
)


@dataclass(frozen=True, slots=True)
class Situation:
    """Inputs of a gate's evaluation. `digests` are those that would
    enter the stage after the gate.
    """

    source: StageState
    digests: Digests
    approvals: tuple[Approval, ...]
    now: datetime


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a gate; `wake` is when it may change without an event."""

    status: GateStatus
    reason: str
    wake: datetime | None = None


def asks_people(rule: Rule, state: GateState) -> bool:
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


def judge(rule: Rule, situation: Situation) -> Verdict:
    """Evaluates a gate whose source stage is healthy with the release."""
    match rule:
        case ApprovalRule():
            return _judge_approval(rule, situation)
        case SoakRule():
            return _judge_soak(rule, situation)
        case WindowRule():
            return _judge_window(rule, situation.now)
        case ManualRule():
            return _judge_manual(rule, situation)
        case ExternalRule():
            return _judge_external(rule, situation)
        case _:
            raise TypeError(f"{rule.kind} is decided by its steps")


def _judge_approval(rule: ApprovalRule, situation: Situation) -> Verdict:
    actors = sorted({a.actor for a in situation.approvals if a.digests == situation.digests})
    names = ", ".join(actors)
    if len(actors) >= rule.quorum:
        return Verdict(GateStatus.OPEN, f"approved by {names}")
    so_far = f", so far {names}" if names else ""
    return Verdict(GateStatus.RUNNING, f"{len(actors)} of {rule.quorum} approvals{so_far}")


def _judge_soak(rule: SoakRule, situation: Situation) -> Verdict:
    since = situation.source.healthy_since or situation.now
    until = since + timedelta(seconds=rule.seconds)
    if situation.now >= until:
        return Verdict(GateStatus.OPEN, f"healthy since {since:%Y-%m-%d %H:%M:%S} UTC")
    return Verdict(GateStatus.RUNNING, f"soaking until {until:%Y-%m-%d %H:%M:%S} UTC", until)


def _judge_window(rule: WindowRule, now: datetime) -> Verdict:
    closed, change = rule.calendar.closed(now), rule.calendar.next_change(now)
    if closed is None:
        return Verdict(GateStatus.OPEN, "within opening hours", change)
    opens = f", opens {change:%Y-%m-%d %H:%M} UTC" if change else ", and never opens again"
    return Verdict(GateStatus.RUNNING, f"{closed}{opens}", change)


def _judge_manual(rule: ManualRule, situation: Situation) -> Verdict:
    actors = sorted(a.actor for a in situation.approvals if a.digests == situation.digests)
    if actors:
        return Verdict(GateStatus.OPEN, f"verified by {actors[0]}")
    instructions = f": {rule.instructions}" if rule.instructions else ""
    return Verdict(GateStatus.RUNNING, f"waiting for manual verification{instructions}")


def _judge_external(rule: ExternalRule, situation: Situation) -> Verdict:
    given = [a for a in situation.approvals if a.digests == situation.digests]
    if given:
        return Verdict(GateStatus.OPEN, f"passed by {given[0].actor}: {given[0].comment}")
    return Verdict(GateStatus.RUNNING, f"waiting for the answer of {rule.account}")
