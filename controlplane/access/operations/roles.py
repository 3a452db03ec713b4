"""Roles that users define."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from controlplane.access.operations.delegation import require_permissions_of_role
from controlplane.access.operations.scopes import find_role
from controlplane.access.ports import RoleBindingStore, RoleStore
from controlplane.authorization import (
    BUILT_IN,
    Actor,
    KubernetesRights,
    Resource,
    ResourceKind,
    Role,
    Rule,
    Verb,
)
from controlplane.authorization.roles import MAX_RULES, check_kubernetes
from controlplane.platform.context import ACCESS, StoreOperations
from controlplane.platform.labels import LabelRequirement
from controlplane.platform.limits import check_count, check_length
from controlplane.platform.names import check_text
from controlplane.platform.ports import Transaction
from controlplane.platform.references import found
from controlplane.platform.retry import retry_operations
from core.errors import Conflict

_MAX_TEXT_LENGTH = 1000
_EVERYWHERE = Resource.whole(ResourceKind.INSTALLATION)
_ADMINISTER_ROLES = (Verb.ADMINISTER, Resource.whole(ResourceKind.ROLE))


@dataclass(frozen=True, slots=True)
class RoleChange:
    """Changes to a role. None leaves a field unchanged."""

    name: str | None = None
    """Unique name."""
    description: str | None = None
    """Free text. Limit: 1,000 characters."""
    rules: tuple[Rule, ...] | None = None
    """Permissions in the control plane. Replaces the whole list. Limit: 50."""
    kubernetes: KubernetesRights | None = None
    """Permissions in clusters."""

    def applied(self, role: Role) -> Role:
        """The changed role. Invalid: a value is not allowed."""
        if self.name or not role.name:
            role = replace(role, name=check_text(self.name or "", "name"))
        if self.description is not None:
            description = check_length(self.description, "description", _MAX_TEXT_LENGTH)
            role = replace(role, description=description)
        if self.rules is not None:
            check_count(len(self.rules), "rules", MAX_RULES)
            role = replace(role, rules=tuple(rule.without_duplicates() for rule in self.rules))
        if self.kubernetes is not None:
            role = replace(role, kubernetes=check_kubernetes(self.kubernetes))
        return role


@retry_operations
class Roles(StoreOperations):
    """Operations on roles."""

    async def all(self, actor: Actor, labels: Sequence[LabelRequirement] = ()) -> list[Role]:
        """All roles that meet label requirements, built-in ones first: they have no labels."""
        async with self._context.read(actor) as tx:
            built_in = [role for role in BUILT_IN.values() if all(one.matches() for one in labels)]
            return [*built_in, *await tx[RoleStore].with_labels(labels)]

    async def get(self, actor: Actor, name: str) -> Role:
        """The role with this id or name. NotFound: it does not exist."""
        async with self._context.read(actor) as tx:
            return await find_role(tx, name)

    async def create(self, actor: Actor, change: RoleChange) -> Role:
        """Creates a role.

        Forbidden: the role has permissions that the actor lacks in the installation.
        """
        now = self._context.clock.now()
        async with self._context.change(actor, "createRole", _ADMINISTER_ROLES) as tx:
            role = change.applied(Role(self._context.new_id(), "", now, now))
            await _check_name(tx, role)
            require_permissions_of_role(actor, role, _EVERYWHERE)
            await tx[RoleStore].add(role)
            tx.audit(role.name, role.id)
            tx.publish(ACCESS)
        return role

    async def update(self, actor: Actor, id: str, change: RoleChange) -> Role:
        """Changes a role for all its users.

        Forbidden: the old or new role has permissions that the actor lacks in the installation.
        """
        now = self._context.clock.now()
        async with self._context.change(actor, "updateRole", _ADMINISTER_ROLES) as tx:
            before = await _find_custom(tx, id)
            role = replace(change.applied(before), updated_at=now)
            await _check_name(tx, role)
            require_permissions_of_role(actor, role, _EVERYWHERE)
            require_permissions_of_role(actor, before, _EVERYWHERE, now)
            await tx[RoleStore].put(role)
            tx.audit(role.name, role.id)
            tx.publish(ACCESS)
        return role

    async def delete(self, actor: Actor, id: str) -> Role:
        """Deletes a role. Conflict: it is still bound."""
        async with self._context.change(actor, "deleteRole", _ADMINISTER_ROLES) as tx:
            role = await _find_custom(tx, id)
            if bindings := await tx[RoleBindingStore].of_role(id):
                raise Conflict(
                    f"role {role.name!r} has {len(bindings)} bindings: delete them first"
                )
            await tx[RoleStore].remove(id)
            tx.audit(role.name, id)
        return role


async def _check_name(tx: Transaction, role: Role) -> None:
    """Conflict: another role, or a built-in one, has the name."""
    if role.name in BUILT_IN:
        raise Conflict(f"the role {role.name!r} is built in: choose another name")
    existing = await tx[RoleStore].by_name(role.name)
    if existing is not None and existing.id != role.id:
        raise Conflict(f"role {role.name!r} already exists")


async def _find_custom(tx: Transaction, id: str) -> Role:
    if id in BUILT_IN:
        raise Conflict(f"role {id!r} is built in and cannot be changed: create another one")
    return found(await tx[RoleStore].get(id))
