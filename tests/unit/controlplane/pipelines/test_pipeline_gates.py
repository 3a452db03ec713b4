"""Each kind of gate, evaluated on its own."""

import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from controlplane.pipelines.gates.kinds import (
    GATES,
    ApprovalRule,
    ExternalRule,
    ManualRule,
    SoakRule,
    WindowRule,
)
from controlplane.pipelines.model.calendar import Calendar, FreezePeriod
from controlplane.pipelines.model.gate_rules import GateInputs, GateRule
from controlplane.pipelines.model.state import Approval, GateStatus, Health, StageState
from core.identity import ServiceId
from tests.fakes.pipelines import START

DIGESTS = {ServiceId("web"): "d1"}


def approval(actor: str, digest: str = "d1") -> Approval:
    return Approval(actor, START, "", {ServiceId("web"): digest})


def situation(*approvals: Approval, healthy_for: int = 0) -> GateInputs:
    since = START - timedelta(seconds=healthy_for)
    source = StageState(health=Health.HEALTHY, healthy_since=since, verified=True)
    return GateInputs(source, DIGESTS, approvals, START)


def test_approvals_of_other_digests_do_not_count() -> None:
    verdict = ApprovalRule().evaluate(situation(approval("bob", "d2")))
    assert (verdict.status, verdict.reason) == (GateStatus.RUNNING, "0 of 1 approvals")


def test_approvals_are_counted_by_person() -> None:
    rule = ApprovalRule(quorum=2)
    once = rule.evaluate(situation(approval("bob"), approval("bob")))
    both = rule.evaluate(situation(approval("eve"), approval("bob")))
    assert (once.status, once.reason) == (GateStatus.RUNNING, "1 of 2 approvals, so far bob")
    assert (both.status, both.reason) == (GateStatus.OPEN, "approved by bob, eve")


def test_soaking_tells_until_when_and_wakes_then() -> None:
    soaking = SoakRule(60).evaluate(situation(healthy_for=59))
    assert soaking.status == GateStatus.RUNNING
    assert soaking.wake == START + timedelta(seconds=1)
    assert soaking.reason == "soaking until 2026-01-01 00:00:01 UTC"
    assert SoakRule(60).evaluate(situation(healthy_for=60)).status == GateStatus.OPEN


CLOSED = WindowRule(Calendar(freezes=(FreezePeriod(START, START + timedelta(days=1), "rest"),)))
OPEN, RUNNING = GateStatus.OPEN, GateStatus.RUNNING
HOUR = timedelta(hours=1)
TABLE: list[tuple[GateRule, GateInputs, GateStatus, str, datetime | None]] = [
    (ApprovalRule(2), situation(approval("bob")), RUNNING, "1 of 2 approvals, so far bob", None),
    (ApprovalRule(1), situation(approval("bob")), OPEN, "approved by bob", None),
    (ManualRule(), situation(), RUNNING, "waiting for manual verification", None),
    (
        ManualRule("look at it"),
        situation(),
        RUNNING,
        "waiting for manual verification: look at it",
        None,
    ),
    (ManualRule(), situation(approval("bob")), OPEN, "verified by bob", None),
    (
        ManualRule(),
        situation(approval("bob", "d2")),
        RUNNING,
        "waiting for manual verification",
        None,
    ),
    (ExternalRule("ci@x"), situation(), RUNNING, "waiting for the answer of ci@x", None),
    (ExternalRule("ci@x"), situation(approval("ci@x")), OPEN, "passed by ci@x", None),
    (SoakRule(7200), situation(healthy_for=3600), RUNNING, "soaking until", START + HOUR),
    (SoakRule(3600), situation(healthy_for=3600), OPEN, "healthy since", None),
    (WindowRule(Calendar()), situation(), OPEN, "within opening hours", None),
    (CLOSED, situation(), RUNNING, "rest", START + 24 * HOUR),
]


@pytest.mark.parametrize(("rule", "seen", "status", "reason", "wake"), TABLE)
def test_each_gate_reports_its_status_reason_and_wake_time(
    rule: GateRule, seen: GateInputs, status: GateStatus, reason: str, wake: datetime | None
) -> None:
    """Open or not, why, and when it may be otherwise with nobody doing anything."""
    verdict = rule.evaluate(seen)
    assert (verdict.status, verdict.wake) == (status, wake)
    assert reason in verdict.reason


def test_the_table_of_gates_names_every_kind() -> None:
    """The documentation of gates matches the code."""
    page = (Path(__file__).parents[4] / "docs" / "reference" / "pipelines.md").read_text()
    section = page.partition("\n## Gates\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([A-Z]+)` \|", section, re.MULTILINE)
    assert sorted(rows) == sorted(kind.kind for kind in GATES)
