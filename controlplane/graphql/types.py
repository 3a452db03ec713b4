"""Output types. Names and nullability follow what existing clients select.

Each type is made from a value of the domain by `of`; nothing here asks the store.
"""

from datetime import datetime
from typing import Any

import strawberry

from controlplane.domain.access import Role
from controlplane.domain.clusters import Cluster as ClusterRow
from controlplane.domain.clusters import Distribution
from controlplane.domain.ledger import AuditEntry, LedgerEntry
from controlplane.domain.people import Token as TokenRow
from controlplane.domain.people import User as UserRow
from controlplane.domain.repositories import AuthMethod, GitHealth, Repository
from controlplane.domain.services import Component, ComponentState, ServiceStatus
from controlplane.domain.services import Revision as RevisionRow
from controlplane.domain.services import Service as ServiceRow
from controlplane.graphql.scalars import Map

strawberry.enum(Distribution, name="ClusterDistro")
strawberry.enum(ServiceStatus, name="ServiceDeploymentStatus")
strawberry.enum(ComponentState, name="ComponentState")
strawberry.enum(GitHealth, name="GitHealth")
strawberry.enum(AuthMethod, name="AuthMethod")
strawberry.enum(Role, name="Role")


@strawberry.type
class Tag:
    name: str
    value: str


@strawberry.type
class User:
    id: strawberry.ID
    name: str
    email: str
    role: Role

    @classmethod
    def of(cls, row: UserRow) -> "User":
        return cls(id=strawberry.ID(row.id), name=row.name, email=row.email, role=row.role)


@strawberry.type
class AccessToken:
    """A token of a user. `token` is the secret: given once, when it is made."""

    id: strawberry.ID
    name: str
    inserted_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    token: str | None = None

    @classmethod
    def of(cls, row: TokenRow, secret: str | None = None) -> "AccessToken":
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            inserted_at=row.inserted_at,
            expires_at=row.expires_at,
            last_used_at=row.last_used_at,
            revoked_at=row.revoked_at,
            token=secret,
        )


@strawberry.type
class Installation:
    """`agentsPort` is the port to which agents connect, on the host of this API."""

    version: str
    agents_port: int


@strawberry.type
class GitRef:
    ref: str
    folder: str


@strawberry.type
class Commit:
    sha: str
    author: str
    subject: str
    committed_at: datetime


@strawberry.type
class GitRepository:
    id: strawberry.ID
    url: str
    error: str | None
    health: GitHealth | None
    auth_method: AuthMethod | None
    decrypt: bool | None
    recurse_submodules: bool | None
    inserted_at: datetime
    updated_at: datetime
    pulled_at: datetime | None
    polled_at: datetime | None

    @classmethod
    def of(cls, row: Repository) -> "GitRepository":
        return cls(
            id=strawberry.ID(row.id),
            url=row.url,
            error=row.error,
            health=row.health,
            auth_method=row.auth_method,
            decrypt=row.decrypt,
            recurse_submodules=False,
            inserted_at=row.inserted_at,
            updated_at=row.updated_at,
            pulled_at=row.fetched_at,
            polled_at=row.polled_at,
        )


@strawberry.type
class Cluster:
    """A cluster. `pingedAt` is when its agent was last heard of: judge liveness by its age."""

    id: strawberry.ID
    name: str
    handle: str
    self_: bool = strawberry.field(name="self")
    version: str | None
    current_version: str | None
    distro: Distribution | None
    inserted_at: datetime
    updated_at: datetime
    pinged_at: datetime | None
    deleted_at: datetime | None
    protect: bool
    metadata: Map
    tags: list[Tag]
    kas_url: str | None
    agent_version: str | None
    node_count: int | None
    deploy_token: str | None = None

    @classmethod
    def of(cls, row: ClusterRow, deploy_token: str | None = None) -> "Cluster":
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            handle=row.handle,
            self_=False,
            version=row.version,
            current_version=row.kubernetes_version,
            distro=row.distribution,
            inserted_at=row.inserted_at,
            updated_at=row.updated_at,
            pinged_at=row.pinged_at,
            deleted_at=row.ending_at or row.deleted_at,
            protect=row.protect,
            metadata=_map(row.metadata),
            tags=[Tag(name=name, value=value) for name, value in row.tags.items()],
            kas_url=f"/k8s/clusters/{row.handle}",
            agent_version=row.agent_version,
            node_count=row.nodes,
            deploy_token=deploy_token,
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


@strawberry.type
class NamespaceMetadata:
    labels: Map | None
    annotations: Map | None


@strawberry.type
class SyncConfig:
    create_namespace: bool | None
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
    updated_at: datetime

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
            updated_at=row.updated_at,
        )


@strawberry.type
class ServiceDeployment:
    """A folder of a repository that should run in a cluster."""

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
    sync_config: SyncConfig

    @classmethod
    def of(
        cls,
        row: ServiceRow,
        *,
        cluster: ClusterRow | None = None,
        repository: Repository | None = None,
        revision: RevisionRow | None = None,
        components: list[Component] | None = None,
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
            git=GitRef(ref=row.ref, folder=row.folder) if row.repository_id else None,
            kustomize=_kustomize(row),
            helm=_helm(row),
            repository=GitRepository.of(repository) if repository else None,
            cluster=Cluster.of(cluster) if cluster else None,
            revision=Revision.of(revision) if revision else None,
            components=[ServiceComponent.of(one) for one in components or ()],
            configuration=[
                ServiceConfiguration(name=n, value=v) for n, v in row.configuration.items()
            ],
            errors=[ServiceError(source=e.source, message=e.message) for e in row.errors],
            sync_config=_sync_config(row),
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


@strawberry.type
class AuditLog:
    """Who asked for what, when, from where, and what was answered."""

    id: strawberry.ID
    at: datetime
    actor: str
    action: str
    verdict: str
    source: str
    target: str
    target_id: str
    status: int | None
    request_id: str
    detail: Map

    @classmethod
    def of(cls, row: AuditEntry) -> "AuditLog":
        return cls(
            id=strawberry.ID(str(row.id)),
            at=row.at,
            actor=row.actor,
            action=row.action,
            verdict=row.verdict.value,
            source=row.source,
            target=row.target,
            target_id=row.target_id,
            status=row.status,
            request_id=row.request_id,
            detail=_map(row.detail),
        )


def _map(value: Any) -> Map:
    return Map(dict(value))


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
    )


def _sync_config(row: ServiceRow) -> SyncConfig:
    options = row.options
    metadata = NamespaceMetadata(
        labels=_map(options.namespace_labels), annotations=_map(options.namespace_annotations)
    )
    return SyncConfig(create_namespace=options.create_namespace, namespace_metadata=metadata)
