"""Carries out the engine's effects: renders a release for a stage, and applies it.

Each effect is a job that runs at least once; repeating it changes nothing.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

import structlog

from controlplane.clusters.operations.freezes import check_not_frozen, frozen_clusters
from controlplane.pipelines.engine import codec
from controlplane.pipelines.engine import effects as fx
from controlplane.pipelines.engine import events as ev
from controlplane.pipelines.engine.preview_branches import PreviewBranch, PreviewBranches
from controlplane.pipelines.model.pipeline import StageId
from controlplane.pipelines.model.state import (
    GitChangeState,
    GitWriteStatus,
    ReleaseId,
    RevisionRef,
    StageState,
)
from controlplane.pipelines.operations.apply_release import apply_release
from controlplane.pipelines.operations.engine_runner import (
    EngineRunner,
    pipeline_and_effect,
    schedule_cleanup,
)
from controlplane.pipelines.operations.git_promotions import GitPromotions
from controlplane.pipelines.operations.stage_renders import StageRenderer
from controlplane.pipelines.operations.views import PipelineView, view_of
from controlplane.pipelines.ports import PipelineStore
from controlplane.platform.context import PIPELINE, OperationContext
from controlplane.platform.jobs import MAX_ATTEMPTS, Job
from controlplane.services.model.service import Service
from controlplane.services.operations.generations import publish_render, publish_service
from controlplane.services.operations.quarantine import check_not_denied
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, TowlineError, Unavailable
from core.identity import ServiceId
from core.spec.source import RenderedBundle

log = structlog.get_logger(__name__)


class _DigestMismatch(Conflict):
    """The rendered bundle is not the approved one."""


class Promotions:
    """Carries out effects of the engine, and reports their results to it."""

    def __init__(self, context: OperationContext, engine: EngineRunner) -> None:
        self._context = context
        self._engine = engine
        self._git = GitPromotions(context)
        self._renders = StageRenderer(context)

    async def render(self, job: Job) -> None:
        """Renders a release for a stage; reports the digests or the error to the engine."""
        pipeline, effect = pipeline_and_effect(job, fx.RenderStage)
        services = await self._stage_services(pipeline, effect.stage)
        event: ev.Event
        previews: PreviewBranches = {}
        # Above the limit, the job is retried.
        await self._renders.count_renders(services)
        try:
            commits, previews = await self._select_commits(pipeline, services, effect)
            renders = await self._renders.render(services, commits)
            revisions = {
                id: RevisionRef(commits[id], rendered.digest) for id, rendered in renders.items()
            }
            event = ev.StageRendered(effect.stage, effect.release, revisions)
        except TowlineError as error:
            event = ev.StageRenderFailed(effect.stage, effect.release, error.message)
        if await self._engine.advance(pipeline, event):
            # The release is no longer wanted: clean up its preview branches.
            async with self._context.store.write() as tx:
                await schedule_cleanup(self._context, tx, pipeline, previews)
            self._context.bus.publish(PIPELINE, pipeline)

    async def promote(self, job: Job) -> None:
        """Sets each service of a stage to exactly the approved revision."""
        pipeline, effect = pipeline_and_effect(job, fx.Promote)
        view = None if effect.back else await self._view_if_promoted_by_git(pipeline, effect.stage)
        if view is None:
            return await self._apply_to_services(pipeline, effect)
        state = view.state.stages.get(effect.stage)
        if state is None or not _holds_release(state, effect.release):
            return None
        services, change = await self._stage_services(pipeline, effect.stage), state.change
        try:
            await self._check_not_frozen(
                [service for service in services if service.id in effect.revisions]
            )
            if change is None or change.state is not GitChangeState.LANDED:
                stage = view.spec.stage[effect.stage]
                change = await self._git.write_release(view, stage, services, effect.release)
        except TowlineError as error:
            if isinstance(error, Unavailable) and job.attempts < MAX_ATTEMPTS:
                raise  # The job is retried and finds what it has already written.
            failed = ev.PromotionFailed(effect.stage, effect.release, error.message)
            await self._engine.advance(pipeline, failed)
            return None
        return await self._apply_change(pipeline, effect, change)

    async def follow_request(self, job: Job) -> None:
        """Checks a pull request; after the merge, applies it to the stage's services.

        If the host does not answer, the request counts as merged once the branch renders to the
        approved digests.
        """
        pipeline, effect = pipeline_and_effect(job, fx.FollowChange)
        view = await self._view_if_promoted_by_git(pipeline, effect.stage)
        state = view.state.stages.get(effect.stage) if view else None
        if view is None or state is None or state.change is None:
            return
        if not _holds_release(state, effect.release):
            return
        promotion = fx.Promote(effect.key, effect.stage, effect.release, effect.revisions)
        write = view.spec.stage[effect.stage].git
        try:
            change = await self._git.check_request(
                view, state.change, write.provider if write else ""
            )
        except Unavailable:
            change = replace(
                state.change,
                state=GitChangeState.LANDED,
                commit=await self._git.branch_tip(state.change),
            )
            if not await self._renders_to_approved(pipeline, _with_commit(promotion, change)):
                return
        except TowlineError as error:
            failed = ev.PromotionFailed(effect.stage, effect.release, error.message)
            await self._engine.advance(pipeline, failed)
            return
        await self._apply_change(pipeline, promotion, change)

    async def hint_merges(self, repository_id: str) -> None:
        """Tells the pipelines that wait for a merge in a repository that it changed."""
        for pipeline in self._git.pipelines_awaiting_merge(repository_id):
            await self._engine.advance(pipeline, ev.ChangeHinted(repository_id))

    async def _apply_change(
        self, pipeline: str, effect: fx.Promote, change: GitWriteStatus
    ) -> None:
        """Applies a merged change to the services; stores one that is still open."""
        if change.state is GitChangeState.LANDED:
            await self._apply_to_services(pipeline, _with_commit(effect, change), change)
        else:
            event = ev.Changed(effect.stage, effect.release, change)
            await self._engine.advance(pipeline, event)

    async def _renders_to_approved(self, pipeline: str, effect: fx.Promote) -> bool:
        """True if the effect's commits render to the approved digests."""
        services = await self._stage_services(pipeline, effect.stage, effect.revisions)
        renders = await self._renders.render(services, _commits_of(effect))
        return all(
            effect.revisions[id].digest == rendered.digest for id, rendered in renders.items()
        )

    async def _apply_to_services(
        self, pipeline: str, effect: fx.Promote, change: GitWriteStatus | None = None
    ) -> None:
        services = await self._stage_services(pipeline, effect.stage, effect.revisions)
        try:
            if not effect.back:
                await self._check_not_frozen(services)
            renders = await self._renders.render(services, _commits_of(effect))
            for service in services:
                _check_digest(service, effect.revisions[service.id], renders[service.id])
            await self._check_not_denied(services, effect)
            reads = await self._renders.reads(services, _commits_of(effect), renders)
        except TowlineError as error:
            has_moved = change is not None and isinstance(error, _DigestMismatch)
            kind = ev.BaseMoved if has_moved else ev.PromotionFailed
            event = kind(effect.stage, effect.release, error.message)
            await self._engine.advance(pipeline, event)
            return
        if change is not None:
            changed = ev.Changed(effect.stage, effect.release, change)
            await self._engine.advance(pipeline, changed)
        async with self._context.store.write() as tx:
            await apply_release(self._context, tx, pipeline, effect, renders, reads, change)
        for service in services:
            publish_service(self._context.bus, service)
            publish_render(self._context.bus, service)

    async def clean_up(self, job: Job) -> None:
        """Deletes a branch and closes its pull request after a pipeline no longer needs them."""
        async with self._context.store.read() as tx:
            row = await tx[PipelineStore].get(job.payload["pipeline"])
            view = await view_of(tx, row) if row else None
        try:
            await self._git.clean_up(view, PreviewBranch(**job.payload["preview"]))
        except Unavailable:
            raise
        except TowlineError as error:
            log.warning(
                "could not clean up branch",
                action="pipeline.tidy",
                job=job.key,
                error=error.message,
            )

    async def tick(self, job: Job) -> None:
        """Feeds the engine with the present time."""
        await self._engine.advance(job.payload["pipeline"])

    async def _view_if_promoted_by_git(self, pipeline: str, stage: StageId) -> PipelineView | None:
        """The pipeline, if the stage is promoted by git."""
        async with self._context.store.read() as tx:
            row = await tx[PipelineStore].get(pipeline)
            git_stage = codec.pipeline_from_json(row.spec).stage.get(stage) if row else None
            if row is None or git_stage is None or git_stage.git is None:
                return None
            return await view_of(tx, row)

    async def _select_commits(
        self, pipeline: str, services: list[Service], effect: fx.RenderStage
    ) -> tuple[dict[ServiceId, str], PreviewBranches]:
        """The commit of a release for each service of a stage, and its preview branches."""
        view = await self._view_if_promoted_by_git(pipeline, effect.stage)
        if view is None:
            return await self._renders.select_commits(services, effect.commits), {}
        stage = view.spec.stage[effect.stage]
        sha, preview = await self._git.commit_preview(view, stage, services, effect.release)
        return {service.id: sha for service in services}, {preview.key: preview}

    async def _stage_services(
        self, pipeline: str, stage: StageId, wanted_ids: Collection[ServiceId] | None = None
    ) -> list[Service]:
        """The services of a stage, limited to `wanted_ids`."""
        async with self._context.store.read() as tx:
            row = await tx[PipelineStore].get(pipeline)
            target = codec.pipeline_from_json(row.spec).stage.get(stage) if row else None
            ids = set(target.services) if target else set()
            return await tx[ServiceStore].by_ids(
                ids if wanted_ids is None else ids & set(wanted_ids)
            )

    async def _check_not_frozen(self, services: list[Service]) -> None:
        async with self._context.store.read() as tx:
            frozen = await frozen_clusters(tx)
            for service in services:
                if service.cluster_id in frozen:
                    await check_not_frozen(tx, service.cluster_id)

    async def _check_not_denied(self, services: Iterable[Service], effect: fx.Promote) -> None:
        revisions: dict[str, set[str | None]] = {}
        for service in services:
            revision = effect.revisions[service.id]
            revisions.setdefault(service.project_id, set()).update(
                (revision.commit, revision.digest)
            )
        async with self._context.store.read() as tx:
            for project_id, commits_and_digests in revisions.items():
                await check_not_denied(tx, project_id, *commits_and_digests)


def _holds_release(state: StageState, release: ReleaseId) -> bool:
    """True if the stage still takes the release: it was neither aborted nor rolled back."""
    return state.release == release and not state.stopped


def _commits_of(effect: fx.Promote | fx.FollowChange) -> dict[ServiceId, str]:
    return {id: revision.commit for id, revision in effect.revisions.items()}


def _check_digest(service: Service, approved: RevisionRef, rendered: RenderedBundle) -> None:
    if rendered.digest != approved.digest:
        raise _DigestMismatch(
            f"service {service.name!r} now renders to {rendered.digest}, but "
            f"{approved.digest} was approved: nothing was promoted"
        )


def _with_commit(effect: fx.Promote, change: GitWriteStatus) -> fx.Promote:
    """The effect with the commit of the merged change."""
    revisions = {
        id: RevisionRef(change.commit, revision.digest) for id, revision in effect.revisions.items()
    }
    return replace(effect, revisions=revisions)
