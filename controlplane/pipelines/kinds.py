"""The kind of manifests for pipelines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.authorization import Actor
from controlplane.pipelines.engine.codec import pipeline_from_json, state_from_json
from controlplane.pipelines.gates import kinds as gates
from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.gate_rules import GateRule
from controlplane.pipelines.model.records import PipelineRecord
from controlplane.pipelines.model.triggers import TriggerRule
from controlplane.pipelines.operations.drafts import (
    EdgeDraft,
    GateDraft,
    PipelineDraft,
    StageDraft,
    TriggerDraft,
)
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.pipelines.ports import PipelineStore
from controlplane.pipelines.triggers import kinds as triggers
from controlplane.platform.kinds import KindWithOperations, Placement
from controlplane.platform.parts import Columns, column_values, row_of
from controlplane.platform.ports import Transaction


@dataclass(frozen=True, slots=True, repr=False)
class PipelineSpec(PipelineDraft):
    """A pipeline with its pause."""

    paused: bool = False
    """True: no release enters a stage. Default: false."""


class PipelineKind(KindWithOperations[PipelineRecord, Pipelines]):
    """Pipelines. Signing secrets are never returned."""

    name = "Pipeline"
    change = PipelineSpec
    port = PipelineStore
    hidden = ("name", "project_id")
    references = {
        "StageDraft.services": "Service",
        "Selector.groups": "ClusterGroup",
        "Selector.excluded": "Cluster",
        "Rollout.groups": "ClusterGroup",
    }
    plugins = {GateRule: gates.BY_KIND, TriggerRule: triggers.BY_KIND}
    sensitive = ("webhook_secret",)
    takes_all = True

    async def values(self, tx: Transaction, rows: Sequence[PipelineRecord]) -> Sequence[Columns]:
        return [
            column_values(_draft_of(pipeline_from_json(row.spec), {})) | {"paused": _is_paused(row)}
            for row in rows
        ]

    async def secrets(self, tx: Transaction, row: PipelineRecord) -> Columns:
        return column_values(_draft_of(*await self._operations.with_secrets(tx, row)))

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        return await self._save(actor, self.with_placement(placement, columns), is_paused=False)

    async def update(self, actor: Actor, row: PipelineRecord, columns: Columns) -> None:
        await self._save(actor, columns | {"name": row.name}, is_paused=_is_paused(row))

    async def _save(self, actor: Actor, columns: Columns, *, is_paused: bool) -> str:
        draft = {name: value for name, value in columns.items() if name != "paused"}
        id = (await self._operations.save(actor, row_of(PipelineDraft, draft))).row.id
        pause = columns.get("paused", False)
        if pause and not is_paused:
            await self._operations.pause(actor, id)
        elif is_paused and not pause:
            await self._operations.resume(actor, id)
        return id


def _is_paused(row: PipelineRecord) -> bool:
    return state_from_json(row.state).paused is not None


def _draft_of(spec: pipeline.Pipeline, webhook_secrets: Mapping[str, str]) -> PipelineDraft:
    """Returns the draft from which a pipeline could be made again.

    `webhook_secrets` are those of triggers, by name.
    """
    names = {stage.id: stage.name for stage in spec.stages}
    return PipelineDraft(
        spec.name,
        tuple(_stage_draft(stage) for stage in spec.stages),
        tuple(
            EdgeDraft(names[edge.source], names[edge.target], tuple(map(_gate_draft, edge.gates)))
            for edge in spec.edges
        ),
        on_commit=spec.on_commit,
        triggers=tuple(
            TriggerDraft(t.name, t.rule, t.write, webhook_secrets.get(t.name, ""))
            for t in spec.triggers
        ),
    )


def _stage_draft(stage: pipeline.Stage) -> StageDraft:
    return StageDraft(
        stage.name,
        () if stage.selector else stage.services,
        stage.selector,
        stage.rollout,
        stage.verification,
        stage.git,
        _gate_draft(stage.workflow) if stage.workflow else None,
    )


def _gate_draft(gate: pipeline.Gate) -> GateDraft:
    return GateDraft(gate.name, gate.rule, gate.patience)
