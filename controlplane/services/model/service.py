"""Services: a folder of a repository that runs in a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from controlplane.authorization import Resource, ResourceKind
from controlplane.services.model.helm import release_of
from controlplane.services.model.ownership import OwnerKind
from controlplane.services.model.status_codes import ServiceStatus, StatusCode, status_of
from controlplane.services.model.verification import Quarantine
from core.identity import ClusterId, RepositoryId, ServiceId
from core.spec.attestation import Attestation
from core.spec.health import HealthState
from core.spec.objects import ObjectRef
from core.spec.source import Renderer, RenderRequest, SourceFolder
from core.spec.status import Phase
from core.spec.sync import Removal, SyncOptions
from core.spec.verification import Verification


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
"""The API's name for each health; a missing object is pending."""
HEALTH_OF_STATE: Mapping[ComponentState, HealthState] = {
    ComponentState.RUNNING: HealthState.HEALTHY,
    ComponentState.PENDING: HealthState.PROGRESSING,
    ComponentState.FAILED: HealthState.FAILED,
    ComponentState.PAUSED: HealthState.PAUSED,
}


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Deletions that a user has confirmed, for one sequence only."""

    sequence: int
    objects: tuple[ObjectRef, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem that keeps a service from its desired state; `source`
    names the step that found it.
    """

    source: str
    message: str


@dataclass(frozen=True, slots=True)
class StatusFields:
    """The fields of a service that determine its status. The store writes `code` with them."""

    paused: bool
    render_error: str | None
    waiting: bool
    digest: str | None
    observed: int
    sequence: int
    phase: Phase | None

    @property
    def code(self) -> StatusCode:
        """Computes the status code. Nothing else does: the store keeps the result."""
        if self.paused:
            return StatusCode.PAUSED
        if self.render_error:
            return StatusCode.FAILED
        if self.waiting or self.digest is None or self.observed < self.sequence:
            return StatusCode.PROGRESSING
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
class Service:
    """A service with its desired state and its agent's last report.

    `sequence` grows with each change of the desired state; `observed` is the sequence of the
    agent's last status. `sha` is the commit of the desired state, `author` the commit's author.
    `pinned` keeps the service at a commit (after a rollback). A `promoted` service takes commits
    only from its pipeline. `reads` maps the folders and files that the render read to their git
    object ids. `project_id` is always its cluster's.

    `awaiting` are deletions that a user must confirm; `message` is the agent's progress message. A
    `mirrored` service is defined in its cluster, from the repository `origin`, and is read-only
    here. `attestation` is the render tier's signed statement about the bundle. `dependencies` are
    names of services of the same cluster. While one of them is not healthy, the service is
    `waiting` and keeps its state; a user can skip the wait once, which sets `waived`.

    With an `owner_id` it comes from a global service, a service set or a managed namespace, which
    alone changes the inherited fields. `rendered_by` names the cluster whose agent renders it;
    None: the control plane does. Without `uses_secrets` its objects contain no secret placeholders.
    `watch` is the verification of its pipeline stage and takes precedence over its own. `held` is
    the quarantined commit or digest that the service did not receive; `hold` has the details.
    """

    id: ServiceId
    cluster_id: ClusterId
    repository_id: RepositoryId | None
    name: str
    namespace: str
    inserted_at: datetime
    updated_at: datetime
    ref: str = "main"
    folder: str = ""
    renderer: Renderer = Renderer.AUTO
    kustomize_path: str | None = None
    helm: Mapping[str, Any] | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)
    templated: bool = True
    protect: bool = False
    dry_run: bool = False
    paused: bool = False
    version: str = "0.0.1"
    options: SyncOptions = field(default_factory=SyncOptions)
    pinned: str | None = None
    promoted: bool = False
    sha: str | None = None
    author: str = ""
    revision_id: str | None = None
    source: str | None = None
    reads: Mapping[str, str] = field(default_factory=dict)
    digest: str | None = None
    bundle_bytes: int = 0
    object_count: int = 0
    sequence: int = 0
    observed: int = 0
    phase: Phase | None = None
    render_error: str | None = None
    problems: tuple[Problem, ...] = ()
    observed_at: datetime | None = None
    deleted_at: datetime | None = None
    removal: Removal | None = None
    message: str = ""
    awaiting: tuple[ObjectRef, ...] = ()
    confirmed: Confirmation | None = None
    mirrored: bool = False
    origin: str = ""
    attestation: Attestation | None = None
    project_id: str | None = None
    docs_path: str | None = None
    dependencies: tuple[str, ...] = ()
    waiting: bool = False
    waived: bool = False
    owner_kind: OwnerKind | None = None
    owner_id: str | None = None
    rendered_by: ClusterId | None = None
    uses_secrets: bool = False
    verification: Verification | None = None
    watch: Verification | None = None
    held: str | None = None
    hold: Quarantine | None = None

    @property
    def target(self) -> Resource:
        """Returns the service's location for authorization."""
        cluster = Resource.within(ResourceKind.CLUSTER, self.project_id, self.cluster_id)
        return cluster.below(ResourceKind.SERVICE, self.id, self.name)

    @property
    def status_code(self) -> StatusCode:
        """Returns the status code, as the store keeps it in the column `mark`."""
        return StatusFields(*(getattr(self, name) for name in STATUS_FIELDS)).code

    @property
    def status(self) -> ServiceStatus:
        """Returns the status in one word."""
        return status_of(self.status_code)

    @property
    def errors(self) -> tuple[Problem, ...]:
        """Returns all problems, render errors first."""
        render = (Problem("render", self.render_error),) if self.render_error else ()
        return render + self.withheld_by + self.problems + self._deletion_problems()

    @property
    def withheld_by(self) -> tuple[Problem, ...]:
        """Returns the reasons for which the service keeps its state after a new commit."""
        return self._quarantine_problems() + self._dependency_problems()

    @property
    def policy(self) -> Verification | None:
        """Returns the verification that its bundles must pass, if any."""
        return self.watch or self.verification

    def columns_for_digest(self, digest: str) -> dict[str, Any]:
        """Returns the columns to write with a new digest, which ends a quarantine.

        A digest that a user has released from quarantine stays recorded until its verification
        passes.
        """
        if self.hold is None or (self.hold.digest == digest and self.policy is not None):
            return {}
        return {"held": None, "hold": None}

    def _quarantine_problems(self) -> tuple[Problem, ...]:
        if self.hold is None or self.hold.lifted_by:
            return ()
        return (Problem("verification", str(self.hold)),)

    def _dependency_problems(self) -> tuple[Problem, ...]:
        if not self.waiting:
            return ()
        names = ", ".join(self.dependencies)
        return (Problem("dependencies", f"waiting until these services are healthy: {names}"),)

    def _deletion_problems(self) -> tuple[Problem, ...]:
        if self.phase is not Phase.AWAITING or not self.awaiting:
            return ()
        names = ", ".join(str(name) for name in self.awaiting[:5])
        more = f" and {len(self.awaiting) - 5} more" if len(self.awaiting) > 5 else ""
        what = f"a user must confirm the deletion of {names}{more}"
        return (Problem("deletion", f"{what}: {self._confirmation_hint()}"),)

    def _confirmation_hint(self) -> str:
        """A mirrored service is confirmed in its cluster, not here."""
        part = "delete" if self.removal else "prune"
        annotate = f'annotate it in the cluster with towline.dev/{part}: "true"'
        return annotate if self.mirrored else f"run `towline services confirm`, or {annotate}"

    def render_request(
        self,
        commit: str,
        parameters: Mapping[str, Any],
        sources: tuple[SourceFolder, ...] = (),
    ) -> RenderRequest:
        """Returns the render request of this service at a commit, with its additional sources."""
        if self.repository_id is None:
            raise ValueError("a service without a repository has nothing to render")
        return RenderRequest(
            repository_id=self.repository_id,
            commit=commit,
            folder=self.folder,
            renderer=self.renderer,
            kustomize_path=self.kustomize_path,
            templated=self.templated,
            parameters=parameters,
            helm=release_of(self.name, self.namespace, self.helm),
            sources=sources,
            by=self.rendered_by,
        )


@dataclass(frozen=True, slots=True)
class Revision:
    """One rendered state of a service that was desired at some time. Immutable."""

    id: str
    service_id: ServiceId
    sha: str
    ref: str
    folder: str
    digest: str
    source: str
    author: str
    subject: str
    committed_at: datetime
    inserted_at: datetime
    actor: str
    release_id: str | None = None
    attestation: Attestation | None = None


@dataclass(frozen=True, slots=True)
class Component:
    """An object of a service: applied, or a descendant of an applied object."""

    id: str
    service_id: ServiceId
    cluster_id: ClusterId
    group: str
    version: str
    kind: str
    namespace: str
    name: str
    uid: str
    owner_uid: str
    state: ComponentState | None
    message: str
    synced: bool
    images: tuple[str, ...]
    updated_at: datetime
    labels: Mapping[str, str] = field(default_factory=dict)
    generation: int = 0
    hash: str = ""
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Returns the identity of the object inside its cluster."""
        return (self.group, self.kind, self.namespace, self.name)
