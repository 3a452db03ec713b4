"""Service sets in the API."""

from collections.abc import Sequence
from datetime import datetime

import strawberry

from controlplane.domain.owners import LeavePolicy
from controlplane.domain.sets import Generator, GitFolderGenerator, PullRequestGenerator
from controlplane.domain.sets import ServiceSet as SetRow
from controlplane.graphql import relay
from controlplane.graphql.access import ProjectType
from controlplane.graphql.context import Context, Info
from controlplane.graphql.definitions import (
    ClusterSelector,
    ClusterSelectorAttributes,
    DefinitionState,
    ServiceTemplateType,
    TargetPlanType,
    common_change,
    projects_of,
)
from controlplane.graphql.inputs import ServiceDeploymentAttributes, TagAttributes
from controlplane.graphql.scalars import Map
from controlplane.graphql.services import service_types
from controlplane.graphql.types import ServiceDeployment
from controlplane.usecases.sets import SetChange


@strawberry.type
class FolderGenerator:
    """Generator of one service per folder of a Git repository."""

    repository_id: strawberry.ID
    """ID of the Git repository."""
    ref: str
    """Branch, tag or commit."""
    pattern: str
    """Pattern for folder paths. `*` and `?` match within one path segment."""
    excluded: list[str]
    """Patterns for folders to skip."""

    @classmethod
    def of(cls, row: GitFolderGenerator) -> "FolderGenerator":
        return cls(
            repository_id=strawberry.ID(row.repository_id),
            ref=row.ref,
            pattern=row.pattern,
            excluded=list(row.excluded),
        )


@strawberry.type
class RequestGenerator:
    """Generator of one service per open pull or merge request."""

    repository_id: strawberry.ID
    """ID of the Git repository."""
    labels: list[str]
    """Required labels of the request."""
    base: str | None
    """Required target branch. Null for any."""
    limit: int
    """Maximum number of requests, oldest first."""
    ttl_hours: int | None
    """Hours without a change after which a request no longer counts. Null for no limit."""
    provider: str | None
    """`github`, `gitlab` or `gitea`. Null if the host name tells it."""

    @classmethod
    def of(cls, row: PullRequestGenerator) -> "RequestGenerator":
        return cls(
            repository_id=strawberry.ID(row.repository_id),
            labels=list(row.labels),
            base=row.base or None,
            limit=row.most,
            ttl_hours=row.hours or None,
            provider=row.provider or None,
        )


@strawberry.type
class ServiceSetType:
    """Services generated from a template for each combination of clusters, folders, items and
    requests."""

    id: strawberry.ID
    name: str
    """Unique name."""
    selector: ClusterSelector
    """Conditions on clusters."""
    folders: FolderGenerator | None
    """Folder generator. Null without one."""
    items: list[Map] | None
    """Items, each with values by name. Null without a list."""
    requests: RequestGenerator | None
    """Generator for pull or merge requests. Null without one."""
    template: ServiceTemplateType
    """Template of the services."""
    on_leave: LeavePolicy
    """Handling of services that are no longer generated."""
    on_delete: LeavePolicy
    """Handling of services when the set is deleted."""
    deletion_budget: int
    """Maximum number of removals in one evaluation without a confirmation."""
    project: ProjectType | None
    """Project whose clusters can match. Null: clusters of all projects."""
    state: DefinitionState
    """Result of the last evaluation."""
    inserted_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, row: SetRow, project: ProjectType | None = None) -> "ServiceSetType":
        sources = row.generator
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            selector=ClusterSelector.of(row.selector),
            folders=FolderGenerator.of(sources.folders) if sources.folders else None,
            items=None if sources.items is None else [Map(dict(item)) for item in sources.items],
            requests=RequestGenerator.of(sources.requests) if sources.requests else None,
            template=ServiceTemplateType.of(row.template),
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
    """Generator of one service per folder of a Git repository. Limit: 1,000 folders."""

    repository_id: strawberry.ID
    """ID of the Git repository."""
    pattern: str
    """Pattern for folder paths. `*` and `?` match within one path segment. Limit: 16 segments."""
    ref: str = "main"
    """Branch, tag or commit. Default: `main`."""
    excluded: list[str] | None = None
    """Patterns for folders to skip. Default: none."""

    def source(self) -> GitFolderGenerator:
        return GitFolderGenerator(
            self.repository_id, self.ref, self.pattern, tuple(self.excluded or ())
        )


@strawberry.input
class RequestGeneratorAttributes:
    """Generator of one service per open pull or merge request. Requests from forks are skipped."""

    repository_id: strawberry.ID
    """ID of the Git repository."""
    labels: list[str] | None = None
    """Required labels of the request. Default: none."""
    base: str | None = None
    """Required target branch. Default: any."""
    limit: int = 20
    """Maximum number of requests, oldest first. Default: 20. Limit: 200."""
    ttl_hours: int | None = None
    """Hours without a change after which a request no longer counts. Default: no limit."""
    provider: str | None = None
    """`github`, `gitlab` or `gitea`. Default: derived from the host name."""

    def source(self) -> PullRequestGenerator:
        return PullRequestGenerator(
            self.repository_id,
            tuple(self.labels or ()),
            self.limit,
            self.ttl_hours or 0,
            self.base or "",
            self.provider or "",
        )


@strawberry.input
class GeneratorAttributes:
    """Generators whose results are combined with the clusters."""

    folders: FolderGeneratorAttributes | None = None
    """Folder generator."""
    items: list[list[TagAttributes]] | None = None
    """Items, each with values by name. Limit: 1,000."""
    requests: RequestGeneratorAttributes | None = None
    """Generator for pull or merge requests."""

    def generator(self) -> Generator:
        items = self.items
        return Generator(
            self.folders.source() if self.folders else None,
            None if items is None else tuple({v.name: v.value for v in item} for item in items),
            self.requests.source() if self.requests else None,
        )


@strawberry.input
class ServiceSetAttributes:
    """Fields of a service set. A field that is null or absent stays as it is."""

    name: str | None = None
    """Unique name. Required on creation."""
    project_id: strawberry.ID | None = None
    """ID of the project whose clusters can match. Default: clusters of all projects."""
    selector: ClusterSelectorAttributes | None = None
    """Conditions on clusters. Default: every cluster."""
    generator: GeneratorAttributes | None = None
    """Generators. Replaces all earlier ones."""
    template: ServiceDeploymentAttributes | None = None
    """Template of the services. Its strings may contain `${cluster.handle}`,
    `${cluster.tags.NAME}`, `${folder.path}`, `${folder.name}`, `${item.NAME}`, `${request.number}`,
    `${request.branch}`, `${request.slug}`, `${request.sha}` and `${set.name}`."""
    on_leave: LeavePolicy | None = None
    """Handling of services that are no longer generated. Default: detach."""
    on_delete: LeavePolicy | None = None
    """Handling of services when the set is deleted. Default: detach."""
    deletion_budget: int | None = None
    """Maximum number of removals in one evaluation without a confirmation. Default: 10. Limit:
    100,000."""

    def change(self) -> SetChange:
        selector = self.selector.fields() if self.selector else None
        policies = (self.on_leave, self.on_delete)
        return SetChange(
            common_change(self.name, self.project_id, selector, policies, self.deletion_budget),
            self.generator.generator() if self.generator else None,
            self.template.change() if self.template else None,
        )


@strawberry.type
class SetQuery:
    @strawberry.field
    async def service_set(
        self, info: Info, id: strawberry.ID | None = None, name: str | None = None
    ) -> ServiceSetType | None:
        """A service set, by ID or name.

        Args:
            id: ID of the service set.
        """
        row = await info.context.verbs.sets.get(info.context.actor, id, name)
        return (await _types(info.context, [row]))[0]

    @strawberry.field
    async def service_sets(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
    ) -> relay.Connection[ServiceSetType]:
        """Service sets."""
        asked = relay.page_query(first, after, q)
        page = await info.context.verbs.sets.page(info.context.actor, asked)
        return await relay.connection_of_many(info.context, page, asked, _types)

    @strawberry.field
    async def service_set_services(self, info: Info, id: strawberry.ID) -> list[ServiceDeployment]:
        """Services that a service set generated.

        Args:
            id: ID of the service set.
        """
        rows = await info.context.verbs.sets.services(info.context.actor, id)
        return await service_types(info, rows)

    @strawberry.field
    async def preview_service_set(
        self, info: Info, attributes: ServiceSetAttributes, id: strawberry.ID | None = None
    ) -> TargetPlanType:
        """Changes that creating or updating a service set would make.

        Args:
            attributes: Fields of the service set.
            id: ID of the service set to update. Null: a new one.
        """
        sets = info.context.verbs.sets
        plan = await sets.preview(info.context.actor, id or None, attributes.change())
        return TargetPlanType.of(plan)


@strawberry.type
class SetMutation:
    @strawberry.mutation
    async def create_service_set(
        self, info: Info, attributes: ServiceSetAttributes
    ) -> ServiceSetType | None:
        """Creates a service set and its services.

        Args:
            attributes: Fields of the service set.
        """
        row = await info.context.verbs.sets.create(info.context.actor, attributes.change())
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation
    async def update_service_set(
        self, info: Info, id: strawberry.ID, attributes: ServiceSetAttributes
    ) -> ServiceSetType | None:
        """Updates a service set and its services.

        Args:
            id: ID of the service set.
            attributes: Fields to change.
        """
        row = await info.context.verbs.sets.update(info.context.actor, id, attributes.change())
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation
    async def delete_service_set(self, info: Info, id: strawberry.ID) -> ServiceSetType | None:
        """Deletes a service set. `onDelete` determines the handling of its services.

        Args:
            id: ID of the service set.
        """
        row = await info.context.verbs.sets.delete(info.context.actor, id)
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation
    async def sync_service_set(
        self, info: Info, id: strawberry.ID, confirm: int = 0
    ) -> ServiceSetType | None:
        """Evaluates a service set now.

        Args:
            id: ID of the service set.
            confirm: Number of removals to allow in this evaluation. Default: 0, the deletion
                budget.
        """
        row = await info.context.verbs.sets.sync(info.context.actor, id, confirm=confirm)
        return (await _types(info.context, [row]))[0]


async def _types(context: Context, rows: Sequence[SetRow]) -> list[ServiceSetType]:
    projects = await projects_of(context, [row.project_id for row in rows])
    return [ServiceSetType.of(row, projects.get(row.project_id or "")) for row in rows]
