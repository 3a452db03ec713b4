"""Stages that are promoted by git: what is written, and how the engine waits for it."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.pipelines.engine.effects import FollowChange, Promote, WakeAt
from controlplane.pipelines.engine.events import (
    Aborted,
    BaseMoved,
    Changed,
    ChangeHinted,
    ClustersSilent,
    PromotionFailed,
    Retried,
    StageRendered,
)
from controlplane.pipelines.gates.kinds import ApprovalRule
from controlplane.pipelines.model.gate_rules import GateRule
from controlplane.pipelines.model.git_writes import (
    FileChange,
    FileKind,
    GitWrite,
    fill_text,
    tags_in,
)
from controlplane.pipelines.model.pipeline import Pipeline, StageId, validate
from controlplane.pipelines.model.state import (
    GitChangeState,
    GitWriteStatus,
    Health,
    ReleaseId,
    RevisionRef,
)
from core.errors import Invalid
from core.identity import ServiceId
from core.spec.edits import CopyFolder, SetField, SetImage
from gitcache.domain import refs
from tests.fakes.pipelines import Line, make_pipeline

IMAGE = FileChange(FileKind.IMAGE, "prod/kustomization.yaml", image="shop")
VALUES = {"release": "r1-abc", "commit": "c" * 40, "stage": "prod", "pipeline": "shop"}
OPEN = GitWriteStatus(GitChangeState.OPEN, "repo", "main", number=7, url="https://git.test/7")
LANDED = GitWriteStatus(GitChangeState.LANDED, "repo", "main", "f" * 40, 7, "https://git.test/7")
PROD = StageId("prod")


def by_git(*rules: GateRule) -> Pipeline:
    """dev → prod, where prod is promoted by git."""
    plain = make_pipeline({"dev prod": rules})
    dev, prod = plain.stages
    return validate(replace(plain, stages=(dev, replace(prod, git=GitWrite((IMAGE,))))))


def entered(*rules: GateRule) -> tuple[Line, ReleaseId]:
    """A release that prod takes in, as its commit on a branch of its own was rendered."""
    line = Line(by_git(*rules))
    release = line.observe("c1")
    line.send(StageRendered(PROD, release, line.revisions(PROD, "tried", "d1")))
    return line, release


def test_each_kind_of_change_becomes_an_edit() -> None:
    write = GitWrite(
        (
            IMAGE,
            FileChange(
                FileKind.FIELD, "prod/values.yaml", image="shop", field=("pods", "0", "tag")
            ),
            FileChange(FileKind.FIELD, "prod/info.yaml", field=("from",), value="v-${release}"),
            FileChange(FileKind.FOLDER, "prod", source="dev"),
        )
    )
    write.check("git")
    assert write.edits(VALUES, {"shop": {"1.2"}}) == [
        SetImage("prod/kustomization.yaml", "shop", "1.2"),
        SetField("prod/values.yaml", ["pods", 0, "tag"], "1.2"),
        SetField("prod/info.yaml", ["from"], "v-r1-abc"),
        CopyFolder("dev", "prod"),
    ]


@pytest.mark.parametrize(
    ("images", "message"), [({}, "does not use"), ({"shop": {"1", "2"}}, "1, 2")]
)
def test_an_image_without_one_tag_is_said(images: dict, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        GitWrite((IMAGE,)).edits(VALUES, images)


def test_a_change_with_a_fixed_tag_needs_no_image_in_the_release() -> None:
    fixed = GitWrite((replace(IMAGE, value="stable"),))
    assert fixed.edits(VALUES, {}) == [SetImage(IMAGE.path, "shop", "stable")]


def test_a_field_without_an_image_has_no_tag() -> None:
    field = FileChange(FileKind.FIELD, "a.yaml", field=("tag",))
    with pytest.raises(Invalid, match=r"unknown placeholder \$\{tag\}"):
        GitWrite((field,)).edits(VALUES, {"": {"1.2"}})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (OPEN, "request #7 waits to be merged into main: https://git.test/7"),
        (LANDED, f"request #7 became commit {'f' * 40} of main"),
        (replace(LANDED, number=0), f"commit {'f' * 40} of main"),
    ],
)
def test_a_change_says_where_it_is(change: GitWriteStatus, text: str) -> None:
    assert str(change) == text


def test_a_name_without_a_value_is_said() -> None:
    with pytest.raises(Invalid, match=r"\$\{nothing\}; available: commit, pipeline"):
        fill_text("${nothing}", VALUES)


@pytest.mark.parametrize(
    ("write", "field"),
    [
        (GitWrite(()), "git.changes"),
        (GitWrite((replace(IMAGE, image=""),)), r"git.changes\[0\].image"),
        (GitWrite((FileChange(FileKind.FIELD, "a"),)), r"git.changes\[0\].field"),
        (GitWrite((FileChange(FileKind.FOLDER, "a"),)), r"git.changes\[0\].source"),
        (GitWrite((replace(IMAGE, path="p" * 2000),)), r"git.changes\[0\].path"),
        (GitWrite((IMAGE,), author="Eve"), "git.author"),
        (GitWrite((IMAGE,), provider="svn"), "git.provider"),
    ],
)
def test_invalid_git_writes_are_refused_by_field(write: GitWrite, field: str) -> None:
    with pytest.raises(Invalid) as error:
        write.check("git")
    assert error.value.field == field.replace("\\", "")


@settings(max_examples=40)
@given(st.text(max_size=60), st.text(max_size=60))
def test_any_names_make_a_branch_that_git_takes(pipeline: str, stage: str) -> None:
    values = {"pipeline": pipeline, "stage": stage, "release": "r1-abc"}
    branch = GitWrite((IMAGE,)).branch_for(values)
    assert refs.is_name(f"refs/heads/{branch}")


def test_images_are_found_in_pods_wherever_they_are() -> None:
    pod = {
        "spec": {"initContainers": [{"image": "a:1"}], "containers": [{"image": "b:2@sha256:0"}]}
    }
    objects = [
        {"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": pod}}}},
        {"kind": "List", "items": [{"spec": {"template": pod}}, {"data": {"image": "c:3"}}]},
        {"kind": "Pod", "spec": {"containers": ["odd", {"image": 5}, {"image": "a"}]}},
    ]
    assert tags_in(objects) == {"a": {"1"}, "b": {"2"}}


def test_the_first_stage_is_never_written_to() -> None:
    plain = make_pipeline({"dev prod": []})
    dev, prod = plain.stages
    with pytest.raises(Invalid, match="git writes"):
        validate(replace(plain, stages=(replace(dev, git=GitWrite((IMAGE,))), prod)))


def test_a_promotion_uses_the_render_of_its_own_branch() -> None:
    line, release = entered()
    (promote,) = [one for one in line.effects if isinstance(one, Promote)]
    assert {one.commit for one in promote.revisions.values()} == {"tried"}
    line.send(Changed(PROD, release, LANDED))
    assert {one.commit for one in line.stage("prod").revisions.values()} == {"f" * 40}
    assert line.state.history[-1].text == f"request #7 became commit {'f' * 40} of main"


def test_a_request_is_looked_at_less_and_less_and_at_once_when_hinted() -> None:
    line, release = entered()
    line.send(Changed(PROD, release, OPEN))
    assert line.stage("prod").rollout_reason == (
        "request #7 waits to be merged into main: https://git.test/7"
    )
    gaps, last = [], line.now
    for _ in range(400):
        if any(isinstance(one, FollowChange) for one in line.pass_time(5)):
            gaps.append((line.now - last).seconds)
            last = line.now
    assert gaps[0] == 15 and gaps == sorted(gaps) and gaps[-1] == 300
    line.pass_time(1)
    (follow,) = [one for one in line.send(ChangeHinted("repo")) if isinstance(one, FollowChange)]
    assert follow.revisions == line.stage("prod").revisions
    assert not [one for one in line.send(ChangeHinted("other")) if isinstance(one, FollowChange)]


def test_a_closed_request_fails_the_stage_and_a_retry_asks_for_a_new_one() -> None:
    line, release = entered()
    line.send(Changed(PROD, release, OPEN))
    line.send(PromotionFailed(PROD, release, "request #7 was closed without a merge"))
    held = line.stage("prod")
    assert (held.health, held.reason) == (Health.FAILED, "request #7 was closed without a merge")
    assert not [one for one in line.pass_time(900) if isinstance(one, FollowChange)]
    effects = line.send(Retried(PROD, release, "eve"))
    assert [one.release for one in effects if isinstance(one, Promote)] == [release]
    assert line.stage("prod").change is None


def test_a_moved_base_brings_the_release_back_before_its_gates() -> None:
    """The earlier approval is void; only newly approved content is deployed."""
    line, release = entered(ApprovalRule())
    line.approve("dev prod 0")
    line.send(Changed(PROD, release, OPEN))
    line.send(BaseMoved(PROD, release, "shop renders to something else"))
    assert (line.stage("prod").release, line.stage("prod").health) == (None, Health.UNKNOWN)
    assert line.candidate("dev prod") is not None
    line.send(StageRendered(PROD, release, line.revisions(PROD, "tried again", "d2")))
    assert len(line.promotions()) == 1
    line.approve("dev prod 0")
    (_, second) = [one for one in line.effects if isinstance(one, Promote)]
    assert set(second.revisions.values()) == {RevisionRef("tried again", "d2 prod-0")}


def test_a_moved_base_leaves_the_stage_with_what_it_was_good_with() -> None:
    line, first = entered()
    line.send(Changed(PROD, first, LANDED))
    line.health("prod")
    second = line.observe("c2")
    line.send(StageRendered(PROD, second, line.revisions(PROD, "tried", "d2")))
    assert line.stage("prod").release == second
    line.send(BaseMoved(PROD, second, "moved"))
    held = line.stage("prod")
    assert (held.release, held.promoting, held.verified) == (first, False, True)
    candidate = line.candidate("dev prod")
    assert candidate is not None and candidate.release == second


def test_events_of_another_release_change_nothing() -> None:
    line, _ = entered()
    before = line.state
    for event in (Changed(PROD, ReleaseId("r9"), OPEN), BaseMoved(PROD, ReleaseId("r9"), "x")):
        line.send(event)
        assert line.notes() and line.state == before


def told(line: Line) -> list[str]:
    return [entry.text for entry in line.state.history if entry.place == PROD]


def test_the_history_tells_a_request_and_its_merge_once() -> None:
    line, release = entered()
    for change in (OPEN, OPEN, LANDED):
        line.send(Changed(PROD, release, change))
    line.send(Changed(PROD, release, replace(LANDED, commit="e" * 40)))
    assert line.notes() == [f"the release was already merged: {LANDED}"]
    assert told(line) == ["promoted", str(OPEN), str(LANDED)]


def test_the_engine_wakes_for_the_next_check_of_a_request() -> None:
    line, release = entered()
    wakes = [one.at for one in line.send(Changed(PROD, release, OPEN)) if isinstance(one, WakeAt)]
    assert wakes == [line.now + timedelta(seconds=15)]


def test_a_hint_about_another_repository_does_not_check_a_request_sooner() -> None:
    line, release = entered()
    line.send(Changed(PROD, release, OPEN))
    line.pass_time(1)
    line.send(ChangeHinted("other"))
    assert not [one for one in line.effects if isinstance(one, FollowChange)]
    line.send(ChangeHinted("repo"))
    assert len([one for one in line.effects if isinstance(one, FollowChange)]) == 1


def test_the_deadline_for_silent_clusters_counts_from_the_merge() -> None:
    line, release = entered()
    line.send(Changed(PROD, release, OPEN))
    line.pass_time(7_200)
    line.send(Changed(PROD, release, LANDED))
    line.send(ClustersSilent({ServiceId("prod-0"): "c0"}))
    line.health("prod", Health.PROGRESSING)
    assert line.stage("prod").silence.reason == (
        "waits for silent clusters until 2026-01-01 02:30:00 UTC: c0"
    )


def test_the_request_of_an_aborted_rollout_is_not_checked() -> None:
    line, release = entered()
    line.send(Changed(PROD, release, OPEN))
    line.send(Aborted(PROD, release, "eve"))
    assert not [one for one in line.pass_time(900) if isinstance(one, FollowChange)]


@pytest.mark.parametrize("stage", [PROD, StageId("none")])
def test_git_says_nothing_about_a_stage_that_it_does_not_promote(stage: StageId) -> None:
    line = Line(make_pipeline({"dev prod": []}))
    release = line.observe("c1")
    line.render("prod", release)
    for event in (Changed(stage, release, OPEN), BaseMoved(stage, release, "moved")):
        line.send(event)
        assert line.notes() == ["the stage is not promoted by git"]


def test_a_newer_release_keeps_its_place_when_the_base_has_moved() -> None:
    line, release = entered(ApprovalRule())
    line.approve("dev prod 0")
    newer = line.observe("c2")
    line.send(BaseMoved(PROD, release, "somebody else pushed"))
    candidate = line.candidate("dev prod")
    assert candidate is not None and candidate.release == newer
    assert told(line)[-1] == "returned to its gates: somebody else pushed"


def test_a_retry_after_the_merge_does_not_write_again() -> None:
    line, release = entered()
    line.send(Changed(PROD, release, LANDED))
    assert line.stage("prod").rollout_reason == "0 of 1 services are healthy"
    line.health("prod", Health.FAILED)
    line.send(Retried(PROD, release, "eve"))
    assert line.stage("prod").change == LANDED
    line.send(ChangeHinted("repo"))
    assert not [one for one in line.effects if isinstance(one, FollowChange)]
