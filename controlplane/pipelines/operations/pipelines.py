"""Pipelines: operations of users. A decision is an event of the pipeline's engine."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from controlplane.access.operations.scopes import check_not_moved, project_for
from controlplane.authorization import Actor, ResourceKind, Verb, require, require_member
from controlplane.pipelines.engine import codec
from controlplane.pipelines.engine import events as ev
from controlplane.pipelines.engine.preview_branches import preview_branches
from controlplane.pipelines.engine.state_draft import clip
from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.records import Measurement, PipelineRecord
from controlplane.pipelines.model.state import PipelineState, Release
from controlplane.pipelines.operations.drafts import PipelineDraft
from controlplane.pipelines.operations.engine_runner import (
    EngineRunner,
    publish_departures,
    record_events,
    schedule_cleanup,
)
from controlplane.pipelines.operations.gate_secrets import with_plain_secrets
from controlplane.pipelines.operations.specification import SpecBuilder, check_cluster_access
from controlplane.pipelines.operations.stages import (
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
    pushes_of,
    view_of,
    visible_view,
)
from controlplane.pipelines.operations.write_targets import with_write_targets
from controlplane.pipelines.ports import PipelineGateStore, PipelineStore, PipelineTriggerStore
from controlplane.platform.context import PIPELINE, Change, OperationContext
from controlplane.platform.ports import Page, PageQuery, Transaction
from controlplane.platform.retry import retry_operations
from core.errors import Conflict, Invalid


@retry_operations
class Pipelines:
    """Operations on pipelines."""

    def __init__(self, context: OperationContext) -> None:
        self._context = context
        self._builder = SpecBuilder(context.new_id, context.sealer)
        self.engine = EngineRunner(context)

    async def page(self, actor: Actor, query: PageQuery) -> Page[PipelineView]:
        async with self._context.read(actor) as tx:
            query = replace(query, visible=actor.policy.visible(ResourceKind.PIPELINE))
            page = await tx[PipelineStore].page(query)
            views = [visible_view(await view_of(tx, row), actor) for row in page.items]
        return Page(tuple(views), page.more)

    async def get(
        self, actor: Actor, id: str | None, name: str | None = None, *, verb: Verb = Verb.READ
    ) -> PipelineView:
        """Finds a pipeline on which the actor has a permission, by id or name.

        NotFound, Forbidden.
        """
        async with self._context.read(actor) as tx:
            row = await find_pipeline(tx, id, name)
            require(actor, Verb.READ, row.target)
            require(actor, verb, row.target)
            return visible_view(await view_of(tx, row), actor)

    async def get_gate(
        self, actor: Actor, id: str, verb: Verb
    ) -> tuple[PipelineView, pipeline.Gate]:
        """Finds a gate of a pipeline on which the actor has a permission. NotFound, Forbidden."""
        async with self._context.read(actor) as tx:
            view, gate = await find_gate(tx, id)
        require(actor, verb, view.row.target)
        return view, gate

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
                branches = preview_branches(before, state), preview_branches(spec, state)
                await schedule_cleanup(self._context, tx, id, *branches)
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
            await record_events(self._context, tx, row)
            tx.audit(draft.name, id)
            tx.publish(PIPELINE, id)
            publish_departures(tx.publish, removed)
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
            branches = preview_branches(view.spec, view.state)
            await schedule_cleanup(self._context, tx, id, branches)
            tx.audit(row.name, id)
            tx.publish(PIPELINE, id)
            publish_departures(tx.publish, removed)
        self.engine.wake_budget_waiters(id, view.state, PipelineState())
        return visible_view(view, actor)

    async def pause(self, actor: Actor, id: str, reason: str | None = None) -> PipelineView:
        """Pauses a pipeline: no release enters a stage until `resume`."""
        view = await self.get(actor, id, verb=Verb.PAUSE)
        event = ev.Paused(actor.email, clip(reason or ""))
        return await self.decide(actor, "pausePipeline", view, event)

    async def resume(self, actor: Actor, id: str) -> PipelineView:
        """Resumes a paused pipeline."""
        view = await self.get(actor, id, verb=Verb.RESUME)
        return await self.decide(actor, "resumePipeline", view, ev.Resumed(actor.email))

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
        await self.get_gate(actor, gate_id, Verb.READ)
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

    async def decide(
        self, actor: Actor, action: str, view: PipelineView, event: ev.Event
    ) -> PipelineView:
        """Passes an authorized decision to the engine.

        Conflict: the engine ignored it, with the reason.
        """
        require_member(actor)
        await self.engine.decide(actor, action, view, event)
        return await self.get(actor, view.row.id)


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
