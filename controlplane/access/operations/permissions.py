"""Queries about permissions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from controlplane.access.model.bindings import Binding, SubjectKind
from controlplane.access.model.users import User
from controlplane.access.operations.role_bindings import subjects_of
from controlplane.access.operations.scopes import grants_from_bindings, scope_targets, target_of
from controlplane.access.ports import GroupStore, MembershipStore, RoleBindingStore, UserStore
from controlplane.authorization import (
    Actor,
    Grant,
    Policy,
    ResourceKind,
    Scope,
    Verb,
    require,
    require_member,
)
from controlplane.platform.context import StoreOperations
from controlplane.platform.ports import Transaction
from controlplane.platform.retry import retry_operations
from core.errors import NotFound


@dataclass(frozen=True, slots=True)
class PermissionHolder:
    """A user with a permission, and the grants that give it."""

    user: User
    """The user."""
    grants: Sequence[Grant]
    """Roles that grant the permission."""


@retry_operations
class Permissions(StoreOperations):
    """Queries about permissions."""

    async def can(self, actor: Actor, verb: Verb, kind: ResourceKind, id: str) -> bool:
        """True if the caller has the permission; False for resources that do not exist."""
        require_member(actor)
        try:
            async with self._context.store.read() as tx:
                return actor.may(verb, await target_of(tx, kind, id))
        except NotFound:
            return False

    async def scope_display_name(self, actor: Actor, scope: Scope) -> str:
        """Display name of a scope; the scope itself if the actor may not read its resource.

        Only the actor's own scopes are named as deleted: of others, nobody learns that they ended.
        """
        require_member(actor)
        own_scopes = {grant.scope for grant in actor.policy.grants}
        async with self._context.store.read() as tx:
            target = (await scope_targets(tx, [scope])).get(scope)
        if target is None and scope in own_scopes:
            return f"a deleted {scope.partition(':')[0].replace('_', ' ')}"
        may_name = target is not None and (scope in own_scopes or actor.may(Verb.READ, target))
        return str(target) if may_name else scope

    async def who_can(
        self, actor: Actor, verb: Verb, kind: ResourceKind, id: str
    ) -> list[PermissionHolder]:
        """All users with the permission, and the reasons; for actors who may read bindings
        there."""
        async with self._context.read(actor) as tx:
            now = self._context.clock.now()
            target = await target_of(tx, kind, id)
            if id and not actor.may(Verb.READ, target):
                raise NotFound(kind=target.kind)
            require(actor, Verb.READ, target.below(ResourceKind.BINDING))
            rows = await tx[RoleBindingStore].in_scopes(list(target.path))
            by_id = {row.id: row for row in rows}
            reasons = [
                (by_id[grant.binding_id], grant)
                for grant in await grants_from_bindings(tx, rows, now, {})
                if Policy((grant,)).may(verb, target)
            ]
            return await _holders(tx, reasons)


async def _holders(
    tx: Transaction, reasons: Sequence[tuple[Binding, Grant]]
) -> list[PermissionHolder]:
    """The users of grants, also through groups, each once."""
    users: dict[str, User] = {}
    grants: dict[str, list[Grant]] = {}
    subjects = await _users_by_subject(tx, [row for row, _ in reasons])
    for row, grant in reasons:
        origin, members = subjects.get(row.subject_id, ("", []))
        for user in members:
            users[user.id] = user
            grantor = f", given by {row.given_by}" if row.given_by else ""
            grants.setdefault(user.id, []).append(
                replace(grant, why=f"{origin}{grantor}{row.where}")
            )
    holders = [
        PermissionHolder(user, grants[id]) for id, user in users.items() if user.disabled_at is None
    ]
    return sorted(holders, key=lambda holder: holder.user.email)


async def _users_by_subject(
    tx: Transaction, rows: Sequence[Binding]
) -> dict[str, tuple[str, list[User]]]:
    """The users of each subject, and the origin of their roles."""
    users = await subjects_of(tx[UserStore], rows, SubjectKind.USER)
    groups = await subjects_of(tx[GroupStore], rows, SubjectKind.GROUP)
    everyone = await tx[UserStore].people() if any(group.everyone for group in groups) else []
    members = await _members(tx, [group.id for group in groups if not group.everyone])
    return {user.id: ("directly", [user]) for user in users} | {
        group.id: (f"group {group.name}", everyone if group.everyone else members.get(group.id, []))
        for group in groups
    }


async def _members(tx: Transaction, group_ids: Sequence[str]) -> dict[str, list[User]]:
    """The members of groups, by the id of the group."""
    memberships = await tx[MembershipStore].of_groups(group_ids) if group_ids else []
    ids = {membership.user_id for membership in memberships}
    users = {user.id: user for user in await tx[UserStore].by_ids(ids)} if ids else {}
    members: dict[str, list[User]] = {}
    for membership in memberships:
        if (user := users.get(membership.user_id)) is not None:
            members.setdefault(membership.group_id, []).append(user)
    return members
