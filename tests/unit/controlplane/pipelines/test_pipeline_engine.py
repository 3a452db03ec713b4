"""Short stories of releases in a pipeline; test_pipeline_machine covers the rest."""

from datetime import timedelta

import pytest

from controlplane.pipelines.engine.effects import (
    Notify,
    OpenGate,
    Promote,
    RenderStage,
    Topic,
    WakeAt,
)
from controlplane.pipelines.engine.engine import step
from controlplane.pipelines.engine.events import (
    Approved,
    DenialRemoved,
    Paused,
    ReleaseRejected,
    Resumed,
    Retried,
    RevisionDenied,
    StageObserved,
    StageRendered,
    StageRenderFailed,
    Tick,
)
from controlplane.pipelines.gates.kinds import ApprovalRule, SoakRule
from controlplane.pipelines.model.pipeline import GateId, Pipeline, Stage, StageId
from controlplane.pipelines.model.state import (
    HISTORY_LENGTH,
    KNOWN_BAD_LENGTH,
    TEXT_LENGTH,
    GateStatus,
    Health,
    ReleaseId,
    RevisionRef,
)
from core.identity import ServiceId
from tests.fakes.pipelines import START, Line, make_pipeline, two_stages

GATE = "dev prod 0"
DEV, PROD = StageId("dev"), StageId("prod")


@pytest.fixture
def line() -> Line:
    """dev → prod with one approval."""
    return Line(two_stages())


def waiting(line: Line, content: str = "c1") -> ReleaseId:
    """A release that waits for approval only."""
    release = line.observe(content)
    line.render("prod", release)
    return release


def gate_status(line: Line, edge: str = "dev prod", number: int = 0) -> GateStatus:
    candidate = line.candidate(edge)
    assert candidate is not None
    return candidate.gates[GateId(f"{edge} {number}")].status


def why(line: Line, edge: str = "dev prod") -> str:
    candidate = line.candidate(edge)
    assert candidate is not None
    return candidate.reason


def topics(line: Line) -> list[Topic]:
    return [one.topic for one in line.effects if isinstance(one, Notify)]


def test_a_commit_walks_from_dev_through_an_approval_to_prod(line: Line) -> None:
    release = line.observe("c1")
    asked = [one for one in line.last if isinstance(one, RenderStage)]
    assert [(one.stage, one.release, one.commits) for one in asked] == [
        (PROD, release, {"dev-0": "c1"})
    ]
    line.render("prod", release)
    assert gate_status(line) == GateStatus.RUNNING
    line.approve(GATE)
    promoted = [one for one in line.last if isinstance(one, Promote)]
    assert [one.revisions for one in promoted] == [{"prod-0": RevisionRef("c1", "prod c1  prod-0")}]
    assert line.stage("prod").promoting
    line.health("prod")
    assert line.stage("prod").verified
    assert topics(line) == [Topic.STAGE_VERIFIED, Topic.APPROVAL_WANTED, Topic.STAGE_VERIFIED]


def test_an_approval_opens_the_gate_on_record(line: Line) -> None:
    release = waiting(line)
    line.approve(GATE)
    opened = [one for one in line.last if isinstance(one, OpenGate)]
    assert [(one.gate, one.release, one.reason) for one in opened] == [
        (GATE, release, "approved by bob")
    ]
    assert "approved: " in [entry.text for entry in line.state.history]


@pytest.mark.parametrize("health", [Health.UNKNOWN, Health.PROGRESSING, Health.FAILED])
def test_an_approved_release_waits_while_its_source_is_not_healthy(
    line: Line, health: Health
) -> None:
    release = line.observe("c1", health)
    line.render("prod", release)
    line.approve(GATE)
    assert gate_status(line) == GateStatus.PENDING
    assert why(line).startswith(f"dev is {health.lower()}")
    line.health("dev")
    assert line.promotions() == [("prod", release)]


def test_an_approval_is_void_when_the_render_changes_even_back_again(line: Line) -> None:
    release = line.observe("c1", Health.PROGRESSING)
    line.render("prod", release)
    line.approve(GATE)
    line.render("prod", release, "changed")
    assert Topic.APPROVAL_VOIDED in topics(line)
    line.render("prod", release)
    line.health("dev")
    assert line.promotions() == []
    assert gate_status(line) == GateStatus.RUNNING


def test_approvers_are_asked_again_about_a_changed_render(line: Line) -> None:
    release = waiting(line)
    first = [one for one in line.last if isinstance(one, Notify)]
    line.render("prod", release, "changed")
    second = [one for one in line.last if isinstance(one, Notify)]
    assert [one.topic for one in (*first, *second)] == [Topic.APPROVAL_WANTED] * 2
    assert first[0].key != second[0].key


def test_an_approval_of_other_digests_does_not_count(line: Line) -> None:
    waiting(line)
    line.approve(GATE, digests={ServiceId("prod-0"): "another"})
    assert line.notes() == ["the release has changed since it was shown; review it again"]
    assert line.promotions() == []


def test_nothing_can_be_approved_before_its_digests_are_known(line: Line) -> None:
    line.observe("c1")
    line.approve(GATE, digests={ServiceId("prod-0"): "guessed"})
    assert line.notes() == ["the release is not rendered yet, so its digests are unknown"]


def test_a_quorum_counts_different_people_and_not_the_author() -> None:
    line = Line(two_stages(ApprovalRule(quorum=2)))
    release = waiting(line)
    line.approve(GATE, "ann", is_author=True)
    assert line.notes() == ["the author or pusher of a release cannot approve it"]
    line.approve(GATE, "bob")
    line.approve(GATE, "bob")
    assert line.notes() == ["bob has already approved"]
    assert line.promotions() == []
    line.approve(GATE, "eve")
    assert line.promotions() == [("prod", release)]


def test_the_author_may_approve_where_the_rule_allows_it() -> None:
    line = Line(two_stages(ApprovalRule(not_author=False)))
    release = waiting(line)
    line.approve(GATE, "ann", is_author=True)
    assert line.promotions() == [("prod", release)]


def test_more_approvals_than_asked_for_are_not_kept() -> None:
    line = Line(two_stages(ApprovalRule(), SoakRule(60)))
    waiting(line)
    line.approve(GATE, "bob")
    line.approve(GATE, "eve")
    assert line.notes() == ["the gate already has its approvals"]


def test_a_rejection_stops_the_release_until_retried(line: Line) -> None:
    release = waiting(line)
    line.send(ReleaseRejected(GateId(GATE), "eve", "not on a Friday"))
    assert gate_status(line) == GateStatus.CLOSED
    assert why(line) == "rejected by eve: not on a Friday"
    line.approve(GATE)
    assert line.promotions() == []
    line.send(Retried(PROD, release, "bob"))
    assert gate_status(line) == GateStatus.RUNNING
    line.approve(GATE)
    assert line.promotions() == [("prod", release)]


def test_a_rejection_does_not_stop_a_newer_release(line: Line) -> None:
    waiting(line)
    line.send(ReleaseRejected(GateId(GATE), "eve"))
    newer = waiting(line, "c2")
    line.approve(GATE)
    assert line.promotions() == [("prod", newer)]


def test_a_newer_release_supersedes_the_queued_one(line: Line) -> None:
    older = waiting(line)
    newer = line.observe("c2")
    candidate = line.candidate("dev prod")
    assert candidate is not None and candidate.release == newer
    assert f"superseded by {newer}" in [
        entry.text for entry in line.state.history if entry.release == older
    ]
    line.render("prod", older)
    assert line.notes() == [f"release {older} is not waiting before the stage"]


def test_a_stage_takes_in_one_release_at_a_time() -> None:
    line = Line(make_pipeline({"dev prod": []}))
    first = waiting(line)
    second = waiting(line, "c2")
    assert line.promotions() == [("prod", first)]
    assert why(line) == f"prod is still rolling out {first}"
    line.health("prod")
    assert line.promotions() == [("prod", first), ("prod", second)]


def test_a_failed_stage_takes_in_the_repair() -> None:
    line = Line(make_pipeline({"dev prod": []}))
    first = waiting(line)
    line.health("prod", Health.FAILED)
    second = waiting(line, "c2")
    assert line.promotions() == [("prod", first), ("prod", second)]
    assert Topic.STAGE_FAILED in topics(line)


def test_a_failed_stage_cannot_be_left_until_it_is_healthy() -> None:
    line = Line(make_pipeline({"dev test": [], "test prod": []}))
    release = waiting_in_test(line)
    line.health("test", Health.FAILED)
    line.render("prod", release)
    assert line.promotions() == [("test", release)]
    assert why(line, "test prod") == "test is failed: as told"
    line.health("test")
    assert line.promotions() == [("test", release), ("prod", release)]


def waiting_in_test(line: Line) -> ReleaseId:
    release = line.observe("c1")
    line.render("test", release)
    return release


def test_a_failed_promotion_can_be_tried_again(line: Line) -> None:
    release = waiting(line)
    line.approve(GATE)
    line.health("prod", Health.FAILED)
    line.send(Retried(PROD, release, "bob"))
    again = [one.key for one in line.effects if isinstance(one, Promote)]
    assert again == [f"promote/prod/{release}/1/0", f"promote/prod/{release}/2/1"]
    assert line.stage("prod").promoting


def test_a_retry_of_a_failed_promotion_respects_a_pause_and_known_bad(line: Line) -> None:
    release = waiting(line)
    line.approve(GATE)
    line.health("prod", Health.FAILED)
    line.send(RevisionDenied("c1", "eve", "leaks"))
    line.send(Retried(PROD, release, "bob"))
    assert line.notes() == ["c1 is denied: eve: leaks"]
    line.send(Paused("eve", "freeze"))
    line.send(Retried(PROD, release, "bob"))
    assert line.notes() == ["paused by eve: freeze"]
    line.send(Resumed("eve"))
    line.send(Paused("eve", ""))
    line.send(Retried(PROD, release, "bob"))
    assert line.notes() == ["paused by eve"]
    assert line.promotions() == [("prod", release)]


def test_the_first_stage_cannot_be_retried(line: Line) -> None:
    release = line.observe("c1", Health.FAILED)
    line.send(Retried(DEV, release, "eve"))
    assert line.notes() == [f"release {release} was neither refused nor failed there"]


@pytest.mark.parametrize("bad", ["c1", "dev c1 dev-0", "prod c1  prod-0"])
def test_a_known_bad_revision_is_stopped_until_cleared(line: Line, bad: str) -> None:
    line.send(RevisionDenied(bad, "eve", "leaks memory"))
    release = waiting(line)
    line.approve(GATE)
    assert line.promotions() == []
    assert why(line) == f"{bad} is denied: eve: leaks memory"
    line.send(DenialRemoved(bad, "eve"))
    assert line.promotions() == [("prod", release)]


def test_people_hear_where_a_known_bad_revision_runs(line: Line) -> None:
    waiting(line)
    line.send(RevisionDenied("c1", "eve", "leaks"))
    assert [one.place for one in line.last if isinstance(one, Notify)] == ["dev"]


def test_known_bad_revisions_are_bounded_and_the_oldest_is_named(line: Line) -> None:
    line.send(RevisionDenied("oldest", "eve"))
    for number in range(KNOWN_BAD_LENGTH):
        line.state, line.last = step(
            line.pipeline, line.state, RevisionDenied(f"c{number}", "eve"), START
        )
    assert len(line.state.known_bad) == KNOWN_BAD_LENGTH
    dropped = "oldest was the oldest denied revision; its denial was dropped at the limit"
    assert dropped in [entry.text for entry in line.state.history]
    assert line.notes() == [], "the decision would count as refused"


def test_a_paused_line_moves_nothing_and_goes_on_after(line: Line) -> None:
    line.send(Paused("eve", "incident"))
    release = waiting(line)
    line.approve(GATE)
    assert line.promotions() == []
    assert why(line) == "paused by eve: incident"
    line.send(Resumed("eve"))
    assert line.promotions() == [("prod", release)]


def test_soaking_needs_health_on_end() -> None:
    line = Line(two_stages(SoakRule(60)))
    release = waiting(line)
    wakes = [one.at for one in line.last if isinstance(one, WakeAt)]
    assert wakes == [START + timedelta(seconds=60)]
    line.pass_time(59)
    line.health("dev", Health.PROGRESSING)
    line.health("dev")
    line.pass_time(59)
    assert line.promotions() == []
    line.pass_time(1)
    assert line.promotions() == [("prod", release)]


def test_a_clock_that_jumps_back_only_makes_soaking_longer() -> None:
    line = Line(two_stages(SoakRule(60)))
    waiting(line)
    line.pass_time(-3_600)
    assert line.promotions() == []
    assert gate_status(line) == GateStatus.RUNNING
    line.pass_time(3_660)
    assert len(line.promotions()) == 1


def test_all_gates_of_an_edge_must_be_open() -> None:
    line = Line(two_stages(ApprovalRule(), SoakRule(60)))
    release = waiting(line)
    line.approve(GATE)
    assert [gate_status(line), gate_status(line, number=1)] == [
        GateStatus.OPEN,
        GateStatus.RUNNING,
    ]
    assert why(line) == "waiting for gate 1"
    line.pass_time(60)
    assert line.promotions() == [("prod", release)]


def test_a_release_that_changes_nothing_behind_asks_nobody(line: Line) -> None:
    first = waiting(line)
    line.approve(GATE)
    line.health("prod")
    second = line.observe("c2")
    same = {ServiceId("prod-0"): RevisionRef("c2", "prod c1  prod-0")}
    line.send(StageRendered(PROD, second, same))
    assert line.promotions() == [("prod", first), ("prod", second)]
    assert line.stage("prod").verified
    assert topics(line).count(Topic.APPROVAL_WANTED) == 1


def test_a_stage_with_two_ways_in_waits_for_both() -> None:
    line = Line(make_pipeline({"dev eu": [], "dev us": [], "eu prod": [], "us prod": []}))
    release = line.observe("c1")
    line.render("eu", release)
    line.render("us", release)
    line.health("eu")
    line.render("prod", release)
    assert line.promotions() == [("eu", release), ("us", release)]
    assert why(line, "eu prod") == "waiting at another edge into the stage"
    line.health("us")
    assert line.promotions()[-1] == ("prod", release)


def test_a_failed_render_is_reported_and_can_be_retried(line: Line) -> None:
    release = waiting(line)
    line.send(StageRenderFailed(PROD, release, "web.yaml line 3: no kind"))
    assert why(line) == "cannot be rendered: web.yaml line 3: no kind"
    line.send(Retried(PROD, release, "bob"))
    asked = [one.key for one in line.effects if isinstance(one, RenderStage)]
    assert len(set(asked)) == 2
    line.render("prod", release)
    line.approve(GATE)
    assert line.promotions() == [("prod", release)]


def test_a_later_render_heals_a_failed_one(line: Line) -> None:
    release = line.observe("c1")
    line.send(StageRenderFailed(PROD, release, "git server away"))
    line.render("prod", release)
    assert gate_status(line) == GateStatus.RUNNING


def test_a_render_of_a_foreign_commit_or_other_services_is_refused(line: Line) -> None:
    release = line.observe("c1")
    line.send(StageRendered(PROD, release, {ServiceId("prod-0"): RevisionRef("c9", "d")}))
    assert line.notes() == ["commit c9 is not part of the release"]
    line.send(StageRendered(PROD, release, {ServiceId("other"): RevisionRef("c1", "d")}))
    assert line.notes() == ["the render does not cover exactly the services of the stage"]


def test_going_back_in_git_is_a_new_release(line: Line) -> None:
    first = line.observe("c1")
    line.observe("c2")
    third = line.observe("c1")
    assert first != third
    assert line.state.releases[third].number == 3


def test_a_gate_removed_while_waiting_no_longer_holds(line: Line) -> None:
    release = waiting(line)
    line.pipeline = make_pipeline({"dev prod": []})
    line.pass_time(1)
    assert line.promotions() == [("prod", release)]


def test_a_service_added_to_the_next_stage_is_rendered_before_anything_opens(line: Line) -> None:
    release = waiting(line)
    line.pipeline = make_pipeline({"dev prod": [ApprovalRule()]}, services=2)
    line.pass_time(1)
    assert [one.stage for one in line.last if isinstance(one, RenderStage)] == [PROD]
    assert why(line) == "waiting for the render"
    line.render("prod", release)
    line.approve(GATE)
    assert line.promotions() == [("prod", release)]


def test_a_stage_taken_out_of_the_pipeline_is_forgotten(line: Line) -> None:
    waiting(line)
    line.pipeline = Pipeline("p", "shop", (Stage(DEV, "dev", (ServiceId("dev-0"),)),))
    line.pass_time(1)
    assert set(line.state.stages) == {DEV}
    assert line.state.candidates == {}


@pytest.mark.parametrize(
    "event",
    [
        StageObserved(PROD, {}, Health.HEALTHY, "ann"),
        StageObserved(DEV, {}, Health.HEALTHY, "ann"),
        StageRendered(StageId("none"), ReleaseId("none"), {}),
        StageRenderFailed(StageId("none"), ReleaseId("none"), ""),
        Approved(GateId("none"), "bob", False, {}),
        Approved(GateId(GATE), "bob", False, {}),
        ReleaseRejected(GateId("none"), "bob"),
        Retried(StageId("none"), ReleaseId("none"), "bob"),
        DenialRemoved("none", "bob"),
        Resumed("bob"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_event_that_makes_no_sense_changes_nothing_and_is_answered(line: Line, event) -> None:
    before = line.state
    line.send(event)
    assert line.state == before
    assert len(line.notes()) == 1


def test_approving_a_gate_that_asks_nobody_is_answered() -> None:
    line = Line(two_stages(SoakRule(60)))
    waiting(line)
    line.approve(GATE)
    assert line.notes() == ["this gate does not ask for approval"]


def test_texts_and_history_are_bounded(line: Line) -> None:
    line.observe("c0", author="a" * 10_000)
    for number in range(HISTORY_LENGTH):
        line.state, _ = step(line.pipeline, line.state, Paused("eve", "r" * 10_000), line.now)
        line.state, _ = step(line.pipeline, line.state, Resumed(f"eve {number}"), line.now)
    assert len(line.state.history) == HISTORY_LENGTH
    assert max(len(entry.text) for entry in line.state.history) == TEXT_LENGTH
    assert {len(one.author) for one in line.state.releases.values()} == {TEXT_LENGTH}


def test_a_tick_alone_changes_nothing(line: Line) -> None:
    waiting(line)
    before = line.state
    line.send(Tick())
    assert line.state == before
