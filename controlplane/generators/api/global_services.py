"""Global services in the API."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import orjson
import strawberry

from controlplane.access.api.loading import load_projects
from controlplane.clusters.api.clusters import ClusterProvider, Tag, tags_of
from controlplane.clusters.api.inputs import TagAttributes
from controlplane.clusters.model.cluster import Distribution
from controlplane.generators.api.definitions import (
    GENERATOR_NAMES,
    CascadeAttributes,
    GeneratorFields,
    GeneratorOutput,
    TargetPlanType,
)
from controlplane.generators.model.definitions import LeavePolicy
from controlplane.generators.model.global_service import GlobalService
from controlplane.generators.operations.global_services import (
    GlobalChange,
    GlobalServices,
    GlobalServiceView,
)
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Draft, FieldValues, Output, computed, draft, output
from controlplane.platform.graphql.inputs import values_by_name
from controlplane.platform.graphql.resource_fields import each
from controlplane.services.api.inputs import (
    ConfigAttributes,
    ServiceDeploymentAttributes,
    ServiceUpdateAttributes,
)
from controlplane.services.api.loading import service_types, with_related
from controlplane.services.api.types import ServiceDeployment
from controlplane.services.model.templates import OverrideDelta
from controlplane.services.operations.services import ServiceChange
from core.errors import Invalid
from core.json_object import JsonObject


@output(OverrideDelta)
class GlobalServiceDelta(Output[OverrideDelta]):
    """A field that differs from the template in one cluster."""

    inherited: str | None = computed(lambda delta: _json_text(delta.inherited))
    effective: str | None = computed(lambda delta: _json_text(delta.effective))


@output(GlobalServiceView, hide={"override"})
class GlobalServiceCluster(Output[GlobalServiceView]):
    """A global service as one cluster sees it."""

    id: strawberry.ID = computed(lambda view: view.cluster.id)
    """ID of the cluster."""
    overridden_by: str | None = computed(
        lambda view: view.override.actor if view.override else None
    )
    """E-mail address of the user who saved the overrides. Null without overrides."""
    overridden_at: datetime | None = computed(
        lambda view: view.override.updated_at if view.override else None
    )
    """Time of the last change of the overrides. Null without overrides."""


@output(GlobalService, hide={"source_id"})
class GlobalServiceType(GeneratorOutput[GlobalService]):
    """A service that Towline replicates to every matching cluster."""

    distro: Distribution | None = computed(lambda row: row.selector.distribution)
    """Required distribution. Same as in `selector`."""
    tags: list[Tag] = computed(lambda row: tags_of(row.selector))
    """Required tags. Same as in `selector`."""
    service: ServiceDeployment | None
    """Service that is the template. Null if `template` is set."""
    provider: ClusterProvider | None = None
    """Always null. Present for compatibility."""


@draft(
    GlobalChange,
    rename=GENERATOR_NAMES,
    only={"name", "project_id", "template", "on_delete", "budget"},
)
class GlobalServiceAttributes(Draft[GlobalChange]):
    """Fields of a global service. A field that is null or absent stays as it is."""

    name: str
    """Unique name."""
    tags: list[TagAttributes | None] | None = None
    """Required tags. Limit: 64."""
    distro: Distribution | None = None
    """Required distribution."""
    provider_id: strawberry.ID | None = None
    """Not supported. Select clusters by tags."""
    group_ids: list[strawberry.ID] | None = None
    """IDs of cluster groups. One of them is enough. Limit: 1,000."""
    ignore_clusters: list[strawberry.ID] | None = None
    """IDs of clusters that never match. Limit: 1,000."""
    template: ServiceDeploymentAttributes | None = None
    cascade: CascadeAttributes | None = None
    """Handling of services on clusters that no longer match. Default: detach."""
    on_delete: LeavePolicy | None = None
    """Handling of services when the global service is deleted. Default: same as `cascade`."""

    def field_values(self) -> FieldValues:
        if self.provider_id:
            raise Invalid(
                "providers are not supported; select clusters by tags", field="providerId"
            )
        ids = {"groups": self.group_ids, "excluded": self.ignore_clusters}
        selector: JsonObject = {
            name: tuple(names) for name, names in ids.items() if names is not None
        }
        if self.distro is not None:
            selector["distribution"] = self.distro
        if self.tags is not None:
            selector["tags"] = values_by_name(self.tags)
        leave = self.cascade.leave if self.cascade else None
        policies = {"leave": leave, "on_delete": leave}
        return {**policies, **super().field_values(), "selector": selector}


@strawberry.input
class GlobalOverrideAttributes(ServiceUpdateAttributes):
    """Overrides of a global service for one cluster. They replace all earlier overrides.

    A configuration value that is null removes the value of the template. No field at all removes
    the overrides.
    """

    def patch(self) -> ServiceChange:
        kept = [entry for entry in self._config_entries if entry.value is not None]
        return replace(self, configuration=kept or None).change()

    @property
    def without(self) -> list[str]:
        return [entry.name for entry in self._config_entries if entry.value is None]

    @property
    def _config_entries(self) -> list[ConfigAttributes]:
        return [entry for entry in self.configuration or () if entry is not None]


async def _global_services(info: Info, rows: Sequence[GlobalService]) -> list[GlobalServiceType]:
    context = info.context
    sources = await context[GlobalServices].sources(context.actor, rows)
    services = {str(row.id): row for row in await with_related(context, sources, frozenset())}
    projects = await load_projects(context, [row.project_id for row in rows])
    return [
        GlobalServiceType.of(
            row,
            service=services.get(row.source_id or ""),
            project=projects.get(row.project_id or ""),
        )
        for row in rows
    ]


_GLOBALS = GeneratorFields("global service", GlobalServices, GlobalServiceType, _global_services)


@strawberry.type
class GlobalQuery:
    global_service = _GLOBALS.get(GlobalServices.get)
    """A global service, by ID or name."""
    global_services = _GLOBALS.page(GlobalServices.page)
    """Global services."""
    global_service_clusters = _GLOBALS.related(
        GlobalServices.clusters, GlobalServiceCluster, each(GlobalServiceCluster.of)
    )
    """Clusters of a global service with their overrides, sorted by handle."""
    global_service_services = _GLOBALS.related(
        GlobalServices.services, ServiceDeployment, service_types
    )
    """Services that a global service created."""

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
        change = replace(attributes.change(), source_id=service_id or None)
        plan = await info.context[GlobalServices].preview(info.context.actor, id or None, change)
        return TargetPlanType.of(plan)


@strawberry.type
class GlobalMutation:
    @strawberry.mutation
    async def create_global_service(
        self,
        info: Info,
        attributes: GlobalServiceAttributes,
        service_id: strawberry.ID | None = None,
        repository_url: str | None = None,
    ) -> GlobalServiceType | None:
        """Creates a global service from a service or a template.

        Args:
            attributes: Fields of the global service.
            service_id: ID of the service that is the template. Null: `attributes.template`.
            repository_url: URL of the Git or OCI repository of the template, instead of its ID. An
                unknown one is added without credentials, together with the global service or not
                at all.
        """
        change = replace(
            attributes.change(), source_id=service_id or None, repository_url=repository_url
        )
        row = await info.context[GlobalServices].create(info.context.actor, change)
        return await _GLOBALS.one(info, row)

    update_global_service = _GLOBALS.update(GlobalServices.update, GlobalServiceAttributes)
    """Updates a global service and all its services."""
    delete_global_service = _GLOBALS.action(GlobalServices.delete)
    """Deletes a global service. `onDelete` determines the handling of its services."""
    sync_global_service = _GLOBALS.sync(GlobalServices.sync)
    """Evaluates a global service now."""

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
            attributes: Overrides.
        """
        context = info.context
        view = await context[GlobalServices].override(
            info.context.actor, id, cluster_id, attributes.patch(), attributes.without
        )
        return GlobalServiceCluster.of(view)


def _json_text(value: object) -> str | None:
    return None if value is None else orjson.dumps(value, default=str).decode()
