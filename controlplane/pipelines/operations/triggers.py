"""Triggers of releases: polls for new versions, writes of found versions, and manual starts.

Each poll is a job of its trigger that one worker claims; a webhook only brings it forward. The
engine judges the result, so finding a version twice changes nothing.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from controlplane.authorization import Actor, Verb
from controlplane.pipelines.engine import effects as fx
from controlplane.pipelines.engine import events as ev
from controlplane.pipelines.engine.preview_branches import branch_name, finding_values
from controlplane.pipelines.engine.state_draft import clip
from controlplane.pipelines.model.records import PipelineTrigger
from controlplane.pipelines.model.state import FoundStatus, TriggerState
from controlplane.pipelines.model.triggers import Trigger
from controlplane.pipelines.operations.engine_runner import pipeline_and_effect
from controlplane.pipelines.operations.git_promotions import GitPromotions, GitTarget
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.pipelines.operations.trigger_rows import (
    MIN_INTERVAL_S,
    open_webhook_secret,
    schedule_poll,
)
from controlplane.pipelines.operations.views import PipelineView, view_of
from controlplane.pipelines.operations.write_targets import check_writable, common_branch
from controlplane.pipelines.ports import PipelineStore, PipelineTriggerStore
from controlplane.platform.context import PIPELINE, SERVICE, OperationContext
from controlplane.platform.git_ports import GitTags
from controlplane.platform.jobs import MAX_ATTEMPTS, Job
from controlplane.platform.retry import retry_on_collision, retry_operations
from controlplane.repositories.operations import RepositoryOperations
from controlplane.repositories.ports import Registries
from controlplane.services.operations.generations import publish_render
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, NotFound, TowlineError, Unavailable
from core.outbound.credentials import RegistryAccount

MAX_INTERVAL_S = 900
_MAX_PAUSE_S = 86_400
_MIN_GAP_SECONDS = 5


@retry_operations
class Triggers:
    """Operations and jobs of triggers. `git_tags` lists the tags of a git repository."""

    def __init__(
        self,
        context: OperationContext,
        pipelines: Pipelines,
        repositories: RepositoryOperations,
        registries: Registries,
        git_tags: GitTags | None = None,
    ) -> None:
        self._context = context
        self._pipelines = pipelines
        self._repositories = repositories
        self._registries = registries
        self._git = GitPromotions(context)
        self._git_tags = git_tags

    async def start(self, actor: Actor, pipeline_id: str, reason: str = "") -> PipelineView:
        """Makes a release of the first stage's present revisions. Conflict: that release exists."""
        view = await self._pipelines.get(actor, pipeline_id, verb=Verb.APPROVE)
        event = ev.Started(actor.email, clip(reason))
        return await self._pipelines.decide(actor, "startRelease", view, event)

    async def poll_now(self, actor: Actor, pipeline_id: str, name: str) -> PipelineView:
        """Polls a trigger now. NotFound: no trigger of this name checks for versions."""
        view = await self._pipelines.get(actor, pipeline_id)
        permission = (Verb.APPROVE, view.row.target)
        async with self._context.change(actor, "checkTrigger", permission) as tx:
            trigger = next((t for t in view.spec.triggers if name in (t.name, t.id)), None)
            if trigger is None or not trigger.watches:
                raise NotFound(
                    f"pipeline {view.row.name!r} has no trigger {name!r} that checks for versions"
                )
            await schedule_poll(self._context, tx, view.row.id, trigger.id)
            tx.audit(view.row.name, view.row.id)
            tx.publish(PIPELINE, view.row.id)
        return view

    async def rows(self, pipeline_id: str) -> dict[str, PipelineTrigger]:
        """State of the polls of a pipeline's triggers, by trigger id."""
        async with self._context.store.read() as tx:
            trigger_rows = await tx[PipelineTriggerStore].of_pipeline(pipeline_id)
        return {row.id: row for row in trigger_rows}

    async def webhook_secret(self, trigger_id: str) -> str | None:
        """The signing secret of a trigger's webhook; None if it has none."""
        async with self._context.store.read() as tx:
            row = await tx[PipelineTriggerStore].get(trigger_id)
        if row is None or row.sealed_webhook is None:
            return None
        return open_webhook_secret(self._context.sealer, row).decode()

    async def schedule_poll_soon(self, trigger_id: str) -> None:
        """Schedules a poll soon, at most one per `_MIN_GAP_SECONDS`.

        Not before the time that a registry named when it rejected the last poll.
        """
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            row = await tx[PipelineTriggerStore].get(trigger_id)
            if row is None:
                return
            after_gap = (row.checked_at or now) + timedelta(seconds=_MIN_GAP_SECONDS)
            run_at = max(now, row.not_before or now, after_gap if row.checked_at else now)
            seconds = (run_at - now).total_seconds()
            await schedule_poll(self._context, tx, row.pipeline_id, row.id, seconds)
        self._context.bus.publish(PIPELINE, row.pipeline_id)

    async def poll(self, job: Job) -> None:
        """Polls for a new version, reports it to the engine, and schedules the next poll."""
        view = await self._find_view(job.payload["pipeline"])
        trigger = view.spec.trigger.get(job.payload["trigger"]) if view else None
        if view is None or trigger is None:
            return
        state = view.state.triggers.get(trigger.id, TriggerState())
        finding, error, retry_after_s = None, "", 0.0
        try:
            sources = TriggerSources(
                self._context, self._repositories, self._registries, self._git_tags, view
            )
            finding = await trigger.rule.discover(sources)
            error = "" if finding else "no version matches"
        except TowlineError as failure:
            error, retry_after_s = failure.message, failure.retry_after or 0.0
        is_new = finding is not None and finding != state.finding
        await self._schedule_next(view, trigger, error, is_new, min(retry_after_s, _MAX_PAUSE_S))
        if finding is not None and (is_new or state.status is FoundStatus.FAILED):
            event = ev.TriggerFound(trigger.id, finding)
            await self._pipelines.engine.advance(view.row.id, event)
        self._context.bus.publish(PIPELINE, view.row.id)

    async def write(self, job: Job) -> None:
        """Writes a found version to the files that the first stage uses."""
        pipeline, effect = pipeline_and_effect(job, fx.WriteFinding)
        view = await self._find_view(pipeline)
        trigger = view.spec.trigger.get(effect.trigger) if view else None
        if view is None or trigger is None:
            return
        event: ev.Event
        try:
            event = await self._write_finding(view, trigger, effect)
        except TowlineError as error:
            if isinstance(error, Unavailable) and job.attempts < MAX_ATTEMPTS:
                raise  # The job is retried and finds what it has already written.
            event = ev.FindingFailed(trigger.id, effect.finding, error.message)
        await self._pipelines.engine.advance(view.row.id, event)

    async def _find_view(self, pipeline_id: str) -> PipelineView | None:
        async with self._context.store.read() as tx:
            row = await tx[PipelineStore].get(pipeline_id)
            return await view_of(tx, row) if row else None

    @retry_on_collision
    async def _schedule_next(
        self, view: PipelineView, trigger: Trigger, error: str, is_new: bool, retry_after_s: float
    ) -> None:
        """Schedules the next poll: soon after a new version, with increasing intervals otherwise.

        A registry may require a longer pause.
        """
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            row = await tx[PipelineTriggerStore].get(trigger.id)
            if row is None:
                return
            interval = (
                MIN_INTERVAL_S
                if is_new or retry_after_s
                else min(row.interval_s * 2, MAX_INTERVAL_S)
            )
            seconds = max(interval + 1, retry_after_s) if retry_after_s else interval
            next_at = now + timedelta(seconds=seconds)
            checked = replace(
                row, interval_s=interval, checked_at=now, next_at=next_at, error=clip(error)
            )
            await tx[PipelineTriggerStore].put(checked)
            await schedule_poll(self._context, tx, view.row.id, trigger.id, seconds)

    async def _write_finding(
        self, view: PipelineView, trigger: Trigger, effect: fx.WriteFinding
    ) -> ev.FindingWritten:
        first = view.spec.first
        async with self._context.store.read() as tx:
            services = await tx[ServiceStore].by_ids(first.services)
            repository, base = await common_branch(tx, services)
            if trigger.write is not None:
                check_writable(repository, trigger.writes_to)
        if trigger.write is None:
            return await self._follow_tag(view, effect)
        values = finding_values(view.spec, trigger, effect.finding)
        write = trigger.write
        target = GitTarget(
            repository,
            base,
            branch_name(write, values),
            write.message_for(values),
            write.edits(values, {}),
            write,
        )
        change = await self._git.write_change(target)
        await self._context.manifests.request_poll(repository.id)
        return ev.FindingWritten(effect.trigger, effect.finding, change)

    @retry_on_collision
    async def _follow_tag(self, view: PipelineView, effect: fx.WriteFinding) -> ev.FindingWritten:
        """Sets the refs of the first stage's services to the tag."""
        async with self._context.store.write() as tx:
            services = await tx[ServiceStore].by_ids(view.spec.first.services)
            if any(service.spec.promoted for service in services):
                raise Conflict("another pipeline promotes the first stage's services")
            for service in services:
                await tx[ServiceStore].set_ref(service.id, effect.finding.value)
        for service in services:
            self._context.bus.publish(SERVICE, service.id)
            publish_render(self._context.bus, service)
        text = f"services follow {effect.finding.value}"
        return ev.FindingWritten(effect.trigger, effect.finding, text=text)


@dataclass(frozen=True, slots=True)
class TriggerSources:
    """`TriggerContext` of one pipeline."""

    _context: OperationContext
    _repositories: RepositoryOperations
    _registries: Registries
    _git_tags: GitTags | None
    _view: PipelineView

    async def image_tags(self, image: str) -> list[str]:
        return await self._registries.tags(image, await self._account(image))

    async def image_digest(self, image: str, tag: str) -> str:
        return await self._registries.digest(image, tag, await self._account(image))

    async def image_built_at(self, image: str, tag: str) -> datetime:
        return await self._registries.build_time(image, tag, await self._account(image))

    async def git_tags(self) -> list[str]:
        if self._git_tags is None:
            raise Unavailable("this process cannot list the tags of repositories")
        async with self._context.store.read() as tx:
            services = await tx[ServiceStore].by_ids(self._view.spec.first.services)
            repository, _ = await common_branch(tx, services)
        return await self._git_tags.tags(repository.id)

    async def _account(self, image: str) -> RegistryAccount | None:
        """Credentials of the project's repository whose URL is the longest prefix of the image."""
        return await self._repositories.account_for(self._view.row.project_id, image)
