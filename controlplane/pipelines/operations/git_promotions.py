"""Promotion by git: the commit or pull request that writes a release to a stage's repository.

Before the gates are evaluated, the change is committed to a preview branch, so approvers see what a
real commit renders to. On promotion, the same change goes to the services' branch or into a pull
request. Existing commits and requests are found and not created twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.pipelines.engine.preview_branches import (
    PreviewBranch,
    branch_name,
    preview_branches,
    release_values,
)
from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.git_writes import FileKind, GitWrite, Images, WriteMode, tags_in
from controlplane.pipelines.model.state import GitChangeState, GitWriteStatus, ReleaseId, StageState
from controlplane.pipelines.operations.views import PipelineView
from controlplane.pipelines.operations.write_targets import check_writable, common_branch
from controlplane.platform.context import OperationContext
from controlplane.platform.git_ports import GitWriter
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.operations import find_repository
from controlplane.services.model.service import Service
from controlplane.services.ports import ServiceSourceStore, ServiceStore
from core.errors import Conflict, Unavailable
from core.identity import RepositoryId
from core.spec.bundle import Bundle
from core.spec.edits import Edit, MergeRequest, MergeRequestState

_MAX_URL_LENGTH = 2_000


@dataclass(frozen=True, slots=True)
class GitTarget:
    """Target branch of a change, its edits and its commit message."""

    repository: Repository
    base: str
    branch: str
    message: str
    edits: Sequence[Edit]
    write: GitWrite


class GitPromotions:
    """Writes releases to git, and tracks pipelines that wait for a merge."""

    def __init__(self, context: OperationContext) -> None:
        self._context = context
        self._awaiting_merge: dict[str, set[str]] = {}

    async def commit_preview(
        self, view: PipelineView, stage: pipeline.Stage, services: Sequence[Service], release: str
    ) -> tuple[str, PreviewBranch]:
        """Commits a release to a preview branch; returns the commit and the branch to clean up.

        If the services' branch already contains the change, returns its newest commit.
        """
        candidates = [view.state.candidates.get(e.id) for e in view.spec.edges_into[stage.id]]
        attempt = max((candidate.attempt for candidate in candidates if candidate), default=1)
        target = await self._git_target(view, stage, services, ReleaseId(release), attempt)
        sha = await self._commit_to_preview(target) or await self._commit_to_base(target)
        write, id = target.write, target.repository.id
        return sha, PreviewBranch(id, target.branch, write.author, write.provider)

    async def clean_up(self, view: PipelineView | None, preview: PreviewBranch) -> None:
        """Closes a pull request and deletes its branch, unless the pipeline needs them again.

        A branch that services follow is never deleted.
        """
        if view and preview.key in preview_branches(view.spec, view.state):
            return
        id = RepositoryId(preview.repository_id)
        async with self._context.store.read() as tx:
            followed = [
                *await tx[ServiceStore].following(id, preview.branch),
                *await tx[ServiceSourceStore].following(id, preview.branch),
            ]
        if followed:
            return
        if preview.number:
            await self._writer().close_request(id, preview.number, preview.provider)
        await self._writer().delete_branch(id, preview.branch, preview.author)

    async def write_release(
        self, view: PipelineView, stage: pipeline.Stage, services: Sequence[Service], release: str
    ) -> GitWriteStatus:
        """Writes the release to the services' branch, or opens a pull request."""
        attempt = view.state.stages.get(stage.id, StageState()).attempt
        target = await self._git_target(view, stage, services, ReleaseId(release), attempt)
        change = await self.write_change(target)
        if change.state is GitChangeState.OPEN:
            self._awaiting_merge.setdefault(target.repository.id, set()).add(view.row.id)
        return change

    async def write_change(self, target: GitTarget) -> GitWriteStatus:
        """Commits a change to its branch, or opens a pull request for it."""
        if target.write.mode is WriteMode.COMMIT:
            return _merged_change(target, await self._commit_to_base(target))
        if await self._commit_to_preview(target) is None:
            return _merged_change(target, await self._commit_to_base(target))
        title, _, body = target.message.partition("\n")
        request = await self._writer().open_request(
            target.repository.id,
            branch=target.branch,
            base=target.base,
            title=title,
            body=body.strip(),
            provider=target.write.provider,
        )
        return _change_of_request(target.repository, target.base, request)

    async def check_request(
        self, view: PipelineView, change: GitWriteStatus, provider: str
    ) -> GitWriteStatus:
        """The state of a pull request.

        Conflict: it was closed. Unavailable: the host does not answer.
        """
        self._awaiting_merge.setdefault(change.repository_id, set()).add(view.row.id)
        id = RepositoryId(change.repository_id)
        request = await self._writer().request(id, change.number, provider)
        if request.state is MergeRequestState.CLOSED:
            self._awaiting_merge[change.repository_id].discard(view.row.id)
            raise Conflict(
                f"pull request #{request.number} was closed without a merge: {request.url}"
            )
        async with self._context.store.read() as tx:
            repository = await find_repository(tx, id)
        if request.state is MergeRequestState.MERGED:
            self._awaiting_merge[change.repository_id].discard(view.row.id)
            await self._context.manifests.request_poll(id)
        status = _change_of_request(repository, change.branch, request)
        if status.state is GitChangeState.LANDED and not status.commit:
            # A fast-forward merge: the host returns no merge commit.
            return replace(status, commit=await self.branch_tip(status))
        return status

    def pipelines_awaiting_merge(self, repository_id: str) -> frozenset[str]:
        """Ids of the pipelines that this process knows to wait for a merge in a repository."""
        return frozenset(self._awaiting_merge.get(repository_id, ()))

    async def branch_tip(self, change: GitWriteStatus) -> str:
        """The newest commit of the branch that a change targets."""
        id = RepositoryId(change.repository_id)
        return (await self._context.manifests.resolve(id, change.branch)).sha

    async def _git_target(
        self,
        view: PipelineView,
        stage: pipeline.Stage,
        services: Sequence[Service],
        release: ReleaseId,
        attempt: int,
    ) -> GitTarget:
        write = stage.git
        known_release = view.state.releases.get(release)
        if write is None or known_release is None:
            raise Conflict(f"stage {stage.name} has no git write for release {release}")
        values = release_values(view.spec, stage, known_release)
        async with self._context.store.read() as tx:
            repository, base = await common_branch(tx, services)
            check_writable(repository, stage.writes_to)
            first_stage_services = await tx[ServiceStore].by_ids(known_release.commits.keys())
        commits = {
            known_release.commits[s.id]
            for s in first_stage_services
            if s.repository_id == repository.id
        }
        await self._check_folders(write, repository.id, base, commits)
        digests = {revision.digest for revision in known_release.revisions.values()}
        images = await self._release_images(digests) if any(c.image for c in write.changes) else {}
        return GitTarget(
            repository,
            base,
            branch_name(write, values, attempt),
            write.message_for(values),
            write.edits(values, images),
            write,
        )

    async def _release_images(self, digests: set[str]) -> Images:
        """The tags of the images that the release runs in the first stage."""
        tags: dict[str, set[str]] = {}
        for digest in sorted(digests):
            data = await self._context.manifests.bundle(digest)
            for name, image_tags in tags_in(Bundle(digest, data, 0).objects()).items():
                tags.setdefault(name, set()).update(image_tags)
        return tags

    async def _check_folders(
        self, write: GitWrite, repository: RepositoryId, base: str, commits: set[str]
    ) -> None:
        """Conflict: a folder to copy differs from the folder at the release's commits."""
        folders = [change.source for change in write.changes if change.kind is FileKind.FOLDER]
        if not folders:
            return
        manifests = self._context.manifests
        branch_tip = (await manifests.resolve(repository, base)).sha
        current_trees = await manifests.trees(repository, branch_tip, folders)
        release_trees: list[Mapping[str, str | None]] = [
            await manifests.trees(repository, commit, folders) for commit in sorted(commits)
        ]
        for folder in folders:
            if all(trees[folder] != current_trees[folder] for trees in release_trees):
                raise Conflict(f"folder {folder} of {base} has changed since the release")

    async def _commit(self, target: GitTarget, branch: str) -> str | None:
        return await self._writer().commit(
            target.repository.id,
            target.edits,
            branch=branch,
            base=target.base,
            author=target.write.author,
            message=target.message,
        )

    async def _commit_to_preview(self, target: GitTarget) -> str | None:
        """Commits to a preview branch; None if the services' branch already contains the change."""
        if target.branch == target.base:
            raise Conflict(
                f"{target.base} is the services' own branch: set `branch` to another one"
            )
        return await self._commit(target, target.branch)

    async def _commit_to_base(self, target: GitTarget) -> str:
        """Commits to the services' branch; returns its newest commit, which has the change."""
        return await self._commit(target, target.base) or ""

    def _writer(self) -> GitWriter:
        if self._context.writer is None:
            raise Unavailable("this process cannot write to repositories")
        return self._context.writer


def _merged_change(target: GitTarget, sha: str) -> GitWriteStatus:
    url = _commit_url(target.repository, sha)
    return GitWriteStatus(GitChangeState.LANDED, target.repository.id, target.base, sha, url=url)


def _change_of_request(repository: Repository, base: str, request: MergeRequest) -> GitWriteStatus:
    url = request.url[:_MAX_URL_LENGTH] if request.url.startswith(("https://", "http://")) else ""
    if request.state is not MergeRequestState.MERGED:
        return GitWriteStatus(
            GitChangeState.OPEN, repository.id, base, number=request.number, url=url
        )
    sha = request.merged or ""
    return GitWriteStatus(GitChangeState.LANDED, repository.id, base, sha, request.number, url)


def _commit_url(repository: Repository, sha: str) -> str:
    """Web page of a commit; empty if unknown."""
    base = repository.https_path or repository.url
    return f"{base.removesuffix('.git')}/commit/{sha}" if base.startswith("http") else ""
