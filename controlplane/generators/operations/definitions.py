"""Operations and checks that all generators of services share.

Generators are global services, service sets and managed namespaces.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from controlplane.access.operations.scopes import check_not_moved, check_project
from controlplane.authorization import Actor, Resource, ResourceKind, Verb, require
from controlplane.clusters.model.selectors import Selector
from controlplane.generators.model.definitions import (
    GeneratorDefinition,
    LeavePolicy,
    check_budget,
)
from controlplane.generators.model.plan import TargetPlan
from controlplane.generators.operations.generation import AnyGenerator, fleet_of
from controlplane.generators.operations.reconciler import (
    GeneratorReconciler,
    delete_generator,
    generator_key,
)
from controlplane.generators.operations.template_secrets import template_secrets
from controlplane.generators.ports import GlobalOverrideStore
from controlplane.platform.context import GENERATORS, Change, NamedOperations, OperationContext
from controlplane.platform.names import check_label, check_text
from controlplane.platform.parts import Columns, replace_columns, row_of
from controlplane.platform.ports import Transaction
from controlplane.platform.references import reference
from controlplane.platform.retry import retry_operations
from controlplane.repositories.operations import find_repository
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.model.service import OwnerKind, Service
from controlplane.services.model.templates import FIELDS, ServiceTemplate
from controlplane.services.operations.services import ServiceChange
from controlplane.services.operations.source_repositories import (
    resolve_template_source,
    with_chart_ref,
)
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, Invalid
from core.json_object import JsonMapping

D = TypeVar("D", bound=AnyGenerator)
C = TypeVar("C", bound="GeneratorChange")


@dataclass(frozen=True, slots=True)
class GeneratorChange:
    """Changes to any generator. None leaves a field unchanged; the project cannot be changed."""

    name: str | None = None
    """Unique name. Required on creation."""
    project_id: str | None = None
    """ID of the project whose clusters can match. Default: clusters of all projects."""
    selector: JsonMapping | None = None
    """Conditions on clusters. Default: every cluster."""
    leave: LeavePolicy | None = None
    """Handling of services or namespaces that are no longer generated. Default: detach; for service
    sets: delete."""
    on_delete: LeavePolicy | None = None
    """Handling of services or namespaces when the definition is deleted. Default: detach."""
    budget: int | None = None
    """Maximum number of removals in one evaluation without a confirmation. Default: 10. Limit:
    100,000."""

    def columns(self, before: GeneratorDefinition | None = None) -> Columns:
        """The validated fields. Invalid: a value is not allowed."""
        columns: Columns = {}
        if self.name is not None:
            columns["name"] = check_text(self.name, "name")
        if self.selector is not None:
            chosen = before.selector if before else Selector()
            columns["selector"] = replace(chosen, **self.selector).checked()
        if self.budget is not None:
            columns["budget"] = check_budget(self.budget)
        for name in ("leave", "on_delete"):
            if (value := getattr(self, name)) is not None:
                columns[name] = value
        return columns


@retry_operations
class GeneratorOperations(NamedOperations[D], ABC, Generic[D, C]):
    """Operations that global services, service sets and managed namespaces share.

    A generator needs the permissions for services of its project; one without a project, for
    services everywhere.
    """

    kind = ResourceKind.SERVICE
    owner_kind: OwnerKind
    model: type[D]
    """Class of the generators. Its name is part of those of mutations."""

    def __init__(self, context: OperationContext, reconciler: GeneratorReconciler) -> None:
        self._context = context
        self._reconciler = reconciler

    async def services(self, actor: Actor, id: str) -> list[Service]:
        """The services that a generator created and the actor may see."""
        definition = await self.get(actor, id)
        async with self._context.store.read() as tx:
            services = await tx[ServiceStore].of_owner(definition.id)
        return [service for service in services if actor.may(Verb.READ, service.target)]

    async def preview(self, actor: Actor, id: str | None, change: C) -> TargetPlan:
        """Previews the effect of creating a generator, or of updating the one with an id."""
        async with self._context.read(actor) as tx:
            if id:
                before = await self._find(tx, id)
                require(actor, Verb.WRITE, before.target)
                proposed = replace_columns(before, self._changed_columns(before, change))
            else:
                scope = await _service_scope(tx, actor, change.project_id or None)
                require(actor, Verb.WRITE, scope)
                proposed = self._new_definition(change)
            definition = await self._fill_in(tx, actor, proposed, change)
            await _check_selector(tx, definition)
        return await self._reconciler.plan(definition)

    async def create(self, actor: Actor, change: C) -> D:
        """Creates a generator and reconciles it at once.

        Conflict: the name is already used.
        """
        async with self._context.change(actor, f"create{self.model.__name__}") as tx:
            tx.authorize(Verb.WRITE, await _service_scope(tx, actor, change.project_id or None))
            new = self._new_definition(change)
            change = await self._with_repository(tx, change, new.services_project_id)
            definition = await self._fill_in(tx, actor, new, change)
            await _check_selector(tx, definition)
            await self._check_name(tx, definition.name)
            await tx[self.port].add(definition)
            tx[GlobalOverrideStore].mark_absent("global_id", definition.id)
            tx.audit(definition.name, definition.id)
            self._request_reconcile(tx, definition.id)
        return definition

    async def update(self, actor: Actor, id: str, change: C) -> D:
        """Changes a generator and all its services."""
        async with self._context.change(actor, f"update{self.model.__name__}") as tx:
            before = await self._find(tx, id)
            tx.authorize(Verb.WRITE, before.target)
            columns = self._changed_columns(before, change)
            now = self._context.clock.now()
            changed = replace_columns(before, columns | {"updated_at": now})
            definition = await self._fill_in(tx, actor, changed, change)
            await _check_selector(tx, definition)
            await tx[self.port].put(definition)
            tx.audit(definition.name, id, changed=sorted(columns))
            self._request_reconcile(tx, id)
        return definition

    async def delete(self, actor: Actor, id: str) -> D:
        """Deletes a generator after its services, which its `on_delete` policy deletes or leaves.

        A generator without services is deleted at once.
        """
        now = self._context.clock.now()
        async with self._context.change(actor, f"delete{self.model.__name__}") as tx:
            definition = await self._find(tx, id)
            tx.authorize(Verb.WRITE, definition.target)
            await tx[self.port].change(id, ending_at=now, updated_at=now)
            if not await tx[ServiceStore].of_owner_with_deleted(id):
                await delete_generator(tx, definition)
            tx.audit(definition.name, id, services=definition.on_delete.value)
            self._request_reconcile(tx, id)
        return replace(definition, ending_at=now)

    async def sync(self, actor: Actor, id: str, confirm: int = 0) -> D:
        """Reconciles a generator now. `confirm` allows up to that many deletions, once."""
        async with self._context.change(actor, f"sync{self.model.__name__}") as tx:
            definition = await self._find(tx, id)
            tx.authorize(Verb.WRITE, definition.target)
            check_budget(confirm)
            if confirm:
                await tx[self.port].change(id, confirmed=confirm)
            tx.audit(definition.name, id, confirmed=confirm)
            self._request_reconcile(tx, id)
        return replace(definition, confirmed=confirm or definition.confirmed)

    async def _with_repository(self, tx: Change, change: C, project_id: str) -> C:
        """The change with the ID of a repository that it names by URL, in the services' project."""
        return change

    @abstractmethod
    async def _fill_in(self, tx: Transaction, actor: Actor, definition: D, change: C) -> D:
        """Fills in the fields that only this kind of generator has."""

    def _changed_columns(self, before: D, change: C) -> Columns:
        """The fields to change. Conflict: the generator is being deleted."""
        title = f"{self.noun} {before.name!r}"
        if before.ending_at is not None:
            raise Conflict(f"{title} is being deleted")
        check_not_moved(title, before.project_id or "", change.project_id)
        return change.columns(before)

    def _new_definition(self, change: C) -> D:
        """A new generator. Invalid: it has no name."""
        columns = change.columns()
        if "name" not in columns:
            raise Invalid("is required", field="name")
        now = self._context.clock.now()
        columns |= {"id": self._context.new_id(), "inserted_at": now, "updated_at": now}
        return row_of(self.model, columns | {"project_id": change.project_id or None})

    def _request_reconcile(self, tx: Change, id: str) -> None:
        tx.publish(GENERATORS, generator_key(self.owner_kind, id))


async def _service_scope(tx: Transaction, actor: Actor, project_id: str | None) -> Resource:
    """The location of new services. NotFound: the actor may not see the project."""
    if project_id is not None:
        await check_project(tx, actor, project_id)
    return Resource.of_project(ResourceKind.SERVICE, project_id)


async def _check_selector(tx: Transaction, definition: GeneratorDefinition) -> None:
    """Invalid: the selector names a cluster group that does not exist."""
    (await fleet_of(tx)).matching(definition.selector, definition.project_id)


async def template_from(
    tx: Transaction,
    actor: Actor,
    change: ServiceChange,
    before: ServiceTemplate | None = None,
    *,
    placeholders: bool = False,
    folders_of: str | None = None,
) -> ServiceTemplate:
    """Applies a change to a template. Names with placeholders are validated once they are filled
    in.

    `folders_of`: the repository to use if the template names none. NotFound, Forbidden: the actor
    may not read the repository.
    """
    if change.context_ids or change.sources:
        raise Invalid("must not contain contexts or additional sources", field="template")
    source_repository_id = (
        change.repository_id or folders_of or await _folder_repository_id(tx, before)
    )
    change = replace(
        change, **await resolve_template_source(tx, actor, source_repository_id, change.helm)
    )
    columns = {name: value for name, value in change.checked().items() if name in FIELDS}
    for name in ("name", "namespace"):
        if (value := getattr(change, name)) is not None:
            check = check_text if placeholders else check_label
            columns[name] = check(value, name)
    if change.repository_id:
        with reference("template.repositoryId", change.repository_id):
            repository = await find_repository(tx, change.repository_id)
            require(actor, Verb.READ, repository.target)
        columns["repository_id"] = repository.id
    if change.uses is not None:
        columns["secrets"] = await template_secrets(tx, actor, change.uses)
    repository_id = columns.get("repository_id") or (before.repository_id if before else None)
    columns = await with_chart_ref(tx, repository_id, columns)
    template = (before or ServiceTemplate()).changed(**columns)
    if not template.name or not template.namespace:
        raise Invalid("needs a name and a namespace", field="template")
    return template


async def _folder_repository_id(tx: Transaction, before: ServiceTemplate | None) -> str | None:
    """Id of a template's repository if it has folders."""
    if before is None or before.repository_id is None:
        return None
    repository = await tx[RepositoryStore].get(before.repository_id)
    return repository.id if repository is not None and repository.kind.has_folders else None
