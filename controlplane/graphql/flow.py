"""Configuration flow in the API: exports and imports of services, and layers of contexts."""

from datetime import datetime
from typing import Any

import strawberry

from controlplane.domain.flow import Export, Import, ImportedValue, ValueType
from controlplane.domain.overrides import ContextOverride as OverrideRow
from controlplane.domain.overrides import OverrideLayer
from controlplane.graphql.context import Info
from controlplane.graphql.scalars import Json, Map
from controlplane.usecases.contexts import ContextOverrideChange
from controlplane.usecases.flows import FlowView
from core.errors import Invalid

strawberry.enum(ValueType, name="ValueType")
strawberry.enum(OverrideLayer, name="ContextLayer")


@strawberry.type
class ServiceExportType:
    """A value that a service exports."""

    name: str
    """Name of the export."""
    type: ValueType
    """Type of the value."""
    value: Json
    """Value as JSON."""
    shared: bool
    """True if services of other projects may import the value."""

    @classmethod
    def of(cls, export: Export) -> "ServiceExportType":
        return cls(
            name=export.name, type=export.type, value=Json(export.value), shared=export.shared
        )


@strawberry.type
class FlowImport:
    """An import of a service."""

    alias: str
    """Name in the importing service, as in `${imports.ALIAS}`."""
    source_id: strawberry.ID
    """ID of the exporting service."""
    export: str
    """Name of the export."""
    default: Json | None
    """Value as JSON while the export does not exist."""
    value: Json | None
    """Current value as JSON. Null if it cannot be resolved."""
    origin: list[str]
    """Exports that the value comes from, nearest first, such as `dev/db.host`. Limit: 32."""

    @classmethod
    def of(cls, imported: Import, found: ImportedValue | None) -> "FlowImport":
        return cls(
            alias=imported.alias,
            source_id=strawberry.ID(imported.source),
            export=imported.export,
            default=_json(imported.default),
            value=_json(found.value) if found else None,
            origin=list(found.origin) if found else [],
        )


@strawberry.type
class ServiceFlow:
    """Exports and imports of a service."""

    service_id: strawberry.ID
    """ID of the service."""
    exports: list[ServiceExportType]
    """Exported values."""
    imports: list[FlowImport]
    """Imported values."""
    problem: str | None
    """Reason for imports that cannot be resolved. Null if there is none."""

    @classmethod
    def of(cls, view: FlowView) -> "ServiceFlow":
        return cls(
            service_id=strawberry.ID(view.service.id),
            exports=[ServiceExportType.of(export) for export in view.exports],
            imports=[
                FlowImport.of(imported, view.values.get(imported.alias))
                for imported in view.imports
            ],
            problem=view.problem or None,
        )


@strawberry.type
class FlowService:
    """A service that a change of exports affects."""

    service_id: strawberry.ID
    """ID of the service."""
    name: str
    """Name of the service."""
    cluster_id: strawberry.ID
    """ID of the cluster."""


@strawberry.type
class ContextOverrideType:
    """Values of a service context that differ for a project, cluster group or cluster."""

    id: strawberry.ID
    layer: OverrideLayer
    """Layer of the override."""
    place_id: strawberry.ID
    """ID of the project, cluster group or cluster."""
    configuration: Map
    """Values by key."""
    actor: str
    """E-mail address of the user who saved the override."""
    updated_at: datetime

    @classmethod
    def of(cls, row: OverrideRow) -> "ContextOverrideType":
        return cls(
            id=strawberry.ID(row.id),
            layer=row.layer,
            place_id=strawberry.ID(row.place_id),
            configuration=Map(dict(row.configuration)),
            actor=row.actor,
            updated_at=row.updated_at,
        )


@strawberry.type
class ContextValue:
    """A value of a service context as one service sees it. Secret values are not returned."""

    service_id: strawberry.ID
    """ID of the service."""
    context: str
    """Name of the context."""
    key: str
    """Key of the value."""
    value: Json | None
    """Value as JSON. Null for a secret."""
    origin: str
    """Origin of the value: `context`, `default`, `secret`, or a layer such as `group eu`."""


@strawberry.input
class ServiceExportAttributes:
    """A value to export."""

    name: str
    """Name of the export: letters, digits and `_`. Limit: 63 characters."""
    type: ValueType
    """Type of the value."""
    value: Json
    """Value as JSON. Limit: 64 KiB."""
    shared: bool = False
    """True lets services of other projects import the value."""

    def export(self) -> Export:
        return Export(self.name, self.type, self.value, self.shared)


@strawberry.input
class ServiceImportAttributes:
    """A value to import."""

    alias: str
    """Name in the importing service: letters, digits and `_`. Limit: 63 characters."""
    source_id: strawberry.ID
    """ID of the exporting service."""
    export: str
    """Name of the export."""
    default: Json | None = None
    """Value as JSON while the export does not exist. Null: the export is required."""

    def taken(self) -> Import:
        return Import(self.alias, str(self.source_id), self.export, self.default)


@strawberry.input
class ServiceFlowAttributes:
    """Exports and imports of a service. A list that is null or absent stays as it is."""

    exports: list[ServiceExportAttributes] | None = None
    """Values to export. Replaces the whole list. Limit: 200."""
    imports: list[ServiceImportAttributes] | None = None
    """Values to import. Replaces the whole list. Limit: 200."""


@strawberry.input
class ContextOverrideAttributes:
    """Values of a service context that differ for a project, cluster group or cluster."""

    layer: OverrideLayer
    """Layer of the override."""
    place_id: strawberry.ID
    """ID of the project, cluster group or cluster."""
    configuration: Json
    """JSON object with values by key."""

    def override(self) -> ContextOverrideChange:
        return ContextOverrideChange(self.layer, self.place_id, _object(self.configuration))


@strawberry.type
class FlowQuery:
    @strawberry.field
    async def service_flow(self, info: Info, service_id: strawberry.ID) -> ServiceFlow:
        """Exports and imports of a service.

        Args:
            service_id: ID of the service.
        """
        view = await info.context.verbs.flows.get(info.context.actor, service_id)
        return ServiceFlow.of(view)

    @strawberry.field
    async def affected_services(self, info: Info, service_id: strawberry.ID) -> list[FlowService]:
        """Services that a change of a service's exports affects, exporting services first.

        Args:
            service_id: ID of the exporting service.
        """
        rows = await info.context.verbs.flows.affected(info.context.actor, service_id)
        return [
            FlowService(
                service_id=strawberry.ID(row.id),
                name=row.name,
                cluster_id=strawberry.ID(row.cluster_id),
            )
            for row in rows
        ]

    @strawberry.field
    async def context_overrides(self, info: Info, id: strawberry.ID) -> list[ContextOverrideType]:
        """Overrides of a service context.

        Args:
            id: ID of the service context.
        """
        rows = await info.context.verbs.contexts.overrides(info.context.actor, id)
        return [ContextOverrideType.of(row) for row in rows]

    @strawberry.field
    async def service_context_values(
        self, info: Info, service_id: strawberry.ID
    ) -> list[ContextValue]:
        """Values of all contexts as one service sees them, with their origin.

        Args:
            service_id: ID of the service.
        """
        context = info.context
        service = await context.verbs.services.get(context.actor, service_id)
        found = await context.verbs.contexts.values(context.actor, service)
        return [
            ContextValue(
                service_id=service_id,
                context=name,
                key=key,
                value=_json(value.value),
                origin=value.origin,
            )
            for name, values in sorted(found.items())
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
            service_id: ID of the service.
            attributes: Exports and imports.
        """
        exports, imports = attributes.exports, attributes.imports
        view = await info.context.verbs.flows.save(
            info.context.actor,
            service_id,
            None if exports is None else [export.export() for export in exports],
            None if imports is None else [imported.taken() for imported in imports],
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
        values = _object(configuration)
        contexts, actor = info.context.verbs.contexts, info.context.actor
        row = await contexts.override(actor, id, layer, place_id, values)
        return ContextOverrideType.of(row) if row else None


def _object(configuration: Any) -> dict[str, Any]:
    if not isinstance(configuration, dict):
        raise Invalid("must be a JSON object", field="configuration")
    return configuration


def _json(value: Any) -> Json | None:
    return None if value is None else Json(value)
