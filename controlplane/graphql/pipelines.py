"""Pipelines in the API: stages, edges, gates, and what moves through them."""

from datetime import datetime

import strawberry

from controlplane.domain.pipelines import model
from controlplane.domain.pipelines.rollout import Progress, Rollout, Strategy
from controlplane.domain.pipelines.state import (
    Candidate,
    GateState,
    Health,
    Revisions,
    StageState,
)
from controlplane.domain.selectors import Selector
from controlplane.domain.services import Service
from controlplane.graphql.clusters import Cluster
from controlplane.graphql.context import Info
from controlplane.graphql.definitions import ClusterSelector, ClusterSelectorAttributes
from controlplane.graphql.gates import (
    PipelineGate,
    PipelineGateAttributes,
    PipelineWorkflowAttributes,
)
from controlplane.graphql.pipeline_git import GitChange, GitWriteAttributes, settings_of
from controlplane.graphql.pipeline_triggers import (
    PipelineTrigger,
    PipelineTriggerAttributes,
    triggers_of,
)
from controlplane.graphql.types import ServiceDeployment
from controlplane.graphql.verification import ServiceVerification, VerificationAttributes
from controlplane.usecases.pipelines import (
    EdgeDraft,
    GateDraft,
    PipelineDraft,
    PipelineView,
    StageDraft,
)
from fleet.errors import Invalid
from fleet.identity import ServiceId

strawberry.enum(Strategy, name="RolloutStrategy")
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
class StageService:
    service: ServiceDeployment


@strawberry.type
class StageRollout:
    """How a stage takes in a release, and how far it is; counts are of services."""

    strategy: Strategy
    max_unavailable: int
    max_per_group: int
    max_failed: int
    pause_seconds: int
    canaries: list[str]
    canary_count: int
    groups: list[strawberry.ID]
    wave_size: int
    waves: list[int]
    given: int
    healthy: int
    failed: int
    reason: str


@strawberry.type
class PipelineStage:
    """`hold` tells that the stage was put back to the last release that was good, and why.

    `git` is what a release becomes there, as JSON in the words of GitWriteAttributes; `change`
    what the one that the stage holds became. The steps of its `workflow` run once its services
    are healthy; `digests` is what they run, to which an approval of a step is bound.
    """

    id: strawberry.ID
    name: str
    services: list[StageService]
    release: Release | None
    health: Health
    reason: str
    verified: bool
    service_names: list[str]
    selector: ClusterSelector | None
    rollout: StageRollout
    verification_seconds: int | None
    verification: ServiceVerification | None
    hold: str | None
    git: str | None
    change: GitChange | None
    workflow: PipelineGate | None
    digests: list[ServiceRevision]


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
    on_commit: bool
    inserted_at: datetime
    updated_at: datetime
    view: strawberry.Private[PipelineView]

    @strawberry.field(description="What starts releases beside new commits.")
    async def triggers(self, info: Info) -> list[PipelineTrigger]:
        view = self.view
        return await triggers_of(info, view.row.id, view.spec.triggers, dict(view.state.triggers))

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
            on_commit=view.spec.on_commit,
            inserted_at=view.row.inserted_at,
            updated_at=view.row.updated_at,
            view=view,
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
        reason=_why(stage, held),
        verified=held.verified if held else False,
        service_names=list(stage.selector.names) if stage.selector else [],
        selector=ClusterSelector.of(stage.selector.clusters) if stage.selector else None,
        rollout=_rollout(stage, held or StageState()),
        verification_seconds=stage.verification.seconds if stage.verification else None,
        verification=ServiceVerification.of(stage.verification),
        hold=(held.hold or None) if held else None,
        git=settings_of(stage.git),
        change=GitChange.of(held.change) if held else None,
        workflow=_workflow(stage, held or StageState()),
        digests=_revisions(held.revisions if held else {}),
    )


def _workflow(stage: model.Stage, held: StageState) -> PipelineGate | None:
    gate = stage.workflow
    return PipelineGate.of(gate, held.workflow or GateState()) if gate else None


def _rollout(stage: model.Stage, held: StageState) -> StageRollout:
    policy, progress = stage.rollout, list(held.progress.values())
    return StageRollout(
        strategy=policy.strategy,
        max_unavailable=policy.max_unavailable,
        max_per_group=policy.max_per_group,
        max_failed=policy.max_failed,
        pause_seconds=policy.pause_seconds,
        canaries=list(policy.canaries),
        canary_count=policy.canary_count,
        groups=[strawberry.ID(one) for one in policy.groups],
        wave_size=policy.wave_size,
        waves=[len(wave) for wave in stage.waves] or [len(stage.services)],
        given=len(progress),
        healthy=progress.count(Progress.HEALTHY),
        failed=progress.count(Progress.FAILED),
        reason=held.rollout_reason if held.promoting else "",
    )


def _why(stage: model.Stage, held: StageState | None) -> str:
    if not stage.services:
        return "its selector matches no service"
    return held.reason if held else ""


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
        gates=[PipelineGate.of(gate, _state(gate, candidate)) for gate in edge.gates],
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


def _state(gate: model.Gate, candidate: Candidate | None) -> GateState:
    return candidate.gates.get(gate.id, GateState()) if candidate else GateState()


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
        if stage.workflow is not None and stage.workflow.id == id:
            return stage.workflow.name
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
class StageRolloutAttributes:
    """See docs/how-to/pipelines.md; 0 stands for no limit, and for no failure that may be."""

    strategy: Strategy = Strategy.ALL
    max_unavailable: int = 0
    max_per_group: int = 0
    max_failed: int = 0
    pause_seconds: int = 0
    canaries: list[str] | None = None
    canary_count: int = 0
    groups: list[strawberry.ID] | None = None
    wave_size: int = 0

    def rollout(self) -> Rollout:
        return Rollout(
            strategy=self.strategy,
            max_unavailable=self.max_unavailable,
            max_per_group=self.max_per_group,
            max_failed=self.max_failed,
            pause_seconds=self.pause_seconds,
            canaries=tuple(self.canaries or ()),
            canary_count=self.canary_count,
            groups=tuple(self.groups or ()),
            wave_size=self.wave_size,
        )


@strawberry.input
class PipelineStageAttributes:
    """Services by id, or all of `serviceNames` in the clusters that `selector` chooses.

    `verificationSeconds` stands for a `verification` that says no more than these.
    """

    name: str
    services: list[StageServiceAttributes] | None = None
    service_names: list[str] | None = None
    selector: ClusterSelectorAttributes | None = None
    rollout: StageRolloutAttributes | None = None
    verification_seconds: int | None = None
    verification: VerificationAttributes | None = None
    git: GitWriteAttributes | None = None
    workflow: PipelineWorkflowAttributes | None = None

    def draft(self) -> StageDraft:
        selector = None
        if self.service_names:
            clusters = Selector(**self.selector.fields()) if self.selector else Selector()
            selector = model.ServiceSelector(tuple(self.service_names), clusters)
        if selector and self.services:
            raise Invalid("either services or serviceNames", field=f"stages.{self.name}")
        if self.selector and not selector:
            raise Invalid("a selector chooses among serviceNames", field=f"stages.{self.name}")
        return StageDraft(
            self.name,
            [one.service_id for one in self.services or ()],
            selector,
            self.rollout.rollout() if self.rollout else Rollout(),
            self._policy(),
            self.git.write() if self.git else None,
            self._workflow(),
        )

    def _workflow(self) -> GateDraft | None:
        given = self.workflow
        if given is None:
            return None
        return GateDraft(f"{self.name} workflow", given.rule(), given.patience())

    def _policy(self) -> model.Verification | None:
        if self.verification is not None and self.verification.soak_seconds:
            return self.verification.policy()
        seconds = self.verification_seconds
        return model.Verification(seconds) if seconds else None


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
    on_commit: bool = True
    triggers: list[PipelineTriggerAttributes] | None = None

    def draft(self, name: str) -> PipelineDraft:
        edges = self.edges or []
        if max(len(edges), len(self.stages)) > _LONGEST_GRAPH:
            raise Invalid(f"{_LONGEST_GRAPH} stages and edges at most", field="stages")
        return PipelineDraft(
            name,
            [one.draft() for one in self.stages],
            [
                EdgeDraft(
                    edge.from_,
                    edge.to,
                    [
                        GateDraft(gate.name, gate.rule(), gate.patience())
                        for gate in edge.gates or ()
                    ],
                )
                for edge in edges
            ],
            project_id=self.project_id or None,
            on_commit=self.on_commit,
            triggers=[one.draft() for one in self.triggers or ()],
        )


@strawberry.input
class DigestAttributes:
    """What was looked at for one service."""

    service_id: strawberry.ID
    digest: str


def digests_of(given: list[DigestAttributes]) -> dict[ServiceId, str]:
    """Digests by service."""
    return {ServiceId(one.service_id): one.digest for one in given}
