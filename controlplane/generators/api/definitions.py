"""Common types of global services, service sets and managed namespaces in the API."""

from datetime import datetime
from typing import Any

import strawberry

from controlplane.clusters.api.clusters import Tag, tags_of
from controlplane.clusters.api.inputs import TagAttributes
from controlplane.clusters.model.cluster import Distribution
from controlplane.clusters.model.selectors import Selector as SelectorRow
from controlplane.generators.model.definitions import GeneratorDefinition, LeavePolicy
from controlplane.generators.model.plan import GeneratedService
from controlplane.generators.model.plan import TargetPlan as PlanRow
from controlplane.generators.operations.definitions import GeneratorChange
from controlplane.generators.operations.reconciler import problem_of
from controlplane.platform.graphql.scalars import Map
from controlplane.services.api.types import GitRef, ServiceConfiguration
from controlplane.services.api.verification import ServiceVerification
from controlplane.services.model.service import Service
from controlplane.services.model.templates import ServiceTemplate as TemplateRow

MAX_SHOWN = 500
"""Maximum number of services in each list of a plan. Counts include all."""

strawberry.enum(LeavePolicy, name="LeavePolicy")


@strawberry.type
class ClusterSelector:
    """Conditions on clusters. A cluster must meet all. No condition selects every cluster."""

    tags: list[Tag]
    """Required tags."""
    distro: Distribution | None
    """Required distribution."""
    project_id: strawberry.ID | None
    """ID of the required project."""
    group_ids: list[strawberry.ID]
    """IDs of cluster groups. One of them is enough."""
    ignored_cluster_ids: list[strawberry.ID]
    """IDs of clusters that never match."""

    @classmethod
    def of(cls, row: SelectorRow) -> "ClusterSelector":
        return cls(
            tags=tags_of(row),
            distro=row.distribution,
            project_id=strawberry.ID(row.project_id) if row.project_id else None,
            group_ids=[strawberry.ID(group_id) for group_id in row.groups],
            ignored_cluster_ids=[strawberry.ID(cluster_id) for cluster_id in row.excluded],
        )


@strawberry.input
class ClusterSelectorAttributes:
    """Conditions on clusters. A condition that is null or absent stays as it is."""

    tags: list[TagAttributes] | None = None
    """Required tags. Limit: 64."""
    distro: Distribution | None = None
    """Required distribution."""
    project_id: strawberry.ID | None = None
    """ID of the required project."""
    group_ids: list[strawberry.ID] | None = None
    """IDs of cluster groups. One of them is enough. Limit: 1,000."""
    ignored_cluster_ids: list[strawberry.ID] | None = None
    """IDs of clusters that never match. Limit: 1,000."""

    def fields(self) -> dict[str, Any]:
        """Returns the given fields of the selector."""
        return selector_fields(
            self.tags,
            distribution=self.distro,
            project_id=self.project_id or None,
            groups=self.group_ids,
            excluded=self.ignored_cluster_ids,
        )


def selector_fields(
    tags: list[TagAttributes] | None, *, distribution: Distribution | None = None, **given: Any
) -> dict[str, Any]:
    """Returns the fields of a selector that are not null."""
    found = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in {"distribution": distribution, **given}.items()
        if value is not None
    }
    return found if tags is None else found | {"tags": {tag.name: tag.value for tag in tags}}


@strawberry.input
class CascadeAttributes:
    """Handling of services on clusters that no longer match. Default: detach."""

    delete: bool | None = None
    """Delete the service and its objects."""
    detach: bool | None = None
    """Delete the service and keep its objects. Takes precedence over `delete`."""

    @property
    def leave(self) -> LeavePolicy:
        return LeavePolicy.DELETE if self.delete and not self.detach else LeavePolicy.DETACH


@strawberry.type
class TemplateSecret:
    """A secret that all services of a template use."""

    name: str
    """Name in the manifests, as in `${towline.secret:NAME}`."""
    secret_id: strawberry.ID
    """ID of the secret."""


@strawberry.type
class ServiceTemplateType:
    """Template of the services that a global service, service set or managed namespace creates."""

    name: str
    """Name of the services."""
    namespace: str
    """Default namespace of the objects."""
    version: str
    """Version, free text."""
    repository_id: strawberry.ID | None
    """ID of the Git repository. Null for a service without one."""
    git: GitRef
    """Ref and folder in the repository."""
    kustomize_path: str | None
    """Path of the kustomization. Null without Kustomize."""
    helm: Map | None
    """Helm settings. Null without Helm."""
    configuration: list[ServiceConfiguration]
    """Values for templates."""
    templated: bool
    """True if manifests are rendered as Liquid templates."""
    protect: bool
    """True if the services cannot be deleted."""
    dry_run: bool
    """True if agents only plan changes."""
    dependencies: list[str]
    """Names of services in the same cluster that must be healthy first."""
    verification: ServiceVerification | None
    """Verification of new bundles."""
    secrets: list[TemplateSecret]
    """Secrets that the services use."""

    @classmethod
    def of(cls, row: TemplateRow) -> "ServiceTemplateType":
        return cls(
            name=row.name,
            namespace=row.namespace,
            version=row.version,
            repository_id=strawberry.ID(row.repository_id) if row.repository_id else None,
            git=GitRef.of(row),
            kustomize_path=row.kustomize_path,
            helm=Map(dict(row.helm)) if row.helm is not None else None,
            configuration=[
                ServiceConfiguration(name=n, value=v) for n, v in row.configuration.items()
            ],
            templated=row.templated,
            protect=row.protect,
            dry_run=row.dry_run,
            dependencies=list(row.dependencies),
            verification=ServiceVerification.of_optional(row.verification),
            secrets=[
                TemplateSecret(name=name, secret_id=strawberry.ID(id))
                for name, id in (row.secrets or {}).items()
            ],
        )


@strawberry.type
class PlannedService:
    """A service of a plan."""

    id: strawberry.ID | None
    """ID of the service. Null for a service that would be created."""
    cluster_id: strawberry.ID
    """ID of the cluster."""
    name: str
    """Name of the service."""
    namespace: str
    """Namespace of the service."""
    ref: str
    """Git ref."""
    folder: str
    """Folder in the repository."""


@strawberry.type
class TargetPlanType:
    """Changes that a global service, service set or managed namespace would make. Lists contain the
    first 500 services; numbers count all."""

    creates: int
    """Number of services to create."""
    updates: int
    """Number of services to update."""
    deletes: int
    """Number of services to remove."""
    create: list[PlannedService]
    """Services to create."""
    update: list[PlannedService]
    """Services to update."""
    delete: list[PlannedService]
    """Services to remove."""
    withheld: list[PlannedService]
    """Services whose removal waits for a confirmation or for complete input."""
    collisions: list[PlannedService]
    """Services that cannot be created, since another service has the same name in that cluster."""
    frozen: int
    """Number of changes that wait for the end of a freeze."""
    complete: bool
    """True if all clusters, folders and requests were evaluated."""
    problem: str | None
    """Reason of an incomplete plan."""

    @classmethod
    def of(cls, row: PlanRow) -> "TargetPlanType":
        return cls(
            creates=len(row.create),
            updates=len(row.update),
            deletes=len(row.remove),
            create=[_planned(wanted) for wanted in row.create[:MAX_SHOWN]],
            update=[_planned(wanted, service.id) for service, wanted in row.update[:MAX_SHOWN]],
            delete=[_existing(service) for service in row.remove[:MAX_SHOWN]],
            withheld=[_existing(service) for service in row.withheld[:MAX_SHOWN]],
            collisions=[_planned(collision) for collision in row.collisions[:MAX_SHOWN]],
            frozen=len(row.frozen),
            complete=not row.problems,
            problem=problem_of(row) or None,
        )


@strawberry.type
class DefinitionState:
    """Result of the last evaluation."""

    waiting: int
    """Number of removals that await a confirmation."""
    problem: str | None
    """Reason of an incomplete evaluation. Null if there was none."""
    evaluated_at: datetime | None
    """Time of the last evaluation."""
    deleted_at: datetime | None
    """Start of the deletion. Null if none is under way."""

    @classmethod
    def of(cls, row: GeneratorDefinition) -> "DefinitionState":
        return cls(
            waiting=row.waiting,
            problem=row.problem or None,
            evaluated_at=row.evaluated_at,
            deleted_at=row.ending_at,
        )


def common_change(
    name: str | None,
    project_id: str | None,
    selector: dict[str, Any] | None,
    policies: tuple[LeavePolicy | None, LeavePolicy | None],
    budget: int | None,
) -> GeneratorChange:
    """Returns the change to the common fields; `policies`: on leaving, on deletion."""
    leave, on_delete = policies
    return GeneratorChange(name, project_id or None, selector, leave, on_delete, budget)


def _planned(wanted: GeneratedService, id: str | None = None) -> PlannedService:
    template = wanted.template
    return PlannedService(
        id=strawberry.ID(id) if id else None,
        cluster_id=strawberry.ID(wanted.cluster_id),
        name=template.name,
        namespace=template.namespace,
        ref=template.ref,
        folder=template.folder,
    )


def _existing(service: Service) -> PlannedService:
    return PlannedService(
        id=strawberry.ID(service.id),
        cluster_id=strawberry.ID(service.cluster_id),
        name=service.name,
        namespace=service.namespace,
        ref=service.spec.ref,
        folder=service.spec.folder,
    )
