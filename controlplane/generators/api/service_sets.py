"""Service sets in the API."""

from collections.abc import Sequence

import strawberry

from controlplane.access.api.loading import projects_of
from controlplane.clusters.api.inputs import TagAttributes
from controlplane.clusters.api.selectors import ClusterSelectorAttributes
from controlplane.generators.api.definitions import (
    GENERATOR_NAMES,
    GeneratorInput,
    GeneratorOutput,
    TargetPlanType,
)
from controlplane.generators.model.service_set import (
    Generator,
    GitFolderGenerator,
    PullRequestGenerator,
    ServiceSet,
)
from controlplane.generators.operations.service_sets import ServiceSets, SetChange
from controlplane.platform.graphql import relay
from controlplane.platform.graphql.context import Context, Info
from controlplane.platform.graphql.derive import Draft, FieldValues, Output, computed, draft, output
from controlplane.platform.graphql.scalars import Map
from controlplane.services.api.inputs import ServiceDeploymentAttributes
from controlplane.services.api.loading import service_types
from controlplane.services.api.types import ServiceDeployment


@output(GitFolderGenerator)
class FolderGenerator(Output[GitFolderGenerator]):
    """Generator of one service per folder of a Git repository."""


@output(PullRequestGenerator, nullable={"base", "ttl_hours", "provider"})
class RequestGenerator(Output[PullRequestGenerator]):
    """Generator of one service per open pull or merge request."""


@output(ServiceSet, hide={"generator"})
class ServiceSetType(GeneratorOutput[ServiceSet]):
    """Services generated from a template for each combination of clusters, folders, items and
    requests."""

    folders: FolderGenerator | None = computed(
        lambda row: FolderGenerator.of_optional(row.generator.folders)
    )
    """Folder generator. Null without one."""
    items: list[Map] | None = computed(lambda row: row.generator.items)
    """Items, each with values by name. Null without a list."""
    requests: RequestGenerator | None = computed(
        lambda row: RequestGenerator.of_optional(row.generator.requests)
    )
    """Generator for pull or merge requests. Null without one."""


@draft(GitFolderGenerator)
class FolderGeneratorAttributes(Draft[GitFolderGenerator]):
    """Generator of one service per folder of a Git repository. Limit: 1,000 folders."""

    pattern: str
    ref: str = "main"


@draft(PullRequestGenerator)
class RequestGeneratorAttributes(Draft[PullRequestGenerator]):
    """Generator of one service per open pull or merge request. Requests from forks are skipped."""

    limit: int = 20


@draft(Generator)
class GeneratorAttributes(Draft[Generator]):
    """Generators whose results are combined with the clusters."""

    items: list[list[TagAttributes]] | None = None

    def given(self) -> FieldValues:
        given = super().given()
        if self.items is not None:
            given["items"] = tuple({tag.name: tag.value for tag in item} for item in self.items)
        return given


@draft(SetChange, rename=GENERATOR_NAMES)
class ServiceSetAttributes(GeneratorInput[SetChange]):
    """Fields of a service set. A field that is null or absent stays as it is."""

    selector: ClusterSelectorAttributes | None = None
    template: ServiceDeploymentAttributes | None = None


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
        row = await info.context[ServiceSets].get(info.context.actor, id, name)
        return (await _types(info.context, [row]))[0]

    @strawberry.field
    async def service_sets(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
        labels: str | None = None,
    ) -> relay.Connection[ServiceSetType]:
        """Service sets."""
        asked = relay.page_query(first, after, q, labels=labels)
        page = await info.context[ServiceSets].page(info.context.actor, asked)
        return await relay.connection_of_many(info.context, page, asked, _types)

    @strawberry.field
    async def service_set_services(self, info: Info, id: strawberry.ID) -> list[ServiceDeployment]:
        """Services that a service set generated.

        Args:
            id: ID of the service set.
        """
        rows = await info.context[ServiceSets].services(info.context.actor, id)
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
        sets = info.context[ServiceSets]
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
        row = await info.context[ServiceSets].create(info.context.actor, attributes.change())
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
        row = await info.context[ServiceSets].update(info.context.actor, id, attributes.change())
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation
    async def delete_service_set(self, info: Info, id: strawberry.ID) -> ServiceSetType | None:
        """Deletes a service set. `onDelete` determines the handling of its services.

        Args:
            id: ID of the service set.
        """
        row = await info.context[ServiceSets].delete(info.context.actor, id)
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
        row = await info.context[ServiceSets].sync(info.context.actor, id, confirm=confirm)
        return (await _types(info.context, [row]))[0]


async def _types(context: Context, rows: Sequence[ServiceSet]) -> list[ServiceSetType]:
    projects = await projects_of(context, [row.project_id for row in rows])
    return [ServiceSetType.of(row, project=projects.get(row.project_id or "")) for row in rows]
