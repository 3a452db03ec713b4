"""Service sets in the API."""

import strawberry

from controlplane.access.api.loading import with_projects
from controlplane.clusters.api.inputs import TagAttributes
from controlplane.clusters.api.selectors import ClusterSelectorAttributes
from controlplane.generators.api.definitions import (
    GENERATOR_NAMES,
    GeneratorFields,
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
from controlplane.platform.graphql.context import Info
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

    def field_values(self) -> FieldValues:
        given = super().field_values()
        if self.items is not None:
            given["items"] = tuple({tag.name: tag.value for tag in item} for item in self.items)
        return given


@draft(SetChange, rename=GENERATOR_NAMES)
class ServiceSetAttributes(GeneratorInput[SetChange]):
    """Fields of a service set. A field that is null or absent stays as it is."""

    selector: ClusterSelectorAttributes | None = None
    template: ServiceDeploymentAttributes | None = None


_SETS = GeneratorFields("service set", ServiceSets, ServiceSetType, with_projects(ServiceSetType))


@strawberry.type
class SetQuery:
    service_set = _SETS.get(ServiceSets.get)
    """A service set, by ID or name."""
    service_sets = _SETS.page(ServiceSets.page)
    """Service sets."""
    service_set_services = _SETS.related(ServiceSets.services, ServiceDeployment, service_types)
    """Services that a service set generated."""

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
    create_service_set = _SETS.create(ServiceSets.create, ServiceSetAttributes)
    """Creates a service set and its services."""
    update_service_set = _SETS.update(ServiceSets.update, ServiceSetAttributes)
    """Updates a service set and its services."""
    delete_service_set = _SETS.action(ServiceSets.delete)
    """Deletes a service set. `onDelete` determines the handling of its services."""
    sync_service_set = _SETS.sync(ServiceSets.sync)
    """Evaluates a service set now."""
