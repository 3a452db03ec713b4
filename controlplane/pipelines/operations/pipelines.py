"""Pipelines: operations of users, and the events that feed the engine.

The engine (`pipelines.engine`) decides. Its state and its effects are written in one transaction;
workers then carry out the effects (`operations.promotions`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

import structlog

from controlplane.access.operations.scopes import check_not_moved, groups_of, project_for
from controlplane.agents.ports import ClusterJobStore
from controlplane.audit.ports import AuditLog
from controlplane.authorization import (
    SYSTEM,
    Actor,
    ActorKind,
    ResourceKind,
    Verb,
    require,
    require_member,
)
from controlplane.pipelines.engine import codec
from controlplane.pipelines.engine import effects as fx
from controlplane.pipelines.engine import events as ev
from controlplane.pipelines.engine.engine import step
from controlplane.pipelines.engine.preview_branches import (
    PreviewBranch,
    obsolete_branches,
    preview_branches,
)
from controlplane.pipelines.gates.kinds.approval import approval_of
from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.gate_checks import CheckAnswer
from controlplane.pipelines.model.records import (
    MAX_MEASURED,
    Measurement,
    PipelineEvent,
    PipelineRecord,
)
from controlplane.pipelines.model.state import Digests, Health, PipelineState, Release, ReleaseId
from controlplane.pipelines.operations.budgets import (
    awaits_budget,
    budget_events,
    frees_budget,
    store_changing,
)
from controlplane.pipelines.operations.drafts import PipelineDraft
from controlplane.pipelines.operations.gate_secrets import with_plain_secrets
from controlplane.pipelines.operations.observations import (
    disabled_approver_events,
    environment_events,
    stage_events,
)
from controlplane.pipelines.operations.specification import SpecBuilder, check_cluster_access
from controlplane.pipelines.operations.stages import (
    BY_FLEET,
    bind_services,
    check_groups,
    check_shared_services,
    unbind_services,
    with_selected_services,
)
from controlplane.pipelines.operations.trigger_rows import (
    delete_pipeline_rows,
    open_webhook_secret,
    store_pipeline_rows,
)
from controlplane.pipelines.operations.views import (
    PipelineView,
    find_gate,
    find_pipeline,
    is_author,
    pushes_of,
    recorded_spec,
    stage_named,
    view_of,
    visible_view,
    waiting_release,
)
from controlplane.pipelines.operations.write_targets import with_write_targets
from controlplane.pipelines.ports import (
    PipelineEventStore,
    PipelineGateStore,
    PipelineServiceStore,
    PipelineStore,
    PipelineTriggerStore,
)
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict
from controlplane.platform.context import (
    DESIRED_STATE,
    PIPELINE,
    RENDER_SERVICES,
    Change,
    OperationContext,
)
from controlplane.platform.jobs import Job
from controlplane.platform.notification import Notification, NotificationKind, notification
from controlplane.platform.ports import JobStore, NotificationOutbox, Page, PageQuery, Transaction
from controlplane.platform.retry import retry_operations
from controlplane.services.model.service import Service
from controlplane.services.operations.quarantine import deny_in_project
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, Forbidden, Invalid, TowlineError

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
class Pipelines:
    """Operations on pipelines."""

    def __init__(self, context: OperationContext) -> None:
        self._context = context
        self._builder = SpecBuilder(context.new_id, context.sealer)
        self._awaiting_budget: set[str] = set()

    async def page(self, actor: Actor, query: PageQuery) -> Page[PipelineView]:
        async with self._context.read(actor) as tx:
            query = replace(query, visible=actor.policy.visible(ResourceKind.PIPELINE))
            page = await tx[PipelineStore].page(query)
            views = [visible_view(await view_of(tx, row), actor) for row in page.items]
        return Page(tuple(views), page.more)

    async def get(self, actor: Actor, id: str | None, name: str | None = None) -> PipelineView:
        """Finds a pipeline by id or name. NotFound: it does not exist."""
        async with self._context.read(actor) as tx:
            row = await find_pipeline(tx, id, name)
            require(actor, Verb.READ, row.target)
            return visible_view(await view_of(tx, row), actor)

    async def save(self, actor: Actor, draft: PipelineDraft) -> PipelineView:
        """Creates or changes a pipeline; waiting releases stay where possible."""
        now = self._context.clock.now()
        async with self._context.change(actor, "savePipeline") as tx:
            row = await tx[PipelineStore].by_name(draft.name)
            project = await _authorized_project(tx, row, draft)
            before = codec.pipeline_from_json(row.spec) if row else None
            id = row.id if row else self._context.new_id()
            spec = pipeline.validate(self._builder.build(id, draft, before, actor))
            await check_groups(tx, spec)
            spec = await with_selected_services(tx, spec, project)
            await check_cluster_access(tx, actor, spec)
            removed = await bind_services(tx, spec, before, actor)
            spec = await with_write_targets(tx, actor, spec)
            if row is not None and before is not None:
                state = codec.state_from_json(row.state)
                await self._schedule_cleanup(
                    tx,
                    id,
                    obsolete_branches(
                        preview_branches(before, state), preview_branches(spec, state)
                    ),
                )
            await check_shared_services(tx, spec)
            secrets = {trigger.name: trigger.webhook_secret for trigger in draft.triggers}
            await store_pipeline_rows(self._context, tx, spec, secrets)
            body = codec.pipeline_to_json(spec)
            if row is None:
                state = codec.state_to_json(PipelineState())
                row = PipelineRecord(id, draft.name, now, now, body, state, project_id=project)
                await tx[PipelineStore].add(row)
            else:
                row = replace(row, spec=body, updated_at=now, version=row.version + 1)
                await tx[PipelineStore].put(row)
            await self._record_events(tx, row)
            tx.audit(draft.name, id)
            tx.publish(PIPELINE, id)
            _publish_departures(tx.publish, removed)
            return visible_view(await view_of(tx, row), actor)

    async def with_secrets(
        self, tx: Transaction, row: PipelineRecord
    ) -> tuple[pipeline.Pipeline, Mapping[str, str]]:
        """Returns a pipeline with plain secrets, and those of its triggers by name.

        The caller must drop them.
        """
        sealer = self._context.sealer
        spec = with_plain_secrets(sealer, codec.pipeline_from_json(row.spec))
        names = {trigger.id: trigger.name for trigger in spec.triggers}
        triggers = await tx[PipelineTriggerStore].of_pipeline(row.id)
        secrets = {
            names[trigger.id]: open_webhook_secret(sealer, trigger).decode()
            for trigger in triggers
            if trigger.id in names
        }
        return spec, secrets

    async def delete(self, actor: Actor, id: str) -> PipelineView:
        """Deletes a pipeline. Its services are unchanged and follow their refs again."""
        async with self._context.change(actor, "deletePipeline") as tx:
            row = await find_pipeline(tx, id, None)
            tx.authorize(Verb.WRITE, row.target)
            view = await view_of(tx, row)
            removed = await unbind_services(tx, view.spec)
            await delete_pipeline_rows(tx, id)
            await tx[PipelineStore].remove(id)
            await self._schedule_cleanup(
                tx, id, obsolete_branches(preview_branches(view.spec, view.state), {})
            )
            tx.audit(row.name, id)
            tx.publish(PIPELINE, id)
            _publish_departures(tx.publish, removed)
        self._wake_budget_waiters(id, view.state, PipelineState())
        return visible_view(view, actor)

    async def approve(
        self, actor: Actor, gate_id: str, digests: Digests, comment: str = ""
    ) -> PipelineView:
        """Approves exactly these digests. Conflict: another release waits at the gate now."""
        async with self._context.read(actor) as tx:
            view, gate = await find_gate(tx, gate_id)
        require(actor, Verb.APPROVE, view.row.target)
        approval = approval_of(gate.rule)
        named = approval.people if approval else ()
        if actor.kind is ActorKind.SERVICE_ACCOUNT and actor.email not in named:
            raise Forbidden("a service account can approve only if `people` of the gate names it")
        release, waiting = waiting_release(view, gate.id)
        if not digests:
            raise Invalid(
                "specify the digest of each service that you approve; waiting: "
                + (", ".join(f"{s}={d}" for s, d in waiting.items()) or "nothing"),
                field="digests",
            )
        if release is None or dict(digests) != dict(waiting):
            raise Conflict(
                "another release waits at this gate now: review it again"
                if waiting
                else "nothing waits at this gate"
            )
        async with self._context.store.read() as tx:
            is_own = await is_author(tx, actor, view.state.releases[release])
            groups = await groups_of(tx, actor.id, is_person=actor.kind is ActorKind.USER)
        event = ev.Approved(
            gate.id,
            actor.email,
            is_own,
            digests,
            comment[:1000],
            tuple(group.name for group in groups),
        )
        return await self.decide(actor, "approveGate", view, event)

    async def reject(self, actor: Actor, gate_id: str, comment: str = "") -> PipelineView:
        """Rejects the release that waits at the gate, until a newer release or a retry."""
        async with self._context.read(actor) as tx:
            view, gate = await find_gate(tx, gate_id)
        require(actor, Verb.APPROVE, view.row.target)
        event = ev.ReleaseRejected(gate.id, actor.email, comment[:1000])
        return await self.decide(actor, "rejectGate", view, event)

    async def pause(self, actor: Actor, id: str, reason: str = "") -> PipelineView:
        """Pauses a pipeline: no release enters a stage until `resume`."""
        view = await self.get(actor, id)
        require(actor, Verb.PAUSE, view.row.target)
        event = ev.Paused(actor.email, reason[:1000])
        return await self.decide(actor, "pausePipeline", view, event)

    async def resume(self, actor: Actor, id: str) -> PipelineView:
        """Resumes a paused pipeline."""
        view = await self.get(actor, id)
        require(actor, Verb.RESUME, view.row.target)
        return await self.decide(actor, "resumePipeline", view, ev.Resumed(actor.email))

    async def retry(self, actor: Actor, id: str, stage: str) -> PipelineView:
        """Retries a rejected or failed release of a stage, given by the stage's name."""
        view = await self.get(actor, id)
        require(actor, Verb.APPROVE, view.row.target)
        target = stage_named(view, stage)
        release = _release_to_retry(view, target.id)
        if release is None:
            raise Conflict(f"stage {stage!r} has no rejected or failed release")
        event = ev.Retried(target.id, release, actor.email)
        return await self.decide(actor, "retryPipeline", view, event)

    async def measurements(self, gate_id: str) -> Sequence[Measurement]:
        """Measurements of a gate's metrics, newest last.

        The caller has checked access to the gate.
        """
        async with self._context.store.read() as tx:
            row = await tx[PipelineGateStore].get(gate_id)
        return row.measured if row else ()

    async def pushers(self, release: Release) -> list[str]:
        """Accounts of Git hosts that pushed the release's commits, sorted.

        The caller has checked access to the pipeline.
        """
        async with self._context.store.read() as tx:
            return sorted({str(push) for push in await pushes_of(tx, release)})

    async def readable_measurements(self, actor: Actor, gate_id: str) -> Sequence[Measurement]:
        """Like `measurements`, with an access check.

        NotFound: the gate does not exist, or the actor may not see it.
        """
        async with self._context.read(actor) as tx:
            view, _ = await find_gate(tx, gate_id)
        require(actor, Verb.READ, view.row.target)
        return await self.measurements(gate_id)

    def draft_gates(
        self, spec: pipeline.Pipeline, draft: PipelineDraft
    ) -> dict[pipeline.EdgeId, tuple[pipeline.Gate, ...]]:
        """The gates that a draft defines for the edges of a pipeline. Invalid: the edges differ."""
        ids = {stage.name: stage.id for stage in spec.stages}
        edges = {(edge.source, edge.target): edge for edge in spec.edges}
        gates = {}
        for edge in draft.edges:
            old_edge = edges.get((ids.get(edge.source), ids.get(edge.target)))
            if old_edge is None:
                raise Invalid(f"no edge from {edge.source} to {edge.target} exists", field="edges")
            gates[old_edge.id] = self._builder.edge(edge, ids, old_edge).gates
        return gates

    async def pipelines_of_services(self, service_ids: Collection[str]) -> list[str]:
        """Ids of the pipelines whose stages contain one of these services."""
        async with self._context.store.read() as tx:
            rows = await tx[PipelineServiceStore].of_services(service_ids)
        return sorted({row.pipeline_id for row in rows})

    async def pipelines_changed_since(self, moment: datetime) -> list[str]:
        """Ids of pipelines with a service that changed since; all ids if too many services did."""
        async with self._context.store.read() as tx:
            all_services = SYSTEM.policy.visible(ResourceKind.SERVICE)
            changed = await tx[ServiceStore].changed_since(moment, all_services, _MAX_CHANGED)
            if len(changed) < _MAX_CHANGED:
                rows = await tx[PipelineServiceStore].of_services(changed)
                return sorted({row.pipeline_id for row in rows})
            return [row.id for row in await tx[PipelineStore].all()]

    async def pipelines_with_selectors(self) -> list[str]:
        """Ids of the pipelines whose stages depend on the set of clusters."""
        return await self.pipelines_of_services([BY_FLEET])

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
        self._wake_budget_waiters(id, view.state, run.state)
        _publish_departures(self._context.bus.publish, removed)
        return ignored

    async def decide(
        self, actor: Actor, action: str, view: PipelineView, event: ev.Event
    ) -> PipelineView:
        """Passes an authorized decision to the engine.

        Conflict: the engine ignored it, with the reason.
        """
        require_member(actor)
        await self._decide(actor, action, view, event)
        return await self.get(actor, view.row.id)

    async def decide_signed(self, view: PipelineView, event: ev.ExternallyAnswered) -> None:
        """Passes a decision to the engine that a signature with the gate's secret authorizes."""
        actor = Actor(ActorKind.USER, name=event.actor, email=event.actor)
        await self._decide(actor, "answerGate", view, event)

    async def _decide(self, actor: Actor, action: str, view: PipelineView, event: ev.Event) -> None:
        entry = self._context.audit_entry(
            actor, action, view.row.name, view.row.id, event=codec.event_to_json(event)
        )
        ignored = await self.advance(view.row.id, event, audit=entry)
        if ignored:
            raise Conflict("; ".join(ignored))

    def _wake_budget_waiters(self, id: str, before: PipelineState, after: PipelineState) -> None:
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
        await self._record_events(tx, after)
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
        await self._schedule_cleanup(
            tx,
            row.id,
            obsolete_branches(preview_branches(spec, before), preview_branches(spec, state)),
        )
        await self._record_events(tx, row, events, snapshot=version % _SNAPSHOT_EVERY == 0)
        for revision in state.known_bad.keys() - before.known_bad.keys():
            reason = state.known_bad[revision]
            await deny_in_project(tx, row.project_id, revision, "towline", reason, now)
        return True

    async def _record_events(
        self,
        tx: Transaction,
        row: PipelineRecord,
        events: Iterable[ev.Event] = (),
        *,
        snapshot: bool = True,
    ) -> None:
        """Records events; a snapshot of the row before them is a starting point for replays."""
        event = PipelineEvent(
            self._context.new_id(),
            row.id,
            self._context.clock.now(),
            [codec.event_to_json(event) for event in events],
            recorded_spec(row.spec) if snapshot else None,
            row.state if snapshot else None,
        )
        await tx[PipelineEventStore].add(event)

    async def schedule_branch_cleanup(self, id: str, previews: Sequence[PreviewBranch]) -> None:
        """Schedules the cleanup of preview branches; branches that are still needed stay."""
        async with self._context.store.write() as tx:
            await self._schedule_cleanup(tx, id, previews)
        self._context.bus.publish(PIPELINE, id)

    async def _schedule_cleanup(
        self, tx: Transaction, id: str, previews: Iterable[PreviewBranch]
    ) -> None:
        for preview in previews:
            key = f"{CLEAN_UP}:{preview.repository_id}:{preview.branch}"[:255]
            payload = {"pipeline": id, "preview": asdict(preview)}
            now = self._context.clock.now()
            await tx[JobStore].enqueue(Job(self._context.new_id(), CLEAN_UP, key, now, payload))

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
            log.info("pipeline effect", pipeline=id, **codec.effect_to_json(effect))
            return
        payload = {"pipeline": id, "effect": codec.effect_to_json(effect)}
        run_at = effect.at if isinstance(effect, fx.WakeAt) else now
        key = f"{TICK}:{id}" if kind == TICK else f"{id}:{effect.key}"
        await tx[JobStore].enqueue(Job(self._context.new_id(), kind, key, run_at, payload))


def pipeline_and_effect(job: Job, kind: type[E]) -> tuple[str, E]:
    """Returns the pipeline of a job, and the effect that the job carries out."""
    effect = codec.effect_from_json(job.payload["effect"])
    if not isinstance(effect, kind):
        raise TowlineError(f"job {job.key} contains {type(effect).__name__}, not {kind.__name__}")
    return job.payload["pipeline"], effect


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


def _publish_departures(publish: Callable[[str, str], None], removed: Sequence[Service]) -> None:
    """Notifies services that left a pipeline, so that they follow their refs again."""
    for service in removed:
        publish(DESIRED_STATE, f"{service.cluster_id}/{service.id}")
    for repository in {service.repository_id for service in removed if service.repository_id}:
        publish(RENDER_SERVICES, f"{repository}/")


async def _authorized_project(tx: Change, row: PipelineRecord | None, draft: PipelineDraft) -> str:
    """Project of a pipeline that the actor may save.

    Conflict: a pipeline that the actor may not see has the name.
    """
    if row is None:
        return await project_for(tx, ResourceKind.PIPELINE, draft.project_id)
    if not tx.actor.may(Verb.READ, row.target):
        raise Conflict(f"the name {draft.name!r} is already used: choose another one")
    tx.authorize(Verb.WRITE, row.target)
    check_not_moved(f"pipeline {row.name!r}", row.project_id, draft.project_id)
    return row.project_id


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


def _release_to_retry(view: PipelineView, stage: pipeline.StageId) -> ReleaseId | None:
    for edge in view.spec.edges_into[stage]:
        candidate = view.state.candidates.get(edge.id)
        if candidate is not None and (candidate.refusal or candidate.render_error):
            return candidate.release
    state = view.state.stages.get(stage)
    return state.release if state and state.health is Health.FAILED else None
