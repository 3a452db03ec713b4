"""Service sets: services generated from clusters, folders, lists and pull requests."""

from dataclasses import dataclass, replace

from controlplane.authorization import Actor, Verb, require, require_member
from controlplane.generators.model.service_set import (
    Generator,
    GitFolderGenerator,
    PullRequestGenerator,
    ServiceSet,
)
from controlplane.generators.operations.definitions import (
    GeneratorChange,
    GeneratorOperations,
    template_from,
)
from controlplane.generators.ports import ServiceSetStore
from controlplane.platform.ports import Transaction
from controlplane.platform.retry import retry_operations
from controlplane.repositories.model.repository import check_ref_of
from controlplane.repositories.operations import find_repository
from controlplane.services.model.service import OwnerKind
from controlplane.services.operations.services import ServiceChange
from core.errors import Invalid
from core.spec.source import RepositoryKind


@dataclass(frozen=True, slots=True)
class SetChange(GeneratorChange):
    """Changes to a service set. None leaves a field unchanged."""

    generator: Generator | None = None
    """Generators. Replaces all earlier ones."""
    template: ServiceChange | None = None
    """Template of the services. Its strings may contain `${cluster.handle}`,
    `${cluster.tags.NAME}`, `${folder.path}`, `${folder.name}`, `${item.NAME}`, `${request.number}`,
    `${request.branch}`, `${request.slug}`, `${request.sha}` and `${set.name}`."""


@retry_operations
class ServiceSets(GeneratorOperations[ServiceSet, SetChange]):
    """Operations on service sets."""

    owner_kind = OwnerKind.SET
    noun = "service set"
    port = ServiceSetStore
    model = ServiceSet

    async def create(self, actor: Actor, change: SetChange) -> ServiceSet:
        """Creates a service set and its services."""
        require_member(actor)
        if change.template is None:
            raise Invalid("is required", field="template")
        return await super().create(actor, change)

    async def _fill_in(
        self, tx: Transaction, actor: Actor, definition: ServiceSet, change: SetChange
    ) -> ServiceSet:
        """The set with its template and generator, whose repositories the actor must read."""
        if change.generator is not None:
            definition = replace(definition, generator=change.generator.checked())
        generator = definition.generator
        sources = [s for s in (generator.folders, generator.requests) if s is not None]
        if change.template is not None:
            template = await template_from(
                tx,
                actor,
                change.template,
                definition.template if definition.template.name else None,
                placeholders=True,
                folders_of=sources[0].repository_id if sources else None,
            )
            definition = replace(definition, template=template)
        if change.generator is not None:
            for source in sources:
                repository = await find_repository(tx, source.repository_id)
                require(actor, Verb.READ, repository.target)
                _check_kind(source, repository.kind)
        return definition


def _check_kind(source: GitFolderGenerator | PullRequestGenerator, kind: RepositoryKind) -> None:
    if isinstance(source, GitFolderGenerator):
        if not kind.has_folders:
            raise Invalid("must be a Git or OCI repository", field="folders.repositoryId")
        check_ref_of(kind, source.ref)
    elif kind is not RepositoryKind.GIT:
        raise Invalid(
            "must be a Git repository: others have no pull requests", field="requests.repositoryId"
        )
