"""Decisions of users and programs: who decided shows in the history, and what does not fit."""

from dataclasses import replace

import pytest

from controlplane.pipelines.engine.effects import Notify, RenderStage, RunCheck, Topic, WakeAt
from controlplane.pipelines.engine.events import (
    Aborted,
    Approved,
    ApproversLeft,
    Budgeted,
    CheckAnswered,
    ClustersSilent,
    DenialRemoved,
    ExternallyAnswered,
    Retried,
    RevisionDenied,
    ServicesHealth,
    Skipped,
    StageObserved,
    StageRenderFailed,
    Started,
)
from controlplane.pipelines.engine.state_draft import clip
from controlplane.pipelines.gates.kinds import (
    ApprovalRule,
    ExternalRule,
    HttpRule,
    SoakRule,
    WaitRule,
    WorkflowRule,
)
from controlplane.pipelines.model.gate_checks import CheckAnswer
from controlplane.pipelines.model.gate_rules import Patience, Step, needs_approval
from controlplane.pipelines.model.pipeline import (
    Gate,
    GateId,
    Pipeline,
    ServiceSelector,
    Stage,
    StageId,
)
from controlplane.pipelines.model.rollout import BudgetRoom
from controlplane.pipelines.model.state import (
    TEXT_LENGTH,
    GateState,
    GateStatus,
    Health,
    ReleaseId,
    TriggerState,
    fingerprint,
)
from controlplane.pipelines.model.triggers import Trigger
from controlplane.pipelines.triggers.kinds import TagRule
from core.identity import ServiceId
from core.spec.verification import Verification
from tests.fakes.pipelines import START, Line, make_pipeline, two_stages

GATE, OTHER_GATE = GateId("dev prod 0"), GateId("dev prod 1")
DEV, PROD = StageId("dev"), StageId("prod")
CI = "ci@example.org"


def waiting(line: Line, content: str = "c1") -> ReleaseId:
    release = line.observe(content)
    line.render("prod", release)
    return release


def entries(line: Line, actor: str) -> list[str]:
    return [entry.text for entry in line.state.history if entry.actor == actor]


def notices(line: Line, topic: Topic) -> list[str]:
    return [one.text for one in line.effects if isinstance(one, Notify) and one.topic is topic]


def gate_state(line: Line, gate: GateId = GATE) -> GateState:
    candidate = line.candidate("dev prod")
    assert candidate is not None
    return candidate.gates[gate]


def gate_status(line: Line, gate: GateId = GATE) -> GateStatus:
    return gate_state(line, gate).status


def test_the_history_names_the_user_of_each_decision() -> None:
    line = Line(two_stages())
    line.send(RevisionDenied("c9", "eve", "leaks"))
    line.send(DenialRemoved("c9", "eve"))
    release = waiting(line)
    line.send(Skipped(GATE, release, "eve", "fire"))
    line.send(Aborted(PROD, release, "eve", "too slow"))
    line.send(Retried(PROD, release, "eve"))
    assert entries(line, "eve") == [
        "c9 denied in all stages: leaks",
        "c9 no longer denied",
        "skipped: fire",
        "aborted by eve: too slow",
        "promoted again",
    ]


def test_a_program_answers_only_for_its_gate_and_once() -> None:
    line = Line(two_stages(ExternalRule(CI), ApprovalRule()))
    release = line.observe("c1")
    line.send(ExternallyAnswered(GATE, release, CI, True, "green"))
    assert line.notes() == [f"release {release} is not waiting there"]
    line.render("prod", release)
    line.send(ExternallyAnswered(GATE, release, "bob", True, "green"))
    assert line.notes() == ["bob is not the account that answers gate gate 0"]
    line.send(ExternallyAnswered(OTHER_GATE, release, CI, True, "green"))
    assert line.notes() == [f"{CI} is not the account that answers gate gate 1"]
    assert gate_status(line) is GateStatus.RUNNING
    line.send(ExternallyAnswered(GATE, release, CI, True, "green", "call-1"))
    assert gate_status(line) is GateStatus.OPEN
    line.send(ExternallyAnswered(GATE, release, CI, True, "green", "call-2"))
    assert line.notes() == [f"{CI} has already answered"]
    assert entries(line, CI) == ["passed: green"]


def test_answers_without_a_call_are_not_taken_for_the_same_call() -> None:
    line = Line(two_stages(ExternalRule(CI)))
    for content in ("c1", "c2"):
        line.send(ExternallyAnswered(GATE, waiting(line, content), CI, False, "red"))
        assert gate_status(line) is GateStatus.CLOSED


def test_an_approval_that_becomes_void_is_told_once() -> None:
    line = Line(two_stages(ApprovalRule(3)))
    waiting(line)
    line.approve(GATE, "bob")
    line.approve(GATE, "eve")
    line.send(ApproversLeft(("bob", "nobody")))
    text = "approval void: the approver may no longer approve"
    assert notices(line, Topic.APPROVAL_VOIDED) == [text]
    assert line.state.history[-1].text == text
    line.send(ApproversLeft(("nobody",)))
    assert notices(line, Topic.APPROVAL_VOIDED) == [text]


def test_members_of_a_named_group_approve_and_others_do_not() -> None:
    line = Line(two_stages(ApprovalRule(groups=("sre",))))
    waiting(line)
    approval = Approved(GATE, "bob", False, line.digests_at(GATE), groups=("dev",))
    line.send(approval)
    assert line.notes() == ["only these may approve here: sre"]
    line.send(replace(approval, groups=("dev", "sre")))
    assert len(line.promotions()) == 1


def test_a_denial_is_told_only_for_stages_that_run_the_revision() -> None:
    line = Line(two_stages())
    waiting(line)
    line.send(RevisionDenied("c9", "eve", "leaks"))
    assert notices(line, Topic.REFUSED) == []
    line.send(RevisionDenied("c1", "eve", "leaks"))
    assert notices(line, Topic.REFUSED) == ["c1 is denied: eve: leaks"]


def test_the_rollout_of_the_first_stage_cannot_be_aborted() -> None:
    line = Line(two_stages())
    release = line.observe("c1", Health.PROGRESSING)
    line.send(Aborted(DEV, release, "eve"))
    assert line.notes() == ["the first stage follows git: there is nothing to abort"]
    assert line.stage("dev").health is Health.PROGRESSING


def test_a_retry_of_another_release_than_the_failed_one_does_nothing() -> None:
    line = Line(two_stages(SoakRule(1)))
    release = waiting(line)
    line.pass_time(1)
    line.health("prod", Health.FAILED)
    line.send(Retried(PROD, ReleaseId("other"), "eve"))
    assert line.notes() == ["release other was neither refused nor failed there"]
    assert line.promotions() == [("prod", release)]


def checked(pipeline: Pipeline) -> Pipeline:
    """The same with a check as the workflow of the first stage."""
    steps = WorkflowRule((Step("look", HttpRule("https://check.example.org/")),))
    dev, prod = pipeline.stages
    workflow = Gate(GateId("own"), "own", steps)
    return replace(pipeline, stages=(replace(dev, workflow=workflow), prod))


def test_a_failed_workflow_of_the_first_stage_is_checked_again_after_a_retry() -> None:
    line = Line(checked(two_stages()))
    release = line.observe("c1")
    (asked,) = [one for one in line.effects if isinstance(one, RunCheck)]
    line.send(CheckAnswered(GateId("own"), "look", asked.attempt_key, CheckAnswer.FAILED, "red"))
    line.send(Retried(DEV, ReleaseId("other"), "eve"))
    assert line.notes() == ["release other was neither refused nor failed there"]
    line.send(Retried(DEV, release, "eve"))
    checks = [one.attempt_key for one in line.effects if isinstance(one, RunCheck)]
    assert len(set(checks)) == 2
    assert line.stage("dev").attempt == 2


def test_services_of_the_first_stage_that_fail_are_not_retried_with_its_workflow() -> None:
    line = Line(checked(two_stages()))
    release = line.observe("c1")
    line.health("dev", Health.FAILED)
    line.send(Retried(DEV, release, "eve"))
    assert line.notes() == [f"release {release} was neither refused nor failed there"]


def test_an_answer_to_a_workflow_that_has_not_begun_is_ignored() -> None:
    line = Line(checked(two_stages()))
    line.send(CheckAnswered(GateId("own"), "look", "early", CheckAnswer.PASSED))
    assert line.notes() == ["no check is waiting for this answer"]


def test_the_engine_wakes_for_the_earliest_of_several_times() -> None:
    line = Line(two_stages(SoakRule(120), SoakRule(60)))
    waiting(line)
    wakes = [(one.at - START).total_seconds() for one in line.last if isinstance(one, WakeAt)]
    assert wakes == [60]


def test_a_release_waits_for_the_render_of_a_service_that_joins_the_stage() -> None:
    line = Line(two_stages())
    release = waiting(line)
    dev, prod = line.pipeline.stages
    larger = replace(prod, services=(*prod.services, ServiceId("prod-new")))
    line.pipeline = replace(line.pipeline, stages=(dev, larger))
    line.pass_time(1)
    candidate = line.candidate("dev prod")
    assert candidate is not None and candidate.reason == "waiting for the render"
    line.render("prod", release)
    line.approve(GATE)
    assert line.promotions() == [("prod", release)]


@pytest.mark.parametrize(
    ("services", "reason"),
    [
        ((), "the selector of stage prod matches no service"),
        ((ServiceId("prod-0"),), "dev is progressing"),
    ],
)
def test_a_waiting_release_says_why(services: tuple[ServiceId, ...], reason: str) -> None:
    pipeline = two_stages()
    dev, prod = pipeline.stages
    selecting = Stage(prod.id, "prod", services, ServiceSelector(("shop",)))
    line = Line(replace(pipeline, stages=(dev, selecting)))
    release = line.observe("c1", Health.PROGRESSING)
    line.send(line.health_report(DEV, release, Health.PROGRESSING))
    if services:
        line.render("prod", release)
    candidate = line.candidate("dev prod")
    assert candidate is not None
    assert candidate.reason.partition(":")[0] == reason


def test_the_state_of_a_removed_trigger_is_forgotten() -> None:
    line = Line(replace(two_stages(), triggers=(Trigger("t", "tag", TagRule()),)))
    line.state = replace(line.state, triggers={"t": TriggerState(attempt=3)})
    line.pass_time(1)
    assert set(line.state.triggers) == {"t"}
    line.pipeline = two_stages()
    line.pass_time(1)
    assert line.state.triggers == {}


def test_revisions_in_another_order_are_the_same_content() -> None:
    line = Line(two_stages())
    revisions = {**line.revisions(DEV, "c1", "d1"), **line.revisions(PROD, "c2", "d2")}
    backwards = dict(reversed(revisions.items()))
    assert fingerprint(backwards) == fingerprint(revisions)


def test_a_text_is_cut_above_the_limit_only() -> None:
    assert clip("x" * TEXT_LENGTH) == "x" * TEXT_LENGTH
    assert clip("x" * (TEXT_LENGTH + 1)) == "x" * (TEXT_LENGTH - 1) + "…"


def test_users_are_asked_once_and_only_for_gates_that_they_decide() -> None:
    line = Line(two_stages(SoakRule(60), ApprovalRule(2)))
    waiting(line)
    line.pass_time(60)
    line.approve(OTHER_GATE, "bob")
    assert notices(line, Topic.APPROVAL_WANTED) == ["gate 1 needs approval: 0 of 2 approvals"]


def test_a_passed_check_stays_passed_while_a_later_step_waits() -> None:
    check = Step("look", HttpRule("https://check.example.org/"))
    steps = WorkflowRule((check, Step("rest", WaitRule(7_200), ("look",))))
    line = Line(two_stages(steps))
    release = waiting(line)
    assert not needs_approval(steps, gate_state(line))
    (asked,) = [one for one in line.effects if isinstance(one, RunCheck)]
    line.send(CheckAnswered(GATE, "look", asked.attempt_key, CheckAnswer.PASSED, "green"))
    line.pass_time(7_199)
    assert gate_state(line).checks["look"].reason == "green"
    line.pass_time(1)
    assert line.promotions() == [("prod", release)]


def test_a_check_without_any_answer_says_only_that() -> None:
    line = Line(two_stages(HttpRule("https://check.example.org/")))
    waiting(line)
    (asked,) = [one for one in line.effects if isinstance(one, RunCheck)]
    line.send(CheckAnswered(GATE, asked.step, asked.attempt_key, CheckAnswer.UNDECIDED))
    line.pass_time(3_600)
    assert gate_state(line).reason == "gate 0 failed: no answer within 3600 s"


@pytest.mark.parametrize(
    ("first", "later"),
    [(CheckAnswer.FAILED, CheckAnswer.PASSED), (CheckAnswer.PASSED, CheckAnswer.FAILED)],
)
def test_an_attempt_of_a_check_is_decided_once(first: CheckAnswer, later: CheckAnswer) -> None:
    pipeline = two_stages(HttpRule("https://check.example.org/"), ApprovalRule())
    (edge,) = pipeline.edges
    check = replace(edge.gates[0], patience=Patience(attempts=2))
    line = Line(replace(pipeline, edges=(replace(edge, gates=(check, edge.gates[1])),)))
    waiting(line)
    (asked,) = [one for one in line.effects if isinstance(one, RunCheck)]
    line.send(CheckAnswered(GATE, asked.step, asked.attempt_key, first, "first"))
    before = gate_state(line)
    line.send(CheckAnswered(GATE, asked.step, asked.attempt_key, later, "later"))
    assert line.notes() == ["this attempt is already decided"]
    assert gate_state(line) == before
    line.send(CheckAnswered(GATE, "none", asked.attempt_key, later, "later"))
    assert line.notes() == ["the answer belongs to an outdated check"]


def test_only_the_first_stage_reports_what_git_holds() -> None:
    line = Line(two_stages())
    line.send(StageObserved(PROD, line.revisions(PROD, "c1", "d1"), Health.HEALTHY, "ann"))
    assert line.notes() == ["only the first stage follows git"]


def test_a_stage_says_how_many_services_are_not_healthy_yet_unless_one_says_why() -> None:
    pipeline = make_pipeline({"dev prod": []}, services=3)
    line = Line(pipeline)
    release = waiting(line)
    one, two, three = pipeline.stage[PROD].services
    slow = dict.fromkeys((one, two), Health.PROGRESSING) | {three: Health.HEALTHY}
    line.send(ServicesHealth(PROD, release, slow))
    assert line.stage("prod").reason == "2 services to go"
    line.send(ServicesHealth(PROD, release, slow, {two: "pulls its image"}))
    assert line.stage("prod").reason == "pulls its image"
    line.send(ClustersSilent({two: "c1"}))
    line.send(ServicesHealth(PROD, release, slow, {two: "pulls its image"}))
    assert line.stage("prod").reason == (
        "waits for silent clusters until 2026-01-01 00:30:00 UTC: c1"
    )
    line.send(ServicesHealth(PROD, release, slow, {one: "is slow", two: "pulls its image"}))
    assert line.stage("prod").reason.startswith("is slow; waits for silent clusters")


def test_approvals_of_other_content_are_void_and_that_is_recorded() -> None:
    line = Line(two_stages(ApprovalRule(2)))
    release = waiting(line)
    line.approve(GATE)
    line.render("prod", release, "other")
    text = "the release's content has changed: earlier approvals are void"
    assert line.state.history[-1].text == text
    assert gate_state(line).approvals == ()


def test_health_that_goes_on_is_soaked_once() -> None:
    """Each report says healthy again, and the soak still counts from the first one."""
    line = Line(two_stages(SoakRule(60)))
    waiting(line)
    for _ in range(6):
        line.pass_time(10)
        line.health("dev")
    assert len(line.promotions()) == 1


def test_a_proven_stage_that_is_slow_again_takes_the_next_release() -> None:
    line = Line(make_pipeline({"dev prod": []}))
    first = waiting(line)
    line.health("prod")
    line.health("prod", Health.PROGRESSING)
    second = waiting(line, "c2")
    assert line.promotions() == [("prod", first), ("prod", second)]


def test_verification_counts_from_the_first_health_with_the_release() -> None:
    pipeline = make_pipeline({"dev prod": []})
    dev, prod = pipeline.stages
    verified = replace(prod, verification=Verification(60))
    line = Line(replace(pipeline, stages=(dev, verified)))
    release = waiting(line)
    line.pass_time(100)
    line.health("prod", Health.PROGRESSING)
    line.health("prod")
    line.pass_time(30)
    line.health("prod", Health.PROGRESSING)
    line.health("prod")
    line.pass_time(29)
    assert line.stage("prod").good_release is None
    line.pass_time(1)
    assert line.stage("prod").good_release == release


def test_services_that_fail_while_the_workflow_runs_fail_the_stage() -> None:
    line = Line(checked(two_stages()))
    line.observe("c1")
    assert line.stage("dev").reason == "its workflow: look: attempt 1 of 1"
    line.health("dev", Health.FAILED)
    assert (line.stage("dev").health, line.stage("dev").reason) == (Health.FAILED, "as told")


def test_what_git_holds_does_not_change_the_health_of_the_release_before() -> None:
    pipeline = replace(two_stages(), on_commit=False)
    line = Line(pipeline)
    line.send(StageObserved(DEV, line.revisions(DEV, "c1", "d1"), Health.HEALTHY, "ann"))
    line.send(Started("bob"))
    line.send(StageObserved(DEV, line.revisions(DEV, "c1", "d1"), Health.HEALTHY, "ann"))
    line.send(StageObserved(DEV, line.revisions(DEV, "c2", "d2"), Health.FAILED, "ann"))
    assert line.stage("dev").health is Health.HEALTHY


def test_a_budget_without_room_holds_a_release_back_and_is_asked_again() -> None:
    line = Line(make_pipeline({"dev prod": []}))
    line.send(Budgeted(BudgetRoom((), "the group is full")))
    waiting(line)
    assert line.promotions() == []
    assert line.stage("prod").rollout_reason == "the group is full"
    wakes = [(one.at - START).total_seconds() for one in line.last if isinstance(one, WakeAt)]
    assert wakes == [60]
    line.send(Budgeted(None))
    assert len(line.promotions()) == 1


def test_a_render_that_failed_is_asked_for_again_with_other_services() -> None:
    line = Line(two_stages())
    release = line.observe("c1")
    line.send(StageRenderFailed(PROD, release, "no chart"))
    line.pass_time(1)
    assert [one for one in line.last if isinstance(one, RenderStage)] == []
    dev, prod = line.pipeline.stages
    larger = replace(prod, services=(*prod.services, ServiceId("prod-new")))
    line.pipeline = replace(line.pipeline, stages=(dev, larger))
    line.pass_time(1)
    assert len([one for one in line.last if isinstance(one, RenderStage)]) == 1
    line.render("prod", release)
    assert gate_status(line) is GateStatus.RUNNING
