"""Pipelines in the API: stages, edges, gates and releases."""

from datetime import datetime

import strawberry

from controlplane.clusters.api.clusters import ClusterType
from controlplane.clusters.model.selectors import Selector
from controlplane.generators.api.definitions import ClusterSelector, ClusterSelectorAttributes
from controlplane.pipelines.api.gates import (
    PipelineGateAttributes,
    PipelineGateType,
    PipelineWorkflowAttributes,
)
from controlplane.pipelines.api.git import GitChange, GitWriteAttributes, settings_of
from controlplane.pipelines.api.triggers import (
    PipelineTriggerAttributes,
    PipelineTriggerType,
    triggers_of,
)
from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.rollout import Progress, Rollout, Strategy
from controlplane.pipelines.model.state import (
    GateState,
    Health,
    Revisions,
    StageState,
    WaitingRelease,
)
from controlplane.pipelines.operations.drafts import EdgeDraft, GateDraft, PipelineDraft, StageDraft
from controlplane.pipelines.operations.views import PipelineView
from controlplane.platform.graphql.context import Info
from controlplane.services.api.types import ServiceDeployment
from controlplane.services.api.verification import ServiceVerification, VerificationAttributes
from controlplane.services.model.service import Service
from core.errors import Invalid
from core.identity import ServiceId

strawberry.enum(Strategy, name="RolloutStrategy", description="Strategy of a rollout.")
strawberry.enum(Health, name="StageHealth", description="Health of a stage.")

_MAX_GRAPH = 500


@strawberry.type
class ServiceRevision:
    """Commit and digest of a service."""

    service_id: strawberry.ID
    """ID of the service."""
    sha: str
    """Full SHA of the commit."""
    digest: str
    """Digest of the bundle rendered from the commit."""


@strawberry.type
class ReleaseType:
    """Revisions of the first stage's services that move through the pipeline together."""

    id: strawberry.ID
    number: int
    """Number of the release in the pipeline, from 1."""
    author: str
    """Author of the newest commit."""
    seen_at: datetime
    """Time at which the pipeline detected the release."""
    revisions: list[ServiceRevision]
    """Revisions of the first stage's services."""


@strawberry.type
class StageService:
    """A service of a stage."""

    service: ServiceDeployment
    """The service."""


@strawberry.type
class StageRollout:
    """Rollout settings of a stage and the progress of the current release. Counts are numbers of
    services."""

    strategy: Strategy
    """Strategy."""
    max_unavailable: int
    """Maximum number of services updated at the same time. 0 means no limit."""
    max_per_group: int
    """Maximum number of services updated at the same time in each cluster group. 0 means no limit.
    """
    max_failed: int
    """Number of services that may fail before the rollout stops."""
    pause_seconds: int
    """Seconds between two waves."""
    canaries: list[str]
    """Handles of the canary clusters."""
    canary_count: int
    """Number of canary clusters, chosen by handle. Used without `canaries`."""
    groups: list[strawberry.ID]
    """IDs of cluster groups, in the order of the waves."""
    wave_size: int
    """Number of services in a wave. Used without `groups`."""
    waves: list[int]
    """Number of services in each wave."""
    given: int
    """Number of services that received the release."""
    healthy: int
    """Number of services that are healthy with the release."""
    failed: int
    """Number of services that failed with the release."""
    reason: str
    """Reason of a wait. Empty if nothing waits."""


@strawberry.type
class PipelineStage:
    """A stage of a pipeline with its current release."""

    id: strawberry.ID
    name: str
    """Name of the stage."""
    services: list[StageService]
    """Services of the stage."""
    release: ReleaseType | None
    """Release in the stage. Null before the first one."""
    health: Health
    """Health of the stage."""
    reason: str
    """Reason of the health."""
    verified: bool
    """True if the release passed the verification and the workflow of the stage."""
    service_names: list[str]
    """Names of services that the stage selects. Empty if services are listed by ID."""
    selector: ClusterSelector | None
    """Conditions on the clusters of these services. Null if services are listed by ID."""
    rollout: StageRollout
    """Rollout settings and progress."""
    verification_seconds: int | None
    """Seconds for which the services must stay healthy. Null without a verification."""
    verification: ServiceVerification | None
    """Verification of new bundles."""
    hold: str | None
    """Reason of a rollback to the last good release, until a user acknowledges it. Null without a
    rollback."""
    git: str | None
    """Changes to write as JSON with the field names of `GitWriteAttributes`. Null if nothing is
    written."""
    change: GitChange | None
    """Git change made for the current release. Null without one."""
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


@strawberry.type
class PipelineEventType:
    """An event in the history of a pipeline."""

    at: datetime
    """Time of the event."""
    place: str
    """Name of the stage, edge or gate. Empty for the whole pipeline."""
    release_id: strawberry.ID | None
    """ID of the release. Null if none is concerned."""
    text: str
    """Description of the event."""
    actor: str
    """E-mail address of the user. Empty for the pipeline itself."""


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
        return await triggers_of(info, view.row.id, view.spec.triggers, dict(view.state.triggers))

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
                PipelineEventType(
                    at=entry.at,
                    place=_place(view, entry.place),
                    release_id=strawberry.ID(entry.release) if entry.release else None,
                    text=entry.text,
                    actor=entry.actor,
                )
                for entry in view.state.history
            ],
            on_commit=view.spec.on_commit,
            inserted_at=view.row.inserted_at,
            updated_at=view.row.updated_at,
            view=view,
        )


def _service(view: PipelineView, service: Service) -> StageService:
    cluster = view.clusters.get(service.cluster_id)
    shown = ClusterType.of(cluster) if cluster else None
    return StageService(service=ServiceDeployment.of(service, cluster=shown))


def _stage(view: PipelineView, stage: pipeline.Stage) -> PipelineStage:
    held = view.state.stages.get(stage.id)
    services = [view.services[s] for s in stage.services if s in view.services]
    return PipelineStage(
        id=strawberry.ID(stage.id),
        name=stage.name,
        services=[_service(view, service) for service in services],
        release=_release(view, held.release) if held else None,
        health=held.health if held else Health.UNKNOWN,
        reason=_why(stage, held),
        verified=held.verified if held else False,
        service_names=list(stage.selector.names) if stage.selector else [],
        selector=ClusterSelector.of(stage.selector.clusters) if stage.selector else None,
        rollout=_rollout(stage, held or StageState()),
        verification_seconds=stage.verification.soak_s if stage.verification else None,
        verification=ServiceVerification.of_optional(stage.verification),
        hold=(held.hold or None) if held else None,
        git=settings_of(stage.git),
        change=GitChange.of(held.change) if held else None,
        workflow=_workflow(stage, held or StageState()),
        digests=_revisions(held.revisions if held else {}),
    )


def _workflow(stage: pipeline.Stage, held: StageState) -> PipelineGateType | None:
    gate = stage.workflow
    return PipelineGateType.of(gate, held.workflow or GateState()) if gate else None


def _rollout(stage: pipeline.Stage, held: StageState) -> StageRollout:
    policy, progress = stage.rollout, list(held.progress.values())
    return StageRollout(
        strategy=policy.strategy,
        max_unavailable=policy.max_unavailable,
        max_per_group=policy.max_per_group,
        max_failed=policy.max_failed,
        pause_seconds=policy.pause_seconds,
        canaries=list(policy.canaries),
        canary_count=policy.canary_count,
        groups=[strawberry.ID(group_id) for group_id in policy.groups],
        wave_size=policy.wave_size,
        waves=[len(wave) for wave in stage.waves] or [len(stage.services)],
        given=len(progress),
        healthy=progress.count(Progress.HEALTHY),
        failed=progress.count(Progress.FAILED),
        reason=held.rollout_reason if held.promoting else "",
    )


def _why(stage: pipeline.Stage, held: StageState | None) -> str:
    if not stage.services:
        return "the selector of the stage matches no service"
    return held.reason if held else ""


def _edge(
    view: PipelineView, edge: pipeline.StageEdge, stages: dict[pipeline.StageId, PipelineStage]
) -> PipelineStageEdge:
    candidate = view.state.candidates.get(edge.id)
    target = view.state.stages.get(edge.target)
    rendered = target.rendered.get(candidate.release, {}) if candidate and target else {}
    return PipelineStageEdge(
        id=strawberry.ID(edge.id),
        from_=stages[edge.source],
        to=stages[edge.target],
        gates=[PipelineGateType.of(gate, _state(gate, candidate)) for gate in edge.gates],
        release=_release(view, candidate.release) if candidate else None,
        reason=_reason(candidate),
        digests=_revisions(rendered),
    )


def _reason(candidate: WaitingRelease | None) -> str:
    if candidate is None:
        return ""
    if candidate.refusal is not None:
        return f"rejected by {candidate.refusal.actor}: {candidate.refusal.reason}"
    return candidate.render_error or candidate.reason


def _state(gate: pipeline.Gate, candidate: WaitingRelease | None) -> GateState:
    return candidate.gates.get(gate.id, GateState()) if candidate else GateState()


def _release(view: PipelineView, id: str | None) -> ReleaseType | None:
    found = next((release for key, release in view.state.releases.items() if key == id), None)
    if found is None:
        return None
    return ReleaseType(
        id=strawberry.ID(found.id),
        number=found.number,
        author=found.author,
        seen_at=found.seen_at,
        revisions=_revisions(found.revisions),
    )


def _revisions(revisions: Revisions) -> list[ServiceRevision]:
    return [
        ServiceRevision(service_id=strawberry.ID(id), sha=revision.commit, digest=revision.digest)
        for id, revision in revisions.items()
    ]


def _place(view: PipelineView, id: str) -> str:
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


@strawberry.input
class StageRolloutAttributes:
    """Rollout settings of a stage."""

    strategy: Strategy = Strategy.ALL
    """Strategy. Default: `ALL`."""
    max_unavailable: int = 0
    """Maximum number of services updated at the same time. Default: 0, no limit. Limit: 1,000."""
    max_per_group: int = 0
    """Maximum number of services updated at the same time in each cluster group. Default: 0, no
    limit. Limit: 1,000."""
    max_failed: int = 0
    """Number of services that may fail before the rollout stops. Default: 0. Limit: 1,000."""
    pause_seconds: int = 0
    """Seconds between two waves. Default: 0. Limit: 2,592,000 (30 days)."""
    canaries: list[str] | None = None
    """CANARY: handles of the canary clusters. Limit: 1,000."""
    canary_count: int = 0
    """CANARY: number of canary clusters, chosen by handle. Used without `canaries`. Limit: 1,000.
    """
    groups: list[strawberry.ID] | None = None
    """IDs of cluster groups, in the order of the waves. Limit: 1,000."""
    wave_size: int = 0
    """WAVES: number of services in a wave. Used without `groups`. Limit: 1,000."""

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
    """A stage of a pipeline. Give either `services` or `serviceNames`."""

    name: str
    """Name, unique in the pipeline. Limit: 255 characters."""
    services: list[StageServiceAttributes] | None = None
    """Services of the stage. Limit: 1,000."""
    service_names: list[str] | None = None
    """Names of services in the selected clusters."""
    selector: ClusterSelectorAttributes | None = None
    """Conditions on the clusters of `serviceNames`. Default: every cluster."""
    rollout: StageRolloutAttributes | None = None
    """Rollout settings. Default: all services at once."""
    verification_seconds: int | None = None
    """Short form of `verification` with only `soakSeconds`."""
    verification: VerificationAttributes | None = None
    """Verification of new bundles. Default: none."""
    git: GitWriteAttributes | None = None
    """Changes to write for each release. Default: none."""
    workflow: PipelineWorkflowAttributes | None = None
    """Workflow that runs after the services are healthy. Default: none."""

    def draft(self) -> StageDraft:
        selector = None
        if self.service_names:
            clusters = self.selector.change() if self.selector else Selector()
            selector = pipeline.ServiceSelector(tuple(self.service_names), clusters)
        if selector and self.services:
            raise Invalid("give either services or serviceNames", field=f"stages.{self.name}")
        if self.selector and not selector:
            raise Invalid("selector requires serviceNames", field=f"stages.{self.name}")
        return StageDraft(
            self.name,
            [service.service_id for service in self.services or ()],
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

    def _policy(self) -> pipeline.Verification | None:
        if self.verification is not None and self.verification.soak_seconds:
            return self.verification.change()
        seconds = self.verification_seconds
        return pipeline.Verification(seconds) if seconds else None


@strawberry.input
class PipelineEdgeAttributes:
    """An edge between two stages."""

    from_: str = strawberry.field(name="from")
    """Name of the source stage."""
    to: str
    """Name of the target stage."""
    gates: list[PipelineGateAttributes] | None = None
    """Gates on the edge. Limit: 20."""


@strawberry.input
class PipelineAttributes:
    """Definition of a pipeline."""

    stages: list[PipelineStageAttributes]
    """Stages. Limit: 100."""
    edges: list[PipelineEdgeAttributes] | None = None
    """Edges between stages. Limit: 500."""
    project_id: strawberry.ID | None = None
    """ID of the project. Default: the default project."""
    on_commit: bool = True
    """True lets new commits start releases. Default: true."""
    triggers: list[PipelineTriggerAttributes] | None = None
    """Triggers that start releases in addition to new commits. Limit: 50."""

    def draft(self, name: str) -> PipelineDraft:
        edges = self.edges or []
        if max(len(edges), len(self.stages)) > _MAX_GRAPH:
            raise Invalid(f"at most {_MAX_GRAPH} stages and {_MAX_GRAPH} edges", field="stages")
        return PipelineDraft(
            name,
            [stage.draft() for stage in self.stages],
            [
                EdgeDraft(
                    edge.from_,
                    edge.to,
                    [GateDraft(gate.name, gate.rule(), gate.change()) for gate in edge.gates or ()],
                )
                for edge in edges
            ],
            project_id=self.project_id or None,
            on_commit=self.on_commit,
            triggers=[trigger.draft() for trigger in self.triggers or ()],
        )


@strawberry.input
class DigestAttributes:
    """Digest of a service that an approver reviewed."""

    service_id: strawberry.ID
    """ID of the service."""
    digest: str
    """Digest of the bundle."""


def digests_of(given: list[DigestAttributes]) -> dict[ServiceId, str]:
    """Returns digests by service."""
    return {ServiceId(entry.service_id): entry.digest for entry in given}
