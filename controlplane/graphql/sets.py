"""Service sets in the API."""

from collections.abc import Sequence
from datetime import datetime

import strawberry

from controlplane.domain.owners import Leave
from controlplane.domain.sets import FolderSource, Generator, RequestSource
from controlplane.domain.sets import ServiceSet as SetRow
from controlplane.graphql import relay
from controlplane.graphql.access import Project
from controlplane.graphql.context import Context, Info
from controlplane.graphql.definitions import (
    ClusterSelector,
    ClusterSelectorAttributes,
    DefinitionState,
    ServiceTemplate,
    TargetPlan,
    common,
    projects_of,
)
from controlplane.graphql.inputs import ServiceDeploymentAttributes, TagAttributes
from controlplane.graphql.scalars import Map
from controlplane.graphql.services import service_types
from controlplane.graphql.types import ServiceDeployment
from controlplane.usecases.sets import SetChange


@strawberry.type
class FolderGenerator:
    repository_id: strawberry.ID
    ref: str
    pattern: str
    excluded: list[str]

    @classmethod
    def of(cls, row: FolderSource) -> "FolderGenerator":
        return cls(
            repository_id=strawberry.ID(row.repository_id),
            ref=row.ref,
            pattern=row.pattern,
            excluded=list(row.excluded),
        )


@strawberry.type
class RequestGenerator:
    repository_id: strawberry.ID
    labels: list[str]
    base: str | None
    limit: int
    ttl_hours: int | None
    provider: str | None

    @classmethod
    def of(cls, row: RequestSource) -> "RequestGenerator":
        return cls(
            repository_id=strawberry.ID(row.repository_id),
            labels=list(row.labels),
            base=row.base or None,
            limit=row.most,
            ttl_hours=row.hours or None,
            provider=row.provider or None,
        )


@strawberry.type
class ServiceSet:
    """Services generated from clusters × folders × a list × open requests to merge."""

    id: strawberry.ID
    name: str
    selector: ClusterSelector
    folders: FolderGenerator | None
    items: list[Map] | None
    requests: RequestGenerator | None
    template: ServiceTemplate
    on_leave: Leave
    on_delete: Leave
    deletion_budget: int
    project: Project | None
    state: DefinitionState
    inserted_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, row: SetRow, project: Project | None = None) -> "ServiceSet":
        sources = row.generator
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            selector=ClusterSelector.of(row.selector),
            folders=FolderGenerator.of(sources.folders) if sources.folders else None,
            items=None if sources.items is None else [Map(dict(one)) for one in sources.items],
            requests=RequestGenerator.of(sources.requests) if sources.requests else None,
            template=ServiceTemplate.of(row.template),
            on_leave=row.leave,
            on_delete=row.on_delete,
            deletion_budget=row.budget,
            project=project,
            state=DefinitionState.of(row),
            inserted_at=row.inserted_at,
            updated_at=row.updated_at,
        )


@strawberry.input
class FolderGeneratorAttributes:
    """Folders whose path fits `pattern`, where `*` and `?` stand for parts of one segment."""

    repository_id: strawberry.ID
    pattern: str
    ref: str = "main"
    excluded: list[str] | None = None

    def source(self) -> FolderSource:
        return FolderSource(self.repository_id, self.ref, self.pattern, tuple(self.excluded or ()))


@strawberry.input
class RequestGeneratorAttributes:
    """Open requests to merge, those of forks left out. `labels`: all are needed. After `ttlHours`
    without any change a request no longer counts. `provider` is github, gitlab or gitea, where the
    name of the host does not tell."""

    repository_id: strawberry.ID
    labels: list[str] | None = None
    base: str | None = None
    limit: int = 20
    ttl_hours: int | None = None
    provider: str | None = None

    def source(self) -> RequestSource:
        return RequestSource(
            self.repository_id,
            tuple(self.labels or ()),
            self.limit,
            self.ttl_hours or 0,
            self.base or "",
            self.provider or "",
        )


@strawberry.input
class GeneratorAttributes:
    """What the clusters are multiplied by, as a whole; `items` have values by name."""

    folders: FolderGeneratorAttributes | None = None
    items: list[list[TagAttributes]] | None = None
    requests: RequestGeneratorAttributes | None = None

    def generator(self) -> Generator:
        items = self.items
        return Generator(
            self.folders.source() if self.folders else None,
            None if items is None else tuple({v.name: v.value for v in one} for one in items),
            self.requests.source() if self.requests else None,
        )


@strawberry.input
class ServiceSetAttributes:
    """What is left out stays. Texts of the `template` may hold `${cluster.handle}`,
    `${cluster.tags.NAME}`, `${folder.path}`, `${folder.name}`, `${item.NAME}`,
    `${request.number}`, `${request.branch}`, `${request.slug}`, `${request.sha}` and
    `${set.name}`."""

    name: str | None = None
    project_id: strawberry.ID | None = None
    selector: ClusterSelectorAttributes | None = None
    generator: GeneratorAttributes | None = None
    template: ServiceDeploymentAttributes | None = None
    on_leave: Leave | None = None
    on_delete: Leave | None = None
    deletion_budget: int | None = None

    def change(self) -> SetChange:
        selector = self.selector.fields() if self.selector else None
        policies = (self.on_leave, self.on_delete)
        return SetChange(
            common(self.name, self.project_id, selector, policies, self.deletion_budget),
            self.generator.generator() if self.generator else None,
            self.template.change() if self.template else None,
        )


@strawberry.type
class SetQuery:
    @strawberry.field(description="A service set by id or name.")
    async def service_set(
        self, info: Info, id: strawberry.ID | None = None, name: str | None = None
    ) -> ServiceSet | None:
        row = await info.context.verbs.sets.get(info.context.actor, id, name)
        return (await _types(info.context, [row]))[0]

    @strawberry.field(description="Service sets; `q` is looked for in names.")
    async def service_sets(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
    ) -> relay.Connection[ServiceSet]:
        asked = relay.query(first, after, q)
        page = await info.context.verbs.sets.page(info.context.actor, asked)
        return await relay.filled(info.context, page, asked, _types)

    @strawberry.field(description="The services that come from a set.")
    async def service_set_services(self, info: Info, id: strawberry.ID) -> list[ServiceDeployment]:
        rows = await info.context.verbs.sets.services(info.context.actor, id)
        return await service_types(info, rows)

    @strawberry.field(description="What creating or (with an id) updating one would do.")
    async def preview_service_set(
        self, info: Info, attributes: ServiceSetAttributes, id: strawberry.ID | None = None
    ) -> TargetPlan:
        sets = info.context.verbs.sets
        plan = await sets.preview(info.context.actor, id or None, attributes.change())
        return TargetPlan.of(plan)


@strawberry.type
class SetMutation:
    @strawberry.mutation(description="Define a service set; its services are made at once.")
    async def create_service_set(
        self, info: Info, attributes: ServiceSetAttributes
    ) -> ServiceSet | None:
        row = await info.context.verbs.sets.create(info.context.actor, attributes.change())
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation(description="Change a service set; its services follow.")
    async def update_service_set(
        self, info: Info, id: strawberry.ID, attributes: ServiceSetAttributes
    ) -> ServiceSet | None:
        row = await info.context.verbs.sets.update(info.context.actor, id, attributes.change())
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation(description="Delete a service set, as its policy says.")
    async def delete_service_set(self, info: Info, id: strawberry.ID) -> ServiceSet | None:
        row = await info.context.verbs.sets.delete(info.context.actor, id)
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation(description="Look now; `confirm` lets so many removals happen, once.")
    async def sync_service_set(
        self, info: Info, id: strawberry.ID, confirm: int = 0
    ) -> ServiceSet | None:
        row = await info.context.verbs.sets.sync(info.context.actor, id, confirm=confirm)
        return (await _types(info.context, [row]))[0]


async def _types(context: Context, rows: Sequence[SetRow]) -> list[ServiceSet]:
    projects = await projects_of(context, [one.project_id for one in rows])
    return [ServiceSet.of(row, projects.get(row.project_id or "")) for row in rows]
