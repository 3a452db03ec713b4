"""Pipelines: operations of users, and the events that feed the engine.

The engine (`domain.pipelines`) decides. Its state and its effects are written in one transaction;
workers then carry out the effects (`usecases.promotions`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import structlog

from controlplane.domain.access import (
    SYSTEM,
    Actor,
    ActorKind,
    ResourceKind,
    Verb,
    require,
    require_member,
)
from controlplane.domain.clusters import Cluster
from controlplane.domain.jobs import Job
from controlplane.domain.ledger import AuditEntry, AuditVerdict
from controlplane.domain.notifications import Notification, NotificationKind, notification
from controlplane.domain.pipelines import codec, model
from controlplane.domain.pipelines import effects as fx
from controlplane.domain.pipelines import events as ev
from controlplane.domain.pipelines.checks import CheckAnswer
from controlplane.domain.pipelines.engine import step
from controlplane.domain.pipelines.gitwrites import GitWrite
from controlplane.domain.pipelines.rollout import Rollout
from controlplane.domain.pipelines.rules import (
    JobRule,
    MetricRule,
    Patience,
    Rule,
    approval_of,
    rules_of,
)
from controlplane.domain.pipelines.state import (
    Digests,
    Health,
    PipelineState,
    Release,
    ReleaseId,
    digests_of,
)
from controlplane.domain.pipelines.triggers import Trigger, TriggerRule
from controlplane.domain.pipelines.tryouts import PreviewBranch, obsolete_branches, preview_branches
from controlplane.domain.promotion import (
    MAX_MEASURED,
    DeniedRevision,
    Measurement,
    PipelineEvent,
    PipelineRecord,
)
from controlplane.domain.services import Service
from controlplane.ports import Page, PageQuery, Transaction
from controlplane.usecases.budgets import awaits_budget, budget_events, frees_budget, store_changing
from controlplane.usecases.clusters import find_cluster
from controlplane.usecases.deps import DESIRED_STATE, PIPELINE, RENDER_SERVICES, OperationContext
from controlplane.usecases.gatesecrets import sealed_rule, without_secrets
from controlplane.usecases.gitplaces import with_write_targets
from controlplane.usecases.observations import (
    disabled_approver_events,
    environment_events,
    stage_events,
)
from controlplane.usecases.retrying import retry_operations
from controlplane.usecases.scopes import groups_of, project_for
from controlplane.usecases.stages import (
    BY_FLEET,
    bind_services,
    check_groups,
    check_shared,
    unbind_services,
    with_selected_services,
)
from controlplane.usecases.triggerrows import delete_pipeline_rows, store_pipeline_rows
from core.errors import Conflict, Forbidden, Invalid, NotFound
from core.identity import ServiceId

log = structlog.get_logger(__name__)

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
_KINDS = {
    fx.RenderStage: RENDER,
    fx.Promote: PROMOTE,
    fx.FollowChange: FOLLOW_REQUEST,
    fx.WriteFinding: WRITE,
    fx.RunCheck: CHECK,
    fx.WakeAt: TICK,
}

_TOPICS = {
    fx.Topic.APPROVAL_WANTED: NotificationKind.GATE_WAITING,
    fx.Topic.APPROVAL_VOIDED: NotificationKind.GATE_WAITING,
    fx.Topic.REFUSED: NotificationKind.PROMOTION_FAILED,
    fx.Topic.STAGE_FAILED: NotificationKind.PROMOTION_FAILED,
    fx.Topic.ROLLED_BACK: NotificationKind.PROMOTION_FAILED,
    fx.Topic.STAGE_VERIFIED: NotificationKind.PROMOTION_DONE,
}


@dataclass(frozen=True, slots=True)
class GateDraft:
    """A gate as a user defines it."""

    name: str
    rule: Rule
    patience: Patience = field(default_factory=Patience)


@dataclass(frozen=True, slots=True)
class StageDraft:
    """A stage as a user defines it: the ids of its services, or a selector."""

    name: str
    services: Sequence[str] = ()
    selector: model.ServiceSelector | None = None
    rollout: Rollout = field(default_factory=Rollout)
    verification: model.Verification | None = None
    git: GitWrite | None = None
    workflow: GateDraft | None = None


@dataclass(frozen=True, slots=True)
class EdgeDraft:
    """An edge between two stages, given by their names."""

    source: str
    target: str
    gates: Sequence[GateDraft] = ()


@dataclass(frozen=True, slots=True, repr=False)
class TriggerDraft:
    """A trigger as a user defines it; an empty webhook secret keeps the present one."""

    name: str
    rule: TriggerRule
    write: GitWrite | None = None
    webhook_secret: str = ""


@dataclass(frozen=True, slots=True)
class PipelineDraft:
    """A pipeline as a user defines it: stages, and edges between them by stage name."""

    name: str
    stages: Sequence[StageDraft]
    edges: Sequence[EdgeDraft] = field(default=())
    project_id: str | None = None
    on_commit: bool = True
    triggers: Sequence[TriggerDraft] = ()


@dataclass(frozen=True, slots=True)
class PipelineView:
    """A pipeline with its spec and state, the services of its stages, and their clusters."""

    row: PipelineRecord
    spec: model.Pipeline
    state: PipelineState
    services: Mapping[str, Service]
    clusters: Mapping[str, Cluster]


@retry_operations
class Pipelines:
    """Operations on pipelines."""

    def __init__(self, deps: OperationContext) -> None:
        self._context = deps
        self._awaiting_room: set[str] = set()

    async def page(self, actor: Actor, query: PageQuery) -> Page[PipelineView]:
        require_member(actor)
        query = replace(query, visible=actor.policy.visible(ResourceKind.PIPELINE))
        async with self._context.store.read() as tx:
            page = await tx.pipelines.page(query)
            views = [_shown(await view_of(tx, row), actor) for row in page.items]
        return Page(tuple(views), page.more)

    async def get(self, actor: Actor, id: str | None, name: str | None = None) -> PipelineView:
        """Finds a pipeline by id or name. NotFound: it does not exist."""
        require_member(actor)
        async with self._context.store.read() as tx:
            row = await _find(tx, id, name)
            require(actor, Verb.READ, row.target)
            return _shown(await view_of(tx, row), actor)

    async def save(self, actor: Actor, draft: PipelineDraft) -> PipelineView:
        """Creates or changes a pipeline; waiting releases stay where possible."""
        require_member(actor)
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            row = await tx.pipelines.find(name=draft.name)
            project = await _project(tx, actor, row, draft)
            before = codec.pipeline_from_json(row.spec) if row else None
            id = row.id if row else self._context.new_id()
            spec = model.validate(self._spec(id, draft, before, actor))
            await check_groups(tx, spec)
            spec = await with_selected_services(tx, spec, project)
            await self._check_jobs(tx, actor, spec)
            left = await bind_services(tx, spec, before, actor)
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
            await check_shared(tx, spec)
            secrets = {trigger.name: trigger.webhook_secret for trigger in draft.triggers}
            await store_pipeline_rows(self._context, tx, spec, secrets)
            body = codec.pipeline_to_json(spec)
            if row is None:
                state = codec.state_to_json(PipelineState())
                row = PipelineRecord(id, draft.name, now, now, body, state, project_id=project)
                await tx.pipelines.add(row)
            else:
                row = replace(row, spec=body, updated_at=now, version=row.version + 1)
                await tx.pipelines.put(row)
            await tx.pipeline_events.add(
                PipelineEvent(self._context.new_id(), id, now, [], _recorded(row.spec), row.state)
            )
            await self._context.audit(tx, actor, "savePipeline", draft.name, id)
            view = _shown(await view_of(tx, row), actor)
        self._context.bus.publish(PIPELINE, id)
        self._tell(left)
        return view

    async def delete(self, actor: Actor, id: str) -> PipelineView:
        """Deletes a pipeline. Its services are unchanged and follow their refs again."""
        require_member(actor)
        async with self._context.store.write() as tx:
            row = await _find(tx, id, None)
            require(actor, Verb.WRITE, row.target)
            view = await view_of(tx, row)
            left = await unbind_services(tx, view.spec)
            await delete_pipeline_rows(tx, id)
            await tx.pipelines.remove(id)
            await self._schedule_cleanup(
                tx, id, obsolete_branches(preview_branches(view.spec, view.state), {})
            )
            await self._context.audit(tx, actor, "deletePipeline", row.name, id)
        self._context.bus.publish(PIPELINE, id)
        self._wake_budget_waiters(id, view.state, PipelineState())
        self._tell(left)
        return _shown(view, actor)

    async def approve(
        self, actor: Actor, gate_id: str, digests: Digests, comment: str = ""
    ) -> PipelineView:
        """Approves exactly these digests. Conflict: another release waits at the gate now."""
        require_member(actor)
        async with self._context.store.read() as tx:
            view, gate = await gate_of(tx, gate_id)
        require(actor, Verb.APPROVE, view.row.target)
        if actor.kind is ActorKind.SERVICE_ACCOUNT and actor.email not in _named(view, gate):
            raise Forbidden("a service account can approve only if `people` of the gate names it")
        release, waiting = _waiting(view, gate)
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
        event = ev.Approved(
            gate,
            actor.email,
            await self._is_author(actor, view.state.releases[release]),
            digests,
            comment[:1000],
            await self._groups_of(actor),
        )
        return await self.decide(actor, "approveGate", view, event)

    async def reject(self, actor: Actor, gate_id: str, comment: str = "") -> PipelineView:
        """Rejects the release that waits at the gate, until a newer release or a retry."""
        require_member(actor)
        async with self._context.store.read() as tx:
            view, gate = await gate_of(tx, gate_id)
        require(actor, Verb.APPROVE, view.row.target)
        event = ev.ReleaseRejected(gate, actor.email, comment[:1000])
        return await self.decide(actor, "rejectGate", view, event)

    async def pause(self, actor: Actor, id: str, reason: str = "") -> PipelineView:
        """Pauses a pipeline: no release enters a stage until `resume`."""
        view = await self.get(actor, id)
        require(actor, Verb.PAUSE, view.row.target)
        return await self.decide(actor, "pausePipeline", view, ev.Paused(actor.email, reason))

    async def resume(self, actor: Actor, id: str) -> PipelineView:
        """Resumes a paused pipeline."""
        view = await self.get(actor, id)
        require(actor, Verb.RESUME, view.row.target)
        return await self.decide(actor, "resumePipeline", view, ev.Resumed(actor.email))

    async def retry(self, actor: Actor, id: str, stage: str) -> PipelineView:
        """Retries a rejected or failed release of a stage, given by the stage's name."""
        view = await self.get(actor, id)
        require(actor, Verb.APPROVE, view.row.target)
        found = next((candidate for candidate in view.spec.stages if candidate.name == stage), None)
        if found is None:
            raise NotFound(f"pipeline {view.row.name!r} has no stage {stage!r}")
        release = _release_to_retry(view, found.id)
        if release is None:
            raise Conflict(f"stage {stage!r} has no rejected or failed release")
        event = ev.Retried(found.id, release, actor.email)
        return await self.decide(actor, "retryPipeline", view, event)

    async def measured(self, gate_id: str) -> Sequence[Measurement]:
        """Measurements of a gate's metrics, newest last.

        The caller has checked access to the gate.
        """
        async with self._context.store.read() as tx:
            row = await tx.pipeline_gates.get(gate_id)
        return row.measured if row else ()

    async def measured_at(self, actor: Actor, gate_id: str) -> Sequence[Measurement]:
        """Like `measured`, with an access check.

        NotFound: the gate does not exist, or the actor may not see it.
        """
        require_member(actor)
        async with self._context.store.read() as tx:
            view, _ = await gate_of(tx, gate_id)
        require(actor, Verb.READ, view.row.target)
        return await self.measured(gate_id)

    def gates_of(
        self, spec: model.Pipeline, draft: PipelineDraft
    ) -> dict[model.EdgeId, tuple[model.Gate, ...]]:
        """The gates that a draft defines for the edges of a pipeline. Invalid: the edges differ."""
        ids = {stage.name: stage.id for stage in spec.stages}
        edges = {(edge.source, edge.target): edge for edge in spec.edges}
        gates = {}
        for edge in draft.edges:
            before = edges.get((ids.get(edge.source), ids.get(edge.target)))
            if before is None:
                raise Invalid(f"no edge from {edge.source} to {edge.target} exists", field="edges")
            gates[before.id] = self._edge(edge, ids, before).gates
        return gates

    async def touched(self, service_ids: Collection[str]) -> list[str]:
        """Ids of the pipelines whose stages contain one of these services."""
        async with self._context.store.read() as tx:
            rows = await tx.pipeline_services.select(service_id=service_ids)
        return sorted({row.pipeline_id for row in rows})

    async def pipelines_changed_since(self, moment: datetime) -> list[str]:
        """Ids of pipelines with a service that changed since; all ids if too many services did."""
        async with self._context.store.read() as tx:
            everything = SYSTEM.policy.visible(ResourceKind.SERVICE)
            changed = await tx.services.changed_since(moment, everything, _MAX_CHANGED)
            if len(changed) < _MAX_CHANGED:
                rows = await tx.pipeline_services.select(service_id=changed)
                return sorted({row.pipeline_id for row in rows})
            return [row.id for row in await tx.pipelines.select()]

    async def pipelines_with_selectors(self) -> list[str]:
        """Ids of the pipelines whose stages depend on the set of clusters."""
        return await self.touched([BY_FLEET])

    async def forget(self) -> None:
        """Deletes events that are older than the period for replays."""
        async with self._context.store.write() as tx:
            await tx.pipeline_events.remove_before(
                "at", self._context.clock.now() - _EVENT_RETENTION
            )

    async def pipeline_of_job(self, job_id: str) -> str | None:
        """Id of the pipeline whose gate runs this cluster job; None until the job has ended."""
        async with self._context.store.read() as tx:
            job = await tx.cluster_jobs.get(job_id)
            if job is None or not job.phase.final or ":" not in job.key:
                return None
            row = await tx.pipelines.get(job.key.partition(":")[0])
        return row.id if row else None

    async def advance(
        self, id: str, *decided: ev.Event, audit: AuditEntry | None = None
    ) -> tuple[str, ...]:
        """Feeds the engine with decisions, then with observations of the services.

        Returns the reasons for ignored decisions; empty if the engine took all. The audit entry of
        a decision is written with its verdict.
        """
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            row = await tx.pipelines.get(id)
            if row is None:
                return ()
            row, left = await self._with_present_services(tx, row)
            view = await view_of(tx, row, with_clusters=False)
            before = [
                *await disabled_approver_events(tx, view.spec, view.state),
                *await budget_events(tx, view.spec, view.state, view.services),
            ]
            begun = _run_engine(view.spec, view.state, before, now)
            decisions = _run_engine(view.spec, begun.state, decided, now)
            observed = [
                *await environment_events(tx, view.spec, decisions.state, view.services),
                *stage_events(view.spec, decisions.state, view.services),
                ev.Tick(),
            ]
            seen = _run_engine(view.spec, decisions.state, observed, now)
            for effect in (*begun.effects, *decisions.effects, *seen.effects):
                await self._record(tx, id, effect, now)
            ignored = tuple(
                effect.text for effect in decisions.effects if isinstance(effect, fx.EventIgnored)
            )
            if audit is not None:
                verdict = AuditVerdict.REFUSED if ignored else AuditVerdict.ALLOWED
                await tx.audit.append([replace(audit, verdict=verdict)])
            events = [*begun.events, *decisions.events, *seen.events]
            await _note_measured(tx, view, decisions.events, now)
            changed = await self._keep(tx, row, view, seen.state, events)
        if changed:
            self._context.bus.publish(PIPELINE, id)
        self._wake_budget_waiters(id, view.state, seen.state)
        self._tell(left)
        return ignored

    async def decide(
        self, actor: Actor, action: str, view: PipelineView, event: ev.Event
    ) -> PipelineView:
        """Passes an authorized decision to the engine.

        Conflict: the engine ignored it, with the reason.
        """
        require_member(actor)
        entry = self._context.audit_entry(
            actor, action, view.row.name, view.row.id, event=codec.event_to_json(event)
        )
        ignored = await self.advance(view.row.id, event, audit=entry)
        if ignored:
            raise Conflict("; ".join(ignored))
        return await self.get(actor, view.row.id)

    async def decide_signed(self, view: PipelineView, event: ev.ExternallyAnswered) -> None:
        """Passes a decision to the engine that a signature with the gate's secret authorizes."""
        actor = Actor(ActorKind.USER, name=event.actor, email=event.actor)
        entry = self._context.audit_entry(
            actor, "answerGate", view.row.name, view.row.id, event=codec.event_to_json(event)
        )
        ignored = await self.advance(view.row.id, event, audit=entry)
        if ignored:
            raise Conflict("; ".join(ignored))

    def _tell(self, left: Sequence[Service]) -> None:
        """Notifies services that left a pipeline, so that they follow their refs again."""
        for service in left:
            self._context.bus.publish(DESIRED_STATE, f"{service.cluster_id}/{service.id}")
        for repository in {service.repository_id for service in left if service.repository_id}:
            self._context.bus.publish(RENDER_SERVICES, f"{repository}/")

    def _wake_budget_waiters(self, id: str, before: PipelineState, after: PipelineState) -> None:
        """Wakes the known pipelines that wait for a budget, after a part of it became free."""
        known = self._awaiting_room
        (known.add if awaits_budget(after) else known.discard)(id)
        if frees_budget(before, after):
            for pipeline_id in known - {id}:
                self._context.bus.publish(PIPELINE, pipeline_id)

    async def _with_present_services(
        self, tx: Transaction, row: PipelineRecord
    ) -> tuple[PipelineRecord, Sequence[Service]]:
        """The row with the services that its selectors match now, and the services that left."""
        before = codec.pipeline_from_json(row.spec)
        now = await with_selected_services(tx, before, row.project_id)
        if now == before:
            return row, ()
        left = await bind_services(tx, now, before, SYSTEM)
        after = replace(row, spec=codec.pipeline_to_json(now), version=row.version + 1)
        await tx.pipelines.put(after)
        moment = self._context.clock.now()
        await tx.pipeline_events.add(
            PipelineEvent(
                self._context.new_id(), row.id, moment, [], _recorded(after.spec), row.state
            )
        )
        return after, left

    async def _keep(
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
        await tx.pipelines.put(replace(row, state=body, version=version, updated_at=now))
        spec, before = view.spec, view.state
        await store_changing(tx, row.id, before, state)
        await self._schedule_cleanup(
            tx,
            row.id,
            obsolete_branches(preview_branches(spec, before), preview_branches(spec, state)),
        )
        snapshot = version % _SNAPSHOT_EVERY == 0
        entry = PipelineEvent(
            self._context.new_id(),
            row.id,
            now,
            [codec.event_to_json(event) for event in events],
            _recorded(row.spec) if snapshot else None,
            row.state if snapshot else None,
        )
        await tx.pipeline_events.add(entry)
        for revision in state.known_bad.keys() - before.known_bad.keys():
            if await tx.refused.get(revision) is None:
                reason = state.known_bad[revision]
                await tx.refused.add(DeniedRevision(revision, "towline", reason, now))
        return True

    async def leave(self, id: str, tried: Sequence[PreviewBranch]) -> None:
        """Cleans up preview branches, unless they are still needed."""
        async with self._context.store.write() as tx:
            await self._schedule_cleanup(tx, id, tried)
        self._context.bus.publish(PIPELINE, id)

    async def _schedule_cleanup(
        self, tx: Transaction, id: str, tried: Iterable[PreviewBranch]
    ) -> None:
        for tryout in tried:
            key = f"{CLEAN_UP}:{tryout.repository_id}:{tryout.branch}"[:255]
            payload = {"pipeline": id, "tryout": asdict(tryout)}
            now = self._context.clock.now()
            await tx.jobs.enqueue(Job(self._context.new_id(), CLEAN_UP, key, now, payload))

    async def _groups_of(self, actor: Actor) -> tuple[str, ...]:
        """The names of the actor's groups."""
        async with self._context.store.read() as tx:
            groups = await groups_of(tx, actor.id, is_person=actor.kind is ActorKind.USER)
        return tuple(group.name for group in groups)

    async def _is_author(self, actor: Actor, release: Release) -> bool:
        """True if the actor is an author of the release's commits."""
        async with self._context.store.read() as tx:
            moved = await tx.revisions.select(
                service_id=release.commits.keys(), sha=set(release.commits.values())
            )
        authors = [release.author, *(revision.author for revision in moved)]
        # Identity providers and git may write an address in different cases.
        return any(f"<{actor.email}>".casefold() in author.casefold() for author in authors)

    async def _record(self, tx: Transaction, id: str, effect: fx.Effect, now: datetime) -> None:
        """Stores an effect as a job for a worker, or as a notification."""
        if isinstance(effect, fx.Notify):
            await tx.notifications.append([_notification_of(id, effect, now)])
        kind = _KINDS.get(type(effect))
        if kind is None:
            log.info("pipeline effect", pipeline=id, **codec.effect_to_json(effect))
            return
        payload = {"pipeline": id, "effect": codec.effect_to_json(effect)}
        run_at = effect.at if isinstance(effect, fx.WakeAt) else now
        key = f"{TICK}:{id}" if kind == TICK else f"{id}:{effect.key}"
        await tx.jobs.enqueue(Job(self._context.new_id(), kind, key, run_at, payload))

    def _spec(
        self, id: str, draft: PipelineDraft, before: model.Pipeline | None, actor: Actor
    ) -> model.Pipeline:
        """The draft with ids; parts that keep their names keep their ids."""
        stages = {stage.name: stage.id for stage in before.stages} if before else {}
        names = {stage: name for name, stage in stages.items()}
        edges = {(names[e.source], names[e.target]): e for e in before.edges} if before else {}
        ids = {
            stage.name: stages.get(stage.name) or model.StageId(self._context.new_id())
            for stage in draft.stages
        }
        return model.Pipeline(
            id,
            draft.name,
            tuple(self._stage(ids[stage.name], stage, before) for stage in draft.stages),
            tuple(
                self._edge(edge, ids, edges.get((edge.source, edge.target))) for edge in draft.edges
            ),
            model.Owner(actor.id, actor.email),
            draft.on_commit,
            tuple(self._trigger(trigger, before) for trigger in draft.triggers),
        )

    def _trigger(self, draft: TriggerDraft, before: model.Pipeline | None) -> Trigger:
        """A trigger that keeps its name and rule keeps its id, so that it finds nothing twice."""
        known = before.triggers if before else ()
        same = next((o for o in known if (o.name, o.rule) == (draft.name, draft.rule)), None)
        return Trigger(
            same.id if same else self._context.new_id(), draft.name, draft.rule, draft.write
        )

    def _edge(
        self, draft: EdgeDraft, ids: Mapping[str, model.StageId], before: model.StageEdge | None
    ) -> model.StageEdge:
        for name in (draft.source, draft.target):
            if name not in ids:
                raise Invalid(f"stage {name!r} does not exist", field="edges")
        gates = {gate.name: gate for gate in before.gates} if before else {}
        return model.StageEdge(
            before.id if before else model.EdgeId(self._context.new_id()),
            ids[draft.source],
            ids[draft.target],
            tuple(self._gate(gate, gates.get(gate.name)) for gate in draft.gates),
        )

    def _stage(
        self, id: model.StageId, draft: StageDraft, before: model.Pipeline | None
    ) -> model.Stage:
        services = tuple(ServiceId(service_id) for service_id in draft.services)
        same = before.stage.get(id) if before else None
        workflow = draft.workflow
        return model.Stage(
            id,
            draft.name,
            () if draft.selector else services,
            draft.selector,
            draft.rollout,
            verification=draft.verification,
            git=draft.git,
            workflow=self._gate(workflow, same.workflow if same else None) if workflow else None,
        )

    def _gate(self, draft: GateDraft, before: model.Gate | None) -> model.Gate:
        """The gate with its secrets sealed or kept."""
        id = before.id if before else model.GateId(self._context.new_id())
        kept = before.rule if before else None
        rule = sealed_rule(self._context.sealer, draft.rule, kept)
        return model.Gate(id, draft.name, rule, draft.patience)

    async def _check_jobs(self, tx: Transaction, actor: Actor, spec: model.Pipeline) -> None:
        """Requires the permissions for gates that run jobs in clusters or query their
        Prometheus."""
        for stage, gate in spec.asked:
            for rule in rules_of(gate.rule):
                await self._check_place(tx, actor, rule, stage)

    async def _check_place(
        self, tx: Transaction, actor: Actor, rule: object, target: model.Stage
    ) -> None:
        if isinstance(rule, MetricRule) and rule.cluster_id:
            cluster = await find_cluster(tx, rule.cluster_id)
            require(actor, Verb.CONNECT, cluster.target)
        if not isinstance(rule, JobRule):
            return
        services = [] if rule.cluster_id else await tx.services.select(id=target.services)
        places = (
            {rule.cluster_id} if rule.cluster_id else {service.cluster_id for service in services}
        )
        for place in places:
            require(actor, Verb.WRITE, (await find_cluster(tx, place)).target)


def _notification_of(id: str, effect: fx.Notify, now: datetime) -> Notification:
    """The notification for an effect; the pipeline's name is added when it is routed."""
    detail = {"place": effect.place, "release": effect.release}
    kind, text = _TOPICS[effect.topic], effect.text
    return notification(kind, now, text, pipeline_id=id, detail=detail)


@dataclass(slots=True)
class _EngineRun:
    """Result of events: the state, the effects, and the events that changed the state."""

    state: PipelineState
    effects: list[fx.Effect] = field(default_factory=list)
    events: list[ev.Event] = field(default_factory=list)


def _run_engine(
    spec: model.Pipeline, state: PipelineState, events: Iterable[ev.Event], now: datetime
) -> _EngineRun:
    fed = _EngineRun(state)
    for event in events:
        after, effects = step(spec, fed.state, event, now)
        if after != fed.state:
            fed.events.append(event)
        fed.state = after
        fed.effects += effects
    return fed


async def _project(
    tx: Transaction, actor: Actor, row: PipelineRecord | None, draft: PipelineDraft
) -> str | None:
    """Project of a pipeline to save.

    Conflict: a pipeline that the actor may not see has the name.
    """
    if row is None:
        return await project_for(tx, actor, ResourceKind.PIPELINE, draft.project_id)
    if not actor.may(Verb.READ, row.target):
        raise Conflict(f"the name {draft.name!r} is already used: choose another one")
    require(actor, Verb.WRITE, row.target)
    return row.project_id


async def _find(tx: Transaction, id: str | None, name: str | None) -> PipelineRecord:
    row = await tx.pipelines.get(id) if id else await tx.pipelines.find(name=name or "")
    if row is None:
        raise NotFound
    return row


async def view_of(
    tx: Transaction, row: PipelineRecord, *, with_clusters: bool = True
) -> PipelineView:
    """A pipeline with its services and clusters."""
    spec = codec.pipeline_from_json(row.spec)
    ids = {service for stage in spec.stages for service in stage.services}
    services = await tx.services.select(id=ids)
    places = {service.cluster_id for service in services} if with_clusters else set()
    clusters = await tx.clusters.select(id=places) if places else []
    return PipelineView(
        row,
        spec,
        codec.state_from_json(row.state),
        {service.id: service for service in services},
        {cluster.id: cluster for cluster in clusters},
    )


def _recorded(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A pipeline's spec for its history, without signing secrets."""
    return codec.pipeline_to_json(without_secrets(codec.pipeline_from_json(spec)))


def _shown(view: PipelineView, actor: Actor) -> PipelineView:
    """The view without services and clusters that the actor may not read."""
    return replace(
        view,
        services={k: v for k, v in view.services.items() if actor.may(Verb.READ, v.target)},
        clusters={k: v for k, v in view.clusters.items() if actor.may(Verb.READ, v.target)},
    )


async def gate_of(tx: Transaction, id: str) -> tuple[PipelineView, model.GateId]:
    """The pipeline of a gate. NotFound: no gate has this id."""
    gate = await tx.pipeline_gates.get(id)
    row = await tx.pipelines.get(gate.pipeline_id) if gate else None
    if row is None:
        raise NotFound
    view = await view_of(tx, row)
    if all(asked.id != id for _, asked in view.spec.asked):
        raise NotFound
    return view, model.GateId(id)


def _named(view: PipelineView, gate: model.GateId) -> tuple[str, ...]:
    """The users who may approve at a gate by name."""
    asked = [
        approval_of(candidate.rule) for _, candidate in view.spec.asked if candidate.id == gate
    ]
    return next((approval.people for approval in asked if approval is not None), ())


def _waiting(view: PipelineView, gate: model.GateId) -> tuple[ReleaseId | None, Digests]:
    """The release that waits at a gate, and the digests that its stage runs or would run."""
    if gate in view.spec.workflow:
        held = view.state.stages.get(view.spec.workflow[gate][0].id)
        return (held.release, digests_of(held.revisions)) if held else (None, {})
    edge, _ = view.spec.gate[gate]
    candidate = view.state.candidates.get(edge.id)
    stage = view.state.stages.get(edge.target)
    if candidate is None or stage is None:
        return None, {}
    return candidate.release, digests_of(stage.rendered.get(candidate.release, {}))


async def _note_measured(
    tx: Transaction, view: PipelineView, taken: Iterable[ev.Event], now: datetime
) -> None:
    """Stores the measurements of checks whose results the engine took."""
    for event in taken:
        if not isinstance(event, ev.CheckAnswered) or not event.measured:
            continue
        row = await tx.pipeline_gates.get(event.gate)
        release = view.state.releases.get(_waiting(view, event.gate)[0] or ReleaseId(""))
        if row is None:
            continue
        measurement = Measurement(
            now,
            event.step,
            release.number if release else 0,
            event.answer is CheckAnswer.PASSED,
            event.measured,
        )
        await tx.pipeline_gates.change(
            row.id, measured=(*row.measured, measurement)[-MAX_MEASURED:]
        )


def _release_to_retry(view: PipelineView, stage: model.StageId) -> ReleaseId | None:
    for edge in view.spec.edges_into[stage]:
        candidate = view.state.candidates.get(edge.id)
        if candidate is not None and (candidate.refusal or candidate.render_error):
            return candidate.release
    held = view.state.stages.get(stage)
    return held.release if held and held.health is Health.FAILED else None
