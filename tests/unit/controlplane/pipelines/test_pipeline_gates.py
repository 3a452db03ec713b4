"""What each kind of gate answers on its own."""

from datetime import timedelta

from controlplane.domain.pipelines.gates import Situation, judge
from controlplane.domain.pipelines.rules import ApprovalRule, SoakRule
from controlplane.domain.pipelines.state import Approval, GateStatus, Health, StageState
from fleet.identity import ServiceId
from tests.fakes.pipelines import START

DIGESTS = {ServiceId("web"): "d1"}


def approval(actor: str, digest: str = "d1") -> Approval:
    return Approval(actor, START, "", {ServiceId("web"): digest})


def situation(*approvals: Approval, healthy_for: int = 0) -> Situation:
    since = START - timedelta(seconds=healthy_for)
    source = StageState(health=Health.HEALTHY, healthy_since=since, verified=True)
    return Situation(source, DIGESTS, approvals, START)


def test_approvals_of_other_digests_do_not_count() -> None:
    verdict = judge(ApprovalRule(), situation(approval("bob", "d2")))
    assert (verdict.status, verdict.reason) == (GateStatus.RUNNING, "0 of 1 approvals")


def test_approvals_are_counted_by_person() -> None:
    rule = ApprovalRule(quorum=2)
    once = judge(rule, situation(approval("bob"), approval("bob")))
    both = judge(rule, situation(approval("eve"), approval("bob")))
    assert (once.status, once.reason) == (GateStatus.RUNNING, "1 of 2 approvals, so far bob")
    assert (both.status, both.reason) == (GateStatus.OPEN, "approved by bob, eve")


def test_soaking_tells_until_when_and_wakes_then() -> None:
    soaking = judge(SoakRule(60), situation(healthy_for=59))
    assert soaking.status == GateStatus.RUNNING
    assert soaking.wake == START + timedelta(seconds=1)
    assert soaking.reason == "soaking until 2026-01-01 00:00:01 UTC"
    assert judge(SoakRule(60), situation(healthy_for=60)).status == GateStatus.OPEN
