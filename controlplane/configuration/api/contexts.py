"""Service contexts in the API."""

from collections.abc import Sequence

import strawberry

from controlplane.access.api.loading import load_projects, shown_project
from controlplane.access.api.types import ProjectType
from controlplane.configuration.api.flow import ContextOverrideAttributes
from controlplane.configuration.model.contexts import ServiceContext as ContextRow
from controlplane.configuration.operations.contexts import ContextChange, ServiceContexts
from controlplane.platform.graphql.context import Context, Info
from controlplane.platform.graphql.derive import Draft, FieldValues, Output, computed, draft, output
from controlplane.platform.graphql.resource_fields import ResourceFields
from controlplane.platform.graphql.scalars import Json, Map
from controlplane.services.api.inputs import ConfigAttributes
from controlplane.services.model.service import Service
from core.errors import Invalid


@output(
    ContextRow,
    rename={"secrets_by_reference": "by_reference"},
    hide={"sealed", "project_id", "project_given", "inserted_at", "updated_at"},
)
class ServiceContextType(Output[ContextRow]):
    """Values that templates of several services read as `contexts.NAME.KEY`. Secrets are never
    returned."""

    types: Map = computed(
        lambda row: Map({key: value_type.upper() for key, value_type in row.types.items()})
    )
    """Types by key, such as `NUMBER`."""
    project: ProjectType | None
    """Project of the context. Null if none was given; such a context belongs to the default
    project."""


@draft(ContextChange, rename={"secrets_by_reference": "by_reference"}, hide={"types"})
class ServiceContextAttributes(Draft[ContextChange]):
    """Fields of a service context. A field that is null or absent stays as it is; a given field
    replaces the whole value.

    Towline saves all given fields or none.
    """

    configuration: Json | None = None
    secrets: list[ConfigAttributes | None] | None = None
    overrides: list[ContextOverrideAttributes] | None = None
    types: Json | None = None
    """Types by key, such as `NUMBER`."""

    def field_values(self) -> FieldValues:
        return {**super().field_values(), "types": _value_types(self.types)}


def _value_types(types: object) -> dict[str, str] | None:
    if types is None:
        return None
    if isinstance(types, dict) and all(isinstance(kind, str) for kind in types.values()):
        return {key: kind.lower() for key, kind in types.items()}
    raise Invalid("must be a JSON object of names of types", field="types")


async def context_types(context: Context, rows: Sequence[ContextRow]) -> list[ServiceContextType]:
    """Converts contexts, with their projects."""
    projects = await load_projects(context, [row.project_id for row in rows])
    return [ServiceContextType.of(row, project=shown_project(row, projects)) for row in rows]


async def _context_types(info: Info, rows: Sequence[ContextRow]) -> list[ServiceContextType]:
    return await context_types(info.context, rows)


_CONTEXTS = ResourceFields("context", ServiceContexts, ServiceContextType, _context_types)


@strawberry.type
class ContextQuery:
    @strawberry.field
    async def service_context(self, info: Info, name: str) -> ServiceContextType | None:
        """A service context, by name.

        Args:
            name: Exact name.
        """
        row = await info.context[ServiceContexts].get(info.context.actor, None, name)
        return await _CONTEXTS.one(info, row)

    service_contexts = _CONTEXTS.page(ServiceContexts.page)
    """Service contexts."""


@strawberry.type
class ContextMutation:
    save_service_context = _CONTEXTS.call(ServiceContexts.save, ServiceContextAttributes)
    """Creates or updates the service context with this name.

    Args:
        name: Name of the context.
        attributes: Fields of the context.
    """
    delete_service_context = _CONTEXTS.action(ServiceContexts.delete)
    """Deletes a service context that no service uses."""


class BoundContexts:
    """Implements `ContextLoader`."""

    async def load(
        self, context: Context, services: Sequence[Service]
    ) -> dict[str, list[ServiceContextType]]:
        """Returns the contexts of services, by service id."""
        bound = await context[ServiceContexts].of(
            context.actor, [service.id for service in services]
        )
        rows = {row.id: row for contexts in bound.values() for row in contexts}
        converted = {
            str(context_type.id): context_type
            for context_type in await context_types(context, list(rows.values()))
        }
        return {id: [converted[row.id] for row in contexts] for id, contexts in bound.items()}
