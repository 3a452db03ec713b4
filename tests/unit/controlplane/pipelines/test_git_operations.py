"""Stages that are promoted by git: commits, pull requests, previews and their end."""

from dataclasses import replace
from typing import Any

import pytest

from controlplane.authorization import Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.pipelines.gates.kinds import ApprovalRule
from controlplane.pipelines.model.git_writes import FileChange, FileKind, GitWrite, WriteMode
from controlplane.pipelines.model.state import GitChangeState, Health, StageState
from controlplane.pipelines.operations.drafts import StageDraft
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, Forbidden, Invalid, TowlineError, Unavailable
from core.spec.edits import MergeRequestState
from core.spec.source import RepositoryKind
from tests.fakes.actors import ADMIN, EDITOR, person
from tests.fakes.manifests import config_map
from tests.fakes.operations import make_cluster, make_repository, make_service
from tests.fakes.promotion import IN_DEV, IN_PROD, Promotion, promotion

FIELD = FileChange(FileKind.FIELD, "prod/d.yaml", field=("image", "tag"), value="${release}")
COMMIT = GitWrite((FIELD,))
REQUEST = replace(COMMIT, mode=WriteMode.REQUEST, message="Promote ${release}\n\nfrom ${commit}")
BO = person(BuiltInRole.EDITOR, "bo")


@pytest.fixture
async def line() -> Promotion:
    return await promotion()


async def save(line: Promotion, write: GitWrite = COMMIT, actor: Any = ADMIN) -> None:
    stages = [StageDraft("dev", [IN_DEV.id]), StageDraft("prod", [IN_PROD.id], git=write)]
    await line.save(ApprovalRule(), actor=actor, stages=stages)


async def approve(line: Promotion) -> StageState:
    """Approves what waits; the state of prod afterwards."""
    await line.decisions.approve(BO, await line.gate(), await line.digests())
    await line.settle()
    return await line.state("prod")


async def test_approvers_see_what_a_commit_will_render_to(line: Promotion) -> None:
    """The change is on a preview branch until then, and the services' branch is as before."""
    await save(line)
    sha = await line.push("1")
    candidate = await line.candidate()
    assert candidate is not None
    branch = f"towline/shop/prod/{candidate.release}"
    assert [commit[0] for commit in line.writer.commits] == [branch]
    heads = line.memory.manifests.heads["fleet"]
    assert heads["main"].sha == sha
    state = await line.state("prod")
    assert state.rendered[candidate.release][IN_PROD.id].commit == heads[branch].sha != sha


async def test_an_approved_release_is_committed_and_applied(line: Promotion) -> None:
    await save(line)
    await line.push("1")
    shown = await line.digests()
    state = await approve(line)
    release = state.release
    branch, author, message = line.writer.commits[-1]
    assert (branch, author) == ("main", "Towline <towline@localhost>")
    assert message == f"Promote shop {release} to prod"
    tip = line.memory.manifests.heads["fleet"]["main"].sha
    desired = (await line.service(IN_PROD)).desired
    assert (desired.pinned_sha, desired.digest) == (tip, shown[IN_PROD.id])
    assert state.change is not None
    assert (state.change.state, state.change.commit) == (GitChangeState.LANDED, tip)
    assert state.change.url == f"https://fleet.example.org/fleet/commit/{tip}"
    assert (await line.memory.ledger())[-1].sha == tip


async def test_a_preview_branch_is_deleted_after_its_release_has_landed(line: Promotion) -> None:
    await save(line)
    await line.push("1")
    candidate = await line.candidate()
    assert candidate is not None and line.writer.deleted == []
    await approve(line)
    branch = f"towline/shop/prod/{candidate.release}"
    assert line.writer.deleted == [(branch, "Towline <towline@localhost>")]


async def test_a_branch_that_services_follow_is_never_deleted(line: Promotion) -> None:
    await save(line)
    await line.push("1")
    candidate = await line.candidate()
    assert candidate is not None
    branch = f"towline/shop/prod/{candidate.release}"
    follower = make_service("follower", make_cluster("dev"), ref=branch)
    await line.memory.given(follower.changed(repository_id="fleet"))
    await approve(line)
    assert line.writer.deleted == []


async def test_a_request_is_opened_and_followed_until_its_merge(line: Promotion) -> None:
    await save(line, REQUEST)
    sha = await line.push("1")
    candidate = await line.candidate()
    assert candidate is not None
    state = await approve(line)
    assert line.writer.opened == [
        (
            f"towline/shop/prod/{candidate.release}",
            "main",
            f"Promote {candidate.release}",
            f"from {sha}",
        )
    ]
    assert state.change is not None and state.change.state is GitChangeState.OPEN
    assert state.rollout_reason == str(state.change)
    assert (await line.service(IN_PROD)).desired.digest is None
    tip = line.writer.merge("fleet", 1)
    await line.memory.clock.advance(1)
    await line.promotions.hint_merges("fleet")
    await line.settle()
    assert (await line.service(IN_PROD)).desired.pinned_sha == tip
    assert "fleet" in line.memory.manifests.hints, "the merge is fetched at once"


async def test_a_closed_request_fails_the_stage(line: Promotion) -> None:
    await save(line, REQUEST)
    await line.push("1")
    await approve(line)
    request = line.writer.requests[1]
    line.writer.requests[1] = replace(request, state=MergeRequestState.CLOSED)
    await line.memory.clock.advance(1)
    await line.promotions.hint_merges("fleet")
    await line.settle()
    state = await line.state("prod")
    assert state.health is Health.FAILED
    assert state.reason == f"pull request #1 was closed without a merge: {request.url}"


async def test_a_merge_is_seen_in_the_branch_while_the_host_is_away(line: Promotion) -> None:
    """Only once the branch renders to what was approved."""
    await save(line, REQUEST)
    await line.push("1")
    await approve(line)
    line.writer.error = Unavailable("the host is away")
    await line.memory.clock.advance(1)
    await line.promotions.hint_merges("fleet")
    await line.settle()
    assert (await line.service(IN_PROD)).desired.digest is None
    line.writer.merge("fleet", 1)
    await line.memory.clock.advance(1)
    await line.promotions.hint_merges("fleet")
    await line.settle()
    assert (await line.service(IN_PROD)).desired.digest is not None


async def test_an_abandoned_request_is_closed(line: Promotion) -> None:
    """A newer release takes its place; its branch goes, too."""
    await save(line, REQUEST)
    await line.push("1")
    await approve(line)
    view = await line.view()
    await line.pipelines.delete(ADMIN, view.row.id)
    await line.run_jobs()
    assert line.writer.requests[1].state is MergeRequestState.CLOSED
    assert len(line.writer.deleted) == 1


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Forbidden("the branch is protected"), "the branch is protected"),
        (Conflict("the branch keeps moving"), "the branch keeps moving"),
    ],
)
async def test_a_commit_that_is_refused_fails_the_stage(
    line: Promotion, error: TowlineError, reason: str
) -> None:
    await save(line)
    await line.push("1")
    line.writer.error = error
    state = await approve(line)
    assert (state.health, state.reason) == (Health.FAILED, reason)


async def test_a_host_that_is_away_is_asked_again(line: Promotion) -> None:
    await save(line)
    await line.push("1")
    line.writer.error = Unavailable("no answer")
    with pytest.raises(Unavailable):
        await approve(line)
    assert (await line.state("prod")).health is Health.PROGRESSING


async def test_a_preview_that_cannot_be_written_is_the_reason_of_the_wait(line: Promotion) -> None:
    await save(line)
    line.writer.error = Forbidden("the branch is protected")
    await line.push("1")
    candidate = await line.candidate()
    assert candidate is not None
    assert candidate.reason == "cannot be rendered: the branch is protected"


async def test_another_change_of_the_branch_needs_another_approval(line: Promotion) -> None:
    """The release goes back before its gates, and is rendered on the new tip."""
    await save(line)
    await line.push("1")
    line.writer.beside = {"prod": [config_map("other")]}
    state = await approve(line)
    assert state.release is None and state.reason == "its release returned to its gates"
    candidate = await line.candidate()
    assert candidate is not None and candidate.attempt == 2
    assert candidate.gates and not any(gate.approvals for gate in candidate.gates.values())
    assert (await line.service(IN_PROD)).desired.digest is None


async def test_an_aborted_release_is_not_committed(line: Promotion) -> None:
    await save(line)
    await line.push("1")
    before = len(line.writer.commits)
    await line.decisions.approve(BO, await line.gate(), await line.digests())
    await line.decisions.abort(BO, (await line.view()).row.id, "prod", "odd")
    await line.settle()
    assert len(line.writer.commits) == before
    assert (await line.service(IN_PROD)).desired.digest is None


async def test_saving_needs_write_access_to_the_repository(line: Promotion) -> None:
    """Whoever may write services alone commits nothing in the name of Towline."""
    services = person(BuiltInRole.EDITOR, "eve", Scope("project:other"))
    reader = person(BuiltInRole.VIEWER, "eve")
    for actor in (services, reader):
        with pytest.raises(Forbidden):
            await save(line, actor=actor)
    await save(line, actor=EDITOR)
    (_, prod) = (await line.view()).spec.stages
    assert prod.writes_to == "fleet"


@pytest.mark.parametrize("columns", [{"ref": "next"}, {"repository_id": "other"}])
async def test_services_of_a_stage_share_a_branch(line: Promotion, columns: dict[str, str]) -> None:
    second = make_service("second", make_cluster("prod"), ref="main")
    second = second.changed(**{"repository_id": "fleet"} | columns)
    await line.memory.given(make_repository("other"), second)
    stages = [
        StageDraft("dev", [IN_DEV.id]),
        StageDraft("prod", [IN_PROD.id, second.id], git=COMMIT),
    ]
    with pytest.raises(Conflict, match="must share one repository and one branch"):
        await line.save(stages=stages)


async def test_only_git_is_written_to(line: Promotion) -> None:
    async with line.memory.store.write() as tx:
        await tx[RepositoryStore].change("fleet", kind=RepositoryKind.HELM)
    with pytest.raises(TowlineError):
        await save(line)


async def test_a_repository_that_a_service_moved_to_is_not_written_to(line: Promotion) -> None:
    """The permission was checked for the one that it had when the pipeline was saved."""
    await save(line)
    await line.memory.given(make_repository("other"))
    async with line.memory.store.write() as tx:
        await tx[ServiceStore].put((await line.service(IN_PROD)).changed(repository_id="other"))
    await line.push("1")
    candidate = await line.candidate()
    assert candidate is not None and candidate.reason.startswith("cannot be rendered: ")
    assert line.writer.commits == []


async def test_a_preview_needs_a_branch_of_its_own(line: Promotion) -> None:
    await save(line, replace(COMMIT, branch="main"))
    await line.push("1")
    candidate = await line.candidate()
    assert candidate is not None
    assert "main is the services' own branch: set `branch` to another one" in candidate.reason


async def test_a_placeholder_without_a_value_is_named(line: Promotion) -> None:
    await save(line, replace(COMMIT, message="Promote ${tag}"))
    await line.push("1")
    candidate = await line.candidate()
    assert candidate is not None and "unknown placeholder ${tag}" in candidate.reason


async def test_a_process_without_git_writes_nothing(line: Promotion) -> None:
    await save(line)
    bare = type(line.promotions)(line.memory.context, line.pipelines.engine)
    line.promotions = bare
    await line.push("1")
    candidate = await line.candidate()
    assert candidate is not None
    assert candidate.reason == "cannot be rendered: this process cannot write to repositories"


async def test_the_first_stage_is_not_promoted_by_git(line: Promotion) -> None:
    stages = [StageDraft("dev", [IN_DEV.id], git=COMMIT), StageDraft("prod", [IN_PROD.id])]
    with pytest.raises(Invalid, match="stage dev follows git"):
        await line.save(stages=stages)
