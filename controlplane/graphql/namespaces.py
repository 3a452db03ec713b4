"""Managed namespaces in the API."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import strawberry

from controlplane.domain.namespaces import ManagedNamespace as NamespaceRow
from controlplane.domain.owners import LeavePolicy
from controlplane.graphql import relay
from controlplane.graphql.access import ProjectType
from controlplane.graphql.context import Context, Info
from controlplane.graphql.definitions import (
    ClusterSelector,
    ClusterSelectorAttributes,
    DefinitionState,
    ServiceTemplateType,
    common_change,
    projects_of,
)
from controlplane.graphql.inputs import ServiceDeploymentAttributes, TagAttributes
from controlplane.graphql.scalars import Json, Map
from controlplane.graphql.services import service_types
from controlplane.graphql.types import ServiceDeployment
from controlplane.usecases.namespaces import NamespaceChange
from core.errors import Invalid


@strawberry.type
class ManagedNamespaceType:
    """A namespace that Towline creates in every matching cluster."""

    id: strawberry.ID
    name: str
    """Unique name of the definition."""
    namespace: str
    """Name of the namespace."""
    labels: Map
    """Labels of the namespace."""
    annotations: Map
    """Annotations of the namespace."""
    quota: Map
    """Hard limits of a ResourceQuota, such as `requests.cpu`. Empty without a quota."""
    template: ServiceTemplateType | None
    """Template of a service in the namespace. Null without a service."""
    selector: ClusterSelector
    """Conditions on clusters."""
    on_leave: LeavePolicy
    """Handling of namespaces on clusters that no longer match."""
    on_delete: LeavePolicy
    """Handling of namespaces when the definition is deleted."""
    deletion_budget: int
    """Maximum number of removals in one evaluation without a confirmation."""
    project: ProjectType | None
    """Project whose clusters can match. Null: clusters of all projects."""
    state: DefinitionState
    """Result of the last evaluation."""
    inserted_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, row: NamespaceRow, project: ProjectType | None = None) -> "ManagedNamespaceType":
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            namespace=row.namespace,
            labels=Map(dict(row.labels)),
            annotations=Map(dict(row.annotations)),
            quota=Map(dict(row.quota)),
            template=ServiceTemplateType.of(row.template) if row.template else None,
            selector=ClusterSelector.of(row.selector),
            on_leave=row.leave,
            on_delete=row.on_delete,
            deletion_budget=row.budget,
            project=project,
            state=DefinitionState.of(row),
            inserted_at=row.inserted_at,
            updated_at=row.updated_at,
        )


@strawberry.input
class ManagedNamespaceAttributes:
    """Fields of a managed namespace. A field that is null or absent stays as it is."""

    name: str | None = None
    """Unique name of the definition. Required on creation."""
    namespace: str | None = None
    """Name of the namespace. Default: same as `name`."""
    project_id: strawberry.ID | None = None
    """ID of the project whose clusters can match. Default: clusters of all projects."""
    selector: ClusterSelectorAttributes | None = None
    """Conditions on clusters. Default: every cluster."""
    labels: Json | None = None
    """JSON object with labels. Replaces the whole object."""
    annotations: Json | None = None
    """JSON object with annotations. Replaces the whole object."""
    quota: list[TagAttributes] | None = None
    """Hard limits of a ResourceQuota. Replaces the whole list."""
    template: ServiceDeploymentAttributes | None = None
    """Template of a service in the namespace. Default: no service."""
    on_leave: LeavePolicy | None = None
    """Handling of namespaces on clusters that no longer match. Default: detach."""
    on_delete: LeavePolicy | None = None
    """Handling of namespaces when the definition is deleted. Default: detach."""
    deletion_budget: int | None = None
    """Maximum number of removals in one evaluation without a confirmation. Default: 10. Limit:
    100,000."""

    def change(self) -> NamespaceChange:
        selector = self.selector.fields() if self.selector else None
        policies = (self.on_leave, self.on_delete)
        quota = self.quota
        return NamespaceChange(
            common_change(self.name, self.project_id, selector, policies, self.deletion_budget),
            self.namespace,
            _words(self.labels, "labels"),
            _words(self.annotations, "annotations"),
            None if quota is None else {limit.name: limit.value for limit in quota},
            self.template.change() if self.template else None,
        )


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
        row = await info.context.verbs.namespaces.get(info.context.actor, id, name)
        return (await _types(info.context, [row]))[0]

    @strawberry.field
    async def managed_namespaces(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
    ) -> relay.Connection[ManagedNamespaceType]:
        """Managed namespaces.

        Args:
            q: Text to search for in names and namespaces. Limit: 200 characters.
        """
        asked = relay.page_query(first, after, q)
        page = await info.context.verbs.namespaces.page(info.context.actor, asked)
        return await relay.connection_of_many(info.context, page, asked, _types)

    @strawberry.field
    async def managed_namespace_services(
        self, info: Info, id: strawberry.ID
    ) -> list[ServiceDeployment]:
        """Services that create a managed namespace, and services in it.

        Args:
            id: ID of the managed namespace.
        """
        rows = await info.context.verbs.namespaces.services(info.context.actor, id)
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
        namespaces = info.context.verbs.namespaces
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
        namespaces = info.context.verbs.namespaces
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
        row = await info.context.verbs.namespaces.delete(info.context.actor, id)
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
        row = await info.context.verbs.namespaces.sync(info.context.actor, id, confirm=confirm)
        return (await _types(info.context, [row]))[0]


async def _types(context: Context, rows: Sequence[NamespaceRow]) -> list[ManagedNamespaceType]:
    projects = await projects_of(context, [row.project_id for row in rows])
    return [ManagedNamespaceType.of(row, projects.get(row.project_id or "")) for row in rows]


def _words(value: Any, field: str) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise Invalid("must be a JSON object", field=field)
    return {str(name): str(word) for name, word in value.items()}
