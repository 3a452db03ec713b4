"""Service contexts in the API."""

from collections.abc import Sequence
from typing import Any

import strawberry

from controlplane.domain.contexts import ServiceContext as ContextRow
from controlplane.domain.services import Service
from controlplane.graphql import relay
from controlplane.graphql.access import Project
from controlplane.graphql.context import Context, Info
from controlplane.graphql.flow import ContextOverrideAttributes
from controlplane.graphql.inputs import ConfigAttributes
from controlplane.graphql.scalars import Json, Map
from controlplane.usecases.contexts import ContextChange
from fleet.errors import Invalid


@strawberry.type
class ServiceContext:
    """Values that templates of many services read as `contexts.name.key`.

    Secrets are not shown; `secretsVersion` grows with each change of them."""

    id: strawberry.ID
    name: str
    configuration: Map
    types: Map
    secrets_by_reference: bool
    secrets_version: int
    project: Project | None

    @classmethod
    def of(cls, row: ContextRow, project: Project | None = None) -> "ServiceContext":
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            configuration=Map(dict(row.configuration)),
            secrets_by_reference=row.by_reference,
            secrets_version=row.secrets_version,
            types=Map({key: one.upper() for key, one in row.types.items()}),
            project=project,
        )


@strawberry.input
class ServiceContextAttributes:
    """What is given replaces the whole; what is left out stays. `types`: by key, like NUMBER.
    `secretsByReference`: templates find placeholders, and only agents the secrets. `overrides`:
    all that places have otherwise; either all that is given here is saved, or nothing."""

    configuration: Json | None = None
    secrets: list[ConfigAttributes] | None = None
    project_id: strawberry.ID | None = None
    types: Json | None = None
    secrets_by_reference: bool | None = None
    overrides: list[ContextOverrideAttributes] | None = None

    def change(self) -> ContextChange:
        secrets = self.secrets
        return ContextChange(
            _values(self.configuration),
            None if secrets is None else {one.name: one.value or "" for one in secrets},
            self.project_id or None,
            _words(self.types),
            self.secrets_by_reference,
            None if self.overrides is None else [one.override() for one in self.overrides],
        )


def _values(given: Any) -> dict[str, Any] | None:
    if given is None or isinstance(given, dict):
        return given
    raise Invalid("must be a JSON object", field="configuration")


def _words(given: Any) -> dict[str, str] | None:
    if given is None:
        return None
    if isinstance(given, dict) and all(isinstance(one, str) for one in given.values()):
        return {key: one.lower() for key, one in given.items()}
    raise Invalid("must be a JSON object of names of types", field="types")


@strawberry.type
class ContextQuery:
    @strawberry.field(description="A service context by name.")
    async def service_context(self, info: Info, name: str) -> ServiceContext | None:
        row = await info.context.verbs.contexts.get(info.context.actor, name)
        return (await context_types(info.context, [row]))[0]

    @strawberry.field(description="Service contexts; `q` is looked for in names.")
    async def service_contexts(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
    ) -> relay.Connection[ServiceContext]:
        asked = relay.query(first, after, q)
        page = await info.context.verbs.contexts.page(info.context.actor, asked)
        return await relay.filled(info.context, page, asked, context_types)


@strawberry.type
class ContextMutation:
    @strawberry.mutation(description="Create or change the context of this name.")
    async def save_service_context(
        self, info: Info, name: str, attributes: ServiceContextAttributes
    ) -> ServiceContext | None:
        context = info.context
        row = await context.verbs.contexts.save(context.actor, name, attributes.change())
        return (await context_types(context, [row]))[0]

    @strawberry.mutation(description="Delete a context that no service uses.")
    async def delete_service_context(self, info: Info, id: strawberry.ID) -> ServiceContext | None:
        row = await info.context.verbs.contexts.delete(info.context.actor, id)
        return (await context_types(info.context, [row]))[0]


async def context_types(context: Context, rows: Sequence[ContextRow]) -> list[ServiceContext]:
    """Contexts with their projects."""
    ids = [row.project_id for row in rows if row.project_id]
    projects = await context.verbs.projects.of(context.actor, ids)
    shown = {id: Project.of(row) for id, row in projects.items()}
    return [ServiceContext.of(row, shown.get(row.project_id or "")) for row in rows]


async def contexts_of(
    context: Context, services: Sequence[Service]
) -> dict[str, list[ServiceContext]]:
    """The contexts that services use, by the id of the service."""
    found = await context.verbs.contexts.of(context.actor, [one.id for one in services])
    rows = {row.id: row for some in found.values() for row in some}
    made = {str(one.id): one for one in await context_types(context, list(rows.values()))}
    return {id: [made[row.id] for row in some] for id, some in found.items()}
