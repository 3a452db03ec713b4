"""How each kind of gate decides. A new kind of gate is a rule in `model` and a judge here."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.domain.pipelines.model import ApprovalRule, Rule, SoakRule
from controlplane.domain.pipelines.state import Approval, Digests, GateStatus, StageState


@dataclass(frozen=True, slots=True)
class Situation:
    """What a gate may look at. `digests` are those that would enter the stage behind."""

    source: StageState
    digests: Digests
    approvals: tuple[Approval, ...]
    now: datetime


@dataclass(frozen=True, slots=True)
class Verdict:
    """A gate's answer now; `wake` is when it may change without any event."""

    status: GateStatus
    reason: str
    wake: datetime | None = None


def judge(rule: Rule, situation: Situation) -> Verdict:
    """The answer of a gate whose source stage is healthy with the release in question."""
    match rule:
        case ApprovalRule():
            return _judge_approval(rule, situation)
        case SoakRule():
            return _judge_soak(rule, situation)


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
