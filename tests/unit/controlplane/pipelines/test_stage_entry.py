"""How a release enters a stage: joins of edges, attempts, releases that change nothing."""

from dataclasses import replace

import pytest

from controlplane.pipelines.engine.effects import Notify, Promote, RenderStage, Topic, WakeAt
from controlplane.pipelines.engine.events import (
    Aborted,
    Frozen,
    Lifted,
    Paused,
    PromotionFailed,
    ReleaseRejected,
    Resumed,
    Retried,
    RevisionDenied,
    Skipped,
    StageObserved,
    StageRendered,
    StageRenderFailed,
    VerificationFailed,
)
from controlplane.pipelines.gates.kinds import ApprovalRule, SoakRule
from controlplane.pipelines.model.gate_rules import Patience
from controlplane.pipelines.model.pipeline import GateId, StageId, Verification, validate
from controlplane.pipelines.model.state import (
    TEXT_LENGTH,
    GateStatus,
    Health,
    ReleaseId,
    RevisionRef,
)
from controlplane.pipelines.model.triggers import Trigger
from controlplane.pipelines.triggers.kinds import ScheduleRule
from core.identity import ServiceId
from tests.fakes.pipelines import Line, make_pipeline, two_stages

DEV, TEST, PROD = StageId("dev"), StageId("test"), StageId("prod")
GATE = GateId("dev prod 0")
DIAMOND = make_pipeline({"dev eu": [], "dev us": [], "eu prod": [], "us prod": []})


@pytest.fixture
def line() -> Line:
    """dev → prod with one approval."""
    return Line(two_stages())


@pytest.fixture
def chain() -> Line:
    """dev → test → prod without gates; test verifies for a minute."""
    pipeline = make_pipeline({"dev test": [], "test prod": []})
    stages = tuple(
        replace(stage, verification=Verification(60)) if stage.id == TEST else stage
        for stage in pipeline.stages
    )
    return Line(validate(replace(pipeline, stages=stages)))


def waiting(line: Line, content: str = "c1") -> ReleaseId:
    """A release that is healthy in dev, and rendered for prod."""
    release = line.observe(content)
    line.render("prod", release)
    return release


def promoted(line: Line) -> list[Promote]:
    return [effect for effect in line.effects if isinstance(effect, Promote)]


def keys(line: Line) -> list[str]:
    return [effect.key for effect in promoted(line)]


def texts(line: Line, topic: Topic) -> list[str]:
    return [one.text for one in line.effects if isinstance(one, Notify) and one.topic is topic]


def reasons(line: Line, *edges: str) -> list[str]:
    found = [line.candidate(edge) for edge in edges]
    return ["" if candidate is None else candidate.reason for candidate in found]


def enter(line: Line, content: str, *stages: str) -> ReleaseId:
    """A release that becomes healthy in these stages, one after the other."""
    release = line.observe(content)
    for stage in stages:
        line.render(stage, release)
        line.health(stage)
    return release


def test_a_stage_takes_the_release_that_all_its_edges_bring() -> None:
    """While one edge brings a newer release than the other, neither enters."""
    line = Line(DIAMOND)
    first = enter(line, "c1", "eu", "us")
    line.render("prod", first)
    line.health("prod")
    second = line.observe("c2")
    for stage in ("eu", "us"):
        line.render(stage, second)
    line.health("eu")
    line.render("prod", second)
    source, target = reasons(line, "eu prod", "us prod")
    assert source == "waiting at another edge into the stage"
    assert target.startswith("us is progressing")
    assert line.stage("prod").release == first
    line.health("us")
    assert line.stage("prod").release == second
    assert line.candidate("eu prod") is None and line.candidate("us prod") is None


def test_two_releases_that_meet_before_a_stage_wait_for_each_other() -> None:
    line = Line(DIAMOND)
    first = line.observe("c1")
    for stage in ("eu", "us"):
        line.render(stage, first)
    line.health("eu")
    line.render("prod", first)
    second = line.observe("c2")
    line.render("eu", second)
    line.health("us")
    line.health("eu")
    line.render("prod", second)
    assert line.stage("eu").release == second and line.stage("us").release == first
    assert reasons(line, "eu prod", "us prod")[0] == "has not arrived on every edge into the stage"
    assert [effect.stage for effect in promoted(line)] == ["eu", "us", "eu"]


def test_a_retry_at_one_edge_counts_as_an_attempt_of_the_stage() -> None:
    """The promotion of a second attempt is another one than that of the first."""
    pipeline = make_pipeline(
        {"dev eu": [], "dev us": [], "eu prod": [ApprovalRule()], "us prod": []}
    )
    line = Line(pipeline)
    release = enter(line, "c1", "eu", "us")
    line.render("prod", release)
    line.send(ReleaseRejected(GateId("eu prod 0"), "eve"))
    line.send(Retried(PROD, release, "bob"))
    line.approve("eu prod 0")
    assert keys(line)[-1] == f"promote/prod/{release}/2/0"
    assert line.stage("prod").attempt == 2


def test_every_promotion_of_a_stage_has_a_key_of_its_own(line: Line) -> None:
    first = waiting(line)
    line.approve(GATE)
    line.health("prod")
    second = waiting(line, "c2")
    line.approve(GATE)
    assert keys(line) == [f"promote/prod/{first}/1/0", f"promote/prod/{second}/1/1"]
    assert line.stage("prod").batches == 2


def test_an_entry_is_in_the_history(line: Line) -> None:
    release = waiting(line)
    line.approve(GATE)
    entries = [(one.place, one.release, one.text) for one in line.state.history]
    assert ("prod", release, "promoted") in entries
    assert (GATE, release, "gate gate 0 opened: approved by bob") in entries
    assert line.stage("prod").entered_at == line.now


def test_a_new_release_begins_with_nothing_of_the_one_before(chain: Line) -> None:
    """Neither its health, nor its verification or its reasons."""
    enter(chain, "c1", "test")
    chain.pass_time(60)
    second = chain.observe("c2")
    chain.render("test", second)
    state = chain.stage("test")
    assert (state.release, state.health, state.verified) == (second, Health.PROGRESSING, False)
    assert (state.reason, state.verified_at, state.healthy_since) == ("", None, None)
    assert state.good_release is not None and state.good_release != second


def same_digest(line: Line, release: ReleaseId) -> None:
    """Renders a release to what prod runs already, from a newer commit."""
    commit = next(iter(line.state.releases[release].commits.values()))
    current = line.stage("prod").revisions
    renders = {service: RevisionRef(commit, one.digest) for service, one in current.items()}
    line.send(StageRendered(PROD, release, renders))


def test_a_release_that_changes_nothing_brings_its_commit(line: Line) -> None:
    waiting(line)
    line.approve(GATE)
    line.health("prod")
    second = line.observe("c2")
    same_digest(line, second)
    state, effect = line.stage("prod"), promoted(line)[-1]
    assert effect.release == state.release == second
    assert {one.commit for one in effect.revisions.values()} == {"c2"}
    assert state.revisions == effect.revisions
    assert (state.health, state.verified, state.batches) == (Health.HEALTHY, True, 2)
    assert effect.key == f"promote/prod/{second}/1/1"


def test_a_release_that_changes_nothing_is_the_one_to_roll_back_to(line: Line) -> None:
    """It runs what was verified; the release before it is history."""
    waiting(line)
    line.approve(GATE)
    line.health("prod")
    second = line.observe("c2")
    same_digest(line, second)
    state = line.stage("prod")
    assert (state.good_release, state.good) == (second, state.revisions)


def test_a_release_that_changes_nothing_before_its_verification_is_not_good_yet() -> None:
    pipeline = make_pipeline({"dev prod": []})
    stages = (pipeline.stages[0], replace(pipeline.stages[1], verification=Verification(60)))
    line = Line(validate(replace(pipeline, stages=stages)))
    waiting(line)
    line.health("prod")
    line.pass_time(30)
    second = line.observe("c2")
    same_digest(line, second)
    assert line.stage("prod").good_release is None
    line.pass_time(30)
    assert line.stage("prod").good_release == second


def test_a_stage_that_went_back_offers_its_older_release_to_nobody(chain: Line) -> None:
    first = enter(chain, "c1", "test")
    chain.pass_time(60)
    chain.render("prod", first)
    chain.health("prod")
    second = enter(chain, "c2", "test")
    chain.render("prod", second)
    chain.health("prod")
    failed = ServiceId("test-0")
    chain.send(VerificationFailed(TEST, second, failed, "errors"))
    assert chain.stage("test").release == first
    chain.health("test")
    assert chain.candidate("test prod") is None
    assert chain.stage("prod").release == second


def test_a_failed_verification_denies_the_revision_for_all_stages(chain: Line) -> None:
    enter(chain, "c1", "test")
    chain.pass_time(60)
    second = enter(chain, "c2", "test")
    digest = chain.stage("test").revisions[ServiceId("test-0")].digest
    chain.send(VerificationFailed(TEST, second, ServiceId("test-0"), "7 % errors"))
    assert chain.state.known_bad == {digest: "towline: 7 % errors"}
    state = chain.stage("test")
    assert "was rolled back to" in state.hold and state.hold.endswith(": 7 % errors")
    assert texts(chain, Topic.ROLLED_BACK) == [state.hold]
    effect = promoted(chain)[-1]
    assert effect.back and effect.key == f"back/test/{second}/1/2"
    chain.send(Lifted(TEST, "bob"))
    assert chain.stage("test").hold == ""
    assert ("hold lifted", "bob") in [(one.text, one.actor) for one in chain.state.history]


def test_what_ran_before_as_well_is_not_denied_by_a_rollback(chain: Line) -> None:
    """Only the changed services can be the reason."""
    services = tuple(ServiceId(f"test-{number}") for number in range(2))
    stages = tuple(
        replace(stage, services=services) if stage.id == TEST else stage
        for stage in chain.pipeline.stages
    )
    chain.pipeline = validate(replace(chain.pipeline, stages=stages))
    first = chain.observe("c1")
    chain.send(StageRendered(TEST, first, {s: RevisionRef("c1", f"d {s}") for s in services}))
    chain.health("test")
    chain.pass_time(60)
    second = chain.observe("c2")
    same, other = services
    renders = {same: RevisionRef("c2", f"d {same}"), other: RevisionRef("c2", "new")}
    chain.send(StageRendered(TEST, second, renders))
    chain.health("test")
    chain.send(VerificationFailed(TEST, second, other, "errors"))
    assert set(chain.state.known_bad) == {"new"}


def test_a_verification_that_fails_without_an_earlier_release_fails_the_stage(chain: Line) -> None:
    """There is nothing to roll back to."""
    first = enter(chain, "c1", "test")
    chain.send(VerificationFailed(TEST, first, ServiceId("test-0"), "errors"))
    assert chain.stage("test").release == first
    assert Topic.ROLLED_BACK not in [one.topic for one in chain.effects if isinstance(one, Notify)]


def test_a_verification_is_awaited_to_its_end(chain: Line) -> None:
    enter(chain, "c1", "test")
    wakes = [effect.at for effect in chain.last if isinstance(effect, WakeAt)]
    chain.pass_time(59)
    assert chain.stage("test").good_release is None
    chain.pass_time(1)
    assert chain.stage("test").good_release == chain.stage("test").release
    assert wakes == [chain.now]


def test_a_rejection_and_its_retry_begin_everything_anew(line: Line) -> None:
    """Skips and approvals of the first attempt do not count in the second."""
    line.pipeline = two_stages(ApprovalRule(2), SoakRule(60))
    release = waiting(line)
    line.approve(GATE)
    line.send(Skipped(GateId("dev prod 1"), release, "root", "in a hurry"))
    line.send(ReleaseRejected(GATE, "eve", "no"))
    line.send(Retried(PROD, release, "bob"))
    candidate = line.candidate("dev prod")
    assert candidate is not None and candidate.attempt == 2
    assert {gate.skipped for gate in candidate.gates.values()} == {""}
    assert {len(gate.approvals) for gate in candidate.gates.values()} == {0}
    assert "retry requested" in [entry.text for entry in line.state.history]


def test_a_rejection_notifies_with_its_reason(line: Line) -> None:
    waiting(line)
    line.send(ReleaseRejected(GATE, "eve", "not on a Friday"))
    assert texts(line, Topic.REFUSED) == ["rejected by eve: not on a Friday"]
    entry = line.state.history[-1]
    assert (entry.place, entry.actor, entry.text) == (GATE, "eve", "rejected: not on a Friday")


def test_a_gate_that_times_out_refuses_the_release() -> None:
    pipeline = two_stages(ApprovalRule())
    (edge,) = pipeline.edges
    gates = (replace(edge.gates[0], patience=Patience(timeout_seconds=60)),)
    line = Line(validate(replace(pipeline, edges=(replace(edge, gates=gates),))))
    waiting(line)
    line.pass_time(59)
    assert line.candidate("dev prod") is not None
    line.pass_time(1)
    candidate = line.candidate("dev prod")
    assert candidate is not None and candidate.refusal is not None
    assert candidate.refusal.actor == "towline" and candidate.refusal.gate == GATE
    assert candidate.gates[GATE].status is GateStatus.CLOSED
    reason = "gate 0 failed: not decided within 60 s: 0 of 1 approvals"
    assert candidate.reason == reason
    assert texts(line, Topic.REFUSED) == [reason]


def test_a_skip_says_who_and_why_and_is_made_once(line: Line) -> None:
    release = waiting(line)
    line.send(Skipped(GATE, ReleaseId("other"), "root", "why"))
    assert line.notes() == [f"release {release} is waiting there, not other"]
    line.pipeline = two_stages(ApprovalRule(), SoakRule(60))
    line.send(Skipped(GATE, release, "root", "on fire"))
    candidate = line.candidate("dev prod")
    assert candidate is not None
    state = candidate.gates[GATE]
    assert (state.status, state.reason) == (GateStatus.OPEN, "skipped by root: on fire")
    line.send(Skipped(GATE, release, "eve", "too"))
    assert line.notes() == ["gate 0 was skipped by root: on fire"]


def test_a_pause_names_its_author_once(line: Line) -> None:
    line.send(Paused("eve", "incident"))
    line.send(Paused("bob", "again"))
    assert line.notes() == ["paused by eve: incident"]
    line.send(Resumed("bob"))
    entries = [(one.text, one.actor) for one in line.state.history]
    assert entries == [("paused: incident", "eve"), ("resumed", "bob")]


def test_an_abort_is_final_until_a_retry(line: Line) -> None:
    release = waiting(line)
    line.send(Aborted(PROD, release, "eve", "odd"))
    assert line.notes() == [f"the stage is not rolling out {release}"]
    line.approve(GATE)
    line.send(Aborted(DEV, line.stage("dev").release or release, "eve", "odd"))
    assert len(line.notes()) == 1
    line.send(Aborted(PROD, release, "eve", "odd"))
    assert texts(line, Topic.STAGE_FAILED) == ["aborted by eve: odd"]
    line.health("prod")
    state = line.stage("prod")
    assert (state.health, state.reason) == (Health.FAILED, "aborted by eve: odd")
    line.send(Retried(PROD, release, "bob"))
    line.health("prod")
    assert line.stage("prod").health is Health.HEALTHY
    assert line.stage("prod").stopped == ""


def test_a_promotion_that_failed_stays_failed_whatever_the_services_report(line: Line) -> None:
    release = waiting(line)
    line.approve(GATE)
    line.send(PromotionFailed(PROD, ReleaseId("other"), "no"))
    assert line.notes() == ["the stage is not rolling out other"]
    line.send(PromotionFailed(PROD, release, "the cluster is frozen"))
    line.health("prod")
    state = line.stage("prod")
    assert (state.health, state.reason) == (Health.FAILED, "the cluster is frozen")
    assert texts(line, Topic.STAGE_FAILED) == ["prod failed: the cluster is frozen"]


def test_a_failed_render_voids_what_was_approved(line: Line) -> None:
    release = line.observe("c1", Health.PROGRESSING)
    line.render("prod", release)
    line.approve(GATE)
    line.send(StageRenderFailed(PROD, release, ""))
    candidate = line.candidate("dev prod")
    assert candidate is not None and candidate.render_error == "unknown reason"
    assert texts(line, Topic.APPROVAL_VOIDED) == [
        "the release's content has changed: earlier approvals are void"
    ]
    line.render("prod", release)
    line.health("dev")
    assert promoted(line) == []


def test_a_render_that_changes_nothing_keeps_the_approvals() -> None:
    line = Line(two_stages(ApprovalRule(2)))
    release = waiting(line)
    line.approve(GATE)
    line.render("prod", release)
    candidate = line.candidate("dev prod")
    assert candidate is not None and len(candidate.gates[GATE].approvals) == 1
    assert texts(line, Topic.APPROVAL_VOIDED) == []


def test_a_render_is_requested_once_for_each_content_of_the_stage(line: Line) -> None:
    """A stage with another service needs another one, and so does a retry."""
    release = line.observe("c1")
    line.pass_time(1)
    line.pipeline = make_pipeline({"dev prod": [ApprovalRule()]}, services=2)
    line.pass_time(1)
    requests = [one for one in line.effects if isinstance(one, RenderStage)]
    assert len({one.key for one in requests}) == len(requests) == 2
    assert {one.release for one in requests} == {release}


def test_a_denied_revision_stops_a_rollout_that_has_begun() -> None:
    pipeline = make_pipeline({"dev prod": []}, services=2)
    line = Line(pipeline)
    line.send(Frozen({ServiceId("prod-0"): "frozen", ServiceId("prod-1"): "frozen"}))
    waiting(line)
    assert reasons(line, "dev prod") == ["frozen"]
    line.send(RevisionDenied("c1", "eve", "leaks"))
    line.send(Frozen({}))
    assert promoted(line) == []
    assert reasons(line, "dev prod") == ["c1 is denied: eve: leaks"]


def test_a_partly_frozen_stage_takes_a_release_for_the_rest() -> None:
    line = Line(make_pipeline({"dev prod": []}, services=2))
    line.send(Frozen({ServiceId("prod-0"): "group eu is frozen"}))
    waiting(line)
    assert [set(effect.revisions) for effect in promoted(line)] == [{"prod-1"}]
    line.send(Frozen({}))
    assert [set(effect.revisions) for effect in promoted(line)] == [{"prod-1"}, {"prod-0"}]


def test_a_reason_is_cut_at_its_length(line: Line) -> None:
    waiting(line)
    line.send(ReleaseRejected(GATE, "eve", "x" * 10_000))
    (reason,) = reasons(line, "dev prod")
    assert len(reason) == TEXT_LENGTH and reason.endswith("…")


def test_a_release_leaves_the_queue_when_its_source_goes_back(chain: Line) -> None:
    """Nobody can approve what no longer runs before the gate."""
    edges = tuple(
        replace(edge, gates=two_stages().edges[0].gates) if edge.target == PROD else edge
        for edge in chain.pipeline.edges
    )
    chain.pipeline = validate(replace(chain.pipeline, edges=edges))
    first = enter(chain, "c1", "test")
    chain.pass_time(60)
    chain.render("prod", first)
    chain.approve(GATE)
    chain.health("prod")
    second = enter(chain, "c2", "test")
    chain.render("prod", second)
    waiting_release = chain.candidate("test prod")
    assert waiting_release is not None and waiting_release.release == second
    chain.send(VerificationFailed(TEST, second, ServiceId("test-0"), "errors"))
    assert chain.candidate("test prod") is None
    chain.approve(GATE, digests={ServiceId("prod-0"): "seen before"})
    assert chain.notes() == ["no release is waiting at gate gate 0"]


def test_triggers_run_before_any_stage_is_looked_at() -> None:
    """A schedule that is due begins a release even while nothing else happens."""
    trigger = Trigger("t", "nightly", ScheduleRule("0 0 * * *"))
    pipeline = replace(two_stages(), on_commit=False, triggers=(trigger,))
    line = Line(validate(pipeline))
    line.send(
        StageObserved(DEV, line.revisions(DEV, "c1", "d1"), Health.HEALTHY, "Ann <ann@example.org>")
    )
    assert line.stage("dev").release is None
    wakes = [effect.at for effect in line.last if isinstance(effect, WakeAt)]
    line.pass_time((wakes[0] - line.now).total_seconds())
    assert line.stage("dev").release is not None
    assert "started by nightly" in [entry.text for entry in line.state.history]
