"""Output types. Compatible clients determine names and nullability.

`of` converts a value of the domain; nothing here reads the store.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import strawberry
from strawberry.types.lazy_type import LazyType

from controlplane.clusters.api.clusters import ClusterType
from controlplane.platform.graphql.scalars import Map
from controlplane.repositories.api.repositories import GitRef, GitRepository
from controlplane.services.api.verification import ServiceHold, ServiceVerification
from controlplane.services.model.ledger import LedgerEntry
from controlplane.services.model.service import STATE_OF_HEALTH, Component, ComponentState
from controlplane.services.model.service import Revision as RevisionRow
from controlplane.services.model.service import Service as ServiceRow
from controlplane.services.model.sources import ServiceSource as SourceRow
from controlplane.services.model.status_codes import ServiceStatus
from core.spec.health import HealthRule as HealthRuleRow
from core.spec.objects import ObjectRef
from core.spec.sync import DriftPolicy

# Lazily: the module of contexts imports this one.
_SERVICE_CONTEXT: Any = LazyType("ServiceContextType", "controlplane.configuration.api.contexts")

strawberry.enum(ServiceStatus, name="ServiceDeploymentStatus", description="State of a service.")
strawberry.enum(ComponentState, name="ComponentState")
strawberry.enum(DriftPolicy, name="DriftPolicy")


@strawberry.type
class Installation:
    """Version and addresses of the installation."""

    version: str
    """Version of the control plane."""
    agents_port: int
    """TCP port for agents, on the host of this API."""
    signing_key: str | None
    """Public key (PEM) for signatures of rendered bundles. Null if bundles are not signed."""


@strawberry.type
class ObjectReference:
    """Reference to an object in a cluster."""

    group: str | None
    """API group. Null for the core group."""
    version: str | None
    """API version. Null if it does not matter."""
    kind: str
    """Kind, such as `Deployment`."""
    namespace: str | None
    """Namespace. Null for a cluster-scoped object."""
    name: str
    """Name."""

    @classmethod
    def of(cls, name: ObjectRef) -> "ObjectReference":
        return cls(
            group=name.group or None,
            version=name.version or None,
            kind=name.kind,
            namespace=name.namespace or None,
            name=name.name,
        )


@strawberry.type
class ServiceConfiguration:
    """A configuration value."""

    name: str
    """Name of the value."""
    value: str
    """The value."""


@strawberry.type
class ServiceError:
    """A problem of a service."""

    source: str
    """Step that failed, such as `render` or `apply`."""
    message: str
    """Human-readable message."""


@strawberry.type
class Kustomize:
    """Kustomize settings."""

    path: str
    """Folder of the kustomization, relative to the folder of the service."""
    enable_helm: bool | None
    """Always false. Present for compatibility."""


@strawberry.type
class HelmSpec:
    """Helm settings."""

    values: str | None
    """Values (YAML). They win over `valuesFiles`."""
    values_files: list[str | None] | None
    """Values files, relative to the folder of the service. Later files win."""
    chart: str | None
    """Name of the chart. Null if the folder of the service is the chart."""
    version: str | None
    """Version or npm version range."""
    url: str | None
    """URL of the chart repository, or `oci://…`."""
    release: str | None
    """Release name. Null: the name of the service."""
    ignore_hooks: bool | None
    """True if Helm hooks are skipped."""
    ignore_crds: bool | None
    """True if the folder `crds` is skipped."""


@strawberry.type
class NamespaceMetadata:
    """Labels and annotations of a created namespace."""

    labels: Map | None
    """Labels."""
    annotations: Map | None
    """Annotations."""


@strawberry.type
class DiffNormalizer:
    """Fields of matching objects that Towline ignores. A null condition matches everything."""

    group: str | None
    """API group."""
    kind: str | None
    """Kind."""
    namespace: str | None
    """Namespace."""
    name: str | None
    """Name."""
    backfill: bool | None
    """Always false. Present for compatibility."""
    json_pointers: list[str]
    """JSON pointers of ignored fields (RFC 6901)."""
    managers: list[str]
    """Field managers whose fields are ignored."""


@strawberry.type
class HealthCondition:
    """A condition on one field of an object."""

    pointer: str
    """JSON pointer of the field (RFC 6901)."""
    any_of: list[str]
    """Values that meet the condition."""


@strawberry.type
class HealthRuleType:
    """A health rule for objects of one kind. The first rule with all conditions met determines the
    state."""

    group: str | None
    """API group of the objects. Null for the core group."""
    kind: str
    """Kind of the objects."""
    state: ComponentState
    """State if all conditions are met."""
    conditions: list[HealthCondition]
    """Conditions."""
    message: str | None
    """JSON pointer of the field with the human-readable message. Null without one."""


@strawberry.type
class SyncConfig:
    """Sync options of a service."""

    create_namespace: bool | None
    """True if the agent creates the namespace."""
    enforce_namespace: bool | None
    """Always false. Present for compatibility."""
    drift_policy: DriftPolicy
    """Reaction of the agent to changes by others."""
    keep_on_prune: bool
    """True if objects that are no longer in Git stay in the cluster."""
    fail_on_conflict: bool
    """True if the sync fails instead of taking over fields of other field managers."""
    replace_immutable: bool
    """True if the agent deletes and recreates objects whose immutable fields differ."""
    wave_timeout: int | None
    """Seconds for a sync wave to become healthy. Null: the agent's default."""
    deletion_budget: int | None
    """Maximum number of deletions in one sync without a confirmation. Null: the agent's default."""
    diff_normalizers: list[DiffNormalizer]
    """Fields that Towline ignores."""
    health_rules: list[HealthRuleType]
    """Health rules for custom resources."""
    namespace_metadata: NamespaceMetadata | None
    """Labels and annotations of the created namespace."""


@strawberry.type
class RevisionType:
    """A rendered state that was the desired state of a service."""

    id: strawberry.ID
    sha: str
    """Full SHA of the commit."""
    git: GitRef
    """Ref and folder in the repository."""
    digest: str
    """Digest of the rendered bundle."""
    author: str
    """Author of the commit."""
    subject: str
    """First line of the commit message."""
    committed_at: datetime
    """Time of the commit."""
    inserted_at: datetime

    @classmethod
    def of(cls, row: RevisionRow) -> "RevisionType":
        return cls(
            id=strawberry.ID(row.id),
            sha=row.sha,
            git=GitRef(ref=row.ref, folder=row.folder),
            digest=row.digest,
            author=row.author,
            subject=row.subject,
            committed_at=row.committed_at,
            inserted_at=row.inserted_at,
        )


@strawberry.type
class ComponentContent:
    """Live and desired state of an object."""

    id: strawberry.ID
    live: str | None
    """Live state as YAML. Null if the object does not exist."""
    desired: str | None
    """Desired state as YAML. Null if the object should not exist."""


@strawberry.type
class ServiceComponent:
    """An object of a service in its cluster."""

    id: strawberry.ID
    uid: str | None
    """UID of the object. Null until it exists."""
    owner_uid: str | None
    """UID of the owner. Null for an object from the bundle."""
    name: str
    """Name."""
    group: str | None
    """API group. Null or empty for the core group."""
    kind: str
    """Kind, such as `Deployment`."""
    namespace: str | None
    """Namespace. Null for a cluster-scoped object."""
    state: ComponentState | None
    """Health of the object. Null if it has none."""
    synced: bool
    """True if the object matches its desired state."""
    version: str | None
    """API version."""
    message: str | None
    """Message about the health. Null without one."""
    images: list[str]
    """Container images."""
    labels: Map
    """Labels."""
    generation: float | None
    """`metadata.generation` of the object. Null if it has none."""
    hash: str | None
    """Digest of the object as the agent applied it: `sha256:…`. Null for other objects."""
    finalizers: list[str]
    """Finalizers."""
    updated_at: datetime
    content: ComponentContent | None = None
    """Always null. Use `componentLive`."""

    @classmethod
    def of(cls, row: Component) -> "ServiceComponent":
        return cls(
            id=strawberry.ID(row.id),
            uid=row.uid or None,
            owner_uid=row.owner_uid or None,
            name=row.name,
            group=row.group,
            kind=row.kind,
            namespace=row.namespace or None,
            state=row.state,
            synced=row.synced,
            version=row.version,
            message=row.message or None,
            images=list(row.images),
            labels=_map(row.labels),
            generation=row.generation or None,
            hash=row.hash or None,
            finalizers=list(row.finalizers),
            updated_at=row.updated_at,
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


@strawberry.type
class ServiceSourceType:
    """A further folder of a service."""

    repository_id: strawberry.ID
    """ID of the Git repository."""
    ref: str
    """Branch, tag or commit."""
    folder: str
    """Folder in the repository."""
    path: str
    """Target folder, relative to the folder of the service."""
    sha: str | None
    """Commit of the last render. Null before the first one."""

    @classmethod
    def of(cls, row: SourceRow) -> "ServiceSourceType":
        id = strawberry.ID(row.repository_id)
        return cls(
            repository_id=id, ref=row.ref, folder=row.folder, path=row.path, sha=row.sha or None
        )


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

    images: list[str]
    """Container images of all objects."""
    fqdns: list[str]
    """Always empty. Present for compatibility."""


@strawberry.type
class ServiceDependency:
    """A service in the same cluster that must be healthy first."""

    name: str
    """Name of the service."""


@strawberry.type
class ServiceDeployment:
    """A folder of a Git repository, or a Helm chart, that runs in a cluster."""

    id: strawberry.ID
    name: str
    """Name, unique in the cluster."""
    namespace: str
    """Default namespace of the objects."""
    version: str
    """Version, free text."""
    status: ServiceStatus
    """State of the service."""
    protect: bool
    """True if the service cannot be deleted."""
    templated: bool
    """True if manifests are rendered as Liquid templates."""
    dry_run: bool
    """True if the agent plans changes without applying them."""
    paused: bool
    """True if nothing changes the service."""
    promoted: bool
    """True if the service takes commits from a pipeline instead of following the ref."""
    sha: str | None
    """Full SHA of the desired commit. Null before the first render."""
    pinned_sha: str | None
    """Commit at which a rollback pinned the service. Null if it follows its ref."""
    digest: str | None
    """Digest of the desired bundle. Null before the first render."""
    inserted_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    observed_at: datetime | None
    """Time of the last report of the agent about the service."""
    git: GitRef | None
    """Ref and folder in the repository. Null without a repository."""
    kustomize: Kustomize | None
    """Kustomize settings. Null without Kustomize."""
    helm: HelmSpec | None
    """Helm settings. Null without Helm."""
    repository: GitRepository | None
    """Git repository. Null without one."""
    cluster: ClusterType | None
    """Cluster of the service."""
    revision: RevisionType | None
    """Revision of the desired state. Null before the first render."""
    components: list[ServiceComponent]
    """Objects of the service in the cluster."""
    configuration: list[ServiceConfiguration]
    """Values for templates."""
    errors: list[ServiceError]
    """Problems of the service, rendering first."""
    message: str | None
    """Current activity of the agent. Null without one."""
    mirrored: bool
    """True if an object in the cluster defines the service. The control plane only displays it."""
    origin: str | None
    """URL of the repository of a mirrored service. Null for other services."""
    awaiting: list[ObjectReference]
    """Objects whose deletion awaits a confirmation."""
    sync_config: SyncConfig
    """Sync options."""
    docs_path: str | None
    """Path of the documentation in the repository."""
    rendered_by: strawberry.ID | None
    """ID of the cluster whose agent renders the service. Null: the control plane, or the own agent
    of a mirrored service."""
    dependencies: list[ServiceDependency]
    """Services that must be healthy first."""
    waiting: bool
    """True while a dependency is not healthy. The service keeps its current state until then."""
    contexts: list[Any] = strawberry.field(graphql_type=list[_SERVICE_CONTEXT])
    """Service contexts whose values the templates may use."""
    sources: list[ServiceSourceType]
    """Further folders."""
    imports: list[ServiceImportType]
    """Always empty. Present for compatibility."""
    metadata: ServiceMetadata
    """Summary of the objects."""
    verification: ServiceVerification | None
    """Verification of new bundles. The verification of a pipeline stage takes precedence."""
    hold: ServiceHold | None
    """Denied or quarantined revision that the service does not get. Null without one."""
    tarball: str | None = None
    """Always null. Present for compatibility."""
    flow: Flow | None = None
    """Always null. Present for compatibility."""

    @classmethod
    def of(
        cls,
        row: ServiceRow,
        *,
        cluster: ClusterType | None = None,
        repository: GitRepository | None = None,
        revision: RevisionRow | None = None,
        components: list[Component] | None = None,
        contexts: list[Any] | None = None,
        sources: Sequence[SourceRow] = (),
    ) -> "ServiceDeployment":
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            namespace=row.namespace,
            version=row.spec.version,
            status=row.status,
            protect=row.spec.protect,
            templated=row.spec.templated,
            dry_run=row.spec.dry_run,
            paused=row.spec.paused,
            promoted=row.spec.promoted,
            sha=row.desired.commit_sha,
            pinned_sha=row.desired.pinned_sha,
            digest=row.desired.digest,
            inserted_at=row.inserted_at,
            updated_at=row.updated_at,
            deleted_at=row.deleted_at,
            observed_at=row.observed.observed_at,
            git=GitRef(ref=row.spec.ref, folder=row.spec.folder)
            if row.repository_id or row.origin
            else None,
            kustomize=_kustomize(row),
            helm=_helm(row),
            repository=repository,
            cluster=cluster,
            revision=RevisionType.of(revision) if revision else None,
            components=[ServiceComponent.of(component) for component in components or ()],
            configuration=[
                ServiceConfiguration(name=n, value=v) for n, v in row.spec.configuration.items()
            ],
            errors=[ServiceError(source=e.source, message=str(e)) for e in row.errors],
            message=row.observed.message or None,
            mirrored=row.mirrored,
            origin=row.origin or None,
            awaiting=[ObjectReference.of(name) for name in row.observed.awaiting],
            sync_config=_sync_config(row),
            docs_path=row.spec.docs_path,
            rendered_by=strawberry.ID(row.spec.rendered_by) if row.spec.rendered_by else None,
            dependencies=[
                ServiceDependency(name=dependency) for dependency in row.spec.dependencies
            ],
            waiting=row.desired.waiting,
            contexts=contexts or [],
            sources=[ServiceSourceType.of(source) for source in sources],
            imports=[],
            metadata=_metadata(components or ()),
            verification=ServiceVerification.of(row.spec.verification),
            hold=ServiceHold.of(row.desired.quarantined, row.desired.quarantine),
        )


@strawberry.type
class LedgerEvent:
    """A row of the deployment ledger."""

    id: strawberry.ID
    service_id: strawberry.ID
    """ID of the service."""
    cluster_id: strawberry.ID
    """ID of the cluster."""
    stage: str
    """Stage, such as `rendered`, `applied` or `healthy`."""
    at: datetime
    """Time of the event."""
    sequence: int
    """Generation of the desired state."""
    sha: str | None
    """Full SHA of the commit. Null if none is concerned."""
    digest: str | None
    """Digest of the bundle. Null if none is concerned."""
    revision_id: strawberry.ID | None
    """ID of the revision. Null if none is concerned."""
    actor: str
    """Author of the commit, or e-mail address of the user, that caused the event."""
    message: str
    """Human-readable message."""
    detail: Map
    """Further facts."""

    @classmethod
    def of(cls, row: LedgerEntry) -> "LedgerEvent":
        return cls(
            id=strawberry.ID(str(row.id)),
            service_id=strawberry.ID(row.service_id),
            cluster_id=strawberry.ID(row.cluster_id),
            stage=row.stage.value,
            at=row.at,
            sequence=row.sequence,
            sha=row.sha,
            digest=row.digest,
            revision_id=strawberry.ID(row.revision_id) if row.revision_id else None,
            actor=row.actor,
            message=row.message,
            detail=_map(row.detail),
        )


def _map(value: Any) -> Map:
    return Map(dict(value))


def _metadata(components: Iterable[Component]) -> ServiceMetadata:
    return ServiceMetadata(
        images=sorted({image for component in components for image in component.images}), fqdns=[]
    )


def _kustomize(row: ServiceRow) -> Kustomize | None:
    if row.spec.kustomize_path is None:
        return None
    return Kustomize(path=row.spec.kustomize_path, enable_helm=False)


def _helm(row: ServiceRow) -> HelmSpec | None:
    if row.spec.helm is None:
        return None
    return HelmSpec(
        values=row.spec.helm.get("values"),
        values_files=row.spec.helm.get("values_files"),
        chart=row.spec.helm.get("chart"),
        version=row.spec.helm.get("version"),
        url=row.spec.helm.get("url"),
        release=row.spec.helm.get("release"),
        ignore_hooks=row.spec.helm.get("ignore_hooks", False),
        ignore_crds=row.spec.helm.get("ignore_crds", False),
    )


def _sync_config(row: ServiceRow) -> SyncConfig:
    options = row.spec.options
    metadata = NamespaceMetadata(
        labels=_map(options.namespace_labels), annotations=_map(options.namespace_annotations)
    )
    return SyncConfig(
        create_namespace=options.create_namespace,
        enforce_namespace=False,
        drift_policy=options.drift,
        keep_on_prune=options.keep_on_prune,
        fail_on_conflict=options.fail_on_conflict,
        replace_immutable=options.replace_immutable,
        wave_timeout=options.wave_timeout_s or None,
        deletion_budget=options.deletion_budget or None,
        diff_normalizers=[
            DiffNormalizer(
                group=ignored.group or None,
                kind=ignored.kind or None,
                namespace=ignored.namespace or None,
                name=ignored.name or None,
                backfill=False,
                json_pointers=list(ignored.pointers),
                managers=list(ignored.managers),
            )
            for ignored in options.ignored
        ],
        health_rules=[_health_rule(health_rule) for health_rule in options.health_rules],
        namespace_metadata=metadata,
    )


def _health_rule(rule: HealthRuleRow) -> HealthRuleType:
    return HealthRuleType(
        group=rule.group or None,
        kind=rule.kind,
        state=STATE_OF_HEALTH[rule.health],
        conditions=[
            HealthCondition(pointer=condition.pointer, any_of=list(condition.any_of))
            for condition in rule.conditions
        ],
        message=rule.message or None,
    )
