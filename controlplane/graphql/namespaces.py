"""Managed namespaces in the API."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import strawberry

from controlplane.domain.namespaces import ManagedNamespace as NamespaceRow
from controlplane.domain.owners import Leave
from controlplane.graphql import relay
from controlplane.graphql.access import Project
from controlplane.graphql.context import Context, Info
from controlplane.graphql.definitions import (
    ClusterSelector,
    ClusterSelectorAttributes,
    DefinitionState,
    ServiceTemplate,
    common,
    projects_of,
)
from controlplane.graphql.inputs import ServiceDeploymentAttributes, TagAttributes
from controlplane.graphql.scalars import Json, Map
from controlplane.graphql.services import service_types
from controlplane.graphql.types import ServiceDeployment
from controlplane.usecases.namespaces import NamespaceChange
from fleet.errors import Invalid


@strawberry.type
class ManagedNamespace:
    """A namespace that every cluster that fits has; `quota` is the `hard` of a ResourceQuota."""

    id: strawberry.ID
    name: str
    namespace: str
    labels: Map
    annotations: Map
    quota: Map
    template: ServiceTemplate | None
    selector: ClusterSelector
    on_leave: Leave
    on_delete: Leave
    deletion_budget: int
    project: Project | None
    state: DefinitionState
    inserted_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, row: NamespaceRow, project: Project | None = None) -> "ManagedNamespace":
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            namespace=row.namespace,
            labels=Map(dict(row.labels)),
            annotations=Map(dict(row.annotations)),
            quota=Map(dict(row.quota)),
            template=ServiceTemplate.of(row.template) if row.template else None,
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
    """What is left out stays. Without a `namespace` it is called as the definition is."""

    name: str | None = None
    namespace: str | None = None
    project_id: strawberry.ID | None = None
    selector: ClusterSelectorAttributes | None = None
    labels: Json | None = None
    annotations: Json | None = None
    quota: list[TagAttributes] | None = None
    template: ServiceDeploymentAttributes | None = None
    on_leave: Leave | None = None
    on_delete: Leave | None = None
    deletion_budget: int | None = None

    def change(self) -> NamespaceChange:
        selector = self.selector.fields() if self.selector else None
        policies = (self.on_leave, self.on_delete)
        quota = self.quota
        return NamespaceChange(
            common(self.name, self.project_id, selector, policies, self.deletion_budget),
            self.namespace,
            _words(self.labels, "labels"),
            _words(self.annotations, "annotations"),
            None if quota is None else {one.name: one.value for one in quota},
            self.template.change() if self.template else None,
        )


@strawberry.type
class NamespaceQuery:
    @strawberry.field(description="A managed namespace by id or name.")
    async def managed_namespace(
        self, info: Info, id: strawberry.ID | None = None, name: str | None = None
    ) -> ManagedNamespace | None:
        row = await info.context.verbs.namespaces.get(info.context.actor, id, name)
        return (await _types(info.context, [row]))[0]

    @strawberry.field(description="Managed namespaces; `q` is looked for in names.")
    async def managed_namespaces(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
    ) -> relay.Connection[ManagedNamespace]:
        asked = relay.query(first, after, q)
        page = await info.context.verbs.namespaces.page(info.context.actor, asked)
        return await relay.filled(info.context, page, asked, _types)

    @strawberry.field(description="The services that hold a managed namespace, and those in it.")
    async def managed_namespace_services(
        self, info: Info, id: strawberry.ID
    ) -> list[ServiceDeployment]:
        rows = await info.context.verbs.namespaces.services(info.context.actor, id)
        return await service_types(info, rows)


@strawberry.type
class NamespaceMutation:
    @strawberry.mutation(description="Let every cluster that fits have a namespace.")
    async def create_managed_namespace(
        self, info: Info, attributes: ManagedNamespaceAttributes
    ) -> ManagedNamespace | None:
        namespaces = info.context.verbs.namespaces
        row = await namespaces.create(info.context.actor, attributes.change())
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation(description="Change a managed namespace; all clusters follow.")
    async def update_managed_namespace(
        self, info: Info, id: strawberry.ID, attributes: ManagedNamespaceAttributes
    ) -> ManagedNamespace | None:
        namespaces = info.context.verbs.namespaces
        row = await namespaces.update(info.context.actor, id, attributes.change())
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation(description="Delete a managed namespace, as its policy says.")
    async def delete_managed_namespace(
        self, info: Info, id: strawberry.ID
    ) -> ManagedNamespace | None:
        row = await info.context.verbs.namespaces.delete(info.context.actor, id)
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation(description="Look now; `confirm` lets so many removals happen, once.")
    async def sync_managed_namespace(
        self, info: Info, id: strawberry.ID, confirm: int = 0
    ) -> ManagedNamespace | None:
        row = await info.context.verbs.namespaces.sync(info.context.actor, id, confirm=confirm)
        return (await _types(info.context, [row]))[0]


async def _types(context: Context, rows: Sequence[NamespaceRow]) -> list[ManagedNamespace]:
    projects = await projects_of(context, [one.project_id for one in rows])
    return [ManagedNamespace.of(row, projects.get(row.project_id or "")) for row in rows]


def _words(value: Any, field: str) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise Invalid("must be a JSON object", field=field)
    return {str(name): str(word) for name, word in value.items()}
