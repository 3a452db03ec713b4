"""Preview branches and requests that a pipeline needs and leaves behind."""

from dataclasses import replace
from datetime import UTC, datetime

from controlplane.pipelines.engine.preview_branches import preview_branches
from controlplane.pipelines.model.git_writes import FileChange, FileKind, GitWrite, WriteMode
from controlplane.pipelines.model.pipeline import Pipeline
from controlplane.pipelines.model.state import (
    GitChangeState,
    GitWriteStatus,
    Health,
    PipelineState,
    Release,
    ReleaseId,
    RevisionRef,
    StageState,
    TriggerState,
    WaitingRelease,
)
from controlplane.pipelines.model.triggers import Trigger, TriggerFinding
from controlplane.pipelines.triggers.kinds import ImageRule
from tests.fakes.pipelines import two_stages

WRITE = GitWrite((FileChange(FileKind.IMAGE, "shop.yaml", image="example.org/shop"),))
R1, R2 = ReleaseId("r1-a"), ReleaseId("r2-b")


def pipeline(write: GitWrite = WRITE) -> Pipeline:
    plain = two_stages()
    dev, prod = plain.stages
    trigger = Trigger("t", "image", ImageRule("example.org/shop", range="^1"), write)
    by_git = replace(prod, git=write, writes_to="repo")
    return replace(plain, stages=(dev, by_git), triggers=(trigger,))


def waiting(release: ReleaseId, attempt: int = 1) -> PipelineState:
    """A release before the gate of prod."""
    return PipelineState(
        releases={one: _release(one) for one in (R1, R2)},
        candidates={pipeline().edges[0].id: WaitingRelease(release, attempt)},
    )


def taking(
    change: GitWriteStatus | None, attempt: int = 1, health: Health = Health.PROGRESSING
) -> PipelineState:
    """Prod takes the first release in."""
    held = StageState(R1, attempt=attempt, change=change, health=health)
    prod = pipeline().stages[1].id
    return replace(waiting(R1), candidates={}, stages={prod: held})


def _release(id: ReleaseId) -> Release:
    first = pipeline().first.services[0]
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return Release(id, 1, {first: RevisionRef("c1", "d1")}, "", at)


def left(
    before: PipelineState, after: PipelineState, write: GitWrite = WRITE
) -> list[tuple[str, int]]:
    """Branches left by a step, with the numbers of requests."""
    spec = pipeline(write)
    needed = preview_branches(spec, after)
    previews = preview_branches(spec, before).items()
    return [(one.branch, one.number) for key, one in previews if key not in needed]


OPEN = GitWriteStatus(GitChangeState.OPEN, "repo", "main", number=7)
LANDED = GitWriteStatus(GitChangeState.LANDED, "repo", "main", "c2", number=7)


def test_a_release_that_another_supersedes_leaves_its_branch() -> None:
    assert left(waiting(R1), waiting(R2)) == [("towline/shop/prod/r1-a", 0)]
    assert left(waiting(R1), waiting(R1, attempt=2)) == [("towline/shop/prod/r1-a", 0)]


def test_a_branch_is_needed_from_the_gates_until_it_has_landed() -> None:
    """Also after a failure, which a retry may follow."""
    assert left(waiting(R1), taking(None)) == []
    assert left(taking(None), taking(OPEN)) == []
    assert left(taking(OPEN), taking(OPEN, health=Health.FAILED)) == []
    assert left(taking(OPEN), taking(LANDED)) == [("towline/shop/prod/r1-a", 7)]


def test_another_attempt_leaves_the_request_of_the_one_before() -> None:
    assert left(taking(OPEN), taking(None, attempt=2)) == [("towline/shop/prod/r1-a", 7)]


def test_a_branch_that_the_next_release_has_too_is_left_alone() -> None:
    """So is one whose name cannot be filled in: it was never made."""
    for name in ("bump", "bump/${release}/${nothing}"):
        assert left(waiting(R1), waiting(R2), replace(WRITE, branch=name)) == []


def test_a_trigger_that_finds_something_newer_leaves_its_request() -> None:
    write = replace(WRITE, mode=WriteMode.REQUEST)
    before = PipelineState(triggers={"t": TriggerState(finding=TriggerFinding("1.0"), change=OPEN)})
    after = PipelineState(triggers={"t": TriggerState(finding=TriggerFinding("1.1"))})
    assert left(before, after, write) == [("towline/shop/dev/1.0", 7)]
    assert left(before, before, write) == []


def test_a_branch_of_a_digest_has_its_beginning_in_the_name() -> None:
    """The tag stays the same, and each digest needs a branch of its own."""
    write = replace(WRITE, mode=WriteMode.REQUEST)
    found = TriggerFinding("latest", f"sha256:{'ab' * 32}")
    before = PipelineState(triggers={"t": TriggerState(finding=found, change=OPEN)})
    assert left(before, PipelineState(), write) == [("towline/shop/dev/latest-abababababab", 7)]


def test_a_direct_commit_of_a_trigger_leaves_no_branch() -> None:
    direct = replace(LANDED, number=0)
    found = TriggerFinding("1.0")
    before = PipelineState(triggers={"t": TriggerState(finding=found, change=direct)})
    assert left(before, PipelineState()) == []


def test_a_failed_release_without_a_request_leaves_its_branch() -> None:
    assert left(waiting(R1), taking(None, health=Health.FAILED)) == [("towline/shop/prod/r1-a", 0)]


def test_a_branch_of_all_releases_is_never_left_for_deletion() -> None:
    assert left(waiting(R1), PipelineState(), replace(WRITE, branch="bump")) == []
    assert left(waiting(R1), PipelineState()) == [("towline/shop/prod/r1-a", 0)]
