"""Replaces the subjects of roles in a scope.

Runs in the transaction that creates or changes the scope's resource, so an error leaves no trace.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from controlplane.access.model.bindings import Binding, SubjectKind
from controlplane.access.operations.delegation import require_permissions_of_role
from controlplane.access.operations.groups import find_group
from controlplane.access.operations.scopes import find_role
from controlplane.access.operations.users import find_user
from controlplane.access.ports import RoleBindingStore
from controlplane.authorization import Resource, ResourceKind, Role, Verb, require
from controlplane.platform.context import ACCESS, Change
from controlplane.platform.ports import Transaction
from controlplane.platform.references import reference


@dataclass(frozen=True, slots=True)
class Subjects:
    """Users and groups, by id."""

    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()


RoleSubjects = Mapping[str, Subjects]
"""Permanent subjects of roles, by role id or name; roles without an entry are unchanged."""


async def change_subjects(
    tx: Change, target: Resource, roles: RoleSubjects, *, is_new: bool = False
) -> None:
    """Replaces the subjects of the given roles; a new resource has none.

    Forbidden: a changed role has permissions there that the actor lacks.
    """
    if is_new:
        tx[RoleBindingStore].mark_absent("scope", target.scope)
    changed = await _replace_subjects(tx, target, roles)
    if changed:
        tx.audit_as("setBindings", str(target), target.scope, roles=sorted(roles))
    for binding in changed:
        tx.publish(ACCESS, binding.affected_user)


async def _replace_subjects(tx: Change, target: Resource, roles: RoleSubjects) -> list[Binding]:
    if not roles:
        return []
    require(tx.actor, Verb.ADMINISTER, target.below(ResourceKind.BINDING))
    changed: list[Binding] = []
    await _check_subjects(tx, roles.values())
    for name, subjects in roles.items():
        role = await find_role(tx, name)
        removed, added = await _replace_role_subjects(tx, target, role, subjects)
        if removed or added:
            until = None if added else tx.context.clock.now()
            require_permissions_of_role(tx.actor, role, target, until)
        changed += removed + added
    return changed


async def _replace_role_subjects(
    tx: Change, target: Resource, role: Role, subjects: Subjects
) -> tuple[list[Binding], list[Binding]]:
    """Deletes and adds bindings of a role until it has these subjects; returns them."""
    bindings = await tx[RoleBindingStore].permanent(role.id, target.scope)
    current = {(binding.subject_kind, binding.subject_id): binding for binding in bindings}
    expected = {
        *((SubjectKind.USER, id) for id in subjects.users),
        *((SubjectKind.GROUP, id) for id in subjects.groups),
    }
    removed = [binding for key, binding in current.items() if key not in expected]
    for binding in removed:
        await tx[RoleBindingStore].remove(binding.id)
    now, by = tx.context.clock.now(), tx.actor.shown_name
    added = [
        Binding(tx.context.new_id(), role.id, kind, id, target.scope, now, given_by=by)
        for kind, id in sorted(expected - current.keys())
    ]
    for binding in added:
        await tx[RoleBindingStore].add(binding)
    return removed, added


async def _check_subjects(tx: Transaction, all_subjects: Collection[Subjects]) -> None:
    """NotFound: a user or group does not exist.

    Locks groups before users, like `Groups.add_member`. Different orders would cause
    deadlocks.
    """
    for id in sorted({id for subjects in all_subjects for id in subjects.groups}):
        with reference("bindings.groupId", id):
            await find_group(tx, id)
    for id in sorted({id for subjects in all_subjects for id in subjects.users}):
        with reference("bindings.userId", id):
            await find_user(tx, id)
