"""Global services in the API."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import orjson
import strawberry

from controlplane.domain.clusters import Distribution
from controlplane.domain.globals import GlobalService as GlobalRow
from controlplane.domain.owners import Leave
from controlplane.domain.templates import Delta
from controlplane.graphql import relay
from controlplane.graphql.access import Project
from controlplane.graphql.clusters import Cluster, ClusterProvider, Tag
from controlplane.graphql.context import Context, Info
from controlplane.graphql.definitions import (
    CascadeAttributes,
    ClusterSelector,
    DefinitionState,
    ServiceTemplate,
    TargetPlan,
    common,
    projects_of,
    selector_fields,
)
from controlplane.graphql.inputs import (
    ServiceDeploymentAttributes,
    ServiceUpdateAttributes,
    TagAttributes,
)
from controlplane.graphql.services import related, service_types
from controlplane.graphql.types import ServiceDeployment
from controlplane.usecases.globals import ClusterView, GlobalChange
from controlplane.usecases.services import ServiceChange
from fleet.errors import Invalid


@strawberry.type
class GlobalServiceDelta:
    """A field that a cluster has otherwise; values are JSON, null where there is none."""

    field: str
    inherited: str | None
    effective: str | None

    @classmethod
    def of(cls, row: Delta) -> "GlobalServiceDelta":
        return cls(field=row.field, inherited=_json(row.inherited), effective=_json(row.effective))


@strawberry.type
class GlobalServiceCluster:
    """What one cluster has of a global service: the template with what is otherwise there.

    `id` is the cluster's."""

    id: strawberry.ID
    cluster: Cluster
    effective: ServiceTemplate
    delta: list[GlobalServiceDelta]
    overridden_by: str | None
    overridden_at: datetime | None

    @classmethod
    def of(cls, view: ClusterView) -> "GlobalServiceCluster":
        row = view.override
        return cls(
            id=strawberry.ID(view.cluster.id),
            cluster=Cluster.of(view.cluster),
            effective=ServiceTemplate.of(view.effective),
            delta=[GlobalServiceDelta.of(one) for one in view.delta],
            overridden_by=row.actor if row else None,
            overridden_at=row.updated_at if row else None,
        )


@strawberry.type
class GlobalService:
    """One definition of a service, replicated to every cluster that fits."""

    id: strawberry.ID
    name: str
    distro: Distribution | None
    tags: list[Tag]
    selector: ClusterSelector
    on_leave: Leave
    on_delete: Leave
    deletion_budget: int
    template: ServiceTemplate | None
    service: ServiceDeployment | None
    project: Project | None
    state: DefinitionState
    inserted_at: datetime
    updated_at: datetime
    provider: ClusterProvider | None = None

    @classmethod
    def of(
        cls,
        row: GlobalRow,
        service: ServiceDeployment | None = None,
        project: Project | None = None,
    ) -> "GlobalService":
        selector = ClusterSelector.of(row.selector)
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            distro=row.selector.distribution,
            tags=selector.tags,
            selector=selector,
            on_leave=row.leave,
            on_delete=row.on_delete,
            deletion_budget=row.budget,
            template=ServiceTemplate.of(row.template) if row.template else None,
            service=service,
            project=project,
            state=DefinitionState.of(row),
            inserted_at=row.inserted_at,
            updated_at=row.updated_at,
        )


@strawberry.input
class GlobalServiceAttributes:
    """Which clusters, and what becomes of services on those that no longer fit (`cascade`), or
    when all is deleted (`onDelete`, else as `cascade`). More removals in one look than the
    `deletionBudget` wait until they are confirmed."""

    name: str
    tags: list[TagAttributes] | None = None
    distro: Distribution | None = None
    provider_id: strawberry.ID | None = None
    project_id: strawberry.ID | None = None
    group_ids: list[strawberry.ID] | None = None
    ignore_clusters: list[strawberry.ID] | None = None
    template: ServiceDeploymentAttributes | None = None
    cascade: CascadeAttributes | None = None
    on_delete: Leave | None = None
    deletion_budget: int | None = None

    def change(self, service_id: str | None = None) -> GlobalChange:
        if self.provider_id:
            raise Invalid("there are no providers here: choose by tags", field="providerId")
        selector = selector_fields(
            self.tags,
            distribution=self.distro,
            groups=self.group_ids,
            excluded=self.ignore_clusters,
        )
        leave = self.cascade.leave if self.cascade else None
        policies = (leave, self.on_delete or leave)
        return GlobalChange(
            common(self.name, self.project_id, selector, policies, self.deletion_budget),
            service_id or None,
            self.template.change() if self.template else None,
        )


@strawberry.input
class GlobalOverrideAttributes(ServiceUpdateAttributes):
    """What one cluster has otherwise, as a whole. A value that is null takes the one of the
    template away; nothing at all ends the override."""

    def patch(self) -> ServiceChange:
        kept = [one for one in self.configuration or () if one.value is not None]
        return replace(self, configuration=kept or None).change()

    @property
    def without(self) -> list[str]:
        return [one.name for one in self.configuration or () if one.value is None]


@strawberry.type
class GlobalQuery:
    @strawberry.field(description="A global service by id or name.")
    async def global_service(
        self, info: Info, id: strawberry.ID | None = None, name: str | None = None
    ) -> GlobalService | None:
        verbs = info.context.verbs
        row = await verbs.globals.get(info.context.actor, id, name)
        return (await global_types(info.context, [row]))[0]

    @strawberry.field(description="Global services; `q` is looked for in names.")
    async def global_services(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
    ) -> relay.Connection[GlobalService]:
        asked = relay.query(first, after, q)
        page = await info.context.verbs.globals.page(info.context.actor, asked)
        return await relay.filled(info.context, page, asked, global_types)

    @strawberry.field(description="What each cluster has of a global service, by handle.")
    async def global_service_clusters(
        self, info: Info, id: strawberry.ID
    ) -> list[GlobalServiceCluster]:
        views = await info.context.verbs.globals.clusters(info.context.actor, id)
        return [GlobalServiceCluster.of(view) for view in views]

    @strawberry.field(description="The services that come from a global service.")
    async def global_service_services(
        self, info: Info, id: strawberry.ID
    ) -> list[ServiceDeployment]:
        rows = await info.context.verbs.globals.services(info.context.actor, id)
        return await service_types(info, rows)

    @strawberry.field(description="What creating or (with an id) updating one would do.")
    async def preview_global_service(
        self,
        info: Info,
        attributes: GlobalServiceAttributes,
        id: strawberry.ID | None = None,
        service_id: strawberry.ID | None = None,
    ) -> TargetPlan:
        verbs = info.context.verbs
        plan = await verbs.globals.preview(
            info.context.actor, id or None, attributes.change(service_id)
        )
        return TargetPlan.of(plan)


@strawberry.type
class GlobalMutation:
    @strawberry.mutation(description="Replicate a service, or a template, to all that fit.")
    async def create_global_service(
        self,
        info: Info,
        attributes: GlobalServiceAttributes,
        service_id: strawberry.ID | None = None,
    ) -> GlobalService | None:
        verbs = info.context.verbs
        row = await verbs.globals.create(info.context.actor, attributes.change(service_id))
        return (await global_types(info.context, [row]))[0]

    @strawberry.mutation(description="Change a global service; all its services follow.")
    async def update_global_service(
        self, info: Info, id: strawberry.ID, attributes: GlobalServiceAttributes
    ) -> GlobalService | None:
        verbs = info.context.verbs
        row = await verbs.globals.update(info.context.actor, id, attributes.change())
        return (await global_types(info.context, [row]))[0]

    @strawberry.mutation(description="Delete a global service, as its policy says.")
    async def delete_global_service(self, info: Info, id: strawberry.ID) -> GlobalService | None:
        row = await info.context.verbs.globals.delete(info.context.actor, id)
        return (await global_types(info.context, [row]))[0]

    @strawberry.mutation(description="Look now; `confirm` lets so many removals happen, once.")
    async def sync_global_service(
        self, info: Info, id: strawberry.ID, confirm: int = 0
    ) -> GlobalService | None:
        row = await info.context.verbs.globals.sync(info.context.actor, id, confirm=confirm)
        return (await global_types(info.context, [row]))[0]

    @strawberry.mutation(description="Say what one cluster has otherwise, as a whole.")
    async def override_global_service(
        self,
        info: Info,
        id: strawberry.ID,
        cluster_id: strawberry.ID,
        attributes: GlobalOverrideAttributes,
    ) -> GlobalServiceCluster | None:
        verbs = info.context.verbs
        view = await verbs.globals.override(
            info.context.actor, id, cluster_id, attributes.patch(), attributes.without
        )
        return GlobalServiceCluster.of(view)


async def global_types(context: Context, rows: Sequence[GlobalRow]) -> list[GlobalService]:
    """Global services with their projects and the services that they hand on."""
    sources = await context.verbs.globals.sources(context.actor, rows)
    shown = {str(one.id): one for one in await related(context, sources, frozenset())}
    projects = await projects_of(context, [one.project_id for one in rows])
    return [
        GlobalService.of(row, shown.get(row.source_id or ""), projects.get(row.project_id or ""))
        for row in rows
    ]


def _json(value: object) -> str | None:
    return None if value is None else orjson.dumps(value, default=str).decode()
