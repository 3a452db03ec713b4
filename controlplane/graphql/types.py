"""Output types. Names and nullability follow what existing clients select.

Each type is made from a value of the domain by `of`; nothing here asks the store.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import strawberry

from controlplane.domain.ledger import LedgerEntry
from controlplane.domain.objects import ObjectName
from controlplane.domain.services import Component, ComponentState, DriftPolicy, ServiceStatus
from controlplane.domain.services import HealthRule as HealthRuleRow
from controlplane.domain.services import Revision as RevisionRow
from controlplane.domain.services import Service as ServiceRow
from controlplane.domain.sources import ServiceSource as SourceRow
from controlplane.graphql.clusters import Cluster
from controlplane.graphql.contexts import ServiceContext
from controlplane.graphql.repositories import GitRef, GitRepository
from controlplane.graphql.scalars import Map
from controlplane.graphql.verification import ServiceHold, ServiceVerification

strawberry.enum(ServiceStatus, name="ServiceDeploymentStatus")
strawberry.enum(ComponentState, name="ComponentState")
strawberry.enum(DriftPolicy, name="DriftPolicy")


@strawberry.type
class Installation:
    """`agentsPort` is the port to which agents connect, on the host of this API.

    `signingKey` is the public key (PEM) of what signs renders, for agents that take only these.
    """

    version: str
    agents_port: int
    signing_key: str | None


@strawberry.type
class ObjectReference:
    """An object of a cluster; without a namespace it is cluster-wide."""

    group: str | None
    version: str | None
    kind: str
    namespace: str | None
    name: str

    @classmethod
    def of(cls, one: ObjectName) -> "ObjectReference":
        return cls(
            group=one.group or None,
            version=one.version or None,
            kind=one.kind,
            namespace=one.namespace or None,
            name=one.name,
        )


@strawberry.type
class ServiceConfiguration:
    name: str
    value: str


@strawberry.type
class ServiceError:
    source: str
    message: str


@strawberry.type
class Kustomize:
    path: str
    enable_helm: bool | None


@strawberry.type
class HelmSpec:
    values: str | None
    values_files: list[str | None] | None
    chart: str | None
    version: str | None
    url: str | None
    release: str | None
    ignore_hooks: bool | None
    ignore_crds: bool | None


@strawberry.type
class NamespaceMetadata:
    labels: Map | None
    annotations: Map | None


@strawberry.type
class DiffNormalizer:
    """Fields of matching objects that others may set; what is null matches all."""

    group: str | None
    kind: str | None
    namespace: str | None
    name: str | None
    backfill: bool | None
    json_pointers: list[str]
    managers: list[str]


@strawberry.type
class HealthCondition:
    pointer: str
    any_of: list[str]


@strawberry.type
class HealthRule:
    """Objects of a kind are in `state` when all conditions hold; the first such rule counts."""

    group: str | None
    kind: str
    state: ComponentState
    conditions: list[HealthCondition]
    message: str | None


@strawberry.type
class SyncConfig:
    create_namespace: bool | None
    enforce_namespace: bool | None
    drift_policy: DriftPolicy
    keep_on_prune: bool
    fail_on_conflict: bool
    replace_immutable: bool
    wave_timeout: int | None
    deletion_budget: int | None
    diff_normalizers: list[DiffNormalizer]
    health_rules: list[HealthRule]
    namespace_metadata: NamespaceMetadata | None


@strawberry.type
class Revision:
    """A rendered state of a service that was desired at some time."""

    id: strawberry.ID
    sha: str
    git: GitRef
    digest: str
    author: str
    subject: str
    committed_at: datetime
    inserted_at: datetime

    @classmethod
    def of(cls, row: RevisionRow) -> "Revision":
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
    """An object as it is and as it should be."""

    id: strawberry.ID
    live: str | None
    desired: str | None


@strawberry.type
class ServiceComponent:
    """An object of a service in its cluster. `ownerUid` is empty for one that was applied."""

    id: strawberry.ID
    uid: str | None
    owner_uid: str | None
    name: str
    group: str | None
    kind: str
    namespace: str | None
    state: ComponentState | None
    synced: bool
    version: str | None
    message: str | None
    images: list[str]
    labels: Map
    generation: float | None
    hash: str | None
    finalizers: list[str]
    updated_at: datetime
    content: ComponentContent | None = None

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
    id: strawberry.ID | None
    name: str


@strawberry.type
class StackOutput:
    name: str
    value: str
    secret: bool | None


@strawberry.type
class ServiceSource:
    """A further folder of a service; `sha` is the commit that its last render took."""

    repository_id: strawberry.ID
    ref: str
    folder: str
    path: str
    sha: str | None

    @classmethod
    def of(cls, row: SourceRow) -> "ServiceSource":
        id = strawberry.ID(row.repository_id)
        return cls(
            repository_id=id, ref=row.ref, folder=row.folder, path=row.path, sha=row.sha or None
        )


@strawberry.type
class ServiceImport:
    """Outputs of an infrastructure stack. There are no stacks here: save outputs in contexts."""

    stack: InfrastructureStack | None
    outputs: list[StackOutput | None] | None


@strawberry.type
class Flow:
    id: strawberry.ID


@strawberry.type
class ServiceMetadata:
    """What the components of a service show of it."""

    images: list[str]
    fqdns: list[str]


@strawberry.type
class ServiceDependency:
    """Another service of the same cluster, by name."""

    name: str


@strawberry.type
class ServiceDeployment:
    """A folder of a repository that should run in a cluster.

    `waiting`: one of its `dependencies` is not healthy; it keeps what it has until all are.
    `renderedBy`: the cluster whose agent renders it; null: the control plane, or, if it is
    `mirrored`, its own. `verification`: how a new bundle must prove itself, where the stage of its
    pipeline says nothing; `hold`: what it does not get, since that is known to be bad.
    """

    id: strawberry.ID
    name: str
    namespace: str
    version: str
    status: ServiceStatus
    protect: bool
    templated: bool
    dry_run: bool
    paused: bool
    promoted: bool
    sha: str | None
    pinned_sha: str | None
    digest: str | None
    inserted_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    observed_at: datetime | None
    git: GitRef | None
    kustomize: Kustomize | None
    helm: HelmSpec | None
    repository: GitRepository | None
    cluster: Cluster | None
    revision: Revision | None
    components: list[ServiceComponent]
    configuration: list[ServiceConfiguration]
    errors: list[ServiceError]
    message: str | None
    mirrored: bool
    origin: str | None
    awaiting: list[ObjectReference]
    sync_config: SyncConfig
    docs_path: str | None
    rendered_by: strawberry.ID | None
    dependencies: list[ServiceDependency]
    waiting: bool
    contexts: list[ServiceContext]
    sources: list[ServiceSource]
    imports: list[ServiceImport]
    metadata: ServiceMetadata
    verification: ServiceVerification | None
    hold: ServiceHold | None
    tarball: str | None = None
    flow: Flow | None = None

    @classmethod
    def of(
        cls,
        row: ServiceRow,
        *,
        cluster: Cluster | None = None,
        repository: GitRepository | None = None,
        revision: RevisionRow | None = None,
        components: list[Component] | None = None,
        contexts: list[ServiceContext] | None = None,
        sources: Sequence[SourceRow] = (),
    ) -> "ServiceDeployment":
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            namespace=row.namespace,
            version=row.version,
            status=row.status,
            protect=row.protect,
            templated=row.templated,
            dry_run=row.dry_run,
            paused=row.paused,
            promoted=row.promoted,
            sha=row.sha,
            pinned_sha=row.pinned,
            digest=row.digest,
            inserted_at=row.inserted_at,
            updated_at=row.updated_at,
            deleted_at=row.deleted_at,
            observed_at=row.observed_at,
            git=GitRef(ref=row.ref, folder=row.folder) if row.repository_id or row.origin else None,
            kustomize=_kustomize(row),
            helm=_helm(row),
            repository=repository,
            cluster=cluster,
            revision=Revision.of(revision) if revision else None,
            components=[ServiceComponent.of(one) for one in components or ()],
            configuration=[
                ServiceConfiguration(name=n, value=v) for n, v in row.configuration.items()
            ],
            errors=[ServiceError(source=e.source, message=e.message) for e in row.errors],
            message=row.message or None,
            mirrored=row.mirrored,
            origin=row.origin or None,
            awaiting=[ObjectReference.of(one) for one in row.awaiting],
            sync_config=_sync_config(row),
            docs_path=row.docs_path,
            rendered_by=strawberry.ID(row.rendered_by) if row.rendered_by else None,
            dependencies=[ServiceDependency(name=one) for one in row.dependencies],
            waiting=row.waiting,
            contexts=contexts or [],
            sources=[ServiceSource.of(one) for one in sources],
            imports=[],
            metadata=_metadata(components or ()),
            verification=ServiceVerification.of(row.verification),
            hold=ServiceHold.of(row.held, row.hold),
        )


@strawberry.type
class LedgerEvent:
    """Something that happened to a service: one row of the deployment ledger."""

    id: strawberry.ID
    service_id: strawberry.ID
    cluster_id: strawberry.ID
    stage: str
    at: datetime
    sequence: int
    sha: str | None
    digest: str | None
    revision_id: strawberry.ID | None
    actor: str
    message: str
    detail: Map

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
        images=sorted({image for one in components for image in one.images}), fqdns=[]
    )


def _kustomize(row: ServiceRow) -> Kustomize | None:
    if row.kustomize_path is None:
        return None
    return Kustomize(path=row.kustomize_path, enable_helm=False)


def _helm(row: ServiceRow) -> HelmSpec | None:
    if row.helm is None:
        return None
    return HelmSpec(
        values=row.helm.get("values"),
        values_files=row.helm.get("values_files"),
        chart=row.helm.get("chart"),
        version=row.helm.get("version"),
        url=row.helm.get("url"),
        release=row.helm.get("release"),
        ignore_hooks=row.helm.get("ignore_hooks", False),
        ignore_crds=row.helm.get("ignore_crds", False),
    )


def _sync_config(row: ServiceRow) -> SyncConfig:
    options = row.options
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
                group=one.group or None,
                kind=one.kind or None,
                namespace=one.namespace or None,
                name=one.name or None,
                backfill=False,
                json_pointers=list(one.pointers),
                managers=list(one.managers),
            )
            for one in options.ignored
        ],
        health_rules=[_health_rule(one) for one in options.health_rules],
        namespace_metadata=metadata,
    )


def _health_rule(rule: HealthRuleRow) -> HealthRule:
    return HealthRule(
        group=rule.group or None,
        kind=rule.kind,
        state=rule.state,
        conditions=[
            HealthCondition(pointer=one.pointer, any_of=list(one.any_of)) for one in rule.conditions
        ],
        message=rule.message or None,
    )
