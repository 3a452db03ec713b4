"""Pipelines in the API: stages, edges, gates, and what moves through them."""

from datetime import datetime

import strawberry

from controlplane.domain.pipelines import model
from controlplane.domain.pipelines.rules import ApprovalRule, GateKind, Rule, SoakRule
from controlplane.domain.pipelines.state import (
    Candidate,
    GateState,
    GateStatus,
    Health,
    Revisions,
)
from controlplane.domain.services import Service
from controlplane.graphql.clusters import Cluster
from controlplane.graphql.types import ServiceDeployment
from controlplane.usecases.pipelines import (
    EdgeDraft,
    GateDraft,
    PipelineDraft,
    PipelineView,
    StageDraft,
)
from fleet.errors import Invalid
from fleet.identity import ServiceId

strawberry.enum(GateKind, name="GateType")
strawberry.enum(GateStatus, name="GateState")
strawberry.enum(Health, name="StageHealth")

_LONGEST_GRAPH = 500


@strawberry.type
class ServiceRevision:
    """A commit and the digest that a service has or would have with it."""

    service_id: strawberry.ID
    sha: str
    digest: str


@strawberry.type
class Release:
    """What moves: the revisions that the services of the first stage had together."""

    id: strawberry.ID
    number: int
    author: str
    seen_at: datetime
    revisions: list[ServiceRevision]


@strawberry.type
class GateApproval:
    actor: str
    at: datetime
    comment: str


@strawberry.type
class PipelineGate:
    """`digests` of the edge are what an approval is bound to."""

    id: strawberry.ID
    name: str
    type: GateKind
    state: GateStatus
    reason: str
    quorum: int | None
    not_author: bool | None
    soak_seconds: int | None
    approvals: list[GateApproval]


@strawberry.type
class StageService:
    service: ServiceDeployment


@strawberry.type
class PipelineStage:
    id: strawberry.ID
    name: str
    services: list[StageService]
    release: Release | None
    health: Health
    reason: str
    verified: bool


@strawberry.type
class PipelineStageEdge:
    """`release` waits here; `digests` is what the stage behind would run with it."""

    id: strawberry.ID
    from_: PipelineStage = strawberry.field(name="from")
    to: PipelineStage
    gates: list[PipelineGate]
    release: Release | None
    reason: str
    digests: list[ServiceRevision]


@strawberry.type
class PipelineEvent:
    at: datetime
    place: str
    release_id: strawberry.ID | None
    text: str
    actor: str


@strawberry.type
class Pipeline:
    id: strawberry.ID
    name: str
    paused: str | None
    stages: list[PipelineStage]
    edges: list[PipelineStageEdge]
    history: list[PipelineEvent]
    inserted_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, view: PipelineView) -> "Pipeline":
        stages = {stage.id: _stage(view, stage) for stage in view.spec.stages}
        return cls(
            id=strawberry.ID(view.row.id),
            name=view.row.name,
            paused=view.state.paused,
            stages=list(stages.values()),
            edges=[_edge(view, edge, stages) for edge in view.spec.edges],
            history=[
                PipelineEvent(
                    at=one.at,
                    place=_place(view, one.place),
                    release_id=strawberry.ID(one.release) if one.release else None,
                    text=one.text,
                    actor=one.actor,
                )
                for one in view.state.history
            ],
            inserted_at=view.row.inserted_at,
            updated_at=view.row.updated_at,
        )


def _service(view: PipelineView, one: Service) -> StageService:
    cluster = view.clusters.get(one.cluster_id)
    shown = Cluster.of(cluster) if cluster else None
    return StageService(service=ServiceDeployment.of(one, cluster=shown))


def _stage(view: PipelineView, stage: model.Stage) -> PipelineStage:
    held = view.state.stages.get(stage.id)
    services = [view.services[s] for s in stage.services if s in view.services]
    return PipelineStage(
        id=strawberry.ID(stage.id),
        name=stage.name,
        services=[_service(view, one) for one in services],
        release=_release(view, held.release) if held else None,
        health=held.health if held else Health.UNKNOWN,
        reason=held.reason if held else "",
        verified=held.verified if held else False,
    )


def _edge(
    view: PipelineView, edge: model.Edge, stages: dict[model.StageId, PipelineStage]
) -> PipelineStageEdge:
    candidate = view.state.candidates.get(edge.id)
    behind = view.state.stages.get(edge.target)
    rendered = behind.rendered.get(candidate.release, {}) if candidate and behind else {}
    return PipelineStageEdge(
        id=strawberry.ID(edge.id),
        from_=stages[edge.source],
        to=stages[edge.target],
        gates=[_gate(gate, candidate) for gate in edge.gates],
        release=_release(view, candidate.release) if candidate else None,
        reason=_reason(candidate),
        digests=_revisions(rendered),
    )


def _reason(candidate: Candidate | None) -> str:
    if candidate is None:
        return ""
    if candidate.refusal is not None:
        return f"refused by {candidate.refusal.actor}: {candidate.refusal.reason}"
    return candidate.render_error or candidate.reason


def _gate(gate: model.Gate, candidate: Candidate | None) -> PipelineGate:
    state = candidate.gates.get(gate.id, GateState()) if candidate else GateState()
    rule = gate.rule
    approval = rule if isinstance(rule, ApprovalRule) else None
    return PipelineGate(
        id=strawberry.ID(gate.id),
        name=gate.name,
        type=gate.kind,
        state=state.status,
        reason=state.reason,
        quorum=approval.quorum if approval else None,
        not_author=approval.not_author if approval else None,
        soak_seconds=rule.seconds if isinstance(rule, SoakRule) else None,
        approvals=[
            GateApproval(actor=one.actor, at=one.at, comment=one.comment) for one in state.approvals
        ],
    )


def _release(view: PipelineView, id: str | None) -> Release | None:
    found = next((one for key, one in view.state.releases.items() if key == id), None)
    if found is None:
        return None
    return Release(
        id=strawberry.ID(found.id),
        number=found.number,
        author=found.author,
        seen_at=found.seen_at,
        revisions=_revisions(found.revisions),
    )


def _revisions(revisions: Revisions) -> list[ServiceRevision]:
    return [
        ServiceRevision(service_id=strawberry.ID(id), sha=one.commit, digest=one.digest)
        for id, one in revisions.items()
    ]


def _place(view: PipelineView, id: str) -> str:
    """The name of a stage, edge or gate by its id."""
    for stage in view.spec.stages:
        if stage.id == id:
            return stage.name
    for edge in view.spec.edges:
        names = f"{view.spec.stage[edge.source].name} → {view.spec.stage[edge.target].name}"
        if edge.id == id:
            return names
        for gate in edge.gates:
            if gate.id == id:
                return f"{names}: {gate.name}"
    return id


@strawberry.input
class StageServiceAttributes:
    """A service of a stage, by its id."""

    service_id: strawberry.ID


@strawberry.input
class PipelineStageAttributes:
    name: str
    services: list[StageServiceAttributes]


@strawberry.input
class PipelineGateAttributes:
    """APPROVAL takes `quorum` (default 1) and `notAuthor` (default true), SOAK `soakSeconds`."""

    name: str
    type: GateKind
    quorum: int | None = None
    not_author: bool | None = None
    soak_seconds: int | None = None

    def rule(self) -> Rule:
        if self.type is GateKind.SOAK:
            if self.soak_seconds is None:
                raise Invalid("a SOAK gate needs soakSeconds", field=f"gates.{self.name}")
            return SoakRule(self.soak_seconds)
        quorum = 1 if self.quorum is None else self.quorum
        return ApprovalRule(quorum, self.not_author is not False)


@strawberry.input
class PipelineEdgeAttributes:
    """An edge between stages, by their names."""

    from_: str = strawberry.field(name="from")
    to: str
    gates: list[PipelineGateAttributes] | None = None


@strawberry.input
class PipelineAttributes:
    stages: list[PipelineStageAttributes]
    edges: list[PipelineEdgeAttributes] | None = None
    project_id: strawberry.ID | None = None

    def draft(self, name: str) -> PipelineDraft:
        edges = self.edges or []
        if max(len(edges), len(self.stages)) > _LONGEST_GRAPH:
            raise Invalid(f"{_LONGEST_GRAPH} stages and edges at most", field="stages")
        return PipelineDraft(
            name,
            [StageDraft(one.name, [s.service_id for s in one.services]) for one in self.stages],
            [
                EdgeDraft(
                    edge.from_,
                    edge.to,
                    [GateDraft(gate.name, gate.rule()) for gate in edge.gates or ()],
                )
                for edge in edges
            ],
            project_id=self.project_id or None,
        )


@strawberry.input
class DigestAttributes:
    """What was looked at for one service."""

    service_id: strawberry.ID
    digest: str


def digests_of(given: list[DigestAttributes]) -> dict[ServiceId, str]:
    """Digests by service."""
    return {ServiceId(one.service_id): one.digest for one in given}
