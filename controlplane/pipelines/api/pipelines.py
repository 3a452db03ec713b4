"""Pipelines in the API: stages, edges, gates and releases."""

from datetime import datetime

import strawberry

from controlplane.clusters.api.clusters import ClusterType
from controlplane.clusters.api.selectors import ClusterSelector, ClusterSelectorAttributes
from controlplane.clusters.model.selectors import Selector
from controlplane.pipelines.api.gates import (
    PipelineGateAttributes,
    PipelineGateType,
    PipelineWorkflowAttributes,
    gate_type,
)
from controlplane.pipelines.api.git import write_as_json
from controlplane.pipelines.api.triggers import PipelineTriggerType, triggers_of
from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.rollout import Progress, Rollout, Strategy
from controlplane.pipelines.model.state import (
    GateState,
    Health,
    HistoryEntry,
    Release,
    ReleaseId,
    RevisionRef,
    Revisions,
    StageSilence,
    StageState,
    WaitingRelease,
)
from controlplane.pipelines.operations.drafts import EdgeDraft, PipelineDraft, StageDraft
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.pipelines.operations.views import PipelineView
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Draft, FieldValues, Output, computed, draft, output
from controlplane.platform.graphql.resource_fields import ResourceFields, each
from controlplane.platform.limits import check_count
from controlplane.services.api.types import ServiceDeployment
from controlplane.services.api.verification import ServiceVerification, VerificationAttributes
from controlplane.services.model.service import Service
from core.errors import Invalid
from core.identity import ServiceId

strawberry.enum(Strategy, name="RolloutStrategy", description="Strategy of a rollout.")
strawberry.enum(Health, name="StageHealth", description="Health of a stage.")

_MAX_GRAPH = 500


@output(RevisionRef, rename={"sha": "commit"})
class ServiceRevision(Output[RevisionRef]):
    """Commit and digest of a service."""

    service_id: strawberry.ID
    """ID of the service."""


def _revisions(revisions: Revisions) -> list[ServiceRevision]:
    return [ServiceRevision.of(revision, service_id=id) for id, revision in revisions.items()]


@output(Release)
class ReleaseType(Output[Release]):
    """Revisions of the first stage's services that move through the pipeline together."""

    revisions: list[ServiceRevision] = computed(lambda release: _revisions(release.revisions))
    release: strawberry.Private[Release]

    @strawberry.field
    async def pushers(self, info: Info) -> list[str]:
        """Accounts that pushed the commits, as the Git host named them in signed webhooks:
        `name <email>`. They cannot approve where the author cannot. Empty: no webhook named one,
        and only the address in the commits counts."""
        return await info.context[Pipelines].pushers(self.release)


@strawberry.type
class StageService:
    """A service of a stage."""

    service: ServiceDeployment
    """The service."""


@strawberry.type
class SilentStageService:
    """A service of a stage on a cluster whose agent is silent."""

    service: ServiceDeployment
    """The service."""
    left_out: bool
    """True if the rollout goes on without the service until it has caught up. False if the stage
    waits for it."""


@output(Rollout)
class StageRollout(Output[Rollout]):
    """Rollout settings of a stage and the progress of the current release. Counts are numbers of
    services."""

    groups: list[strawberry.ID]
    waves: list[int]
    """Number of services in each wave."""
    given: int
    """Number of services that received the release."""
    healthy: int
    """Number of services that are healthy with the release."""
    failed: int
    """Number of services that failed with the release."""
    left_out: int
    """Number of services that the rollout left out, because their clusters are silent."""
    reason: str
    """Reason of a wait. Empty if nothing waits."""


@output(StageState, only={"health", "verified", "hold", "change"}, nullable={"hold"})
class PipelineStage(Output[StageState]):
    """A stage of a pipeline with its current release."""

    id: strawberry.ID
    name: str
    """Name of the stage."""
    services: list[StageService]
    """Services of the stage."""
    release: ReleaseType | None
    """Release in the stage. Null before the first one."""
    reason: str
    """Reason of the health."""
    service_names: list[str]
    """Names of services that the stage selects. Empty if services are listed by ID."""
    selector: ClusterSelector | None
    """Conditions on the clusters of these services. Null if services are listed by ID."""
    rollout: StageRollout
    """Rollout settings and progress."""
    silent: list[SilentStageService]
    """Services on silent clusters that the stage waits for or left out."""
    verification_seconds: int | None
    """Seconds for which the services must stay healthy. Null without a verification."""
    verification: ServiceVerification | None
    """Verification of new bundles."""
    git: str | None
    """Changes to write as JSON with the field names of `GitWriteAttributes`. Null if nothing is
    written."""
    workflow: PipelineGateType | None
    """Workflow that runs after the services are healthy. Null without one."""
    digests: list[ServiceRevision]
    """Revisions that the services run. Approvals in the workflow are bound to them."""


@strawberry.type
class PipelineStageEdge:
    """An edge between two stages, and the release that waits on it."""

    id: strawberry.ID
    from_: PipelineStage = strawberry.field(name="from")
    """Source stage."""
    to: PipelineStage
    """Target stage."""
    gates: list[PipelineGateType]
    """Gates on the edge."""
    release: ReleaseType | None
    """Waiting release. Null if none waits."""
    reason: str
    """Reason of the wait or rejection. Empty if there is none."""
    digests: list[ServiceRevision]
    """Revisions that the target stage would run. Approvals are bound to them."""


@output(HistoryEntry, rename={"release_id": "release"}, hide={"place"})
class PipelineEventType(Output[HistoryEntry]):
    """An event in the history of a pipeline."""

    place: str
    """Name of the stage, edge or gate. Empty for the whole pipeline."""


@strawberry.type
class PipelineType:
    """Stages of services, connected by gated edges, through which releases move."""

    id: strawberry.ID
    name: str
    """Unique name."""
    paused: str | None
    """Reason of the pause. Null if the pipeline is not paused."""
    stages: list[PipelineStage]
    """Stages."""
    edges: list[PipelineStageEdge]
    """Edges between stages."""
    history: list[PipelineEventType]
    """Latest events. Limit: 200."""
    on_commit: bool
    """True if new commits start releases."""
    inserted_at: datetime
    updated_at: datetime
    view: strawberry.Private[PipelineView]

    @strawberry.field
    async def triggers(self, info: Info) -> list[PipelineTriggerType]:
        """Triggers that start releases in addition to new commits."""
        view = self.view
        return await triggers_of(info, view.row.id, view.spec.triggers, view.state.triggers)

    @classmethod
    def of(cls, view: PipelineView) -> "PipelineType":
        stages = {stage.id: _stage(view, stage) for stage in view.spec.stages}
        return cls(
            id=strawberry.ID(view.row.id),
            name=view.row.name,
            paused=view.state.paused,
            stages=list(stages.values()),
            edges=[_edge(view, edge, stages) for edge in view.spec.edges],
            history=[
                PipelineEventType.of(entry, place=_place_name(view, entry.place))
                for entry in view.state.history
            ],
            on_commit=view.spec.on_commit,
            inserted_at=view.row.inserted_at,
            updated_at=view.row.updated_at,
            view=view,
        )


def _service(view: PipelineView, service: Service) -> StageService:
    cluster = ClusterType.of_optional(view.clusters.get(service.cluster_id))
    return StageService(service=ServiceDeployment.of(service, cluster=cluster))


def _stage(view: PipelineView, stage: pipeline.Stage) -> PipelineStage:
    state = view.state.stages.get(stage.id, StageState())
    services = [view.services[s] for s in stage.services if s in view.services]
    workflow = stage.workflow
    return PipelineStage.of(
        state,
        id=stage.id,
        name=stage.name,
        services=[_service(view, service) for service in services],
        release=_release(view, state.release),
        reason=state.reason if stage.services else "the selector of the stage matches no service",
        service_names=list(stage.selector.names) if stage.selector else [],
        selector=ClusterSelector.of(stage.selector.clusters) if stage.selector else None,
        rollout=_rollout(stage, state),
        silent=_silent_services(view, state.silence),
        verification_seconds=stage.verification.soak_s if stage.verification else None,
        verification=ServiceVerification.of_optional(stage.verification),
        git=write_as_json(stage.git),
        workflow=gate_type(workflow, state.workflow or GateState()) if workflow else None,
        digests=_revisions(state.revisions),
    )


def _rollout(stage: pipeline.Stage, state: StageState) -> StageRollout:
    progress = list(state.progress.values())
    return StageRollout.of(
        stage.rollout,
        waves=[len(wave) for wave in stage.waves] or [len(stage.services)],
        given=len(progress),
        healthy=progress.count(Progress.HEALTHY),
        failed=progress.count(Progress.FAILED),
        left_out=len(state.silence.left_out),
        reason=state.rollout_reason if state.promoting else "",
    )


def _silent_services(view: PipelineView, silence: StageSilence) -> list[SilentStageService]:
    return [
        SilentStageService(service=_service(view, view.services[id]).service, left_out=left_out)
        for ids, left_out in ((silence.left_out, True), (silence.waits_for, False))
        for id in ids
        if id in view.services
    ]


def _edge(
    view: PipelineView, edge: pipeline.StageEdge, stages: dict[pipeline.StageId, PipelineStage]
) -> PipelineStageEdge:
    candidate = view.state.candidates.get(edge.id)
    target = view.state.stages.get(edge.target)
    rendered = target.rendered.get(candidate.release, {}) if candidate and target else {}
    gate_states = candidate.gates if candidate else {}
    return PipelineStageEdge(
        id=strawberry.ID(edge.id),
        from_=stages[edge.source],
        to=stages[edge.target],
        gates=[gate_type(gate, gate_states.get(gate.id, GateState())) for gate in edge.gates],
        release=_release(view, candidate.release) if candidate else None,
        reason=_wait_reason(candidate),
        digests=_revisions(rendered),
    )


def _wait_reason(candidate: WaitingRelease | None) -> str:
    if candidate is None:
        return ""
    if candidate.refusal is not None:
        return f"rejected by {candidate.refusal.actor}: {candidate.refusal.reason}"
    return candidate.render_error or candidate.reason


def _release(view: PipelineView, id: ReleaseId | None) -> ReleaseType | None:
    release = view.state.releases.get(id) if id else None
    return ReleaseType.of(release, release=release) if release is not None else None


def _place_name(view: PipelineView, id: str) -> str:
    """Returns the name of a stage, edge or gate."""
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
    """A service of a stage."""

    service_id: strawberry.ID
    """ID of the service."""


@draft(Rollout, publish_defaults=True)
class StageRolloutAttributes(Draft[Rollout]):
    """Rollout settings of a stage."""

    canaries: list[str] | None = None
    groups: list[strawberry.ID] | None = None


@draft(StageDraft, hide={"selector"})
class PipelineStageAttributes(Draft[StageDraft]):
    """A stage of a pipeline. Give either `services` or `serviceNames`."""

    name: str
    services: list[StageServiceAttributes] | None = None
    """Services of the stage. Limit: 1,000."""
    service_names: list[str] | None = None
    """Names of services in the selected clusters."""
    selector: ClusterSelectorAttributes | None = None
    """Conditions on the clusters of `serviceNames`. Default: every cluster."""
    verification: VerificationAttributes | None = None
    verification_seconds: int | None = None
    """Short form of `verification` with only `soakSeconds`."""
    workflow: PipelineWorkflowAttributes | None = None
    """Workflow that runs after the services are healthy. Default: none."""

    def field_values(self) -> FieldValues:
        if self.service_names and self.services:
            raise Invalid("give either services or serviceNames", field=f"stages.{self.name}")
        if self.selector and not self.service_names:
            raise Invalid("selector requires serviceNames", field=f"stages.{self.name}")
        return {
            **super().field_values(),
            "services": [service.service_id for service in self.services or ()],
            "selector": self._selector(),
            "verification": self._verification(),
            "workflow": self.workflow.gate(self.name) if self.workflow else None,
        }

    def _selector(self) -> pipeline.ServiceSelector | None:
        if not self.service_names:
            return None
        clusters = self.selector.change() if self.selector else Selector()
        return pipeline.ServiceSelector(tuple(self.service_names), clusters)

    def _verification(self) -> pipeline.Verification | None:
        if self.verification is not None and self.verification.soak_seconds:
            return self.verification.change()
        seconds = self.verification_seconds
        return pipeline.Verification(seconds) if seconds else None


@draft(EdgeDraft, rename={"from_": "source", "to": "target"})
class PipelineEdgeAttributes(Draft[EdgeDraft]):
    """An edge between two stages."""

    from_: str = strawberry.field(name="from")
    gates: list[PipelineGateAttributes] | None = None
    """Gates on the edge. Limit: 20."""

    def field_values(self) -> FieldValues:
        return {**super().field_values(), "gates": [gate.gate() for gate in self.gates or ()]}


@draft(PipelineDraft, hide={"name"})
class PipelineAttributes(Draft[PipelineDraft]):
    """Definition of a pipeline."""

    stages: list[PipelineStageAttributes]
    edges: list[PipelineEdgeAttributes] | None = None
    on_commit: bool = True

    def draft(self, name: str) -> PipelineDraft:
        """Returns the draft of a pipeline with this name."""
        check_count(len(self.stages), "stages", _MAX_GRAPH)
        check_count(len(self.edges or ()), "edges", _MAX_GRAPH)
        return PipelineDraft(name, **self.field_values())


@strawberry.input
class DigestAttributes:
    """Digest of a service that an approver reviewed."""

    service_id: strawberry.ID
    """ID of the service."""
    digest: str
    """Digest of the bundle."""


PIPELINES = ResourceFields("pipeline", Pipelines, PipelineType, each(PipelineType.of))
"""Fields of the API that return pipelines."""


def digests_of(entries: list[DigestAttributes]) -> dict[ServiceId, str]:
    """Returns digests by service."""
    return {ServiceId(entry.service_id): entry.digest for entry in entries}
