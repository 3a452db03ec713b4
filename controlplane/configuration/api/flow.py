"""Configuration flow in the API: exports and imports of services, and layers of contexts."""

import strawberry

from controlplane.configuration.model.flow import Export, Import, ImportedValue, ValueType
from controlplane.configuration.model.overrides import ContextOverride, LayeredValue, OverrideLayer
from controlplane.configuration.operations.contexts import ContextOverrideChange, ServiceContexts
from controlplane.configuration.operations.flows import ConfigurationFlow, FlowView
from controlplane.configuration.operations.service_graph import (
    ServiceEdge,
    ServiceEdgeKind,
    ServiceGraph,
)
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Draft, Output, computed, draft, output
from controlplane.platform.graphql.inputs import json_object
from controlplane.platform.graphql.scalars import Json
from controlplane.services.api.loading import service_types
from controlplane.services.api.types import ServiceDeployment
from controlplane.services.model.service import Service
from controlplane.services.operations.services import Services

strawberry.enum(ValueType, name="ValueType")
strawberry.enum(OverrideLayer, name="ContextLayer")
strawberry.enum(ServiceEdgeKind, name="ServiceEdgeKind")


@output(Export)
class ServiceExportType(Output[Export]):
    """A value that a service exports."""

    value: Json


@output(Import)
class FlowImport(Output[Import]):
    """An import of a service."""

    default: Json | None
    value: Json | None
    """Current value as JSON. Null if it cannot be resolved."""
    origin: list[str]
    """Exports that the value comes from, nearest first, such as `dev/db.host`. Limit: 32."""

    @classmethod
    def resolved(cls, imported: Import, value: ImportedValue | None) -> "FlowImport":
        """Returns the import with its current value, if it has one."""
        if value is None:
            return cls.of(imported, value=None, origin=[])
        return cls.of(imported, value=value.value, origin=list(value.origin))


@output(FlowView, hide={"service", "values"}, nullable={"problem"})
class ServiceFlow(Output[FlowView]):
    """Exports and imports of a service."""

    service_id: strawberry.ID = computed(lambda view: view.service.id)
    """ID of the service."""
    imports: list[FlowImport] = computed(
        lambda view: [
            FlowImport.resolved(imported, view.values.get(imported.alias))
            for imported in view.imports
        ]
    )


@output(Service, rename={"service_id": "id"}, only={"id", "name", "cluster_id"})
class FlowService(Output[Service]):
    """A service that a change of exports affects."""

    service_id: strawberry.ID
    """ID of the service."""
    name: str
    """Name of the service."""
    cluster_id: strawberry.ID
    """ID of the cluster."""


@output(ServiceEdge)
class ServiceEdgeType(Output[ServiceEdge]):
    """A relation of two services: the target needs the source."""


@strawberry.type(name="ServiceGraph")
class ServiceGraphType:
    """Services that need others or that others need, and their relations."""

    edges: list[ServiceEdgeType]
    """Edges between these services. Limit: 5,000."""
    complete: bool
    """False if the fleet has more edges than the limit."""
    graph: strawberry.Private[ServiceGraph]

    @strawberry.field
    async def services(self, info: Info) -> list[ServiceDeployment]:
        """Services with an edge, sorted by ID."""
        return await service_types(info, self.graph.services)


@output(ContextOverride, hide={"context_id", "inserted_at"})
class ContextOverrideType(Output[ContextOverride]):
    """Values of a service context that differ for a project, cluster group or cluster."""


@output(LayeredValue)
class ContextValue(Output[LayeredValue]):
    """A value of a service context as one service sees it. Secret values are not returned."""

    service_id: strawberry.ID
    """ID of the service."""
    context: str
    """Name of the context."""
    key: str
    """Key of the value."""
    value: Json | None


@draft(Export)
class ServiceExportAttributes(Draft[Export]):
    """A value to export."""

    value: Json
    shared: bool = False


@draft(Import)
class ServiceImportAttributes(Draft[Import]):
    """A value to import."""

    default: Json | None = None


@strawberry.input
class ServiceFlowAttributes:
    """Exports and imports of a service. A list that is null or absent stays as it is."""

    exports: list[ServiceExportAttributes] | None = None
    """Values to export. Replaces the whole list. Limit: 200."""
    imports: list[ServiceImportAttributes] | None = None
    """Values to import. Replaces the whole list. Limit: 200."""


@draft(ContextOverrideChange)
class ContextOverrideAttributes(Draft[ContextOverrideChange]):
    """Values of a service context that differ for a project, cluster group or cluster."""

    configuration: Json


@strawberry.type
class FlowQuery:
    @strawberry.field
    async def service_flow(self, info: Info, service_id: strawberry.ID) -> ServiceFlow:
        """Exports and imports of a service."""
        view = await info.context[ConfigurationFlow].get(info.context.actor, service_id)
        return ServiceFlow.of(view)

    @strawberry.field
    async def affected_services(self, info: Info, service_id: strawberry.ID) -> list[FlowService]:
        """Services that a change of a service's exports affects, exporting services first.

        Args:
            service_id: ID of the exporting service.
        """
        rows = await info.context[ConfigurationFlow].affected(info.context.actor, service_id)
        return FlowService.of_each(rows)

    @strawberry.field
    async def service_graph(self, info: Info) -> ServiceGraphType:
        """The services that depend on each other or share values, in all clusters."""
        graph = await info.context[ConfigurationFlow].graph(info.context.actor)
        return ServiceGraphType(
            edges=ServiceEdgeType.of_each(graph.edges), complete=graph.complete, graph=graph
        )

    @strawberry.field
    async def context_overrides(self, info: Info, id: strawberry.ID) -> list[ContextOverrideType]:
        """Overrides of a service context.

        Args:
            id: ID of the service context.
        """
        rows = await info.context[ServiceContexts].overrides(info.context.actor, id)
        return ContextOverrideType.of_each(rows)

    @strawberry.field
    async def service_context_values(
        self, info: Info, service_id: strawberry.ID
    ) -> list[ContextValue]:
        """Values of all contexts as one service sees them, with their origin."""
        context = info.context
        service = await context[Services].get(context.actor, service_id)
        values_by_context = await context[ServiceContexts].values(context.actor, service)
        return [
            ContextValue.of(value, service_id=service_id, context=name, key=key)
            for name, values in sorted(values_by_context.items())
            for key, value in sorted(values.items())
        ]


@strawberry.type
class FlowMutation:
    @strawberry.mutation
    async def save_service_flow(
        self, info: Info, service_id: strawberry.ID, attributes: ServiceFlowAttributes
    ) -> ServiceFlow:
        """Replaces the exports and imports of a service.

        Args:
            attributes: Exports and imports.
        """
        exports, imports = attributes.exports, attributes.imports
        view = await info.context[ConfigurationFlow].save(
            info.context.actor,
            service_id,
            None if exports is None else [export.change() for export in exports],
            None if imports is None else [imported.change() for imported in imports],
        )
        return ServiceFlow.of(view)

    @strawberry.mutation
    async def override_service_context(
        self,
        info: Info,
        id: strawberry.ID,
        layer: OverrideLayer,
        place_id: strawberry.ID,
        configuration: Json,
    ) -> ContextOverrideType | None:
        """Replaces the override of a service context for a project, cluster group or cluster.

        Args:
            id: ID of the service context.
            layer: Layer of the override.
            place_id: ID of the project, cluster group or cluster.
            configuration: JSON object with values by key. An empty object removes the override.
        """
        values = json_object(configuration, "configuration")
        change = ContextOverrideChange(layer, place_id, values)
        row = await info.context[ServiceContexts].override(info.context.actor, id, change)
        return ContextOverrideType.of_optional(row)
