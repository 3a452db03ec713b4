"""Temporary access: requested by one user, approved by another, revoked when it expires."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from controlplane.access.model.bindings import (
    MAX_ACCESS_TIME,
    AccessRequest,
    AccessRequestState,
    Binding,
    SubjectKind,
)
from controlplane.access.model.users import User
from controlplane.access.operations.delegation import require_permissions_of_role
from controlplane.access.operations.scopes import find_role, scope_target
from controlplane.access.ports import AccessRequestStore, RoleBindingStore, RoleStore, UserStore
from controlplane.authorization import (
    BUILT_IN,
    SYSTEM,
    Actor,
    Resource,
    ResourceKind,
    Role,
    Scope,
    Verb,
    require_member,
)
from controlplane.platform.context import ACCESS, Change, StoreOperations
from controlplane.platform.limits import check_range
from controlplane.platform.names import check_text
from controlplane.platform.ports import Transaction
from controlplane.platform.retry import retry_operations
from core.errors import Conflict, Forbidden, LimitExceeded, NotFound

_MAX_PENDING = 20
_MAX_LISTED = 500
_MAX_REASON_LENGTH = 1000


class AccessRequestView(NamedTuple):
    """An access request with its user, role and target."""

    row: AccessRequest
    user: User
    role: Role
    target: Resource


@retry_operations
class AccessRequests(StoreOperations):
    """Operations on access requests."""

    async def all(self, actor: Actor) -> list[AccessRequestView]:
        """The caller's own requests and those that the caller may decide: the newest 500, newest
        first."""
        require_member(actor)
        # Most users decide nothing: the requests of others are not read for them.
        is_approver = all(actor.policy.visible(ResourceKind.BINDING, Verb.ADMINISTER))
        views: list[AccessRequestView] = []
        async with self._context.store.read() as tx:
            store = tx[AccessRequestStore]
            for row in reversed(await (store.all() if is_approver else store.of_user(actor.id))):
                view = await _load_view(tx, row)
                if view and _may_see(actor, view):
                    views.append(view)
                if len(views) == _MAX_LISTED:
                    break
        return views

    async def undecided(self, actor: Actor) -> list[AccessRequestView]:
        """Pending requests of other users that the caller may decide; newest first."""
        async with self._context.read(actor) as tx:
            rows = await tx[AccessRequestStore].pending()
            views = [await _load_view(tx, row) for row in reversed(rows) if row.user_id != actor.id]
        return [view for view in views if view and _may_decide(actor, view)]

    async def get(self, actor: Actor, id: str) -> AccessRequestView:
        """The caller's own request, or one that the caller may decide. NotFound: any other."""
        async with self._context.read(actor) as tx:
            return await _find(tx, actor, id)

    async def create(
        self, actor: Actor, role_name: str, scope: Scope, minutes: int, reason: str
    ) -> AccessRequest:
        """Requests a role in a scope.

        NotFound: the scope does not exist, or the actor may not see it.
        """
        require_member(actor)
        max_minutes = int(MAX_ACCESS_TIME.total_seconds() // 60)
        check_range(minutes, "minutes", 1, max_minutes)
        check_text(reason, "reason", _MAX_REASON_LENGTH)
        async with self._context.change(actor, "requestAccess") as tx:
            tx.authorized_by("every user may request access")
            role = await find_role(tx, role_name)
            target = await scope_target(tx, scope)
            if target.id and not actor.may(Verb.READ, target):
                raise NotFound(kind=target.kind)
            pending = await tx[AccessRequestStore].pending_of(actor.id)
            if len(pending) >= _MAX_PENDING:
                raise LimitExceeded(f"you already have {_MAX_PENDING} pending requests")
            now = self._context.clock.now()
            row = AccessRequest(
                self._context.new_id(), actor.id, role.id, scope, minutes, reason, now
            )
            await tx[AccessRequestStore].add(row)
            tx.audit(str(target), row.id, role=role.name, minutes=minutes)
        return row

    async def approve(self, actor: Actor, id: str) -> AccessRequest:
        """Approves a request; the time starts now.

        Forbidden: it is the caller's own request, or grants permissions that the caller lacks.
        """
        now = self._context.clock.now()
        async with self._context.change(actor, "approveAccess") as tx:
            row, _, role, target = await _find_pending(tx, id)
            expires_at = now + timedelta(minutes=row.minutes)
            require_permissions_of_role(actor, role, target, expires_at)
            binding = Binding(
                self._context.new_id(),
                role.id,
                SubjectKind.USER,
                row.user_id,
                row.scope,
                now,
                expires_at,
                actor.shown_name,
                row.reason,
            )
            await tx[RoleBindingStore].add(binding)
            row = replace(
                _with_decision(tx, row, AccessRequestState.APPROVED),
                binding_id=binding.id,
                expires_at=expires_at,
            )
            await tx[AccessRequestStore].put(row)
            tx.audit(str(target), id, role=role.name, user=row.user_id)
            tx.publish(ACCESS, row.user_id)
        return row

    async def deny(self, actor: Actor, id: str) -> AccessRequest:
        """Denies a request."""
        async with self._context.change(actor, "denyAccess") as tx:
            view = await _find_pending(tx, id)
            row = _with_decision(tx, view.row, AccessRequestState.REFUSED)
            await tx[AccessRequestStore].put(row)
            tx.audit(str(view.target), id)
        return row

    async def revoke(self, actor: Actor, id: str) -> AccessRequest:
        """Revokes approved access before it expires; callers may revoke their own."""
        async with self._context.change(actor, "revokeAccess") as tx:
            row, _, _, target = await _find(tx, actor, id)
            if row.state is not AccessRequestState.APPROVED or row.binding_id is None:
                raise Conflict(f"this request is {row.state.value}")
            now = self._context.clock.now()
            if row.expires_at is not None and row.expires_at <= now:
                raise Conflict(f"this access expired at {row.expires_at:%FT%TZ}")
            if row.user_id == actor.id:
                tx.authorized_by("own access")
            else:
                tx.authorize(Verb.ADMINISTER, target.below(ResourceKind.BINDING))
            await tx[RoleBindingStore].remove(row.binding_id)
            row = replace(row, state=AccessRequestState.REVOKED, expires_at=now)
            await tx[AccessRequestStore].put(row)
            tx.audit(str(target), id)
            tx.publish(ACCESS, row.user_id)
        return row

    async def end_expired(self) -> int:
        """Ends what expired role bindings opened; returns the number of bindings.

        Declared bindings stay, as expired ones; the others are deleted.
        """
        now = self._context.clock.now()
        async with self._context.store.read() as tx:
            expired = await tx[RoleBindingStore].expired(now)
        if not expired:
            return 0
        async with self._context.change(SYSTEM, "expireRoleBinding") as tx:
            tx.authorized_by("expiry of the binding")
            # Another replica may have ended some of them.
            for row in await tx[RoleBindingStore].lock([row.id for row in expired]):
                if row.ended_at is None and not row.is_live(now):
                    await _end_binding(tx, row, now)
        return len(expired)

    async def next_expiry(self, within: timedelta) -> datetime | None:
        """The next expiry of a role binding, if it is within that time."""
        async with self._context.store.read() as tx:
            expiring = await tx[RoleBindingStore].expired(self._context.clock.now() + within)
        return min((binding.expires_at for binding in expiring if binding.expires_at), default=None)


async def _end_binding(tx: Change, row: Binding, now: datetime) -> None:
    """Ends an expired binding."""
    if row.name is None:
        await tx[RoleBindingStore].remove(row.id)
    else:
        await tx[RoleBindingStore].change(row.id, ended_at=now)
    tx.audit(row.name or row.subject_id, row.id, role=row.role_id, scope=row.scope)
    tx.publish(ACCESS, row.affected_user)


async def _find(tx: Transaction, actor: Actor, id: str) -> AccessRequestView:
    """The caller's own request, or one that the caller may decide. NotFound: any other."""
    row = await tx[AccessRequestStore].get(id)
    view = await _load_view(tx, row) if row else None
    if view is None or not _may_see(actor, view):
        raise NotFound
    return view


async def _find_pending(tx: Change, id: str) -> AccessRequestView:
    """A request that the actor may decide. NotFound, Forbidden, Conflict: with the reason."""
    view = await _find(tx, tx.actor, id)
    row = view.row
    if row.user_id == tx.actor.id:
        raise Forbidden("you cannot decide on your own request")
    tx.authorize(Verb.ADMINISTER, view.target.below(ResourceKind.BINDING))
    if row.state is not AccessRequestState.PENDING:
        raise Conflict(f"this request is {row.state.value} by {row.decided_by}")
    return view


def _with_decision(tx: Change, row: AccessRequest, state: AccessRequestState) -> AccessRequest:
    by, at = tx.actor.shown_name, tx.context.clock.now()
    return replace(row, state=state, decided_by=by, decided_at=at)


def _may_see(actor: Actor, view: AccessRequestView) -> bool:
    return view.row.user_id == actor.id or _may_decide(actor, view)


def _may_decide(actor: Actor, view: AccessRequestView) -> bool:
    return actor.may(Verb.ADMINISTER, view.target.below(ResourceKind.BINDING))


async def _load_view(tx: Transaction, row: AccessRequest) -> AccessRequestView | None:
    """A request with its user, role and target; None if one was deleted."""
    user = await tx[UserStore].peek(row.user_id)
    role = BUILT_IN.get(row.role_id) or await tx[RoleStore].peek(row.role_id)
    if user is None or role is None:
        return None
    try:
        return AccessRequestView(row, user, role, await scope_target(tx, row.scope))
    except NotFound:
        return None
