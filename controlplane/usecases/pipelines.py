"""Pipelines: what people write and decide, and feeding the engine with what the fleet reports.

The engine (`domain.pipelines`) decides; its state and its effects are written in one
transaction, and workers carry the effects out (`usecases.promotions`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import structlog

from controlplane.domain.access import Actor, Kind, Verb, require, require_member
from controlplane.domain.clusters import Cluster
from controlplane.domain.jobs import Job
from controlplane.domain.ledger import AuditEntry, Verdict
from controlplane.domain.notifications import Notification, NotificationKind, notification
from controlplane.domain.pipelines import codec, model
from controlplane.domain.pipelines import effects as fx
from controlplane.domain.pipelines import events as ev
from controlplane.domain.pipelines.engine import step
from controlplane.domain.pipelines.state import (
    Digests,
    Health,
    Release,
    ReleaseId,
    Revision,
    Revisions,
    StageState,
    State,
)
from controlplane.domain.promotion import Pipeline
from controlplane.domain.services import Service, ServiceStatus
from controlplane.ports import Page, PageQuery, Transaction
from controlplane.usecases.deps import DELIVER, PIPELINE, Deps
from controlplane.usecases.scopes import project_for
from controlplane.usecases.services import pipeline_of
from fleet.errors import Conflict, Invalid, NotFound
from fleet.identity import ServiceId

log = structlog.get_logger(__name__)

RENDER = "pipeline.render"
PROMOTE = "pipeline.promote"
TICK = "pipeline.tick"


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
    """A gate as people write it."""

    name: str
    rule: model.Rule


@dataclass(frozen=True, slots=True)
class EdgeDraft:
    """An edge between stages named as people name them."""

    source: str
    target: str
    gates: Sequence[GateDraft] = ()


@dataclass(frozen=True, slots=True)
class PipelineDraft:
    """A pipeline as people write it: stages by name, each with the ids of its services."""

    name: str
    stages: Sequence[tuple[str, Sequence[str]]]
    edges: Sequence[EdgeDraft] = field(default=())
    project_id: str | None = None


@dataclass(frozen=True, slots=True)
class PipelineView:
    """A pipeline with its engine's values, the services of its stages, and their clusters."""

    row: Pipeline
    spec: model.Pipeline
    state: State
    services: Mapping[str, Service]
    clusters: Mapping[str, Cluster]


class Pipelines:
    """Verbs on pipelines."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    async def page(self, actor: Actor, query: PageQuery) -> Page[PipelineView]:
        require_member(actor)
        query = replace(query, visible=actor.policy.visible(Kind.PIPELINE))
        async with self._deps.store.read() as tx:
            page = await tx.pipelines.page(query)
            views = [_shown(await _view(tx, row), actor) for row in page.items]
        return Page(tuple(views), page.more)

    async def get(self, actor: Actor, id: str | None, name: str | None = None) -> PipelineView:
        """By id or name. NotFound: none."""
        require_member(actor)
        async with self._deps.store.read() as tx:
            row = await _find(tx, id, name)
            require(actor, Verb.READ, row.target)
            return _shown(await _view(tx, row), actor)

    async def save(self, actor: Actor, draft: PipelineDraft) -> PipelineView:
        """Create or change the pipeline of this name; what waits in it stays where it can."""
        require_member(actor)
        now = self._deps.clock.now()
        async with self._deps.store.write() as tx:
            row = await tx.pipelines.find(name=draft.name)
            project = await _project(tx, actor, row, draft)
            before = codec.pipeline_from_json(row.spec) if row else None
            id = row.id if row else self._deps.new_id()
            spec = model.validate(self._spec(id, draft, before))
            await self._bind_services(tx, actor, spec, before)
            body = codec.pipeline_to_json(spec)
            if row is None:
                state = codec.state_to_json(State())
                row = Pipeline(id, draft.name, now, now, body, state, project_id=project)
                await tx.pipelines.add(row)
            else:
                row = replace(row, spec=body, updated_at=now, version=row.version + 1)
                await tx.pipelines.put(row)
            await self._deps.audit(tx, actor, "savePipeline", draft.name, id)
            view = _shown(await _view(tx, row), actor)
        self._deps.bus.publish(PIPELINE, id)
        return view

    async def delete(self, actor: Actor, id: str) -> PipelineView:
        """Delete a pipeline; its services stay as they are and follow their refs again."""
        require_member(actor)
        async with self._deps.store.write() as tx:
            row = await _find(tx, id, None)
            require(actor, Verb.WRITE, row.target)
            view = await _view(tx, row)
            for service in _promoted(view.spec):
                await tx.services.change(service, promoted=False, pinned=None)
            await tx.pipelines.remove(id)
            await self._deps.audit(tx, actor, "deletePipeline", row.name, id)
        for repository in {s.repository_id for s in view.services.values() if s.repository_id}:
            self._deps.bus.publish(DELIVER, f"{repository}/")
        return _shown(view, actor)

    async def approve(
        self, actor: Actor, gate_id: str, digests: Digests, comment: str = ""
    ) -> PipelineView:
        """Say yes to exactly these digests. Conflict: something else waits at the gate by now."""
        require_member(actor)
        async with self._deps.store.read() as tx:
            view, gate = await _gate(tx, gate_id)
        require(actor, Verb.APPROVE, view.row.target)
        edge, _ = view.spec.gate[gate]
        waiting = _waiting(view, edge)
        if not digests:
            raise Invalid(
                "name the digest of each service that you approve; waiting: "
                + (", ".join(f"{s}={d}" for s, d in waiting.items()) or "nothing"),
                field="digests",
            )
        if dict(digests) != dict(waiting):
            raise Conflict(
                "what waits at this gate is no longer what you looked at: look again"
                if waiting
                else "nothing waits at this gate"
            )
        release = view.state.releases[view.state.candidates[edge.id].release]
        event = ev.Approved(
            gate, actor.email, await self._is_author(actor, release), digests, comment[:1000]
        )
        return await self._decide(actor, "approveGate", view, event)

    async def reject(self, actor: Actor, gate_id: str, comment: str = "") -> PipelineView:
        """Say no to whatever waits at the gate; it stays refused until a newer one or a retry."""
        require_member(actor)
        async with self._deps.store.read() as tx:
            view, gate = await _gate(tx, gate_id)
        require(actor, Verb.APPROVE, view.row.target)
        event = ev.Rejected(gate, actor.email, comment[:1000])
        return await self._decide(actor, "rejectGate", view, event)

    async def pause(self, actor: Actor, id: str, reason: str = "") -> PipelineView:
        """Let nothing enter a stage until `resume`."""
        view = await self.get(actor, id)
        require(actor, Verb.APPROVE, view.row.target)
        return await self._decide(actor, "pausePipeline", view, ev.Paused(actor.email, reason))

    async def resume(self, actor: Actor, id: str) -> PipelineView:
        """Let releases move again."""
        view = await self.get(actor, id)
        require(actor, Verb.APPROVE, view.row.target)
        return await self._decide(actor, "resumePipeline", view, ev.Resumed(actor.email))

    async def retry(self, actor: Actor, id: str, stage: str) -> PipelineView:
        """Try again what was refused or has failed in a stage, by its name."""
        view = await self.get(actor, id)
        require(actor, Verb.APPROVE, view.row.target)
        found = next((one for one in view.spec.stages if one.name == stage), None)
        if found is None:
            raise NotFound(f"pipeline {view.row.name!r} has no stage {stage!r}")
        release = _release_to_retry(view, found.id)
        if release is None:
            raise Conflict(f"nothing in stage {stage!r} was refused or has failed")
        event = ev.Retried(found.id, release, actor.email)
        return await self._decide(actor, "retryPipeline", view, event)

    async def touched(self, service_ids: Collection[str]) -> list[str]:
        """Ids of the pipelines whose stages name one of these services."""
        wanted = set(service_ids)
        async with self._deps.store.read() as tx:
            rows = await tx.pipelines.select()
        return [row.id for row in rows if wanted & _service_ids(row)]

    async def advance(
        self, id: str, *decided: ev.Event, audit: AuditEntry | None = None
    ) -> tuple[str, ...]:
        """Feed the engine with decisions, then with what the services show.

        Gives the engine's reasons for having ignored a decision; none: it took them all. The
        audit row of a decision is kept with the verdict.
        """
        now = self._deps.clock.now()
        async with self._deps.store.write() as tx:
            row = await tx.pipelines.get(id)
            if row is None:
                return ()
            view = await _view(tx, row)
            decisions, state = _feed(view.spec, view.state, decided, now)
            observed = (*_observations(replace(view, state=state)), ev.Tick())
            effects, state = _feed(view.spec, state, observed, now)
            for effect in (*decisions, *effects):
                await self._record(tx, id, effect, now)
            ignored = tuple(one.text for one in decisions if isinstance(one, fx.Noted))
            if audit is not None:
                verdict = Verdict.REFUSED if ignored else Verdict.ALLOWED
                await tx.audit.append([replace(audit, verdict=verdict)])
            body = codec.state_to_json(state)
            if body != row.state:
                await tx.pipelines.put(
                    replace(row, state=body, version=row.version + 1, updated_at=now)
                )
        if body != row.state:
            self._deps.bus.publish(PIPELINE, id)
        return ignored

    async def _is_author(self, actor: Actor, release: Release) -> bool:
        """Whether one of the commits that move is by the actor."""
        async with self._deps.store.read() as tx:
            moved = await tx.revisions.select(
                service_id=release.commits.keys(), sha=set(release.commits.values())
            )
        authors = [release.author, *(revision.author for revision in moved)]
        return any(f"<{actor.email}>" in author for author in authors)

    async def _decide(
        self, actor: Actor, action: str, view: PipelineView, event: ev.Event
    ) -> PipelineView:
        entry = self._deps.audit_entry(
            actor, action, view.row.name, view.row.id, event=codec.event_to_json(event)
        )
        ignored = await self.advance(view.row.id, event, audit=entry)
        if ignored:
            raise Conflict("; ".join(ignored))
        return await self.get(actor, view.row.id)

    async def _record(self, tx: Transaction, id: str, effect: fx.Effect, now: datetime) -> None:
        """Keep an effect as a job for a worker; what is only for people is told to them."""
        if isinstance(effect, fx.Notify):
            await tx.notifications.append([_told(id, effect, now)])
        kinds = {fx.RenderStage: RENDER, fx.Promote: PROMOTE, fx.WakeAt: TICK}
        kind = kinds.get(type(effect))
        if kind is None:
            log.info("pipeline", action="pipeline.effect", pipeline=id, effect=repr(effect))
            return
        payload = {"pipeline": id, "effect": codec.effect_to_json(effect)}
        run_at = effect.at if isinstance(effect, fx.WakeAt) else now
        key = f"{TICK}:{id}" if kind == TICK else f"{id}:{effect.key}"
        await tx.jobs.enqueue(Job(self._deps.new_id(), kind, key, run_at, payload))

    def _spec(self, id: str, draft: PipelineDraft, before: model.Pipeline | None) -> model.Pipeline:
        """The draft with ids; what keeps its name keeps its id."""
        stages = {one.name: one.id for one in before.stages} if before else {}
        names = {stage: name for name, stage in stages.items()}
        edges = {(names[e.source], names[e.target]): e for e in before.edges} if before else {}
        ids = {
            name: stages.get(name) or model.StageId(self._deps.new_id()) for name, _ in draft.stages
        }
        return model.Pipeline(
            id,
            draft.name,
            tuple(
                model.Stage(ids[name], name, tuple(ServiceId(one) for one in services))
                for name, services in draft.stages
            ),
            tuple(self._edge(one, ids, edges.get((one.source, one.target))) for one in draft.edges),
        )

    def _edge(
        self, draft: EdgeDraft, ids: Mapping[str, model.StageId], before: model.Edge | None
    ) -> model.Edge:
        for name in (draft.source, draft.target):
            if name not in ids:
                raise Invalid(f"there is no stage {name!r}", field="edges")
        gates = {gate.name: gate.id for gate in before.gates} if before else {}
        return model.Edge(
            before.id if before else model.EdgeId(self._deps.new_id()),
            ids[draft.source],
            ids[draft.target],
            tuple(
                model.Gate(
                    gates.get(one.name) or model.GateId(self._deps.new_id()), one.name, one.rule
                )
                for one in draft.gates
            ),
        )

    async def _bind_services(
        self,
        tx: Transaction,
        actor: Actor,
        spec: model.Pipeline,
        before: model.Pipeline | None,
    ) -> None:
        """Have services behind the first stage take commits from this pipeline only."""
        now, then = _promoted(spec), _promoted(before) if before else set()
        wanted = {service for stage in spec.stages for service in stage.services}
        rows = await tx.services.select(id=wanted)
        found = {row.id: row for row in rows if actor.may(Verb.READ, row.target)}
        if missing := wanted - found.keys():
            raise Invalid(f"there is no service {min(missing)}", field="stages.services")
        for id in now ^ then:
            if id in found:
                require(actor, Verb.WRITE, found[id].target)
        for id in now - then:
            holder = await pipeline_of(tx, id)
            if holder is not None:
                raise Conflict(f"service {found[id].name!r} belongs to another pipeline: {holder}")
            held = found[id].sha
            await tx.services.change(id, promoted=True, pinned=held)
        for id in then - now:
            await tx.services.change(id, promoted=False, pinned=None)


def _told(id: str, effect: fx.Notify, now: datetime) -> Notification:
    """What people hear of an effect; the pipeline's name is added when it is routed."""
    detail = {"place": effect.place, "release": effect.release}
    kind, text = _TOPICS[effect.topic], effect.text
    return notification(kind, now, text, pipeline_id=id, detail=detail)


def _feed(
    spec: model.Pipeline, state: State, events: Iterable[ev.Event], now: datetime
) -> tuple[list[fx.Effect], State]:
    """All effects of events in their order, and the state after them."""
    effects: list[fx.Effect] = []
    for event in events:
        state, more = step(spec, state, event, now)
        effects += more
    return effects, state


async def _project(
    tx: Transaction, actor: Actor, row: Pipeline | None, draft: PipelineDraft
) -> str | None:
    """Where a saved pipeline stands. Conflict: one the actor may not see has the name."""
    if row is None:
        return await project_for(tx, actor, Kind.PIPELINE, draft.project_id)
    if not actor.may(Verb.READ, row.target):
        raise Conflict(f"the name {draft.name!r} is taken: choose another one")
    require(actor, Verb.WRITE, row.target)
    return row.project_id


async def _find(tx: Transaction, id: str | None, name: str | None) -> Pipeline:
    row = await tx.pipelines.get(id) if id else await tx.pipelines.find(name=name or "")
    if row is None:
        raise NotFound
    return row


async def _view(tx: Transaction, row: Pipeline) -> PipelineView:
    services = await tx.services.select(id=_service_ids(row))
    clusters = await tx.clusters.select(id={service.cluster_id for service in services})
    return PipelineView(
        row,
        codec.pipeline_from_json(row.spec),
        codec.state_from_json(row.state),
        {service.id: service for service in services},
        {cluster.id: cluster for cluster in clusters},
    )


def _shown(view: PipelineView, actor: Actor) -> PipelineView:
    """The view with only those services and clusters that the actor may read."""
    return replace(
        view,
        services={k: v for k, v in view.services.items() if actor.may(Verb.READ, v.target)},
        clusters={k: v for k, v in view.clusters.items() if actor.may(Verb.READ, v.target)},
    )


async def _gate(tx: Transaction, id: str) -> tuple[PipelineView, model.GateId]:
    for row in await tx.pipelines.select():
        view = await _view(tx, row)
        if model.GateId(id) in view.spec.gate:
            return view, model.GateId(id)
    raise NotFound


def _service_ids(row: Pipeline) -> set[str]:
    spec = codec.pipeline_from_json(row.spec)
    return {service for stage in spec.stages for service in stage.services}


def _promoted(spec: model.Pipeline) -> set[ServiceId]:
    """Services behind the first stage."""
    return {s for stage in spec.stages if stage is not spec.first for s in stage.services}


def _waiting(view: PipelineView, edge: model.Edge) -> Digests:
    """What the release before an edge would run in the stage behind it; empty: nothing yet."""
    candidate = view.state.candidates.get(edge.id)
    stage = view.state.stages.get(edge.target)
    if candidate is None or stage is None:
        return {}
    rendered = stage.rendered.get(candidate.release, {})
    return {service: one.digest for service, one in rendered.items()}


def _release_to_retry(view: PipelineView, stage: model.StageId) -> ReleaseId | None:
    for edge in view.spec.edges_into[stage]:
        candidate = view.state.candidates.get(edge.id)
        if candidate is not None and (candidate.refusal or candidate.render_error):
            return candidate.release
    held = view.state.stages.get(stage)
    return held.release if held and held.health is Health.FAILED else None


def _observations(view: PipelineView) -> list[ev.Event]:
    """What the services show of each stage."""
    observed: list[ev.Event] = []
    for stage in view.spec.stages:
        services = [view.services[s] for s in stage.services if s in view.services]
        if stage is view.spec.first:
            if services and all(service.sha and service.digest for service in services):
                health, reason = _health(services)
                observed.append(_first_stage(stage.id, services, health, reason))
            continue
        held = view.state.stages.get(stage.id)
        if held is not None and held.release is not None and held.revisions:
            observed.append(_healths(stage, held, held.release, view.services))
    return observed


def _healths(
    stage: model.Stage, held: StageState, release: ReleaseId, services: Mapping[str, Service]
) -> ev.ServicesHealth:
    """How the services are that were given the release."""
    healths: dict[ServiceId, Health] = {}
    reasons: dict[ServiceId, str] = {}
    for id in held.progress:
        service = services.get(id)
        if service is None and id in stage.services:
            healths[id], reasons[id] = Health.FAILED, "a service of it was deleted"
        if service is None:
            continue
        if _runs(service, held.revisions):
            healths[id], reason = _health([service])
        elif not held.verified:
            continue  # It has yet to be given the release, or could not be.
        else:
            healths[id], reason = (
                Health.PROGRESSING,
                f"{service.name} does not run this release",
            )
        if reason:
            reasons[id] = reason
    return ev.ServicesHealth(stage.id, release, healths, reasons)


def _runs(service: Service, revisions: Revisions) -> bool:
    """Whether the desired state of a service is what its stage's release says."""
    wanted = revisions.get(service.id)
    return wanted is not None and wanted.digest == service.digest


def _first_stage(
    id: model.StageId, services: Sequence[Service], health: Health, reason: str
) -> ev.StageObserved:
    revisions = {s.id: Revision(s.sha or "", s.digest or "") for s in services}
    author = max(services, key=lambda s: s.updated_at).author
    return ev.StageObserved(id, revisions, health, author, reason)


def _health(services: Sequence[Service]) -> tuple[Health, str]:
    for service in services:
        if service.status is ServiceStatus.FAILED:
            problem = service.errors[0].message if service.errors else "is failing"
            return Health.FAILED, f"{service.name}: {problem}"
    slow = next((s for s in services if s.status is not ServiceStatus.HEALTHY), None)
    if slow is None:
        return Health.HEALTHY, ""
    return Health.PROGRESSING, f"{slow.name} is {slow.status.value}"
