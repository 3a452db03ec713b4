"""Checks that nobody grants permissions, directly or through a user or group, that they lack."""

from collections.abc import Collection
from datetime import datetime

from controlplane.access.model.users import User
from controlplane.access.operations.scopes import grants_from_bindings, grants_of, scope_target
from controlplane.access.ports import RoleBindingStore
from controlplane.authorization import INSTALLATION, Actor, Grant, Resource, Role
from controlplane.platform.ports import Transaction
from core.errors import Forbidden, NotFound


def require_permissions_of_role(
    actor: Actor, role: Role, target: Resource, until: datetime | None = None
) -> None:
    """Forbidden: the role has a permission on the target that the actor lacks, or loses before
    `until`; None: ever.
    """
    if not actor.policy.lasting(until).covers(role, target):
        where = "everywhere" if target.scope == INSTALLATION else f"in {target}"
        raise Forbidden(
            f"{actor.shown_name} lacks permissions that role {role.name} grants {where}: "
            "you can only grant permissions that you have, and no longer than you have them"
        )


async def require_permissions_of_user(
    tx: Transaction, actor: Actor, user: User, now: datetime, until: datetime | None = None
) -> None:
    """Forbidden: the user has a permission that the actor lacks, or loses before `until`; None:
    before the user.
    """
    grants = await grants_of(tx, user, now, in_whole_scopes=True)
    await _require_grants(tx, actor, grants, until)


async def require_permissions_of_group(
    tx: Transaction, actor: Actor, group_id: str, now: datetime, until: datetime | None = None
) -> None:
    """Forbidden: a role of the group has a permission that the actor lacks, or loses before
    `until`; None: before the role ends.
    """
    bindings = await tx[RoleBindingStore].of_subjects(group_id)
    grants = await grants_from_bindings(tx, bindings, now, {}, in_whole_scopes=True)
    await _require_grants(tx, actor, grants, until)


async def _require_grants(
    tx: Transaction, actor: Actor, grants: Collection[Grant], until: datetime | None
) -> None:
    for grant in grants:
        try:
            target = await scope_target(tx, grant.scope)
        except NotFound:
            continue
        require_permissions_of_role(actor, grant.role, target, until or grant.expires_at)
