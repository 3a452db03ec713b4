"""Service contexts in the API."""

from collections.abc import Sequence
from typing import Any

import strawberry

from controlplane.domain.contexts import ServiceContext as ContextRow
from controlplane.domain.services import Service
from controlplane.graphql import relay
from controlplane.graphql.access import ProjectType
from controlplane.graphql.context import Context, Info
from controlplane.graphql.flow import ContextOverrideAttributes
from controlplane.graphql.inputs import ConfigAttributes
from controlplane.graphql.scalars import Json, Map
from controlplane.usecases.contexts import ContextChange
from core.errors import Invalid


@strawberry.type
class ServiceContextType:
    """Values that templates of several services read as `contexts.NAME.KEY`. Secrets are never
    returned."""

    id: strawberry.ID
    name: str
    """Unique name."""
    configuration: Map
    """Values by key."""
    types: Map
    """Types by key, such as `NUMBER`."""
    secrets_by_reference: bool
    """True if templates see placeholders and only agents see secrets."""
    secrets_version: int
    """Version of the secrets. Grows with each change."""
    project: ProjectType | None
    """Project of the context. Null if none was set."""

    @classmethod
    def of(cls, row: ContextRow, project: ProjectType | None = None) -> "ServiceContextType":
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            configuration=Map(dict(row.configuration)),
            secrets_by_reference=row.by_reference,
            secrets_version=row.secrets_version,
            types=Map({key: value_type.upper() for key, value_type in row.types.items()}),
            project=project,
        )


@strawberry.input
class ServiceContextAttributes:
    """Fields of a service context. A field that is null or absent stays as it is; a given field
    replaces the whole value.

    Towline saves all given fields or none.
    """

    configuration: Json | None = None
    """Values by key."""
    secrets: list[ConfigAttributes] | None = None
    """Secret values. Limit: 500 values, 512 KiB together."""
    project_id: strawberry.ID | None = None
    """ID of the project."""
    types: Json | None = None
    """Types by key, such as `NUMBER`."""
    secrets_by_reference: bool | None = None
    """True gives templates placeholders, and secrets only to agents. Default: false."""
    overrides: list[ContextOverrideAttributes] | None = None
    """Overrides for projects, cluster groups and clusters. Limit: 1,000."""

    def change(self) -> ContextChange:
        secrets = self.secrets
        return ContextChange(
            _values(self.configuration),
            None if secrets is None else {secret.name: secret.value or "" for secret in secrets},
            self.project_id or None,
            _words(self.types),
            self.secrets_by_reference,
            None
            if self.overrides is None
            else [override.override() for override in self.overrides],
        )


def _values(given: Any) -> dict[str, Any] | None:
    if given is None or isinstance(given, dict):
        return given
    raise Invalid("must be a JSON object", field="configuration")


def _words(given: Any) -> dict[str, str] | None:
    if given is None:
        return None
    if isinstance(given, dict) and all(
        isinstance(value_type, str) for value_type in given.values()
    ):
        return {key: value_type.lower() for key, value_type in given.items()}
    raise Invalid("must be a JSON object of names of types", field="types")


@strawberry.type
class ContextQuery:
    @strawberry.field
    async def service_context(self, info: Info, name: str) -> ServiceContextType | None:
        """A service context, by name.

        Args:
            name: Exact name.
        """
        row = await info.context.verbs.contexts.get(info.context.actor, name)
        return (await context_types(info.context, [row]))[0]

    @strawberry.field
    async def service_contexts(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
    ) -> relay.Connection[ServiceContextType]:
        """Service contexts."""
        asked = relay.page_query(first, after, q)
        page = await info.context.verbs.contexts.page(info.context.actor, asked)
        return await relay.connection_of_many(info.context, page, asked, context_types)


@strawberry.type
class ContextMutation:
    @strawberry.mutation
    async def save_service_context(
        self, info: Info, name: str, attributes: ServiceContextAttributes
    ) -> ServiceContextType | None:
        """Creates or updates the service context with this name.

        Args:
            name: Name of the context.
            attributes: Fields of the context.
        """
        context = info.context
        row = await context.verbs.contexts.save(context.actor, name, attributes.change())
        return (await context_types(context, [row]))[0]

    @strawberry.mutation
    async def delete_service_context(
        self, info: Info, id: strawberry.ID
    ) -> ServiceContextType | None:
        """Deletes a service context that no service uses.

        Args:
            id: ID of the context.
        """
        row = await info.context.verbs.contexts.delete(info.context.actor, id)
        return (await context_types(info.context, [row]))[0]


async def context_types(context: Context, rows: Sequence[ContextRow]) -> list[ServiceContextType]:
    """Converts contexts, with their projects."""
    ids = [row.project_id for row in rows if row.project_id]
    projects = await context.verbs.projects.of(context.actor, ids)
    shown = {id: ProjectType.of(row) for id, row in projects.items()}
    return [ServiceContextType.of(row, shown.get(row.project_id or "")) for row in rows]


async def contexts_of(
    context: Context, services: Sequence[Service]
) -> dict[str, list[ServiceContextType]]:
    """Returns the contexts of services, by service ID."""
    found = await context.verbs.contexts.of(context.actor, [service.id for service in services])
    rows = {row.id: row for some in found.values() for row in some}
    made = {
        str(context_type.id): context_type
        for context_type in await context_types(context, list(rows.values()))
    }
    return {id: [made[row.id] for row in some] for id, some in found.items()}
