"""Services: a folder of a repository that runs in a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum

from controlplane.authorization import DEFAULT_PROJECT, Resource, ResourceKind
from controlplane.platform.names import join_names
from controlplane.platform.parts import Columns, part, replace_columns
from controlplane.repositories.model.repository import normalize_folder
from controlplane.services.model.helm import release_of
from controlplane.services.model.status_codes import ServiceStatus, StatusCode, status_of
from controlplane.services.model.verification import Quarantine
from core.identity import ClusterId, RepositoryId, ServiceId
from core.json_object import JsonMapping
from core.spec.bundle import Attestation
from core.spec.health import HealthState
from core.spec.image_signatures import NO_SIGNATURE_RULES, SignatureRules
from core.spec.input_checks import InputVerdict
from core.spec.objects import ObjectRef
from core.spec.plan import PlannedChange
from core.spec.renderers import AUTO, RenderOptions
from core.spec.source import RenderRequest, SourceFolder
from core.spec.status import RENDER, Phase, Problem
from core.spec.sync import Removal, SyncOptions
from core.spec.verification import Verification


class OwnerKind(StrEnum):
    """Kinds of definitions that generate services on many clusters."""

    GLOBAL = "global"
    SET = "set"
    NAMESPACE = "namespace"

    @property
    def noun(self) -> str:
        """Returns the kind's display name."""
        return {"global": "global service", "set": "service set"}.get(self, "managed namespace")


class ComponentState(StrEnum):
    """Health of one object, as the API names it."""

    RUNNING = "RUNNING"
    """Healthy."""
    PENDING = "PENDING"
    """Not healthy yet."""
    FAILED = "FAILED"
    """Failed."""
    PAUSED = "PAUSED"
    """Suspended."""


STATE_OF_HEALTH: Mapping[HealthState, ComponentState] = {
    HealthState.HEALTHY: ComponentState.RUNNING,
    HealthState.PAUSED: ComponentState.PAUSED,
    HealthState.PROGRESSING: ComponentState.PENDING,
    HealthState.MISSING: ComponentState.PENDING,
    HealthState.FAILED: ComponentState.FAILED,
}
"""The API's name for each health; a missing object is pending. An unknown health has no name,
because clients fail on further values."""
HEALTH_OF_STATE: Mapping[ComponentState, HealthState] = {
    ComponentState.RUNNING: HealthState.HEALTHY,
    ComponentState.PENDING: HealthState.PROGRESSING,
    ComponentState.FAILED: HealthState.FAILED,
    ComponentState.PAUSED: HealthState.PAUSED,
}


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Deletions that a user has confirmed, for one generation only."""

    generation: int
    objects: tuple[ObjectRef, ...]


@dataclass(frozen=True, slots=True)
class StatusFields:
    """The fields of a service that determine its status. The store writes `code` with them."""

    paused: bool
    render_error: str | None
    waiting: bool
    digest: str | None
    observed_generation: int
    generation: int
    phase: Phase | None
    dry_run: bool
    drifted: int
    pinned_sha: str | None
    promoted: bool

    @property
    def is_rolled_back(self) -> bool:
        """Returns whether a rollback, and not a pipeline, pinned the service."""
        return self.pinned_sha is not None and not self.promoted

    @property
    def code(self) -> StatusCode:
        """Computes the status code. Nothing else does: the store keeps the result.

        A pipeline pins its services too, but they only wait for its next release.
        """
        code = self.code_of_applied
        if self.drifted and code in (StatusCode.SYNCED, StatusCode.HEALTHY):
            return StatusCode.DRIFTED
        if self.is_rolled_back and code is StatusCode.HEALTHY:
            return StatusCode.PINNED
        return code

    @property
    def code_of_applied(self) -> StatusCode:
        """Computes the code of the progress and health alone, without drift and pins."""
        if self.paused:
            return StatusCode.PAUSED
        if self.render_error:
            return StatusCode.FAILED
        if self.digest is None:
            return StatusCode.PROGRESSING
        if self.waiting or self.observed_generation < self.generation:
            return StatusCode.OUT_OF_SYNC
        if self.dry_run and self.phase is Phase.APPLIED:
            return StatusCode.DRY_RUN
        return _CODE_OF_PHASE.get(self.phase, StatusCode.PROGRESSING)


STATUS_FIELDS = tuple(field.name for field in fields(StatusFields))
_CODE_OF_PHASE: Mapping[Phase | None, StatusCode] = {
    Phase.FAILED: StatusCode.FAILED,
    Phase.DEGRADED: StatusCode.FAILED,
    Phase.HEALTHY: StatusCode.HEALTHY,
    Phase.APPLIED: StatusCode.SYNCED,
    Phase.AWAITING: StatusCode.AWAITING,
}


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """The part of a service that users, or its generator, determine."""

    ref: str = "main"
    """Branch, tag, commit or chart version."""
    folder: str = ""
    """Folder in the repository."""
    renderer: str = AUTO
    """Name of the renderer of the folder."""
    kustomize_path: str | None = None
    """Folder of the kustomization, relative to `folder`. None without Kustomize."""
    helm: JsonMapping | None = None
    """Helm settings. None without Helm."""
    configuration: Mapping[str, str] = field(default_factory=dict)
    """Values for templates."""
    templated: bool = False
    """True if manifests are rendered as Liquid templates."""
    rendering: RenderOptions = field(default_factory=RenderOptions)
    """Files and values of the render."""
    protect: bool = False
    """True if the service cannot be deleted."""
    dry_run: bool = False
    """True if the agent plans changes without applying them."""
    paused: bool = False
    """True if nothing changes the service."""
    version: str = "0.0.1"
    """Version, free text."""
    options: SyncOptions = field(default_factory=SyncOptions)
    """Sync options."""
    promoted: bool = False
    """True if the service takes commits from a pipeline instead of following the ref."""
    docs_path: str | None = None
    """Path of the documentation in the repository."""
    dependencies: tuple[str, ...] = ()
    """Names of services in the same cluster that must be healthy first."""
    rendered_by: ClusterId | None = None
    """ID of the cluster whose agent renders the service. None: the control plane, or the own agent
    of a mirrored service."""
    verification: Verification | None = None
    """Verification of new bundles. The verification of a pipeline stage takes precedence."""

    @property
    def path(self) -> str:
        """Returns the folder as Git names it; `folder` is as users wrote it."""
        return normalize_folder(self.folder)


@dataclass(frozen=True, slots=True)
class DesiredState:
    """The part of a service that the control plane determines from the spec and Git."""

    pinned_sha: str | None = None
    """Commit at which a rollback or a pipeline pinned the service. None if it follows its ref."""
    commits_behind: int | None = None
    """Number of commits on the ref that a rollback keeps from the service. Limit: 1,000. None
    without a rollback, or if the Git server does not tell."""
    commit_sha: str | None = None
    """Full SHA of the desired commit. None before the first render."""
    author: str = ""
    """Author of the commit."""
    revision_id: str | None = None
    """Revision of the desired bundle."""
    input_digest: str | None = None
    """Digest of the inputs of the last render. None requests a render."""
    reads: Mapping[str, str] = field(default_factory=dict)
    """Git object ids of the folders and files that the last render read, by path."""
    digest: str | None = None
    """Digest of the desired bundle. None before the first render."""
    bundle_bytes: int = 0
    """Size of the desired bundle."""
    object_count: int = 0
    """Number of objects in the desired bundle."""
    generation: int = 0
    """Number that grows with each change of the desired state, as `metadata.generation` does."""
    render_error: str | None = None
    """Error of the last render."""
    render_reason: str = ""
    """Reason of `render_error`, for programs, such as `INVALID`. Empty without one."""
    attestation: Attestation | None = None
    """Signed statement of the renderer about the bundle."""
    confirmed: Confirmation | None = None
    """Deletions that a user has confirmed."""
    waiting: bool = False
    """True while a dependency is not healthy. The service keeps its current state until then."""
    wait_skipped: bool = False
    """True after a user has skipped the wait for dependencies, until the next render."""
    uses_secrets: bool = False
    """True if objects contain secret placeholders."""
    stage_verification: Verification | None = None
    """Verification of its pipeline stage, which takes precedence over that of the spec."""
    quarantined: str | None = None
    """Denied commit or digest that the service did not receive."""
    quarantine: Quarantine | None = None
    """Details about `quarantined`."""


@dataclass(frozen=True, slots=True)
class ObservedState:
    """The part of a service that its agent reports."""

    observed_generation: int = 0
    """Generation of the agent's last status."""
    phase: Phase | None = None
    """Phase of the last sync."""
    problems: tuple[Problem, ...] = ()
    """Problems that the agent reports."""
    observed_at: datetime | None = None
    """Time of the last report of the agent about the service."""
    message: str = ""
    """Current activity of the agent. Empty without one."""
    awaiting: tuple[ObjectRef, ...] = ()
    """Objects whose deletion awaits a confirmation."""
    drifted: int = 0
    """Number of applied objects that others changed or deleted, and that the agent has not
    reverted."""
    inputs: InputVerdict | None = None
    """Checks of the agent about the inputs of a bundle. None before its first report of them."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service: a folder of a Git repository, or a Helm chart, that runs in a cluster.

    Its parts follow Kubernetes' own split of `spec` and `status`. Only the owner, if it has one,
    changes the fields that it inherits.
    """

    id: ServiceId
    cluster_id: ClusterId
    repository_id: RepositoryId | None
    name: str
    """Name, unique in the cluster."""
    namespace: str
    """Default namespace of the objects."""
    inserted_at: datetime
    updated_at: datetime
    spec: ServiceSpec = part(ServiceSpec)
    desired: DesiredState = part(DesiredState)
    observed: ObservedState = part(ObservedState)
    project_id: str = DEFAULT_PROJECT
    """ID of the project."""
    deleted_at: datetime | None = None
    removal: Removal | None = None
    """Fate of the objects after the deletion of the service."""
    mirrored: bool = False
    """True if an object in the cluster defines the service. The control plane only displays it."""
    origin: str = ""
    """URL of the repository of a mirrored service. Empty for other services."""
    reported_id: str = ""
    """ID that the agent gave a mirrored service. Empty for other services."""
    owner_kind: OwnerKind | None = None
    """Kind of its generator: a global service, a service set or a managed namespace."""
    owner_id: str | None = None
    """ID of its generator."""

    @property
    def target(self) -> Resource:
        """Returns the service's location for authorization."""
        cluster = Resource.within(ResourceKind.CLUSTER, self.project_id, self.cluster_id)
        return cluster.below(ResourceKind.SERVICE, self.id, self.name)

    @property
    def id_at_agent(self) -> str:
        """Returns the ID that the agent uses for the service."""
        return self.reported_id or self.id

    def changed(self, **columns: object) -> "Service":
        """Returns the service with other values in some columns of any part."""
        return replace_columns(self, columns)

    @property
    def status_code(self) -> StatusCode:
        """Returns the status code, as the store keeps it in the column `status_code`."""
        return self._status_fields.code

    @property
    def is_rolled_back(self) -> bool:
        """Returns whether a rollback, and not a pipeline, pinned the service."""
        return self._status_fields.is_rolled_back

    @property
    def _status_fields(self) -> StatusFields:
        spec, desired, observed = self.spec, self.desired, self.observed
        return StatusFields(
            paused=spec.paused,
            render_error=desired.render_error,
            waiting=desired.waiting,
            digest=desired.digest,
            observed_generation=observed.observed_generation,
            generation=desired.generation,
            phase=observed.phase,
            dry_run=spec.dry_run,
            drifted=observed.drifted,
            pinned_sha=desired.pinned_sha,
            promoted=spec.promoted,
        )

    @property
    def status(self) -> ServiceStatus:
        """Returns the status in one word."""
        return status_of(self.status_code)

    @property
    def applied_status(self) -> ServiceStatus:
        """Returns the status without drift and pins, which hold no gate and no dependency."""
        return status_of(self._status_fields.code_of_applied)

    @property
    def errors(self) -> tuple[Problem, ...]:
        """Returns all problems, render errors first."""
        render = (
            (Problem(self.desired.render_error, source=RENDER, reason=self.desired.render_reason),)
            if self.desired.render_error
            else ()
        )
        return render + self.withheld_reasons + self.observed.problems + self._deletion_problems()

    @property
    def withheld_reasons(self) -> tuple[Problem, ...]:
        """Returns the reasons for which the service keeps its state after a new commit."""
        return self._quarantine_problems() + self._dependency_problems()

    @property
    def effective_verification(self) -> Verification | None:
        """Returns the verification that its bundles must pass, if any."""
        return self.desired.stage_verification or self.spec.verification

    def columns_for_digest(self, digest: str) -> Columns:
        """Returns the columns to write with a new digest, which ends a quarantine.

        A digest that a user has released from quarantine stays recorded until its verification
        passes.
        """
        if self.desired.quarantine is None or (
            self.desired.quarantine.digest == digest and self.effective_verification is not None
        ):
            return {}
        return {"quarantined": None, "quarantine": None}

    def _quarantine_problems(self) -> tuple[Problem, ...]:
        if self.desired.quarantine is None or self.desired.quarantine.lifted_by:
            return ()
        return (Problem(str(self.desired.quarantine), source="verification"),)

    def _dependency_problems(self) -> tuple[Problem, ...]:
        if not self.desired.waiting:
            return ()
        names = ", ".join(self.spec.dependencies)
        return (
            Problem(f"waiting until these services are healthy: {names}", source="dependencies"),
        )

    def _deletion_problems(self) -> tuple[Problem, ...]:
        if self.observed.phase is not Phase.AWAITING or not self.observed.awaiting:
            return ()
        names = join_names(self.observed.awaiting)
        message = f"a user must confirm the deletion of {names}"
        return (Problem(f"{message}: {self._confirmation_hint()}", source="deletion"),)

    def _confirmation_hint(self) -> str:
        """A mirrored service is confirmed in its cluster, not here."""
        action = "delete" if self.removal else "prune"
        annotate = f'annotate it in the cluster with towline.dev/{action}: "true"'
        return annotate if self.mirrored else f"run `towline services confirm`, or {annotate}"

    def render_request(
        self,
        commit: str,
        parameters: JsonMapping,
        sources: tuple[SourceFolder, ...] = (),
        signatures: SignatureRules = NO_SIGNATURE_RULES,
    ) -> RenderRequest:
        """Returns the render request of this service at a commit, with its additional sources.

        `signatures` are the rules of its project's fence.
        """
        if self.repository_id is None:
            raise ValueError("a service without a repository has nothing to render")
        kustomization = self.spec.kustomize_path
        return RenderRequest(
            repository_id=self.repository_id,
            commit=commit,
            folder=self.spec.path,
            renderer=self.spec.renderer,
            kustomize_path=None if kustomization is None else normalize_folder(kustomization),
            templated=self.spec.templated,
            parameters=parameters,
            helm=release_of(self.name, self.namespace, self.spec.helm),
            options=self.spec.rendering,
            sources=sources,
            by=self.spec.rendered_by,
            signatures=signatures,
        )


@dataclass(frozen=True, slots=True)
class ServiceSource:
    """A further folder of a service, whose files appear below `path` in its own folder."""

    id: str
    service_id: str
    repository_id: RepositoryId
    """ID of the Git repository."""
    place: int
    """Position among the sources of the service."""
    ref: str
    """Branch, tag or commit."""
    folder: str
    """Folder in the repository."""
    path: str
    """Target folder, relative to the folder of the service."""
    sha: str = ""
    """Commit of the last render. Empty before the first one."""
    tree: str = ""
    """Git object id of the folder at the last render."""


@dataclass(frozen=True, slots=True)
class Revision:
    """A rendered state that was the desired state of a service. Immutable."""

    id: str
    service_id: ServiceId
    sha: str
    """Full SHA of the commit."""
    ref: str
    """Branch, tag or commit that the service followed."""
    folder: str
    """Folder in the repository."""
    digest: str
    """Digest of the rendered bundle."""
    source: str
    """Digest of the inputs of the render."""
    author: str
    """Author of the commit."""
    subject: str
    """First line of the commit message."""
    committed_at: datetime
    """Time of the commit."""
    inserted_at: datetime
    actor: str
    """User, pipeline or author that caused the revision."""
    release_id: str | None = None
    """Release of the pipeline that caused it."""
    attestation: Attestation | None = None
    """Signed statement of the renderer about the bundle."""

    @classmethod
    def of(
        cls,
        service: Service,
        sha: str,
        subject: str,
        committed_at: datetime,
        actor: str,
        release_id: str | None = None,
    ) -> "Revision":
        """Returns the revision of a service that was just rendered at a commit."""
        spec, desired = service.spec, service.desired
        return cls(
            desired.revision_id or "",
            service.id,
            sha,
            spec.ref,
            spec.folder,
            desired.digest or "",
            desired.input_digest or "",
            desired.author,
            subject,
            committed_at,
            service.updated_at,
            actor,
            release_id,
            desired.attestation,
        )


@dataclass(frozen=True, slots=True)
class Component:
    """An object of a service in its cluster: applied, or a descendant of an applied object."""

    id: str
    service_id: ServiceId
    cluster_id: ClusterId
    group: str
    """API group. Empty for the core group."""
    version: str
    """API version."""
    kind: str
    """Kind, such as `Deployment`."""
    namespace: str
    """Namespace. Empty for a cluster-scoped object."""
    name: str
    """Name."""
    uid: str
    """UID of the object. Empty until it exists."""
    owner_uid: str
    """UID of the owner. Empty for an object from the bundle."""
    state: ComponentState | None
    """Health of the object. None if its status expresses none, which opens no gate."""
    message: str
    """Message about the health. Empty without one."""
    synced: bool
    """True if the object matches its desired state."""
    images: tuple[str, ...]
    """Container images."""
    updated_at: datetime
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels."""
    generation: int = 0
    """`metadata.generation` of the object. Empty if it has none."""
    hash: str = ""
    """Digest of the object as the agent applied it: `sha256:…`. Empty for other objects."""
    finalizers: tuple[str, ...] = ()
    """Finalizers."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Returns the identity of the object inside its cluster."""
        return (self.group, self.kind, self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """Result of a service's dry run. `id` is the service's."""

    id: str
    sequence: int
    """Generation of the desired state that the plan refers to."""
    changes: tuple[PlannedChange, ...]
    """Changes by object."""
