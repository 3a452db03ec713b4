"""Service sets: services generated from clusters, folders, lists and pull requests."""

from dataclasses import dataclass, replace

from controlplane.domain.access import Actor, Verb, require, require_member
from controlplane.domain.ownership import OwnerKind
from controlplane.domain.sets import Generator, ServiceSet
from controlplane.domain.targets import TargetPlan
from controlplane.ports import Transaction
from controlplane.usecases.definitions import (
    GeneratorChange,
    GeneratorOperations,
    check_selector,
    require_generator_project,
    template_from,
)
from controlplane.usecases.repositories import find_repository
from controlplane.usecases.retrying import retry_operations
from controlplane.usecases.services import ServiceChange
from core.errors import Invalid


@dataclass(frozen=True, slots=True)
class SetChange:
    """Changes to a service set. None leaves a field unchanged."""

    common: GeneratorChange = GeneratorChange()
    generator: Generator | None = None
    template: ServiceChange | None = None


@retry_operations
class ServiceSets(GeneratorOperations[ServiceSet]):
    """Operations on service sets."""

    kind = OwnerKind.SET
    noun = "ServiceSet"

    async def create(self, actor: Actor, change: SetChange) -> ServiceSet:
        """Creates a service set and its services."""
        require_member(actor)
        if change.template is None:
            raise Invalid("is required", field="template")
        blank = ServiceSet(**self._blank(change.common))
        return await self._make(
            actor, blank, lambda tx, service_set: _with_template(tx, actor, service_set, change)
        )

    async def update(self, actor: Actor, id: str, change: SetChange) -> ServiceSet:
        """Changes a service set and its services."""
        require_member(actor)
        return await self._renew(
            actor,
            id,
            change.common.columns,
            lambda tx, service_set: _with_template(tx, actor, service_set, change),
        )

    async def preview(self, actor: Actor, id: str | None, change: SetChange) -> TargetPlan:
        """Previews the effect of creating or updating a service set."""
        require_member(actor)
        async with self._context.store.read() as tx:
            if id:
                before = await self._open(tx, actor, id)
                service_set = replace(before, **change.common.columns(before))
            else:
                service_set = ServiceSet(**self._blank(change.common))
                await require_generator_project(tx, actor, service_set.project_id)
            service_set = await _with_template(tx, actor, service_set, change)
            await check_selector(tx, service_set)
        return await self._planned(actor, service_set)


async def _with_template(
    tx: Transaction, actor: Actor, service_set: ServiceSet, change: SetChange
) -> ServiceSet:
    """The set with its template and generator; the actor must be able to read their
    repositories."""
    if change.generator is not None:
        service_set = replace(service_set, generator=change.generator.checked())
    sources = [
        s for s in (service_set.generator.folders, service_set.generator.requests) if s is not None
    ]
    if change.template is not None:
        template = await template_from(
            tx,
            actor,
            change.template,
            service_set.template if service_set.template.name else None,
            placeholders=True,
            folders_of=sources[0].repository_id if sources else None,
        )
        service_set = replace(service_set, template=template)
    if change.generator is not None:
        for source in sources:
            repository = await find_repository(tx, source.repository_id)
            require(actor, Verb.READ, repository.target)
    return service_set
