"""A stage's own workflow: what must pass after its services are healthy."""

from dataclasses import replace
from typing import Any

import pytest

from controlplane.pipelines.engine.effects import Notify, Promote, RunCheck, Topic
from controlplane.pipelines.engine.events import (
    Aborted,
    CheckAnswered,
    CheckStarted,
    Paused,
    ReleaseRejected,
    Resumed,
    Retried,
    ServicesHealth,
    Skipped,
)
from controlplane.pipelines.gates.kinds import (
    ApprovalRule,
    HttpRule,
    JobRule,
    SoakRule,
    WaitRule,
    WorkflowRule,
)
from controlplane.pipelines.model.gate_checks import CheckAnswer
from controlplane.pipelines.model.gate_rules import Patience, Step
from controlplane.pipelines.model.pipeline import (
    Gate,
    GateId,
    Pipeline,
    StageId,
    Verification,
    validate,
)
from controlplane.pipelines.model.rollout import Rollout
from controlplane.pipelines.model.state import Health, ReleaseId
from core.errors import Invalid
from tests.fakes.pipelines import Line, make_pipeline

HTTP = HttpRule("https://check.example.org/")
LOOK = Step("look", HTTP)


def with_workflow(
    *steps: Step, stage: str = "prod", verification: int = 0, **patience: int
) -> Pipeline:
    """dev → prod → far without gates; `stage` has these steps."""
    pipeline = make_pipeline({"dev prod": [], "prod far": []})
    gate = Gate(GateId("own"), f"{stage} workflow", WorkflowRule(steps), Patience(**patience))
    changed = tuple(
        replace(
            one,
            workflow=gate,
            verification=Verification(verification) if verification else None,
        )
        if one.name == stage
        else one
        for one in pipeline.stages
    )
    return validate(replace(pipeline, stages=changed))


class InProd(Line):
    """A release that prod has taken in, and that is healthy there."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(pipeline)
        self.release = self.enter("c1")

    def enter(self, content: str) -> ReleaseId:
        release = self.observe(content)
        self.render("prod", release)
        self.health("prod")
        return release

    def answer(self, answer: CheckAnswer, step: str = "look", **fields: Any) -> None:
        asked = [e for e in self.effects if isinstance(e, RunCheck) and e.step == step][-1]
        self.send(CheckAnswered(asked.gate, step, asked.attempt_key, answer, "as told", **fields))

    def asked(self) -> list[str]:
        return [one.step for one in self.effects if isinstance(one, RunCheck)]


def test_a_stage_is_healthy_only_once_its_steps_have_passed() -> None:
    line = InProd(with_workflow(LOOK))
    held = line.stage("prod")
    assert (held.health, held.verified, line.asked()) == (Health.PROGRESSING, False, ["look"])
    assert held.reason == "its workflow: look: attempt 1 of 1"
    assert line.candidate("prod far") is not None
    line.answer(CheckAnswer.PASSED)
    held = line.stage("prod")
    assert (held.health, held.verified, held.reason) == (Health.HEALTHY, True, "")
    line.render("far", line.release)
    assert line.stage("far").release == line.release


def test_no_step_runs_before_the_services_are_healthy() -> None:
    line = Line(with_workflow(LOOK))
    release = line.observe("c1")
    line.render("prod", release)
    line.health("prod", Health.PROGRESSING)
    assert not [one for one in line.effects if isinstance(one, RunCheck)]


def test_an_answer_counts_that_comes_while_a_service_is_not_healthy() -> None:
    """It comes once; the step goes on as soon as the services are healthy again."""
    line = InProd(with_workflow(LOOK))
    line.health("prod", Health.PROGRESSING)
    line.answer(CheckAnswer.PASSED)
    assert (line.stage("prod").health, line.notes()) == (Health.PROGRESSING, [])
    line.health("prod")
    assert (line.stage("prod").health, line.asked()) == (Health.HEALTHY, ["look"])


def people_asked(line: Line) -> list[Notify]:
    notifications = [effect for effect in line.effects if isinstance(effect, Notify)]
    return [one for one in notifications if one.topic is Topic.APPROVAL_WANTED]


def test_people_are_asked_once_when_their_step_begins() -> None:
    line = InProd(with_workflow(LOOK, Step("people", ApprovalRule(), ("look",))))
    assert people_asked(line) == []
    line.answer(CheckAnswer.PASSED)
    line.pass_time(5)
    (asked,) = people_asked(line)
    assert (asked.place, asked.release) == ("own", line.release)
    assert asked.text == "the workflow of prod needs approval"
    line.approve("own")
    assert line.stage("prod").health is Health.HEALTHY
    passed = [entry for entry in line.state.history if entry.text.startswith("workflow passed")]
    assert [(entry.place, entry.release) for entry in passed] == [("prod", line.release)]
    assert len(people_asked(line)) == 1


def test_other_content_in_the_stage_asks_people_again() -> None:
    """An approval is bound to the digests that its user saw."""
    line = InProd(with_workflow(Step("people", ApprovalRule())))
    line.approve("own")
    line.enter("c2")
    first, second = people_asked(line)
    assert first.key != second.key and first.release != second.release


def test_nobody_approves_while_a_service_is_not_healthy() -> None:
    line = InProd(with_workflow(Step("people", ApprovalRule())))
    line.health("prod", Health.PROGRESSING)
    line.approve("own")
    assert line.notes() == ["the workflow of prod is not running now"]


def test_an_answer_after_an_abort_counts_no_longer() -> None:
    line = InProd(with_workflow(LOOK))
    line.send(Aborted(StageId("prod"), line.release, "bob", "looks odd"))
    line.answer(CheckAnswer.PASSED)
    assert line.notes() == ["no check is waiting for this answer"]


def test_a_step_that_fails_fails_the_stage_until_somebody_retries() -> None:
    line = InProd(with_workflow(LOOK))
    line.answer(CheckAnswer.FAILED)
    assert line.stage("prod").reason == "its workflow failed: look: as told"
    line.health("prod")
    line.health("prod", Health.PROGRESSING)
    assert line.stage("prod").health is Health.FAILED
    line.send(Retried(StageId("prod"), line.release, "bob"))
    line.health("prod")
    assert line.asked() == ["look", "look"]
    line.answer(CheckAnswer.PASSED)
    assert line.stage("prod").health is Health.HEALTHY


def test_the_first_stage_may_have_steps_and_is_retried_as_well() -> None:
    line = Line(with_workflow(LOOK, stage="dev"))
    release = line.observe("c1")
    asked = line.last
    (check,) = [one for one in asked if isinstance(one, RunCheck)]
    line.render("prod", release)
    assert line.promotions() == []
    line.send(CheckAnswered(check.gate, "look", check.attempt_key, CheckAnswer.FAILED, "red"))
    assert line.stage("dev").health is Health.FAILED
    line.send(Retried(StageId("dev"), release, "bob"))
    (again,) = [one for one in line.last if isinstance(one, RunCheck)]
    line.send(CheckAnswered(again.gate, "look", again.attempt_key, CheckAnswer.PASSED, "green"))
    assert line.promotions() == [("prod", release)]


def test_a_newer_commit_begins_the_steps_of_the_first_stage_anew() -> None:
    line = Line(with_workflow(LOOK, stage="dev"))
    line.observe("c1")
    (old,) = [one for one in line.last if isinstance(one, RunCheck)]
    line.observe("c2")
    (new,) = [one for one in line.last if isinstance(one, RunCheck)]
    assert old.attempt_key != new.attempt_key
    line.send(CheckAnswered(old.gate, "look", old.attempt_key, CheckAnswer.PASSED))
    assert line.notes() == ["the answer belongs to an outdated check"]
    assert line.stage("dev").health is Health.PROGRESSING


def test_failures_within_the_limit_are_named_after_the_workflow_too() -> None:
    pipeline = with_workflow(LOOK)
    stages = tuple(
        replace(stage, rollout=Rollout(max_failed=1)) if stage.name == "prod" else stage
        for stage in pipeline.stages
    )
    line = Line(validate(replace(pipeline, stages=stages)))
    release = line.observe("c1")
    line.render("prod", release)
    first, *rest = line.stage("prod").progress
    healths = {first: Health.FAILED} | dict.fromkeys(rest, Health.HEALTHY)
    line.send(ServicesHealth(StageId("prod"), release, healths, {first: "crash loop"}))
    (check,) = [effect for effect in line.last if isinstance(effect, RunCheck)]
    line.send(CheckAnswered(check.gate, "look", check.attempt_key, CheckAnswer.PASSED, "green"))
    held = line.stage("prod")
    assert (held.health, held.reason) == (Health.HEALTHY, "1 services failed, within the limit")


def test_a_failed_workflow_puts_a_stage_with_a_verification_back() -> None:
    line = InProd(with_workflow(LOOK, verification=60))
    line.answer(CheckAnswer.PASSED)
    line.pass_time(60)
    second = line.enter("c2")
    line.answer(CheckAnswer.FAILED)
    back = [one for one in line.effects if isinstance(one, Promote) and one.back]
    assert [(one.release, second != line.release) for one in back] == [(line.release, True)]
    line.health("prod")
    held = line.stage("prod")
    assert (held.release, held.health) == (line.release, Health.HEALTHY)
    assert "its workflow failed: look: as told" in held.hold


def test_steps_follow_each_other_with_outputs_and_waits() -> None:
    job = Step("smoke", JobRule("default", {"kind": "Pod", "apiVersion": "v1"}))
    wait = Step("rest", WaitRule(30), after=("smoke",))
    look = replace(LOOK, after=("rest",))
    line = InProd(with_workflow(job, wait, look))
    (asked,) = [one for one in line.effects if isinstance(one, RunCheck)]
    line.send(CheckStarted(asked.gate, "smoke", asked.attempt_key, "job-1"))
    workflow = line.stage("prod").workflow
    assert workflow is not None
    assert workflow.checks["smoke"].job_id == "job-1"
    line.answer(CheckAnswer.PASSED, "smoke", outputs={"URL": "u"})
    assert line.asked() == ["smoke"]
    line.pass_time(30)
    assert line.asked() == ["smoke", "look"]
    last = [one for one in line.effects if isinstance(one, RunCheck)][-1]
    assert last.inputs == {"steps.smoke.URL": "u"}


def test_a_step_may_ask_people_about_what_runs_there() -> None:
    line = InProd(with_workflow(Step("sign", ApprovalRule())))
    digests = line.digests_at(GateId("own"))
    line.approve("own", digests=dict.fromkeys(digests, "other"))
    assert line.notes() == ["the release has changed since it was shown; review it again"]
    line.approve("own")
    assert line.stage("prod").health is Health.HEALTHY
    line.approve("own", "carol", digests=digests)
    assert line.notes() == ["the workflow of prod is not running now"]


def test_a_no_of_people_fails_the_stage() -> None:
    line = InProd(with_workflow(Step("sign", ApprovalRule())))
    line.send(ReleaseRejected(GateId("own"), "bob", "looks odd"))
    assert line.stage("prod").reason == "its workflow failed: rejected by bob: looks odd"


def test_a_workflow_is_skipped_for_one_release() -> None:
    line = InProd(with_workflow(LOOK))
    line.send(Skipped(GateId("own"), line.release, "root", "the checker burns"))
    assert line.stage("prod").health is Health.HEALTHY
    line.enter("c2")
    assert line.stage("prod").health is Health.PROGRESSING


def test_a_pause_begins_no_step_and_an_abort_ends_them() -> None:
    line = Line(with_workflow(LOOK))
    release = line.observe("c1")
    line.render("prod", release)
    line.send(Paused("bob"))
    line.health("prod")
    assert not [one for one in line.effects if isinstance(one, RunCheck)]
    line.send(Resumed("bob"))
    assert [one.step for one in line.last if isinstance(one, RunCheck)] == ["look"]
    line.send(Aborted(StageId("prod"), release, "bob", "enough"))
    line.pass_time(7_200)
    assert line.stage("prod").reason == "aborted by bob: enough"


def test_a_workflow_has_its_time() -> None:
    line = InProd(with_workflow(Step("sign", ApprovalRule()), timeout_seconds=60))
    line.pass_time(60)
    assert line.stage("prod").health is Health.FAILED
    assert "not decided within 60 s" in line.stage("prod").reason


def test_only_steps_can_be_a_stages_own() -> None:
    pipeline = make_pipeline({"dev prod": []})
    gate = Gate(GateId("own"), "own", SoakRule(5))
    first, second = pipeline.stages
    with pytest.raises(Invalid, match="a single gate is not possible"):
        validate(replace(pipeline, stages=(first, replace(second, workflow=gate))))
