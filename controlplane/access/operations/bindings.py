"""Replaces the subjects of roles in a scope.

Runs in the transaction that creates or changes the scope's resource, so an error leaves no trace.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controlplane.access.model.bindings import Binding, SubjectKind
from controlplane.access.operations.scopes import find_role
from controlplane.access.operations.users import find_group, find_user, require_permissions_of_role
from controlplane.access.ports import RoleBindingStore
from controlplane.authorization import Actor, Resource, ResourceKind, Role, Verb, require
from controlplane.platform.context import ACCESS, StoreContext
from controlplane.platform.ports import Transaction


@dataclass(frozen=True, slots=True)
class Subjects:
    """Users and groups, by id."""

    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()


RoleSubjects = Mapping[str, Subjects]
"""Permanent subjects of roles, by role id or name; roles without an entry are unchanged."""


async def set_subjects(
    deps: StoreContext, tx: Transaction, actor: Actor, target: Resource, wanted: RoleSubjects
) -> list[Binding]:
    """Replaces the subjects of the given roles; returns changed bindings for
    `publish_binding_changes`.

    Forbidden: a changed role has permissions there that the actor lacks.
    """
    if not wanted:
        return []
    require(actor, Verb.ADMINISTER, target.below(ResourceKind.BINDING))
    changed: list[Binding] = []
    await _check_subjects(tx, wanted.values())
    for name, subjects in wanted.items():
        role = await find_role(tx, name)
        changes = await _replace(deps, tx, actor, target, role, subjects)
        if changes:
            require_permissions_of_role(actor, role, target)
        changed += changes
    if changed:
        names = sorted(wanted)
        await deps.audit(tx, actor, "setBindings", str(target), target.scope, roles=names)
    return changed


def publish_binding_changes(deps: StoreContext, changed: Iterable[Binding]) -> None:
    """Drops cached permissions of the subjects of changed bindings; call it after the commit."""
    for row in changed:
        is_user = row.subject_kind is SubjectKind.USER
        deps.bus.publish(ACCESS, row.subject_id if is_user else "")


async def _replace(
    deps: StoreContext,
    tx: Transaction,
    actor: Actor,
    target: Resource,
    role: Role,
    subjects: Subjects,
) -> list[Binding]:
    """Adds and deletes bindings of a role until it has these subjects; returns the changed ones."""
    held = await tx[RoleBindingStore].select(scope=target.scope, role_id=role.id, expires_at=None)
    known = {(binding.subject_kind, binding.subject_id): binding for binding in held}
    asked = {
        *((SubjectKind.USER, id) for id in subjects.users),
        *((SubjectKind.GROUP, id) for id in subjects.groups),
    }
    gone = [binding for key, binding in known.items() if key not in asked]
    for binding in gone:
        await tx[RoleBindingStore].remove(binding.id)
    now, by = deps.clock.now(), actor.email or actor.name
    new = [
        Binding(deps.new_id(), role.id, kind, id, target.scope, now, given_by=by)
        for kind, id in sorted(asked - known.keys())
    ]
    for binding in new:
        await tx[RoleBindingStore].add(binding)
    return gone + new


async def _check_subjects(tx: Transaction, wanted: Iterable[Subjects]) -> None:
    """NotFound: a user or group does not exist.

    Locks groups before users, like `UserOperations.add_member`. Different orders would cause
    deadlocks.
    """
    several = tuple(wanted)
    for id in sorted({id for subjects in several for id in subjects.groups}):
        await find_group(tx, id)
    for id in sorted({id for subjects in several for id in subjects.users}):
        await find_user(tx, id)
