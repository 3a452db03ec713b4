"""Services: a folder of a repository that should run in a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from fleet.identity import ClusterId, RepositoryId, ServiceId
from fleet.source import Renderer, RenderRequest


class ServiceStatus(StrEnum):
    """The one word of a service's state, as the API names it."""

    STALE = "STALE"
    SYNCED = "SYNCED"
    HEALTHY = "HEALTHY"
    FAILED = "FAILED"
    PAUSED = "PAUSED"


class Phase(StrEnum):
    """How far the agent has come with the desired state it speaks of."""

    FETCHING = "fetching"
    APPLYING = "applying"
    APPLIED = "applied"
    HEALTHY = "healthy"
    DEGRADED = "degraded"
    FAILED = "failed"
    REMOVED = "removed"


class Removal(StrEnum):
    """What becomes of a deleted service's objects."""

    CASCADE = "cascade"
    ORPHAN = "orphan"


class DriftPolicy(StrEnum):
    """What the agent does about a foreign change."""

    HEAL = "heal"
    REPORT = "report"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """How the agent applies a service."""

    create_namespace: bool = True
    drift: DriftPolicy = DriftPolicy.HEAL
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    namespace_annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that keeps a service from being as desired; `source` says which step found it."""

    source: str
    message: str


@dataclass(frozen=True, slots=True)
class Service:
    """A service with its desired state and what its agent last said.

    `sequence` grows with each change of what the agent should do; `observed` is the sequence
    that the agent's last status spoke of. `sha` is the commit of the desired state, `author`
    who made it. `pinned` holds the service at a commit (after a rollback); a `promoted` service
    takes commits only from its pipeline. `reads` maps the folders and files of the commit that
    the render depended on to their git ids.
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

    @property
    def status(self) -> ServiceStatus:
        """The one word for people and programs."""
        if self.paused:
            return ServiceStatus.PAUSED
        if self.render_error:
            return ServiceStatus.FAILED
        if self.digest is None or self.observed < self.sequence:
            return ServiceStatus.STALE
        if self.phase in (Phase.FAILED, Phase.DEGRADED):
            return ServiceStatus.FAILED
        if self.phase is Phase.HEALTHY:
            return ServiceStatus.HEALTHY
        return ServiceStatus.SYNCED if self.phase is Phase.APPLIED else ServiceStatus.STALE

    @property
    def errors(self) -> tuple[Problem, ...]:
        """All that is wrong, rendering first."""
        render = (Problem("render", self.render_error),) if self.render_error else ()
        return render + self.problems

    def render_request(self, commit: str, parameters: Mapping[str, Any]) -> RenderRequest:
        """What has to be rendered for this service at a commit."""
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
        )


@dataclass(frozen=True, slots=True)
class Revision:
    """One rendered state of a service that was desired at some time. Never changed."""

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


class ComponentState(StrEnum):
    """Health of one object, as the API names it."""

    RUNNING = "RUNNING"
    PENDING = "PENDING"
    FAILED = "FAILED"
    PAUSED = "PAUSED"


@dataclass(frozen=True, slots=True)
class Component:
    """An object that belongs to a service, applied or grown from an applied one."""

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

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What names the object inside its cluster."""
        return (self.group, self.kind, self.namespace, self.name)
