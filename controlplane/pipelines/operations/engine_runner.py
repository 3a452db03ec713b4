"""Runs of the engine: events from the store in, state, jobs and notifications out.

The engine (`pipelines.engine`) decides. Its state and its effects are written in one transaction;
workers then carry out the effects (`operations.promotions`).
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TypeVar

import structlog

from controlplane.agents.ports import ClusterJobStore
from controlplane.audit.ports import AuditLog
from controlplane.authorization import SYSTEM, Actor, ResourceKind
from controlplane.pipelines.engine import codec
from controlplane.pipelines.engine import effects as fx
from controlplane.pipelines.engine import events as ev
from controlplane.pipelines.engine.engine import step
from controlplane.pipelines.engine.preview_branches import PreviewBranches, preview_branches
from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.gate_checks import CheckAnswer
from controlplane.pipelines.model.records import (
    MAX_MEASURED,
    Measurement,
    PipelineEvent,
    PipelineRecord,
)
from controlplane.pipelines.model.state import PipelineState, ReleaseId
from controlplane.pipelines.operations.budgets import (
    awaits_budget,
    budget_events,
    frees_budget,
    store_changing,
)
from controlplane.pipelines.operations.gate_secrets import without_secrets
from controlplane.pipelines.operations.observations import (
    disabled_approver_events,
    environment_events,
    stage_events,
)
from controlplane.pipelines.operations.stages import BY_FLEET, bind_services, with_selected_services
from controlplane.pipelines.operations.views import (
    PipelineView,
    view_of,
    waiting_release,
)
from controlplane.pipelines.ports import (
    PipelineEventStore,
    PipelineGateStore,
    PipelineServiceStore,
    PipelineStore,
)
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict
from controlplane.platform.context import DESIRED_STATE, PIPELINE, RENDER_SERVICES, OperationContext
from controlplane.platform.jobs import Job
from controlplane.platform.notification import Notification, NotificationKind, notification
from controlplane.platform.ports import JobStore, NotificationOutbox, Transaction
from controlplane.platform.retry import retry_operations
from controlplane.services.model.service import Service
from controlplane.services.operations.quarantine import deny_in_project
from controlplane.services.ports import ServiceStore
from core.errors import Conflict

log = structlog.get_logger(__name__)
E = TypeVar("E", bound=fx.Effect)

RENDER = "pipeline.render"
PROMOTE = "pipeline.promote"
FOLLOW_REQUEST = "pipeline.follow"
WRITE = "pipeline.write"
CHECK = "pipeline.check"
TICK = "pipeline.tick"
CLEAN_UP = "pipeline.tidy"
_SNAPSHOT_EVERY = 100
_EVENT_RETENTION = timedelta(days=90)
_MAX_CHANGED = 5_000
_JOB_KINDS = {
    fx.RenderStage: RENDER,
    fx.Promote: PROMOTE,
    fx.FollowChange: FOLLOW_REQUEST,
    fx.WriteFinding: WRITE,
    fx.RunCheck: CHECK,
    fx.WakeAt: TICK,
}

_NOTIFICATION_KINDS = {
    fx.Topic.APPROVAL_WANTED: NotificationKind.GATE_WAITING,
    fx.Topic.APPROVAL_VOIDED: NotificationKind.GATE_WAITING,
    fx.Topic.REFUSED: NotificationKind.PROMOTION_FAILED,
    fx.Topic.STAGE_FAILED: NotificationKind.PROMOTION_FAILED,
    fx.Topic.ROLLED_BACK: NotificationKind.PROMOTION_FAILED,
    fx.Topic.STAGE_VERIFIED: NotificationKind.PROMOTION_DONE,
    fx.Topic.CLUSTERS_SILENT: NotificationKind.ROLLOUT_SILENT,
    fx.Topic.CLUSTERS_BACK: NotificationKind.ROLLOUT_CAUGHT_UP,
}

_AUDIT_ACTIONS = {
    fx.Topic.CLUSTERS_SILENT: "leaveOutSilentClusters",
    fx.Topic.CLUSTERS_BACK: "takeBackSilentClusters",
}
"""Actions of the engine itself that the audit log records."""


@retry_operations
class EngineRunner:
    """Runs the engine of stored pipelines."""

    def __init__(self, context: OperationContext) -> None:
        self._context = context
        self._awaiting_budget: set[str] = set()

    async def advance(
        self, id: str, *decisions: ev.Event, audit: AuditEntry | None = None
    ) -> tuple[str, ...]:
        """Feeds the engine with decisions, then with observations of the services.

        Returns the reasons for ignored decisions; empty if the engine took all. The audit entry of
        a decision is written with its verdict.
        """
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            row = await tx[PipelineStore].get(id)
            if row is None:
                return ()
            row, removed = await self._update_selected_services(tx, row)
            view = await view_of(tx, row, with_clusters=False)
            run = _EngineRun(view.spec, now, view.state)
            run.feed(await disabled_approver_events(tx, view.spec, view.state))
            run.feed(await budget_events(tx, view.spec, view.state, view.services))
            ignored = run.feed(decisions)
            environment = await environment_events(tx, view, run.state, now)
            run.feed([*environment, *stage_events(view.spec, run.state, view.services), ev.Tick()])
            for effect in run.effects:
                await self._store_effect(tx, row, effect, now)
            if audit is not None:
                verdict = AuditVerdict.REFUSED if ignored else AuditVerdict.ALLOWED
                await tx[AuditLog].append([replace(audit, verdict=verdict)])
            await _store_measurements(tx, view, run.events, now)
            changed = await self._store_state(tx, row, view, run.state, run.events)
        if changed:
            self._context.bus.publish(PIPELINE, id)
        self.wake_budget_waiters(id, view.state, run.state)
        publish_departures(self._context.bus.publish, removed)
        return ignored

    async def decide(self, actor: Actor, action: str, view: PipelineView, event: ev.Event) -> None:
        """Feeds the engine with a decision, and writes its audit entry.

        Conflict: the engine ignored the decision, with the reason.
        """
        entry = self._context.audit_entry(
            actor, action, view.row.name, view.row.id, event=codec.to_json(event)
        )
        ignored = await self.advance(view.row.id, event, audit=entry)
        if ignored:
            raise Conflict("; ".join(ignored))

    async def pipelines_of_services(self, service_ids: Collection[str]) -> list[str]:
        """Ids of the pipelines whose stages contain one of these services."""
        async with self._context.store.read() as tx:
            rows = await tx[PipelineServiceStore].of_services(service_ids)
        return sorted({row.pipeline_id for row in rows})

    async def pipelines_changed_since(self, moment: datetime) -> list[str]:
        """Ids of pipelines with a changed service, or whose stages depend on the set of clusters.

        All ids if too many services changed.
        """
        async with self._context.store.read() as tx:
            all_services = SYSTEM.policy.visible(ResourceKind.SERVICE)
            changed = await tx[ServiceStore].changed_since(moment, all_services, _MAX_CHANGED)
            if len(changed) < _MAX_CHANGED:
                rows = await tx[PipelineServiceStore].of_services([*changed, BY_FLEET])
                return sorted({row.pipeline_id for row in rows})
            return [row.id for row in await tx[PipelineStore].all()]

    async def delete_old_events(self) -> None:
        """Deletes events that are older than the period for replays."""
        async with self._context.store.write() as tx:
            await tx[PipelineEventStore].remove_before(
                "at", self._context.clock.now() - _EVENT_RETENTION
            )

    async def pipeline_of_job(self, job_id: str) -> str | None:
        """Id of the pipeline whose gate runs this cluster job; None until the job has ended."""
        async with self._context.store.read() as tx:
            job = await tx[ClusterJobStore].get(job_id)
            if job is None or not job.phase.final or ":" not in job.key:
                return None
            row = await tx[PipelineStore].get(job.key.partition(":")[0])
        return row.id if row else None

    def wake_budget_waiters(self, id: str, before: PipelineState, after: PipelineState) -> None:
        """Wakes the known pipelines that wait for a budget, after a part of it became free."""
        waiting = self._awaiting_budget
        (waiting.add if awaits_budget(after) else waiting.discard)(id)
        if frees_budget(before, after):
            for pipeline_id in waiting - {id}:
                self._context.bus.publish(PIPELINE, pipeline_id)

    async def _update_selected_services(
        self, tx: Transaction, row: PipelineRecord
    ) -> tuple[PipelineRecord, Sequence[Service]]:
        """The row with the services that its selectors match now, and the services that left."""
        old_spec = codec.pipeline_from_json(row.spec)
        new_spec = await with_selected_services(tx, old_spec, row.project_id)
        if new_spec == old_spec:
            return row, ()
        removed = await bind_services(tx, new_spec, old_spec, SYSTEM)
        after = replace(row, spec=codec.pipeline_to_json(new_spec), version=row.version + 1)
        await tx[PipelineStore].put(after)
        await record_events(self._context, tx, after)
        return after, removed

    async def _store_state(
        self,
        tx: Transaction,
        row: PipelineRecord,
        view: PipelineView,
        state: PipelineState,
        events: list[ev.Event],
    ) -> bool:
        """Writes the state and the events that changed it; True if it changed."""
        body = codec.state_to_json(state)
        if body == row.state:
            return False
        now, version = self._context.clock.now(), row.version + 1
        await tx[PipelineStore].put(replace(row, state=body, version=version, updated_at=now))
        spec, before = view.spec, view.state
        await store_changing(tx, row.id, before, state)
        branches = preview_branches(spec, before), preview_branches(spec, state)
        await schedule_cleanup(self._context, tx, row.id, *branches)
        await record_events(self._context, tx, row, events, snapshot=version % _SNAPSHOT_EVERY == 0)
        for revision in state.known_bad.keys() - before.known_bad.keys():
            reason = state.known_bad[revision]
            await deny_in_project(tx, row.project_id, revision, "towline", reason, now)
        return True

    async def _store_effect(
        self, tx: Transaction, row: PipelineRecord, effect: fx.Effect, now: datetime
    ) -> None:
        """Stores an effect as a job for a worker, or as a notification."""
        id = row.id
        if isinstance(effect, fx.Notify):
            await tx[NotificationOutbox].append([_notification_of(id, effect, now)])
            if effect.topic in _AUDIT_ACTIONS:
                entry = self._context.audit_entry(
                    SYSTEM, _AUDIT_ACTIONS[effect.topic], row.name, id, text=effect.text
                )
                await tx[AuditLog].append([entry])
        kind = _JOB_KINDS.get(type(effect))
        if kind is None:
            log.info("pipeline effect", pipeline=id, **codec.to_json(effect))
            return
        payload = {"pipeline": id, "effect": codec.to_json(effect)}
        run_at = effect.at if isinstance(effect, fx.WakeAt) else now
        key = f"{TICK}:{id}" if kind == TICK else f"{id}:{effect.key}"
        await tx[JobStore].enqueue(Job(self._context.new_id(), kind, key, run_at, payload))


async def record_events(
    context: OperationContext,
    tx: Transaction,
    row: PipelineRecord,
    events: Iterable[ev.Event] = (),
    *,
    snapshot: bool = True,
) -> None:
    """Records events; a snapshot of the row before them is a starting point for replays.

    Recorded specifications have no secrets.
    """
    spec = without_secrets(codec.pipeline_from_json(row.spec)) if snapshot else None
    event = PipelineEvent(
        context.new_id(),
        row.id,
        context.clock.now(),
        [codec.to_json(event) for event in events],
        codec.pipeline_to_json(spec) if spec else None,
        row.state if snapshot else None,
    )
    await tx[PipelineEventStore].add(event)


async def schedule_cleanup(
    context: OperationContext,
    tx: Transaction,
    id: str,
    before: PreviewBranches,
    after: PreviewBranches = MappingProxyType({}),
) -> None:
    """Schedules the cleanup of preview branches that were needed before and no longer are."""
    for preview in (preview for key, preview in before.items() if key not in after):
        key = f"{CLEAN_UP}:{preview.repository_id}:{preview.branch}"[:255]
        payload = {"pipeline": id, "preview": asdict(preview)}
        now = context.clock.now()
        await tx[JobStore].enqueue(Job(context.new_id(), CLEAN_UP, key, now, payload))


def pipeline_and_effect(job: Job, kind: type[E]) -> tuple[str, E]:
    """Returns the pipeline of a job, and the effect that the job carries out."""
    return job.payload["pipeline"], codec.from_json(job.payload["effect"], kind)


def publish_departures(publish: Callable[[str, str], None], removed: Sequence[Service]) -> None:
    """Notifies services that left a pipeline, so that they follow their refs again."""
    for service in removed:
        publish(DESIRED_STATE, f"{service.cluster_id}/{service.id}")
    for repository in {service.repository_id for service in removed if service.repository_id}:
        publish(RENDER_SERVICES, f"{repository}/")


def _notification_of(id: str, effect: fx.Notify, now: datetime) -> Notification:
    """The notification for an effect; the pipeline's name is added when it is routed."""
    detail = {"place": effect.place, "release": effect.release}
    kind, text = _NOTIFICATION_KINDS[effect.topic], effect.text
    return notification(kind, now, text, pipeline_id=id, detail=detail)


@dataclass(slots=True)
class _EngineRun:
    """A run of the engine: its state, its effects, and the events that changed the state."""

    spec: pipeline.Pipeline
    now: datetime
    state: PipelineState
    effects: list[fx.Effect] = field(default_factory=list)
    events: list[ev.Event] = field(default_factory=list)

    def feed(self, events: Iterable[ev.Event]) -> tuple[str, ...]:
        """Feeds the engine with events; returns the reasons for those that it ignored."""
        ignored: list[str] = []
        for event in events:
            after, effects = step(self.spec, self.state, event, self.now)
            if after != self.state:
                self.events.append(event)
            self.state = after
            self.effects += effects
            ignored += [effect.text for effect in effects if isinstance(effect, fx.EventIgnored)]
        return tuple(ignored)


async def _store_measurements(
    tx: Transaction, view: PipelineView, events: Iterable[ev.Event], now: datetime
) -> None:
    """Stores the measurements of checks with accepted results."""
    for event in events:
        if not isinstance(event, ev.CheckAnswered) or not event.measured:
            continue
        row = await tx[PipelineGateStore].get(event.gate)
        release = view.state.releases.get(waiting_release(view, event.gate)[0] or ReleaseId(""))
        if row is None:
            continue
        measurement = Measurement(
            now,
            event.step,
            release.number if release else 0,
            event.answer is CheckAnswer.PASSED,
            event.measured,
        )
        await tx[PipelineGateStore].set_measured(
            row.id, (*row.measured, measurement)[-MAX_MEASURED:]
        )
