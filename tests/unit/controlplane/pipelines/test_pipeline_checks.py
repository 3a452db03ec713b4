"""Gates that ask workers: attempts, time limits, workflows, and what may come back."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.pipelines.engine.effects import Notify, RunCheck, Topic, WakeAt
from controlplane.pipelines.engine.events import (
    ApproversLeft,
    CheckAnswered,
    ExternallyAnswered,
    Retried,
    Skipped,
    Tick,
)
from controlplane.pipelines.gates.kinds import (
    ApprovalRule,
    ExternalRule,
    HttpRule,
    JobRule,
    ManualRule,
    MetricRule,
    VersionRule,
    WaitRule,
    WindowRule,
    WorkflowRule,
)
from controlplane.pipelines.model.calendar import Calendar, OpeningHours
from controlplane.pipelines.model.gate_checks import CheckAnswer
from controlplane.pipelines.model.gate_rules import ONLY_STEP, GateRule, Patience, Step
from controlplane.pipelines.model.pipeline import Gate, GateId, Pipeline, StageId, validate
from controlplane.pipelines.model.state import GateState, GateStatus, Health
from core.errors import Invalid
from tests.fakes.pipelines import Line, two_stages

GATE = GateId("dev prod 0")
PROD = StageId("prod")
HTTP = HttpRule("https://check.example.org/")
POD = {"apiVersion": "v1", "kind": "Pod"}


def patient(rule: GateRule, **patience: int) -> Pipeline:
    pipeline = two_stages(rule)
    (edge,) = pipeline.edges
    gate = Gate(GATE, "gate 0", rule, Patience(**patience))
    changed = type(edge)(edge.id, edge.source, edge.target, (gate,))
    return validate(Pipeline("p", "shop", pipeline.stages, (changed,)))


class Waiting:
    """A release that waits at a gate of this kind."""

    def __init__(self, rule: GateRule, **patience: int) -> None:
        self.line = Line(patient(rule, **patience))
        self.release = self.line.observe("c1")
        self.line.render("prod", self.release)

    def asked(self) -> list[RunCheck]:
        return [one for one in self.line.effects if isinstance(one, RunCheck)]

    def answer(
        self, answer: CheckAnswer, reason: str = "", step: str = "", **outputs: str
    ) -> list[str]:
        """Answer the newest question about a step; the engine's objections."""
        last = [one for one in self.asked() if not step or one.step == step][-1]
        event = CheckAnswered(GATE, last.step, last.attempt_key, answer, reason, outputs)
        self.line.send(event)
        return self.line.notes()

    @property
    def gate(self) -> GateState:
        candidate = self.line.candidate("dev prod")
        return candidate.gates[GATE] if candidate else GateState(GateStatus.OPEN)

    @property
    def wake_after(self) -> float | None:
        """Seconds until the engine asks to be woken."""
        wakes = [effect.at for effect in self.line.last if isinstance(effect, WakeAt)]
        return (wakes[0] - self.line.now).total_seconds() if wakes else None

    @property
    def moved(self) -> bool:
        return bool(self.line.promotions())


CHECKS = [
    JobRule("ci", POD),
    MetricRule("up", 1, url="https://prometheus.example.org"),
    HTTP,
    VersionRule("db", ">=2"),
]


@pytest.mark.parametrize("rule", CHECKS, ids=lambda one: one.kind)
def test_a_check_is_asked_once_and_opens_its_gate(rule: GateRule) -> None:
    waiting = Waiting(rule)
    assert len(waiting.asked()) == 1
    waiting.answer(CheckAnswer.PASSED)
    assert waiting.moved


@pytest.mark.parametrize("rule", CHECKS, ids=lambda one: one.kind)
def test_a_check_that_fails_stops_the_release_with_its_reason(rule: GateRule) -> None:
    waiting = Waiting(rule)
    waiting.answer(CheckAnswer.FAILED, "3 of 7 tests failed")
    assert not waiting.moved
    assert waiting.gate.status is GateStatus.CLOSED
    assert "3 of 7 tests failed" in waiting.gate.reason


@pytest.mark.parametrize("rule", CHECKS, ids=lambda one: one.kind)
def test_no_answer_in_time_is_a_failure(rule: GateRule) -> None:
    """A job that never starts and a server that never answers come to an end."""
    waiting = Waiting(rule, timeout_seconds=60)
    waiting.line.pass_time(59)
    assert waiting.gate.status is GateStatus.RUNNING
    waiting.line.pass_time(1)
    assert waiting.gate.status is GateStatus.CLOSED
    assert "no answer within 60 s" in waiting.gate.reason


def test_a_job_that_never_starts_ends_a_while_after_its_own_time() -> None:
    """Nobody has said how long the gate may take, and its cluster's agent is away."""
    waiting = Waiting(JobRule("ci", POD, timeout_seconds=120))
    waiting.line.pass_time(419)
    assert waiting.gate.status is GateStatus.RUNNING
    waiting.line.pass_time(1)
    assert "no answer within 420 s, last: attempt 1 of 1" in waiting.gate.reason
    assert not waiting.moved


def test_attempts_follow_each_other_with_growing_pauses() -> None:
    waiting = Waiting(HTTP, attempts=3, backoff_seconds=10)
    for pause in (10, 20):
        waiting.answer(CheckAnswer.FAILED, "500")
        asked = len(waiting.asked())
        waiting.line.pass_time(pause - 1)
        assert len(waiting.asked()) == asked
        waiting.line.pass_time(1)
        assert len(waiting.asked()) == asked + 1
    waiting.answer(CheckAnswer.PASSED)
    assert waiting.moved


def test_an_attempt_that_is_over_has_no_say() -> None:
    waiting = Waiting(HTTP, attempts=2, timeout_seconds=60)
    (first,) = waiting.asked()
    waiting.line.pass_time(60)
    waiting.line.pass_time(10)
    late = CheckAnswered(GATE, ONLY_STEP, first.attempt_key, CheckAnswer.PASSED)
    waiting.line.send(late)
    assert waiting.line.notes() == ["the answer belongs to an outdated check"]
    assert not waiting.moved


def test_an_undecided_check_is_repeated_within_one_attempt() -> None:
    waiting = Waiting(VersionRule("db", ">=2"), interval_seconds=15, timeout_seconds=60)
    waiting.answer(CheckAnswer.UNDECIDED, "db has 1.9.0")
    assert "1.9.0" in waiting.gate.reason
    waiting.line.pass_time(15)
    first, second = waiting.asked()
    assert first.attempt_key == second.attempt_key and first.key != second.key
    waiting.line.pass_time(45)
    assert "last: db has 1.9.0" in waiting.gate.reason


def test_a_retry_asks_anew() -> None:
    waiting = Waiting(HTTP)
    waiting.answer(CheckAnswer.FAILED)
    waiting.line.send(Retried(PROD, waiting.release, "bo"))
    waiting.line.render("prod", waiting.release)
    first, second = waiting.asked()
    assert first.attempt_key != second.attempt_key
    waiting.answer(CheckAnswer.PASSED)
    assert waiting.moved


def test_another_render_asks_anew() -> None:
    """The job tested another render than the one to deploy."""
    waiting = Waiting(HTTP)
    waiting.line.render("prod", waiting.release, "other")
    first, second = waiting.asked()
    assert first.digests != second.digests
    waiting.line.send(CheckAnswered(GATE, ONLY_STEP, first.attempt_key, CheckAnswer.PASSED))
    assert not waiting.moved


GRAPH = WorkflowRule(
    (
        Step("build", JobRule("ci", POD)),
        Step("unit", HTTP, ("build",)),
        Step("scan", HTTP, ("build",)),
        Step("rest", WaitRule(30), ("unit", "scan")),
        Step("people", ApprovalRule(), ("rest",)),
    )
)


def test_a_workflow_goes_by_its_graph() -> None:
    """Branches run beside each other; what waits, waits for all before it."""
    waiting = Waiting(GRAPH)
    assert [one.step for one in waiting.asked()] == ["build"]
    waiting.answer(CheckAnswer.PASSED, version="1.2.3")
    assert {one.step for one in waiting.asked()[1:]} == {"unit", "scan"}
    assert waiting.asked()[1].inputs == {"steps.build.version": "1.2.3"}
    waiting.answer(CheckAnswer.PASSED, step="scan")
    waiting.answer(CheckAnswer.PASSED, step="unit")
    assert not waiting.moved
    waiting.line.pass_time(30)
    waiting.line.approve(GATE)
    assert waiting.moved


def test_people_are_asked_once_the_steps_before_have_passed() -> None:
    """Nobody approves an untested release, and no notification asks for it too early."""
    waiting = Waiting(WorkflowRule((Step("test", HTTP), Step("people", ApprovalRule(), ("test",)))))
    line = waiting.line
    line.approve(GATE)
    assert line.notes() == ["approval is possible only after the preceding steps have passed"]
    notifications = [one for one in line.effects if isinstance(one, Notify)]
    assert Topic.APPROVAL_WANTED not in {one.topic for one in notifications}
    waiting.answer(CheckAnswer.PASSED)
    assert Topic.APPROVAL_WANTED in {one.topic for one in line.last if isinstance(one, Notify)}
    line.send(Tick())
    line.approve(GATE)
    assert waiting.moved
    notifications = [one for one in line.effects if isinstance(one, Notify)]
    assert [one.topic for one in notifications].count(Topic.APPROVAL_WANTED) == 1


def test_the_engine_wakes_for_every_end_of_a_wait() -> None:
    """Nothing else advances a pipeline whose check never answers."""
    waiting = Waiting(HTTP, timeout_seconds=60, attempts=2, backoff_seconds=10, interval_seconds=15)
    assert waiting.wake_after == 60, "the timeout of the attempt"
    waiting.answer(CheckAnswer.UNDECIDED)
    assert waiting.wake_after == 15, "the next run"
    waiting.line.pass_time(15)
    assert (len(waiting.asked()), waiting.wake_after) == (2, 45)
    waiting.line.pass_time(5)
    assert waiting.wake_after == 40, "an evaluation in between changes nothing"
    waiting.answer(CheckAnswer.FAILED)
    assert waiting.wake_after == 10, "the pause before the next attempt"
    assert Waiting(WorkflowRule((Step("rest", WaitRule(30)),))).wake_after == 30


def test_a_gate_that_nobody_decides_in_time_refuses_the_release() -> None:
    waiting = Waiting(ApprovalRule(), timeout_seconds=60)
    waiting.line.pass_time(59)
    assert (waiting.gate.status, waiting.wake_after) == (GateStatus.RUNNING, 1)
    waiting.line.pass_time(1)
    reason = "gate 0 failed: not decided within 60 s: 0 of 1 approvals"
    assert (waiting.gate.status, waiting.gate.reason) == (GateStatus.CLOSED, reason)
    last = waiting.line.state.history[-1]
    assert (last.place, last.release, last.text) == (GATE, waiting.release, reason)


def test_a_gate_that_has_opened_in_time_stays_open() -> None:
    waiting = Waiting(ApprovalRule(), timeout_seconds=60)
    waiting.line.health("dev", Health.PROGRESSING)
    waiting.line.pass_time(60)
    waiting.line.approve(GATE)
    waiting.line.health("dev")
    assert waiting.moved


def test_only_the_gate_that_refused_is_closed() -> None:
    line = Line(two_stages(ApprovalRule(), HTTP))
    line.render("prod", line.observe("c1"))
    (asked,) = [effect for effect in line.last if isinstance(effect, RunCheck)]
    line.send(CheckAnswered(asked.gate, ONLY_STEP, asked.attempt_key, CheckAnswer.FAILED, "no"))
    candidate = line.candidate("dev prod")
    assert candidate is not None and candidate.reason == "gate 1 failed: no"
    states = [(gate.status, gate.reason) for gate in candidate.gates.values()]
    assert states == [(GateStatus.PENDING, candidate.reason), (GateStatus.CLOSED, candidate.reason)]


def test_users_read_what_each_step_waits_for() -> None:
    waiting = Waiting(
        WorkflowRule(
            (
                Step("rest", WaitRule(30)),
                Step("people", ApprovalRule(), ("rest",)),
                Step("test", HTTP, patience=Patience(attempts=2, backoff_seconds=10)),
            )
        )
    )

    def reasons() -> list[str]:
        return [check.reason for _, check in sorted(waiting.gate.checks.items())]

    rest = "waiting until 2026-01-01 00:00:30 UTC"
    assert reasons() == ["waiting for rest", rest, "attempt 1 of 2"]
    assert waiting.gate.reason == f"rest: {rest}; test: attempt 1 of 2"
    waiting.line.pass_time(30)
    waiting.answer(CheckAnswer.UNDECIDED, "got 503")
    assert reasons() == ["waiting for approval", "waited 30 s", "got 503"]
    waiting.answer(CheckAnswer.FAILED, "got 500")
    assert reasons()[2] == "attempt 1 of 2 failed: got 500"
    waiting.line.approve(GATE)
    assert reasons()[0] == "approved"
    assert waiting.gate.reason == "test: attempt 1 of 2 failed: got 500"


def test_a_step_that_fails_fails_the_workflow_by_name() -> None:
    waiting = Waiting(GRAPH)
    waiting.answer(CheckAnswer.FAILED, "exit code 2")
    assert "build: exit code 2" in waiting.gate.reason


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((Step("a", HTTP, ("b",)), Step("b", HTTP, ("a",))), "wait for each other: "),
        ((Step("a", HTTP, ("x",)),), "step x does not exist"),
        ((Step("a", HTTP), Step("a", HTTP)), "duplicate step name a"),
        ((Step("a", ApprovalRule()), Step("b", ApprovalRule())), "require approval"),
        ((), "must have 1 to"),
        (tuple(Step(f"s{n}", HTTP) for n in range(51)), "must have 1 to"),
        ((Step("${x}", HTTP),), "letters"),
    ],
)
def test_a_workflow_that_cannot_end_is_refused(steps: tuple[Step, ...], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        WorkflowRule(steps).check("gates[0]")


def test_a_window_holds_and_lets_go_by_itself() -> None:
    """START is a Thursday; the window is open on Fridays."""
    waiting = Waiting(WindowRule(Calendar("UTC", (OpeningHours((4,)),))))
    assert "opens 2026-01-02 00:00 UTC" in waiting.gate.reason
    waiting.line.pass_time(24 * 3600)
    assert waiting.moved


def test_people_who_are_not_named_cannot_approve() -> None:
    waiting = Waiting(ApprovalRule(people=("eve",), groups=("sre",)))
    waiting.line.approve(GATE, "bob")
    assert waiting.line.notes() == ["only these may approve here: eve, sre"]
    waiting.line.approve(GATE, "eve")
    assert waiting.moved


def test_an_approval_that_nobody_gives_ends() -> None:
    waiting = Waiting(ApprovalRule(), timeout_seconds=3600)
    waiting.line.pass_time(3600)
    assert "not decided within 3600 s" in waiting.gate.reason
    assert waiting.gate.status is GateStatus.CLOSED


def test_the_approval_of_somebody_who_has_left_is_void() -> None:
    waiting = Waiting(ApprovalRule(2))
    waiting.line.approve(GATE, "bob")
    waiting.line.send(ApproversLeft(("bob",)))
    waiting.line.approve(GATE, "eve")
    assert not waiting.moved
    waiting.line.approve(GATE, "ann")
    assert waiting.moved


def test_somebody_verifies_by_hand() -> None:
    waiting = Waiting(ManualRule("click through the shop"))
    assert "click through" in waiting.gate.reason
    waiting.line.approve(GATE, "ann", is_author=True)
    assert waiting.moved


def test_only_the_named_account_answers_from_outside() -> None:
    waiting = Waiting(ExternalRule("ci@example.org"))
    for actor, passed in (("bob", True), ("ci@example.org", True)):
        waiting.line.send(ExternallyAnswered(GATE, waiting.release, actor, passed, "green"))
    assert waiting.moved
    refused = Waiting(ExternalRule("ci@example.org"))
    event = ExternallyAnswered(GATE, refused.release, "ci@example.org", False, "red")
    refused.line.send(event)
    assert "ci@example.org: red" in refused.gate.reason
    assert not refused.moved


def test_a_signed_call_counts_once_though_the_release_is_tried_again() -> None:
    """Sent again by whoever has recorded it: neither a no nor a yes is taken a second time."""
    waiting, ci = Waiting(ExternalRule("ci@example.org")), "ci@example.org"
    no = ExternallyAnswered(GATE, waiting.release, ci, False, "red", "msg-1")
    waiting.line.send(no)
    waiting.line.send(Retried(PROD, waiting.release, "bo"))
    waiting.line.send(no)
    assert waiting.line.notes() == ["this call was already accepted"]
    assert waiting.gate.status is GateStatus.RUNNING
    yes = ExternallyAnswered(GATE, waiting.release, ci, True, "green", "msg-2")
    waiting.line.send(yes)
    assert waiting.moved
    waiting.line.pass_time(900)
    waiting.line.health("prod")
    newer = waiting.line.observe("c2")
    waiting.line.render("prod", newer)
    waiting.line.send(replace(yes, release=newer, call="msg-3"))
    assert list(waiting.line.state.calls) == ["msg-3"], "what is too old to be sent is forgotten"


def test_a_gate_is_skipped_for_one_release_only() -> None:
    waiting = Waiting(HTTP)
    waiting.line.send(Skipped(GATE, waiting.release, "bo", "fire"))
    assert waiting.moved
    waiting.line.health("prod")
    newer = waiting.line.observe("c2")
    waiting.line.render("prod", newer)
    assert waiting.gate.status is GateStatus.RUNNING


def test_a_clock_that_jumps_back_opens_nothing() -> None:
    waiting = Waiting(WorkflowRule((Step("rest", WaitRule(30)),)))
    waiting.line.pass_time(-3600)
    waiting.line.pass_time(3600 + 29)
    assert not waiting.moved
    waiting.line.pass_time(1)
    assert waiting.moved


@given(
    st.lists(
        st.one_of(
            st.sampled_from(CheckAnswer), st.integers(1, 90).map(lambda n: timedelta(seconds=n))
        ),
        max_size=40,
    )
)
@settings(deadline=None)
def test_a_gate_opens_by_an_answer_only(happenings: list[CheckAnswer | timedelta]) -> None:
    """Whatever answers and pauses come: without PASSED nothing moves, and attempts are kept to."""
    waiting = Waiting(HTTP, attempts=3, timeout_seconds=60, backoff_seconds=5)
    for one in happenings:
        if waiting.moved:
            break
        if isinstance(one, CheckAnswer):
            waiting.answer(one)
        else:
            waiting.line.pass_time(one.total_seconds())
    if CheckAnswer.PASSED not in happenings:
        assert not waiting.moved
    assert len({one.attempt_key for one in waiting.asked()}) <= 3
