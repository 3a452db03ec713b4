"""Operations and checks that all generators of services share.

Generators are global services, service sets and managed namespaces.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from controlplane.domain.access import Actor, ResourceKind, Verb, require, require_member
from controlplane.domain.names import check_label, check_text
from controlplane.domain.owners import (
    GeneratorDefinition,
    LeavePolicy,
    check_budget,
    scope_for_services,
)
from controlplane.domain.ownership import OwnerKind
from controlplane.domain.selectors import Selector
from controlplane.domain.services import Service
from controlplane.domain.targets import TargetPlan
from controlplane.domain.templates import FIELDS, ServiceTemplate
from controlplane.ports import ANY, Page, PageQuery, Transaction
from controlplane.usecases.chartplaces import resolve_template_source, with_chart_ref
from controlplane.usecases.conflicts import name_conflict
from controlplane.usecases.deps import GENERATORS, OperationContext
from controlplane.usecases.evaluation import AnyGenerator, fleet_of
from controlplane.usecases.repositories import find_repository
from controlplane.usecases.retrying import retry_operations
from controlplane.usecases.scopes import find_project
from controlplane.usecases.services import ServiceChange
from controlplane.usecases.targets import GeneratorReconciler, delete_generator, generator_table
from controlplane.usecases.templatesecrets import template_secrets
from core.errors import Conflict, Invalid, NotFound
from core.spec.source import RepositoryKind

D = TypeVar("D", bound=AnyGenerator)
Fill = Callable[[Transaction, D], Awaitable[D]]
"""Fills in the fields that only one kind of generator has."""


@dataclass(frozen=True, slots=True)
class GeneratorChange:
    """Changes to any generator. None leaves a field unchanged; the project cannot be changed.

    `selector` contains only the selector fields that change.
    """

    name: str | None = None
    project_id: str | None = None
    selector: Mapping[str, Any] | None = None
    leave: LeavePolicy | None = None
    on_delete: LeavePolicy | None = None
    budget: int | None = None

    def columns(self, before: GeneratorDefinition | None = None) -> dict[str, Any]:
        """The validated fields. Invalid: a value is not allowed."""
        found: dict[str, Any] = {}
        if self.name is not None:
            found["name"] = check_text(self.name, "name")
        if self.selector is not None:
            chosen = before.selector if before else Selector()
            found["selector"] = replace(chosen, **self.selector).checked()
        if self.budget is not None:
            found["budget"] = check_budget(self.budget)
        for name in ("leave", "on_delete"):
            if (value := getattr(self, name)) is not None:
                found[name] = value
        return found


@retry_operations
class GeneratorOperations(Generic[D]):
    """Operations that global services, service sets and managed namespaces share.

    A generator needs the permissions for services of its project; one without a project, for
    services everywhere.
    """

    kind: OwnerKind
    noun: str

    def __init__(self, deps: OperationContext, targets: GeneratorReconciler) -> None:
        self._context = deps
        self._targets = targets

    async def page(self, actor: Actor, query: PageQuery) -> Page[D]:
        require_member(actor)
        query = replace(query, visible=actor.policy.visible(ResourceKind.SERVICE))
        async with self._context.store.read() as tx:
            return await generator_table(tx, self.kind).page(query)

    async def get(self, actor: Actor, id: str | None, name: str | None = None) -> D:
        """Finds a generator by id or name.

        NotFound: it does not exist, or the actor may not see it.
        """
        require_member(actor)
        async with self._context.store.read() as tx:
            definition = await self._find(tx, id, name)
        require(actor, Verb.READ, definition.target)
        return definition

    async def services(self, actor: Actor, id: str) -> list[Service]:
        """The services that a generator created and the actor may see."""
        definition = await self.get(actor, id)
        async with self._context.store.read() as tx:
            found = await tx.services.select(owner_id=definition.id)
        return [service for service in found if actor.may(Verb.READ, service.target)]

    async def delete(self, actor: Actor, id: str) -> D:
        """Deletes a generator after its services, which its `on_delete` policy deletes or leaves.

        A generator without services is deleted at once.
        """
        require_member(actor)
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            definition = await self._find(tx, id)
            require(actor, Verb.WRITE, definition.target)
            await generator_table(tx, self.kind).change(id, ending_at=now, updated_at=now)
            if not await tx.services.select(owner_id=id, deleted_at=ANY):
                await delete_generator(tx, definition)
            await self._context.audit(
                tx,
                actor,
                f"delete{self.noun}",
                definition.name,
                id,
                services=definition.on_delete.value,
            )
        self._wake(id)
        return replace(definition, ending_at=now)

    async def sync(self, actor: Actor, id: str, *, confirm: int = 0) -> D:
        """Reconciles a generator now. `confirm` allows up to that many deletions, once."""
        require_member(actor)
        check_budget(confirm)
        async with self._context.store.write() as tx:
            definition = await self._find(tx, id)
            require(actor, Verb.WRITE, definition.target)
            if confirm:
                await generator_table(tx, self.kind).change(id, confirmed=confirm)
            await self._context.audit(
                tx, actor, f"sync{self.noun}", definition.name, id, confirmed=confirm
            )
        self._wake(id)
        return replace(definition, confirmed=confirm or definition.confirmed)

    async def _make(self, actor: Actor, blank: D, fill: Fill[D]) -> D:
        """Creates a generator if the actor may create services in its project."""
        async with self._context.store.write() as tx:
            await require_generator_project(tx, actor, blank.project_id)
            definition = await fill(tx, blank)
            await check_selector(tx, definition)
            await self._added(tx, actor, definition)
        self._wake(definition.id)
        return definition

    async def _renew(
        self, actor: Actor, id: str, columns_of: Callable[[D], dict[str, Any]], fill: Fill[D]
    ) -> D:
        """Changes the given columns of a generator."""
        async with self._context.store.write() as tx:
            before = await self._open(tx, actor, id)
            columns = columns_of(before)
            given = replace(before, **columns, updated_at=self._context.clock.now())
            definition = await fill(tx, given)
            await check_selector(tx, definition)
            await self._changed(tx, actor, definition, list(columns))
        self._wake(id)
        return definition

    async def _planned(self, actor: Actor, definition: D) -> TargetPlan:
        """Previews a reconcile of the given generator, for actors who may write it."""
        require(actor, Verb.WRITE, definition.target)
        return await self._targets.plan(definition)

    async def _added(self, tx: Transaction, actor: Actor, definition: D) -> None:
        """Stores a new generator. Conflict: the name is already used."""
        if (known := await generator_table(tx, self.kind).find(name=definition.name)) is not None:
            raise name_conflict(
                actor, known, f"{self.kind.noun} {definition.name!r} already exists"
            )
        await generator_table(tx, self.kind).add(definition)
        await self._context.audit(tx, actor, f"create{self.noun}", definition.name, definition.id)

    async def _changed(
        self, tx: Transaction, actor: Actor, definition: D, changed: list[str]
    ) -> None:
        await generator_table(tx, self.kind).put(definition)
        await self._context.audit(
            tx, actor, f"update{self.noun}", definition.name, definition.id, changed=sorted(changed)
        )

    async def _find(self, tx: Transaction, id: str | None, name: str | None = None) -> D:
        table = generator_table(tx, self.kind)
        definition = await table.get(id) if id else await table.find(name=name or "")
        if definition is None:
            raise NotFound
        return definition

    async def _open(self, tx: Transaction, actor: Actor, id: str) -> D:
        """A generator that can be changed. Conflict: it is being deleted."""
        definition = await self._find(tx, id)
        require(actor, Verb.WRITE, definition.target)
        if definition.ending_at is not None:
            raise Conflict(f"{self.kind.noun} {definition.name!r} is being deleted")
        return definition

    def _blank(self, change: GeneratorChange) -> Mapping[str, Any]:
        """The fields of a new generator. Invalid: it has no name."""
        columns = change.columns()
        if "name" not in columns:
            raise Invalid("is required", field="name")
        now = self._context.clock.now()
        base = {"id": self._context.new_id(), "inserted_at": now, "updated_at": now}
        return base | {"project_id": change.project_id or None} | columns

    def _wake(self, id: str) -> None:
        self._context.bus.publish(GENERATORS, f"{self.kind.value}/{id}")


async def require_generator_project(tx: Transaction, actor: Actor, project_id: str | None) -> None:
    """Raises unless the actor may create services in the project, or everywhere without one."""
    if project_id:
        project = await find_project(tx, project_id)
        if not actor.may(Verb.READ, project.target):
            raise NotFound
    require(actor, Verb.WRITE, scope_for_services(project_id))


async def check_selector(tx: Transaction, definition: GeneratorDefinition) -> None:
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
    beside = change.repository_id or folders_of or await _of_git(tx, before)
    change = replace(change, **await resolve_template_source(tx, actor, beside, change.helm))
    columns = {name: value for name, value in change.checked().items() if name in FIELDS}
    for name in ("name", "namespace"):
        if (value := getattr(change, name)) is not None:
            check = check_text if placeholders else check_label
            columns[name] = check(value, name)
    if change.repository_id:
        repository = await find_repository(tx, change.repository_id)
        require(actor, Verb.READ, repository.target)
        columns["repository_id"] = repository.id
    if change.uses is not None:
        columns["secrets"] = await template_secrets(tx, actor, change.uses)
    known = columns.get("repository_id") or (before.repository_id if before else None)
    columns = await with_chart_ref(tx, known, columns)
    template = replace(before or ServiceTemplate(), **columns)
    if not template.name or not template.namespace:
        raise Invalid("needs a name and a namespace", field="template")
    return template


async def _of_git(tx: Transaction, before: ServiceTemplate | None) -> str | None:
    """Id of a template's repository if it is a git repository."""
    if before is None or before.repository_id is None:
        return None
    found = await tx.repositories.get(before.repository_id)
    return found.id if found is not None and found.kind is RepositoryKind.GIT else None
