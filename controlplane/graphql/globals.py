"""Global services in the API."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import orjson
import strawberry

from controlplane.domain.clusters import Distribution
from controlplane.domain.globals import GlobalService as GlobalRow
from controlplane.domain.owners import LeavePolicy
from controlplane.domain.templates import OverrideDelta
from controlplane.graphql import relay
from controlplane.graphql.access import ProjectType
from controlplane.graphql.clusters import ClusterProvider, ClusterType, Tag
from controlplane.graphql.context import Context, Info
from controlplane.graphql.definitions import (
    CascadeAttributes,
    ClusterSelector,
    DefinitionState,
    ServiceTemplateType,
    TargetPlanType,
    common_change,
    projects_of,
    selector_fields,
)
from controlplane.graphql.inputs import (
    ServiceDeploymentAttributes,
    ServiceUpdateAttributes,
    TagAttributes,
)
from controlplane.graphql.services import service_types, with_related
from controlplane.graphql.types import ServiceDeployment
from controlplane.usecases.globals import GlobalChange, GlobalServiceView
from controlplane.usecases.services import ServiceChange
from core.errors import Invalid


@strawberry.type
class GlobalServiceDelta:
    """A field that differs from the template in one cluster."""

    field: str
    """Name of the field."""
    inherited: str | None
    """Value of the template as JSON. Null if the template has none."""
    effective: str | None
    """Value in the cluster as JSON. Null if the cluster has none."""

    @classmethod
    def of(cls, row: OverrideDelta) -> "GlobalServiceDelta":
        return cls(field=row.field, inherited=_json(row.inherited), effective=_json(row.effective))


@strawberry.type
class GlobalServiceCluster:
    """A global service as one cluster sees it."""

    id: strawberry.ID
    """ID of the cluster."""
    cluster: ClusterType
    """The cluster."""
    effective: ServiceTemplateType
    """Template with the overrides of the cluster."""
    delta: list[GlobalServiceDelta]
    """Fields that differ from the template."""
    overridden_by: str | None
    """E-mail address of the user who saved the overrides. Null without overrides."""
    overridden_at: datetime | None
    """Time of the last change of the overrides. Null without overrides."""

    @classmethod
    def of(cls, view: GlobalServiceView) -> "GlobalServiceCluster":
        row = view.override
        return cls(
            id=strawberry.ID(view.cluster.id),
            cluster=ClusterType.of(view.cluster),
            effective=ServiceTemplateType.of(view.effective),
            delta=[GlobalServiceDelta.of(delta) for delta in view.delta],
            overridden_by=row.actor if row else None,
            overridden_at=row.updated_at if row else None,
        )


@strawberry.type
class GlobalServiceType:
    """A service that Towline replicates to every matching cluster."""

    id: strawberry.ID
    name: str
    """Unique name."""
    distro: Distribution | None
    """Required distribution. Same as in `selector`."""
    tags: list[Tag]
    """Required tags. Same as in `selector`."""
    selector: ClusterSelector
    """Conditions on clusters."""
    on_leave: LeavePolicy
    """Handling of services on clusters that no longer match."""
    on_delete: LeavePolicy
    """Handling of services when the global service is deleted."""
    deletion_budget: int
    """Maximum number of removals in one evaluation without a confirmation."""
    template: ServiceTemplateType | None
    """Template of the services. Null if `service` is the template."""
    service: ServiceDeployment | None
    """Service that is the template. Null if `template` is set."""
    project: ProjectType | None
    """Project whose clusters can match. Null: clusters of all projects."""
    state: DefinitionState
    """Result of the last evaluation."""
    inserted_at: datetime
    updated_at: datetime
    provider: ClusterProvider | None = None
    """Always null. Present for compatibility."""

    @classmethod
    def of(
        cls,
        row: GlobalRow,
        service: ServiceDeployment | None = None,
        project: ProjectType | None = None,
    ) -> "GlobalServiceType":
        selector = ClusterSelector.of(row.selector)
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            distro=row.selector.distribution,
            tags=selector.tags,
            selector=selector,
            on_leave=row.leave,
            on_delete=row.on_delete,
            deletion_budget=row.budget,
            template=ServiceTemplateType.of(row.template) if row.template else None,
            service=service,
            project=project,
            state=DefinitionState.of(row),
            inserted_at=row.inserted_at,
            updated_at=row.updated_at,
        )


@strawberry.input
class GlobalServiceAttributes:
    """Fields of a global service. A field that is null or absent stays as it is."""

    name: str
    """Unique name."""
    tags: list[TagAttributes] | None = None
    """Required tags. Limit: 64."""
    distro: Distribution | None = None
    """Required distribution."""
    provider_id: strawberry.ID | None = None
    """Not supported. Select clusters by tags."""
    project_id: strawberry.ID | None = None
    """ID of the project whose clusters can match. Default: clusters of all projects."""
    group_ids: list[strawberry.ID] | None = None
    """IDs of cluster groups. One of them is enough. Limit: 1,000."""
    ignore_clusters: list[strawberry.ID] | None = None
    """IDs of clusters that never match. Limit: 1,000."""
    template: ServiceDeploymentAttributes | None = None
    """Template of the services. Give it or a service ID."""
    cascade: CascadeAttributes | None = None
    """Handling of services on clusters that no longer match. Default: detach."""
    on_delete: LeavePolicy | None = None
    """Handling of services when the global service is deleted. Default: same as `cascade`."""
    deletion_budget: int | None = None
    """Maximum number of removals in one evaluation without a confirmation. Default: 10. Limit:
    100,000."""

    def change(self, service_id: str | None = None) -> GlobalChange:
        if self.provider_id:
            raise Invalid(
                "providers are not supported; select clusters by tags", field="providerId"
            )
        selector = selector_fields(
            self.tags,
            distribution=self.distro,
            groups=self.group_ids,
            excluded=self.ignore_clusters,
        )
        leave = self.cascade.leave if self.cascade else None
        policies = (leave, self.on_delete or leave)
        return GlobalChange(
            common_change(self.name, self.project_id, selector, policies, self.deletion_budget),
            service_id or None,
            self.template.change() if self.template else None,
        )


@strawberry.input
class GlobalOverrideAttributes(ServiceUpdateAttributes):
    """Overrides of a global service for one cluster. They replace all earlier overrides.

    A configuration value that is null removes the value of the template. No field at all removes
    the overrides.
    """

    def patch(self) -> ServiceChange:
        kept = [entry for entry in self.configuration or () if entry.value is not None]
        return replace(self, configuration=kept or None).change()

    @property
    def without(self) -> list[str]:
        return [entry.name for entry in self.configuration or () if entry.value is None]


@strawberry.type
class GlobalQuery:
    @strawberry.field
    async def global_service(
        self, info: Info, id: strawberry.ID | None = None, name: str | None = None
    ) -> GlobalServiceType | None:
        """A global service, by ID or name.

        Args:
            id: ID of the global service.
        """
        verbs = info.context.verbs
        row = await verbs.globals.get(info.context.actor, id, name)
        return (await global_types(info.context, [row]))[0]

    @strawberry.field
    async def global_services(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
    ) -> relay.Connection[GlobalServiceType]:
        """Global services."""
        asked = relay.page_query(first, after, q)
        page = await info.context.verbs.globals.page(info.context.actor, asked)
        return await relay.connection_of_many(info.context, page, asked, global_types)

    @strawberry.field
    async def global_service_clusters(
        self, info: Info, id: strawberry.ID
    ) -> list[GlobalServiceCluster]:
        """Clusters of a global service with their overrides, sorted by handle.

        Args:
            id: ID of the global service.
        """
        views = await info.context.verbs.globals.clusters(info.context.actor, id)
        return [GlobalServiceCluster.of(view) for view in views]

    @strawberry.field
    async def global_service_services(
        self, info: Info, id: strawberry.ID
    ) -> list[ServiceDeployment]:
        """Services that a global service created.

        Args:
            id: ID of the global service.
        """
        rows = await info.context.verbs.globals.services(info.context.actor, id)
        return await service_types(info, rows)

    @strawberry.field
    async def preview_global_service(
        self,
        info: Info,
        attributes: GlobalServiceAttributes,
        id: strawberry.ID | None = None,
        service_id: strawberry.ID | None = None,
    ) -> TargetPlanType:
        """Changes that creating or updating a global service would make.

        Args:
            attributes: Fields of the global service.
            id: ID of the global service to update. Null: a new one.
            service_id: ID of the service that is the template.
        """
        verbs = info.context.verbs
        plan = await verbs.globals.preview(
            info.context.actor, id or None, attributes.change(service_id)
        )
        return TargetPlanType.of(plan)


@strawberry.type
class GlobalMutation:
    @strawberry.mutation
    async def create_global_service(
        self,
        info: Info,
        attributes: GlobalServiceAttributes,
        service_id: strawberry.ID | None = None,
    ) -> GlobalServiceType | None:
        """Creates a global service from a service or a template.

        Args:
            attributes: Fields of the global service.
            service_id: ID of the service that is the template. Null: `attributes.template`.
        """
        verbs = info.context.verbs
        row = await verbs.globals.create(info.context.actor, attributes.change(service_id))
        return (await global_types(info.context, [row]))[0]

    @strawberry.mutation
    async def update_global_service(
        self, info: Info, id: strawberry.ID, attributes: GlobalServiceAttributes
    ) -> GlobalServiceType | None:
        """Updates a global service and all its services.

        Args:
            id: ID of the global service.
            attributes: Fields to change.
        """
        verbs = info.context.verbs
        row = await verbs.globals.update(info.context.actor, id, attributes.change())
        return (await global_types(info.context, [row]))[0]

    @strawberry.mutation
    async def delete_global_service(
        self, info: Info, id: strawberry.ID
    ) -> GlobalServiceType | None:
        """Deletes a global service. `onDelete` determines the handling of its services.

        Args:
            id: ID of the global service.
        """
        row = await info.context.verbs.globals.delete(info.context.actor, id)
        return (await global_types(info.context, [row]))[0]

    @strawberry.mutation
    async def sync_global_service(
        self, info: Info, id: strawberry.ID, confirm: int = 0
    ) -> GlobalServiceType | None:
        """Evaluates a global service now.

        Args:
            id: ID of the global service.
            confirm: Number of removals to allow in this evaluation. Default: 0, the deletion
                budget.
        """
        row = await info.context.verbs.globals.sync(info.context.actor, id, confirm=confirm)
        return (await global_types(info.context, [row]))[0]

    @strawberry.mutation
    async def override_global_service(
        self,
        info: Info,
        id: strawberry.ID,
        cluster_id: strawberry.ID,
        attributes: GlobalOverrideAttributes,
    ) -> GlobalServiceCluster | None:
        """Replaces all overrides of a global service for one cluster.

        Args:
            id: ID of the global service.
            cluster_id: ID of the cluster.
            attributes: Overrides.
        """
        verbs = info.context.verbs
        view = await verbs.globals.override(
            info.context.actor, id, cluster_id, attributes.patch(), attributes.without
        )
        return GlobalServiceCluster.of(view)


async def global_types(context: Context, rows: Sequence[GlobalRow]) -> list[GlobalServiceType]:
    """Converts global services, with their projects and template services."""
    sources = await context.verbs.globals.sources(context.actor, rows)
    shown = {
        str(service.id): service for service in await with_related(context, sources, frozenset())
    }
    projects = await projects_of(context, [row.project_id for row in rows])
    return [
        GlobalServiceType.of(
            row, shown.get(row.source_id or ""), projects.get(row.project_id or "")
        )
        for row in rows
    ]


def _json(value: object) -> str | None:
    return None if value is None else orjson.dumps(value, default=str).decode()
