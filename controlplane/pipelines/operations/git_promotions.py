"""Promotion by git: the commit or pull request that writes a release to a stage's repository.

Before the gates are evaluated, the change is committed to a preview branch, so approvers see what a
real commit renders to. On promotion, the same change goes to the services' branch or into a pull
request. Existing commits and requests are found and not created twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.pipelines.engine.preview_branches import (
    PreviewBranch,
    branch_of,
    preview_branches,
    release_values,
)
from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.git_writes import FileKind, GitWrite, Images, WriteMode
from controlplane.pipelines.model.images import tags_in
from controlplane.pipelines.model.state import GitChangeState, GitWriteStatus, ReleaseId, StageState
from controlplane.pipelines.operations.git_places import check_writable, common_branch
from controlplane.pipelines.operations.views import PipelineView
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
    """Writes releases of stages that are promoted by git, and tracks pipelines that wait for a
    merge."""

    def __init__(self, context: OperationContext) -> None:
        self._context = context
        self._waiting: dict[str, set[str]] = {}

    async def prepare(
        self, view: PipelineView, stage: pipeline.Stage, services: Sequence[Service], release: str
    ) -> tuple[str, PreviewBranch]:
        """Commits a release to a preview branch; returns the commit and the branch to clean up.

        If the services' branch already contains the change, returns its newest commit.
        """
        waiting = [view.state.candidates.get(e.id) for e in view.spec.edges_into[stage.id]]
        attempt = max((candidate.attempt for candidate in waiting if candidate), default=1)
        place = await self._place(view, stage, services, ReleaseId(release), attempt)
        sha = await self._try_out(place) or await self._tip(place)
        write, id = place.write, place.repository.id
        return sha, PreviewBranch(id, place.branch, write.author, write.provider)

    async def tidy(self, view: PipelineView | None, preview: PreviewBranch) -> None:
        """Closes a pull request and deletes its branch, unless the pipeline needs them again.

        A branch that services follow is never deleted.
        """
        if view and (preview.repository_id, preview.branch) in preview_branches(
            view.spec, view.state
        ):
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

    async def land(
        self, view: PipelineView, stage: pipeline.Stage, services: Sequence[Service], release: str
    ) -> GitWriteStatus:
        """Writes the release to the services' branch, or opens a pull request."""
        attempt = view.state.stages.get(stage.id, StageState()).attempt
        place = await self._place(view, stage, services, ReleaseId(release), attempt)
        change = await self.put(place)
        if change.state is GitChangeState.OPEN:
            self._waiting.setdefault(place.repository.id, set()).add(view.row.id)
        return change

    async def put(self, place: GitTarget) -> GitWriteStatus:
        """Commits a change to its branch, or opens a pull request for it."""
        if place.write.mode is WriteMode.COMMIT:
            return _merged_change(place, await self._tip(place))
        if await self._try_out(place) is None:
            return _merged_change(place, await self._tip(place))
        title, _, body = place.message.partition("\n")
        request = await self._writer().open_request(
            place.repository.id,
            branch=place.branch,
            base=place.base,
            title=title,
            body=body.strip(),
            provider=place.write.provider,
        )
        return _change_of_request(place.repository, place.base, request)

    async def look(
        self, view: PipelineView, change: GitWriteStatus, provider: str
    ) -> GitWriteStatus:
        """The state of a pull request.

        Conflict: it was closed. Unavailable: the host does not answer.
        """
        self._waiting.setdefault(change.repository_id, set()).add(view.row.id)
        id = RepositoryId(change.repository_id)
        request = await self._writer().request(id, change.number, provider)
        if request.state is MergeRequestState.CLOSED:
            self._waiting[change.repository_id].discard(view.row.id)
            raise Conflict(
                f"pull request #{request.number} was closed without a merge: {request.url}"
            )
        async with self._context.store.read() as tx:
            repository = await find_repository(tx, id)
        if request.state is MergeRequestState.MERGED:
            self._waiting[change.repository_id].discard(view.row.id)
            await self._context.manifests.request_poll(id)
        found = _change_of_request(repository, change.branch, request)
        if found.state is GitChangeState.LANDED and not found.commit:
            # A fast-forward merge: the host returns no merge commit.
            return replace(found, commit=await self.tip(found))
        return found

    def waiting(self, repository_id: str) -> frozenset[str]:
        """Ids of the pipelines that wait for a merge in a repository, as far as this process
        knows."""
        return frozenset(self._waiting.get(repository_id, ()))

    async def tip(self, change: GitWriteStatus) -> str:
        """The newest commit of the branch that a change targets."""
        id = RepositoryId(change.repository_id)
        return (await self._context.manifests.resolve(id, change.branch)).sha

    async def _place(
        self,
        view: PipelineView,
        stage: pipeline.Stage,
        services: Sequence[Service],
        release: ReleaseId,
        attempt: int,
    ) -> GitTarget:
        write = stage.git
        found = view.state.releases.get(release)
        if write is None or found is None:
            raise Conflict(f"stage {stage.name} has no git write for release {release}")
        values = release_values(view.spec, stage, found)
        async with self._context.store.read() as tx:
            repository, base = await common_branch(tx, services)
            check_writable(repository, stage.writes_to)
            firsts = await tx[ServiceStore].by_ids(found.commits.keys())
        commits = {found.commits[s.id] for s in firsts if s.repository_id == repository.id}
        await self._check_folders(write, repository.id, base, commits)
        digests = {revision.digest for revision in found.revisions.values()}
        images = await self._images(digests) if any(c.image for c in write.changes) else {}
        return GitTarget(
            repository,
            base,
            branch_of(write, values, attempt),
            write.message_for(values),
            write.edits(values, images),
            write,
        )

    async def _images(self, digests: set[str]) -> Images:
        """The tags of the images that the release runs in the first stage."""
        tags: dict[str, set[str]] = {}
        for digest in sorted(digests):
            data = await self._context.manifests.bundle(digest)
            for name, found in tags_in(Bundle(digest, data, 0).objects()).items():
                tags.setdefault(name, set()).update(found)
        return tags

    async def _check_folders(
        self, write: GitWrite, repository: RepositoryId, base: str, commits: set[str]
    ) -> None:
        """Conflict: a folder to copy differs from the folder at the release's commits."""
        folders = [change.source for change in write.changes if change.kind is FileKind.FOLDER]
        if not folders:
            return
        manifests = self._context.manifests
        tip = (await manifests.resolve(repository, base)).sha
        now = await manifests.trees(repository, tip, folders)
        then: list[Mapping[str, str | None]] = [
            await manifests.trees(repository, commit, folders) for commit in sorted(commits)
        ]
        for folder in folders:
            if all(trees[folder] != now[folder] for trees in then):
                raise Conflict(f"folder {folder} of {base} has changed since the release")

    async def _commit(self, place: GitTarget, branch: str) -> str | None:
        return await self._writer().commit(
            place.repository.id,
            place.edits,
            branch=branch,
            base=place.base,
            author=place.write.author,
            message=place.message,
        )

    async def _try_out(self, place: GitTarget) -> str | None:
        """Commits to a preview branch; None if the services' branch already contains the change."""
        if place.branch == place.base:
            raise Conflict(f"{place.base} is the services' own branch: set `branch` to another one")
        return await self._commit(place, place.branch)

    async def _tip(self, place: GitTarget) -> str:
        """The newest commit of the services' branch, which contains the change."""
        return await self._commit(place, place.base) or ""

    def _writer(self) -> GitWriter:
        if self._context.writer is None:
            raise Unavailable("this process cannot write to repositories")
        return self._context.writer


def _merged_change(place: GitTarget, sha: str) -> GitWriteStatus:
    url = _commit_url(place.repository, sha)
    return GitWriteStatus(GitChangeState.LANDED, place.repository.id, place.base, sha, url=url)


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
