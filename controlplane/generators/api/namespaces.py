"""Managed namespaces in the API."""

from collections.abc import Sequence

import strawberry

from controlplane.access.api.loading import projects_of
from controlplane.clusters.api.inputs import TagAttributes
from controlplane.clusters.api.selectors import ClusterSelectorAttributes
from controlplane.generators.api.definitions import (
    GENERATOR_NAMES,
    GeneratorInput,
    GeneratorOutput,
)
from controlplane.generators.model.namespaces import ManagedNamespace
from controlplane.generators.operations.namespaces import ManagedNamespaces, NamespaceChange
from controlplane.platform.graphql import relay
from controlplane.platform.graphql.context import Context, Info
from controlplane.platform.graphql.derive import FieldValues, draft, output
from controlplane.platform.graphql.inputs import json_strings
from controlplane.platform.graphql.scalars import Json
from controlplane.services.api.inputs import ServiceDeploymentAttributes
from controlplane.services.api.loading import service_types
from controlplane.services.api.types import ServiceDeployment


@output(ManagedNamespace)
class ManagedNamespaceType(GeneratorOutput[ManagedNamespace]):
    """A namespace that Towline creates in every matching cluster."""


@draft(NamespaceChange, rename=GENERATOR_NAMES)
class ManagedNamespaceAttributes(GeneratorInput[NamespaceChange]):
    """Fields of a managed namespace. A field that is null or absent stays as it is."""

    selector: ClusterSelectorAttributes | None = None
    labels: Json | None = None
    annotations: Json | None = None
    quota: list[TagAttributes] | None = None
    template: ServiceDeploymentAttributes | None = None

    def given(self) -> FieldValues:
        given = super().given()
        for name in given.keys() & {"labels", "annotations"}:
            given[name] = json_strings(given[name], name)
        return given


@strawberry.type
class NamespaceQuery:
    @strawberry.field
    async def managed_namespace(
        self, info: Info, id: strawberry.ID | None = None, name: str | None = None
    ) -> ManagedNamespaceType | None:
        """A managed namespace, by ID or name.

        Args:
            id: ID of the managed namespace.
        """
        row = await info.context[ManagedNamespaces].get(info.context.actor, id, name)
        return (await _types(info.context, [row]))[0]

    @strawberry.field
    async def managed_namespaces(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
        labels: str | None = None,
    ) -> relay.Connection[ManagedNamespaceType]:
        """Managed namespaces.

        Args:
            q: Text to search for in names and namespaces. Limit: 200 characters.
        """
        asked = relay.page_query(first, after, q, labels=labels)
        page = await info.context[ManagedNamespaces].page(info.context.actor, asked)
        return await relay.connection_of_many(info.context, page, asked, _types)

    @strawberry.field
    async def managed_namespace_services(
        self, info: Info, id: strawberry.ID
    ) -> list[ServiceDeployment]:
        """Services that create a managed namespace, and services in it.

        Args:
            id: ID of the managed namespace.
        """
        rows = await info.context[ManagedNamespaces].services(info.context.actor, id)
        return await service_types(info, rows)


@strawberry.type
class NamespaceMutation:
    @strawberry.mutation
    async def create_managed_namespace(
        self, info: Info, attributes: ManagedNamespaceAttributes
    ) -> ManagedNamespaceType | None:
        """Creates a managed namespace.

        Args:
            attributes: Fields of the managed namespace.
        """
        namespaces = info.context[ManagedNamespaces]
        row = await namespaces.create(info.context.actor, attributes.change())
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation
    async def update_managed_namespace(
        self, info: Info, id: strawberry.ID, attributes: ManagedNamespaceAttributes
    ) -> ManagedNamespaceType | None:
        """Updates a managed namespace in all clusters.

        Args:
            id: ID of the managed namespace.
            attributes: Fields to change.
        """
        namespaces = info.context[ManagedNamespaces]
        row = await namespaces.update(info.context.actor, id, attributes.change())
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation
    async def delete_managed_namespace(
        self, info: Info, id: strawberry.ID
    ) -> ManagedNamespaceType | None:
        """Deletes a managed namespace. `onDelete` determines the handling of its namespaces.

        Args:
            id: ID of the managed namespace.
        """
        row = await info.context[ManagedNamespaces].delete(info.context.actor, id)
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation
    async def sync_managed_namespace(
        self, info: Info, id: strawberry.ID, confirm: int = 0
    ) -> ManagedNamespaceType | None:
        """Evaluates a managed namespace now.

        Args:
            id: ID of the managed namespace.
            confirm: Number of removals to allow in this evaluation. Default: 0, the deletion
                budget.
        """
        row = await info.context[ManagedNamespaces].sync(info.context.actor, id, confirm=confirm)
        return (await _types(info.context, [row]))[0]


async def _types(context: Context, rows: Sequence[ManagedNamespace]) -> list[ManagedNamespaceType]:
    projects = await projects_of(context, [row.project_id for row in rows])
    return [
        ManagedNamespaceType.of(row, project=projects.get(row.project_id or "")) for row in rows
    ]
