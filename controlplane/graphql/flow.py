"""Configuration flow in the API: exports and imports of services, and layers of contexts."""

from datetime import datetime
from typing import Any

import strawberry

from controlplane.domain.flow import Export, Flowing, Import, ValueType
from controlplane.domain.overrides import ContextOverride as OverrideRow
from controlplane.domain.overrides import Layer
from controlplane.graphql.context import Info
from controlplane.graphql.scalars import Json, Map
from controlplane.usecases.contexts import Override
from controlplane.usecases.flows import FlowView
from fleet.errors import Invalid

strawberry.enum(ValueType, name="ValueType")
strawberry.enum(Layer, name="ContextLayer")


@strawberry.type
class ServiceExport:
    """A value that a service offers, as JSON; `shared`: to other projects as well."""

    name: str
    type: ValueType
    value: Json
    shared: bool

    @classmethod
    def of(cls, one: Export) -> "ServiceExport":
        return cls(name=one.name, type=one.type, value=Json(one.value), shared=one.shared)


@strawberry.type
class FlowImport:
    """An import. `value` is what it comes to now, as JSON; `origin` says where from."""

    alias: str
    source_id: strawberry.ID
    export: str
    default: Json | None
    value: Json | None
    origin: list[str]

    @classmethod
    def of(cls, one: Import, found: Flowing | None) -> "FlowImport":
        return cls(
            alias=one.alias,
            source_id=strawberry.ID(one.source),
            export=one.export,
            default=_json(one.default),
            value=_json(found.value) if found else None,
            origin=list(found.origin) if found else [],
        )


@strawberry.type
class ServiceFlow:
    """What a service exports and imports. `problem`: why its imports cannot be had now."""

    service_id: strawberry.ID
    exports: list[ServiceExport]
    imports: list[FlowImport]
    problem: str | None

    @classmethod
    def of(cls, view: FlowView) -> "ServiceFlow":
        return cls(
            service_id=strawberry.ID(view.service.id),
            exports=[ServiceExport.of(one) for one in view.exports],
            imports=[FlowImport.of(one, view.values.get(one.alias)) for one in view.imports],
            problem=view.problem or None,
        )


@strawberry.type
class FlowService:
    """A service that a change reaches; those first from which others import."""

    service_id: strawberry.ID
    name: str
    cluster_id: strawberry.ID


@strawberry.type
class ContextOverride:
    """What a project, a cluster group or a cluster has otherwise than a context says."""

    id: strawberry.ID
    layer: Layer
    place_id: strawberry.ID
    configuration: Map
    actor: str
    updated_at: datetime

    @classmethod
    def of(cls, row: OverrideRow) -> "ContextOverride":
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
    """A value that a service finds in a context, and the layer that it is from; of secret ones only
    that they are there."""

    service_id: strawberry.ID
    context: str
    key: str
    value: Json | None
    origin: str


@strawberry.input
class ServiceExportAttributes:
    """`value` is any JSON, as text."""

    name: str
    type: ValueType
    value: Json
    shared: bool = False

    def export(self) -> Export:
        return Export(self.name, self.type, self.value, self.shared)


@strawberry.input
class ServiceImportAttributes:
    """`default` counts while there is no such export."""

    alias: str
    source_id: strawberry.ID
    export: str
    default: Json | None = None

    def taken(self) -> Import:
        return Import(self.alias, str(self.source_id), self.export, self.default)


@strawberry.input
class ServiceFlowAttributes:
    """Each list is given as a whole; what is left out stays."""

    exports: list[ServiceExportAttributes] | None = None
    imports: list[ServiceImportAttributes] | None = None


@strawberry.input
class ContextOverrideAttributes:
    """What a project, a cluster group or a cluster has otherwise, as a JSON object."""

    layer: Layer
    place_id: strawberry.ID
    configuration: Json

    def override(self) -> Override:
        return Override(self.layer, self.place_id, _object(self.configuration))


@strawberry.type
class FlowQuery:
    @strawberry.field(description="What a service exports and imports.")
    async def service_flow(self, info: Info, service_id: strawberry.ID) -> ServiceFlow:
        view = await info.context.verbs.flows.get(info.context.actor, service_id)
        return ServiceFlow.of(view)

    @strawberry.field(description="Who a change of a service's exports reaches, in order.")
    async def affected_services(self, info: Info, service_id: strawberry.ID) -> list[FlowService]:
        rows = await info.context.verbs.flows.affected(info.context.actor, service_id)
        return [
            FlowService(
                service_id=strawberry.ID(row.id),
                name=row.name,
                cluster_id=strawberry.ID(row.cluster_id),
            )
            for row in rows
        ]

    @strawberry.field(description="What places have otherwise than a context says.")
    async def context_overrides(self, info: Info, id: strawberry.ID) -> list[ContextOverride]:
        rows = await info.context.verbs.contexts.overrides(info.context.actor, id)
        return [ContextOverride.of(row) for row in rows]

    @strawberry.field(description="What a service finds in its contexts, and where it is from.")
    async def service_context_values(
        self, info: Info, service_id: strawberry.ID
    ) -> list[ContextValue]:
        context = info.context
        service = await context.verbs.services.get(context.actor, service_id)
        found = await context.verbs.contexts.values(context.actor, service)
        return [
            ContextValue(
                service_id=service_id,
                context=name,
                key=key,
                value=_json(one.value),
                origin=one.origin,
            )
            for name, values in sorted(found.items())
            for key, one in sorted(values.items())
        ]


@strawberry.type
class FlowMutation:
    @strawberry.mutation(description="Let a service export and import exactly this.")
    async def save_service_flow(
        self, info: Info, service_id: strawberry.ID, attributes: ServiceFlowAttributes
    ) -> ServiceFlow:
        exports, imports = attributes.exports, attributes.imports
        view = await info.context.verbs.flows.save(
            info.context.actor,
            service_id,
            None if exports is None else [one.export() for one in exports],
            None if imports is None else [one.taken() for one in imports],
        )
        return ServiceFlow.of(view)

    @strawberry.mutation(
        description="Say what a project, a cluster group or a cluster has otherwise than a context "
        "says, as a whole; an empty object ends it."
    )
    async def override_service_context(
        self,
        info: Info,
        id: strawberry.ID,
        layer: Layer,
        place_id: strawberry.ID,
        configuration: Json,
    ) -> ContextOverride | None:
        values = _object(configuration)
        contexts, actor = info.context.verbs.contexts, info.context.actor
        row = await contexts.override(actor, id, layer, place_id, values)
        return ContextOverride.of(row) if row else None


def _object(configuration: Any) -> dict[str, Any]:
    if not isinstance(configuration, dict):
        raise Invalid("must be a JSON object", field="configuration")
    return configuration


def _json(value: Any) -> Json | None:
    return None if value is None else Json(value)
