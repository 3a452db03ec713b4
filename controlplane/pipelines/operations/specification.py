"""Specifications of pipelines, made from the drafts of users."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from controlplane.authorization import Actor, require
from controlplane.clusters.operations.clusters import find_cluster
from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.gate_rules import ClusterAccess
from controlplane.pipelines.model.triggers import Trigger
from controlplane.pipelines.operations.drafts import (
    EdgeDraft,
    GateDraft,
    PipelineDraft,
    StageDraft,
    TriggerDraft,
)
from controlplane.pipelines.operations.gate_secrets import sealed_rule
from controlplane.platform.ports import Transaction
from controlplane.platform.sealing import Sealer
from controlplane.services.ports import ServiceStore
from core.errors import Invalid
from core.identity import ServiceId


@dataclass(frozen=True, slots=True)
class SpecBuilder:
    """Makes specifications: gives ids to new parts, and seals the secrets of gates."""

    new_id: Callable[[], str]
    sealer: Sealer

    def build(
        self, id: str, draft: PipelineDraft, before: pipeline.Pipeline | None, actor: Actor
    ) -> pipeline.Pipeline:
        """The draft with ids; parts that keep their names keep their ids."""
        stages = {stage.name: stage.id for stage in before.stages} if before else {}
        names = {stage: name for name, stage in stages.items()}
        edges = {(names[e.source], names[e.target]): e for e in before.edges} if before else {}
        ids = {
            stage.name: stages.get(stage.name) or pipeline.StageId(self.new_id())
            for stage in draft.stages
        }
        return pipeline.Pipeline(
            id,
            draft.name,
            tuple(self._stage(ids[stage.name], stage, before) for stage in draft.stages),
            tuple(
                self.edge(edge, ids, edges.get((edge.source, edge.target))) for edge in draft.edges
            ),
            pipeline.Owner(actor.id, actor.email),
            draft.on_commit,
            tuple(self._trigger(trigger, before) for trigger in draft.triggers),
        )

    def _trigger(self, draft: TriggerDraft, before: pipeline.Pipeline | None) -> Trigger:
        """A trigger that keeps its name and rule keeps its id, so that it finds nothing twice."""
        old_triggers = before.triggers if before else ()
        unchanged = next(
            (old for old in old_triggers if (old.name, old.rule) == (draft.name, draft.rule)), None
        )
        return Trigger(
            unchanged.id if unchanged else self.new_id(), draft.name, draft.rule, draft.write
        )

    def edge(
        self,
        draft: EdgeDraft,
        ids: Mapping[str, pipeline.StageId],
        before: pipeline.StageEdge | None,
    ) -> pipeline.StageEdge:
        for name in (draft.source, draft.target):
            if name not in ids:
                raise Invalid(f"stage {name!r} does not exist", field="edges")
        gates = {gate.name: gate for gate in before.gates} if before else {}
        return pipeline.StageEdge(
            before.id if before else pipeline.EdgeId(self.new_id()),
            ids[draft.source],
            ids[draft.target],
            tuple(self._gate(gate, gates.get(gate.name)) for gate in draft.gates),
        )

    def _stage(
        self, id: pipeline.StageId, draft: StageDraft, before: pipeline.Pipeline | None
    ) -> pipeline.Stage:
        services = tuple(ServiceId(service_id) for service_id in draft.services)
        old_stage = before.stage.get(id) if before else None
        workflow = draft.workflow
        return pipeline.Stage(
            id,
            draft.name,
            () if draft.selector else services,
            draft.selector,
            draft.rollout,
            verification=draft.verification,
            git=draft.git,
            workflow=self._gate(workflow, old_stage.workflow if old_stage else None)
            if workflow
            else None,
        )

    def _gate(self, draft: GateDraft, before: pipeline.Gate | None) -> pipeline.Gate:
        """The gate with its secrets sealed or kept."""
        id = before.id if before else pipeline.GateId(self.new_id())
        old_rule = before.rule if before else None
        rule = sealed_rule(self.sealer, draft.rule, old_rule)
        return pipeline.Gate(id, draft.name, rule, draft.patience)


async def check_cluster_access(tx: Transaction, actor: Actor, spec: pipeline.Pipeline) -> None:
    """Requires the permissions for gates that run jobs in clusters or query their Prometheus."""
    for stage, gate in spec.all_gates:
        for rule in gate.rule.leaf_rules():
            if access := rule.cluster_access():
                await _require_access(tx, actor, access, stage)


async def _require_access(
    tx: Transaction, actor: Actor, access: ClusterAccess, target: pipeline.Stage
) -> None:
    clusters = {access.cluster_id}
    if access.cluster_id is None:
        services = await tx[ServiceStore].by_ids(target.services)
        clusters = {service.cluster_id for service in services}
    for cluster in clusters:
        require(actor, access.verb, (await find_cluster(tx, cluster)).target)
