"""Output types. Compatible clients determine names and nullability.

`of` converts a value of the domain.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any

import orjson
import strawberry
from strawberry.types.lazy_type import LazyType

from controlplane.access.api.types import ProjectType
from controlplane.clusters.api.clusters import ClusterFreezeType, ClusterType
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Output, computed, output
from controlplane.platform.graphql.scalars import Map
from controlplane.repositories.api.repositories import GitRef, GitRepository
from controlplane.services.api.verification import ServiceHold
from controlplane.services.model.helm import followed_source
from controlplane.services.model.ledger import LedgerEntry
from controlplane.services.model.service import (
    STATE_OF_HEALTH,
    Component,
    ComponentState,
    Revision,
    Service,
    ServiceSource,
)
from controlplane.services.model.status_codes import ServiceStatus
from controlplane.services.operations.components import ComponentOperations
from core.json_object import JsonMapping
from core.spec.health import FieldCondition, HealthRule
from core.spec.objects import ObjectRef
from core.spec.renderers import HelmSettings, RenderOptions, RenderValue
from core.spec.status import Problem
from core.spec.sync import DriftPolicy, IgnoredDifference, SyncOptions

# Lazily: the module of contexts imports this one.
_SERVICE_CONTEXT: Any = LazyType("ServiceContextType", "controlplane.configuration.api.contexts")

strawberry.enum(ServiceStatus, name="ServiceState", description="State of a service.")


@strawberry.enum
class ServiceDeploymentStatus(StrEnum):
    """State of a service, in a closed list of values: Terraform fails on any other."""

    STALE = "STALE"
    """The desired state is not applied yet, or a dry run or a confirmation holds it."""
    SYNCED = "SYNCED"
    """All objects are applied but not healthy yet."""
    HEALTHY = "HEALTHY"
    """All objects are applied and healthy."""
    FAILED = "FAILED"
    """Rendering, applying or a health check failed."""
    PAUSED = "PAUSED"
    """A user paused the service."""

    @classmethod
    def of(cls, service: Service) -> "ServiceDeploymentStatus":
        """Returns the nearest value: whatever waits is stale."""
        state = service.applied_status
        return cls(state.value) if state.value in cls.__members__ else cls.STALE


strawberry.enum(ComponentState, name="ComponentState")
strawberry.enum(DriftPolicy, name="DriftPolicy")


@strawberry.type
class Installation:
    """Version and addresses of the installation."""

    version: str
    """Version of the control plane."""
    agents_port: int
    """TCP port for agents, on the host of this API."""
    cluster_domain: str | None
    """Domain of the host names of clusters: the Kubernetes API of each cluster is also at the host
    `<handle>.<clusterDomain>`, at the port of this API. Null if there are no such names."""
    signing_key: str
    """Public key (PEM) for signatures of rendered bundles."""
    signing_key_id: str
    """Fingerprint of that key, `sha256:<hex>`, which agents pin when their cluster joins."""
    sealing_key: str
    """Public key (X25519, base64) to which `towline secrets seal` seals values of manifests."""


@output(ObjectRef, nullable={"group", "version", "namespace"})
class ObjectReference(Output[ObjectRef]):
    """Reference to an object in a cluster."""


@strawberry.type
class ServiceConfiguration:
    """A configuration value."""

    name: str
    """Name of the value."""
    value: str
    """The value."""


@output(Problem, only={"source", "reason"})
class ServiceError(Output[Problem]):
    """A problem of a service."""

    message: str = computed(str)
    """Human-readable message."""
    lasting: bool = computed(lambda problem: problem.is_lasting)
    """True if every retry fails until a user changes something."""


@strawberry.type
class Kustomize:
    """Kustomize settings."""

    path: str
    """Folder of the kustomization, relative to the folder of the service."""
    enable_helm: bool | None = False
    """Always false. Present for compatibility."""

    @classmethod
    def of_path(cls, path: str | None) -> "Kustomize | None":
        return None if path is None else cls(path=path)


@output(HelmSettings, nullable={"values_files"})
class HelmSpec(Output[HelmSettings]):
    """Helm settings."""

    values_files: list[str | None]
    ignore_hooks: bool | None
    ignore_crds: bool | None

    @classmethod
    def of_settings(cls, settings: JsonMapping | None) -> "HelmSpec | None":
        return None if settings is None else cls.of(HelmSettings(**settings))


@strawberry.type
class NamespaceMetadata:
    """Labels and annotations of a created namespace."""

    labels: Map | None
    """Labels."""
    annotations: Map | None
    """Annotations."""


@output(
    IgnoredDifference,
    rename={"json_pointers": "pointers"},
    nullable={"group", "kind", "namespace", "name"},
)
class DiffNormalizer(Output[IgnoredDifference]):
    """Fields of matching objects that Towline ignores. A null condition matches everything."""

    backfill: bool | None = False
    """Always false. Present for compatibility."""


@output(FieldCondition)
class HealthCondition(Output[FieldCondition]):
    """A condition on one field of an object."""


@output(HealthRule, rename={"state": "health"}, nullable={"group", "message"})
class HealthRuleType(Output[HealthRule]):
    """A health rule for objects of one kind. The first rule with all conditions met determines the
    state."""

    state: ComponentState = computed(lambda rule: STATE_OF_HEALTH[rule.health])
    """State if all conditions are met."""


@output(
    SyncOptions,
    rename={
        "drift_policy": "drift",
        "diff_normalizers": "ignored",
        "wave_timeout": "wave_timeout_s",
    },
    hide={"namespace_labels", "namespace_annotations"},
    nullable={"wave_timeout", "deletion_budget"},
)
class SyncConfig(Output[SyncOptions]):
    """Sync options of a service."""

    create_namespace: bool | None
    enforce_namespace: bool | None = False
    """Always false. Present for compatibility."""
    namespace_metadata: NamespaceMetadata | None = computed(
        lambda options: NamespaceMetadata(
            labels=Map(dict(options.namespace_labels)),
            annotations=Map(dict(options.namespace_annotations)),
        )
    )
    """Labels and annotations of the created namespace."""


@output(
    Revision, hide={"service_id", "ref", "folder", "source", "actor", "release_id", "attestation"}
)
class RevisionType(Output[Revision]):
    """A rendered state that was the desired state of a service."""

    git: GitRef = computed(GitRef.of)
    """Ref and folder in the repository."""


def _yaml(manifest: JsonMapping | None) -> str | None:
    """Formats an object as YAML; JSON is YAML, and clients format it for people."""
    return (
        None if manifest is None else orjson.dumps(manifest, option=orjson.OPT_SORT_KEYS).decode()
    )


@strawberry.type
class ComponentContent:
    """Live and desired state of an object."""

    id: strawberry.ID
    live: str | None
    """Live state of the desired fields as YAML. Null if the object does not exist."""
    desired: str | None
    """Desired state as YAML. Null if the object is not in the rendered bundle."""


@output(
    Component,
    hide={"service_id", "cluster_id"},
    nullable={"uid", "owner_uid", "namespace", "message", "generation", "hash"},
)
class ServiceComponent(Output[Component]):
    """An object of a service in its cluster."""

    id: strawberry.ID
    group: str | None
    version: str | None
    generation: float | None

    @strawberry.field
    async def content(self, info: Info) -> ComponentContent | None:
        """Desired and live state of the object, read with the permissions of the caller."""
        compared = await info.context[ComponentOperations].compare(info.context.actor, self.id)
        return ComponentContent(
            id=strawberry.ID(self.id), live=_yaml(compared.live), desired=_yaml(compared.desired)
        )


@strawberry.type
class InfrastructureStack:
    """Infrastructure stack of compatible clients. Never returned."""

    id: strawberry.ID | None
    name: str
    """Name of the stack."""


@strawberry.type
class StackOutput:
    """Output of an infrastructure stack. Never returned."""

    name: str
    """Name of the output."""
    value: str
    """Value of the output."""
    secret: bool | None
    """True if the value is secret."""


@output(ServiceSource, hide={"id", "service_id", "place", "tree"}, nullable={"sha"})
class ServiceSourceType(Output[ServiceSource]):
    """A further folder of a service."""


@strawberry.type
class ServiceImportType:
    """Import of outputs of an infrastructure stack. Never returned, since Towline has no stacks.
    Use service contexts."""

    stack: InfrastructureStack | None
    """The stack."""
    outputs: list[StackOutput | None] | None
    """Outputs of the stack."""


@strawberry.type
class Flow:
    """Flow of compatible clients. Never returned."""

    id: strawberry.ID


@strawberry.type
class ServiceMetadata:
    """Summary of the objects of a service."""

    images: list[str] = strawberry.field(default_factory=list)
    """Container images of all objects."""
    fqdns: list[str] = strawberry.field(default_factory=list)
    """Always empty. Present for compatibility."""


@strawberry.type
class ServiceDependency:
    """A service in the same cluster that must be healthy first."""

    name: str
    """Name of the service."""


@output(RenderValue)
class ServiceRenderValue(Output[RenderValue]):
    """A value that a service passes to its renderer."""


@output(RenderOptions)
class ServiceRendering(Output[RenderOptions]):
    """Files and values of a render."""


@output(
    Service,
    rename={"sha": "commit_sha", "sync_config": "options"},
    hide={
        *("cluster_id", "repository_id", "project_id", "removal", "owner_kind", "owner_id"),
        *("ref", "folder", "renderer", "kustomize_path", "stage_verification", "revision_id"),
        *("author", "input_digest", "reads", "bundle_bytes", "object_count", "generation"),
        *("render_error", "render_reason", "attestation", "confirmed", "wait_skipped"),
        "uses_secrets",
        *("quarantined", "quarantine", "observed_generation", "phase", "problems"),
        *("reported_id", "inputs"),
    },
    nullable={"message", "origin"},
)
class ServiceDeployment(Output[Service]):
    """A folder of a Git repository, or a Helm chart, that runs in a cluster."""

    rendered_by: strawberry.ID | None
    rendering: ServiceRendering
    commits_behind: int | None = computed(
        lambda service: service.desired.commits_behind if service.is_rolled_back else None
    )
    """Number of commits on the ref that a rollback keeps from the service. Limit: 1,000. Null
    without a rollback, or if the Git server does not tell."""
    state: ServiceStatus = computed(lambda service: service.status)
    """State of the service."""
    status: ServiceDeploymentStatus = computed(lambda service: ServiceDeploymentStatus.of(service))
    """State of the service, in the closed list of values that Terraform knows; see `state`."""
    git: GitRef | None = computed(
        lambda service: GitRef.of(service.spec) if service.repository_id or service.origin else None
    )
    """Ref and folder in the repository. Null without a repository."""
    follows: str | None = computed(
        lambda service: (
            followed_source(service.spec.ref, service.spec.helm)
            if service.repository_id or service.origin
            else None
        )
    )
    """Ref or chart that the service follows, for people: such as `main` or `podinfo ^6`. Null
    without a repository."""
    kustomize: Kustomize | None = computed(
        lambda service: Kustomize.of_path(service.spec.kustomize_path)
    )
    """Kustomize settings. Null without Kustomize."""
    helm: HelmSpec | None = computed(lambda service: HelmSpec.of_settings(service.spec.helm))
    """Helm settings. Null without Helm."""
    configuration: list[ServiceConfiguration] = computed(
        lambda service: [
            ServiceConfiguration(name=name, value=value)
            for name, value in service.spec.configuration.items()
        ]
    )
    """Values for templates."""
    errors: list[ServiceError] = computed(
        lambda service: [ServiceError.of(problem) for problem in service.errors]
    )
    """Problems of the service, rendering first."""
    dependencies: list[ServiceDependency] = computed(
        lambda service: [ServiceDependency(name=name) for name in service.spec.dependencies]
    )
    """Services that must be healthy first."""
    hold: ServiceHold | None = computed(
        lambda service: ServiceHold.of_optional(
            service.desired.quarantine, revision=service.desired.quarantined
        )
    )
    """Denied or quarantined revision that the service does not get. Null without one."""
    cluster: ClusterType | None = None
    """Cluster of the service."""
    sync_requested_at: datetime | None = None
    """Time of the oldest requested sync that the agent has not ended. It waits while the agent is
    not connected. Null if there is none."""
    freeze: ClusterFreezeType | None = None
    """Freeze of the cluster, which blocks all changes to the service. Null if it is not frozen."""
    project: ProjectType | None = None
    """Project of the service. Null if you may not read it."""
    repository: GitRepository | None = None
    """Git repository. Null without one."""
    revision: RevisionType | None = None
    """Revision of the desired state. Null before the first render."""
    components: list[ServiceComponent] = strawberry.field(default_factory=list)
    """Objects of the service in the cluster."""
    metadata: ServiceMetadata = strawberry.field(default_factory=ServiceMetadata)
    """Summary of the objects."""
    contexts: list[object] = strawberry.field(
        graphql_type=list[_SERVICE_CONTEXT], default_factory=list
    )
    """Service contexts whose values the templates may use."""
    sources: list[ServiceSourceType] = strawberry.field(default_factory=list)
    """Further folders."""
    imports: list[ServiceImportType] = strawberry.field(default_factory=list)
    """Always empty. Present for compatibility."""
    tarball: str | None = None
    """Always null. Present for compatibility."""
    flow: Flow | None = None
    """Always null. Present for compatibility."""


@output(LedgerEntry, hide={"project_id"})
class LedgerEvent(Output[LedgerEntry]):
    """A row of the deployment ledger."""

    id: strawberry.ID
    stage: str
