"""Directories: users and groups that an identity provider manages here through SCIM (RFC 7644).

Each provider uses one service account, whose tokens authenticate its requests. They can only change
the provider's own users and groups. An administrator binds roles to the groups; the directory sets
the members.
"""

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from controlplane.access.model.scim import AttributeFilter, GroupPush, UserPush
from controlplane.access.model.users import Group, Membership, User, UserKind
from controlplane.access.operations.groups import delete_group_rows
from controlplane.access.operations.tokens import revoke_user_tokens
from controlplane.access.operations.users import check_address
from controlplane.access.ports import GroupStore, LoginStore, MembershipStore, UserStore
from controlplane.authorization import Actor, ActorKind, Resource, ResourceKind, Verb, require
from controlplane.platform.context import ACCESS, Change, StoreContext
from controlplane.platform.names import check_text
from controlplane.platform.ports import MAX_PAGE_ROWS, PageQuery, Transaction
from controlplane.platform.retry import retry_operations
from core.errors import Conflict, Forbidden, Invalid, NotFound

MAX_PUBLISHED_USERS = 100


@dataclass(frozen=True, slots=True)
class ScimGroup:
    """A group and the user ids of the members that its directory set."""

    group: Group
    members: Collection[str]


@retry_operations
class ScimDirectory:
    """Operations of a directory. `accounts` maps each service account to its issuer."""

    def __init__(self, context: StoreContext, accounts: Mapping[str, str]) -> None:
        self._context = context
        self._accounts = accounts

    async def users(self, actor: Actor, condition: AttributeFilter | None) -> Sequence[User]:
        """All users of the directory, or those that match."""
        issuer = self._authorized_issuer(actor, ResourceKind.USER)
        async with self._context.store.read() as tx:
            if condition is None:
                matching = await tx[UserStore].of_issuer(issuer)
            elif condition.attribute == "username":
                candidates = await _find_by_address(tx, condition.value)
                matching = [user for user in candidates if user.issuer == issuer]
            else:
                matching = await tx[UserStore].with_external_id(issuer, condition.value)
        return [user for user in matching if user.external_id is not None]

    async def user(self, actor: Actor, id: str) -> User:
        """A user of the directory. NotFound: it does not exist, or belongs to another directory."""
        issuer = self._authorized_issuer(actor, ResourceKind.USER)
        async with self._context.store.read() as tx:
            return await self._find_user(tx, issuer, id)

    async def add_user(self, actor: Actor, push: UserPush) -> User:
        """Creates an account, or takes over the account of a user who signed in through the
        provider.

        Conflict: the address belongs to another account.
        """
        now = self._context.clock.now()
        async with self._directory_change(actor, "createUser", ResourceKind.USER) as (tx, issuer):
            address = check_address(push.address or "")
            existing = next(iter(await _find_by_address(tx, address)), None)
            if existing is not None and not await self._may_take_over(tx, existing, issuer):
                raise Conflict(f"account {address} exists and is not managed by this directory")
            before = existing or User(self._context.new_id(), address, address, now, now)
            taken_over = replace(before, issuer=issuer, external_id="")
            user = _apply_push(
                taken_over, replace(push, active=push.active is not False), issuer, now
            )
            await (tx[UserStore].add(user) if existing is None else tx[UserStore].put(user))
            await _revoke_if_disabled(tx, before, user)
            action = "createUser" if existing is None else _audit_action(before, user)
            tx.audit_as(action, user.email, user.id, directory=issuer)
            tx.publish(ACCESS, user.id)
        return user

    async def change_user(self, actor: Actor, id: str, push: UserPush) -> User:
        """Changes the given fields.

        Revokes all tokens and sessions of a user who becomes inactive.
        """
        async with self._directory_change(actor, "updateUser", ResourceKind.USER) as (tx, issuer):
            before = await self._find_user(tx, issuer, id)
            user = _apply_push(before, push, issuer, self._context.clock.now())
            if user == before:
                return before
            if user.email != before.email:
                await _require_unused_address(tx, user)
            await tx[UserStore].put(user)
            await _revoke_if_disabled(tx, before, user)
            tx.audit_as(_audit_action(before, user), user.email, id, directory=issuer)
            tx.publish(ACCESS, id)
        return user

    async def remove_user(self, actor: Actor, id: str) -> None:
        """Disables a user, removes it from the directory's groups, and stops managing it."""
        async with self._directory_change(actor, "disableUser", ResourceKind.USER) as (tx, issuer):
            before = await self._find_user(tx, issuer, id)
            disabled = _apply_push(
                before, UserPush(active=False), issuer, self._context.clock.now()
            )
            user = replace(disabled, external_id=None)
            await tx[UserStore].put(user)
            rows = await tx[MembershipStore].of_user_from(id, issuer)
            await tx[MembershipStore].remove_each([row.id for row in rows])
            await _revoke_if_disabled(tx, before, user)
            tx.audit(user.email, id, directory=issuer, removed=True)
            tx.publish(ACCESS, id)

    async def groups(self, actor: Actor, condition: AttributeFilter | None) -> Sequence[Group]:
        """All groups with members from the provider, or those that match."""
        issuer = self._authorized_issuer(actor, ResourceKind.GROUP)
        async with self._context.store.read() as tx:
            groups = tx[GroupStore]
            if condition is None:
                return await groups.of_issuer(issuer)
            if condition.attribute == "displayname":
                return await groups.of_issuer_by_name(issuer, condition.value)
            return await groups.with_external_id(issuer, condition.value)

    async def with_members(self, actor: Actor, groups: Sequence[Group]) -> list[ScimGroup]:
        """Groups with their members."""
        issuer = self._authorized_issuer(actor, ResourceKind.GROUP)
        async with self._context.store.read() as tx:
            ids = [group.id for group in groups if group.issuer == issuer]
            rows = await tx[MembershipStore].of_groups_from(ids, issuer) if ids else []
        members: dict[str, list[str]] = {}
        for row in rows:
            members.setdefault(row.group_id, []).append(row.user_id)
        return [ScimGroup(group, members.get(group.id, ())) for group in groups]

    async def group(self, actor: Actor, id: str) -> Group:
        """A group of the directory. NotFound: it does not exist, or belongs to another provider."""
        issuer = self._authorized_issuer(actor, ResourceKind.GROUP)
        async with self._context.store.read() as tx:
            return await self._find_group(tx, issuer, id)

    async def add_group(self, actor: Actor, push: GroupPush) -> Group:
        """Creates a group with members and without roles. Conflict: the name is already used."""
        now = self._context.clock.now()
        async with self._directory_change(actor, "createGroup", ResourceKind.GROUP) as (tx, issuer):
            name = check_text(push.name or "", "displayName")
            group = Group(self._context.new_id(), name, now, now, issuer=issuer)
            group = replace(group, external_id=push.external_id or "")
            await _require_unused_group_name(tx, name)
            await tx[GroupStore].add(group)
            changed = await self._set_members(tx, issuer, group, push)
            tx.audit(name, group.id, directory=issuer, joined=len(changed))
            _publish_users(tx, changed)
        return group

    async def change_group(self, actor: Actor, id: str, push: GroupPush) -> Group:
        """Changes the name or the members. From then on sign-ins do not change the members."""
        async with self._directory_change(actor, "updateGroup", ResourceKind.GROUP) as (tx, issuer):
            before = await self._find_group(tx, issuer, id)
            external = before.external_id if push.external_id is None else push.external_id
            name = check_text(push.name, "displayName") if push.name else before.name
            group = replace(before, name=name, external_id=external or "")
            if name != before.name:
                await _require_unused_group_name(tx, name)
            changed = await self._set_members(tx, issuer, group, push)
            if group == before and not changed:
                return before
            group = replace(group, updated_at=self._context.clock.now())
            await tx[GroupStore].put(group)
            tx.audit(name, id, directory=issuer, moved=len(changed))
            _publish_users(tx, changed)
        return group

    async def remove_group(self, actor: Actor, id: str) -> None:
        """Deletes a group and its role bindings."""
        async with self._directory_change(actor, "deleteGroup", ResourceKind.GROUP) as (tx, issuer):
            group = await self._find_group(tx, issuer, id)
            await delete_group_rows(tx, id)
            tx.audit(group.name, id, directory=issuer)
            tx.publish(ACCESS)

    @asynccontextmanager
    async def _directory_change(
        self, actor: Actor, action: str, kind: ResourceKind
    ) -> AsyncGenerator[tuple[Change, str], None]:
        """Opens a change of the caller's directory, with its issuer."""
        issuer = self._authorized_issuer(actor, kind)
        async with self._context.change(actor, action) as tx:
            tx.authorized_by("directory of the issuer")
            yield tx, issuer

    def _authorized_issuer(self, actor: Actor, kind: ResourceKind) -> str:
        """The issuer of the caller.

        Forbidden: the caller belongs to no issuer, or lacks the permission.
        """
        require(actor, Verb.WRITE, Resource.whole(kind))
        is_account = actor.kind is ActorKind.SERVICE_ACCOUNT
        issuer = self._accounts.get(actor.email) if is_account else None
        if issuer is None:
            raise Forbidden(f"{actor.shown_name} is not the scim_account of any identity provider")
        return issuer

    async def _find_user(self, tx: Transaction, issuer: str, id: str) -> User:
        user = await tx[UserStore].get(id)
        if user is None or user.issuer != issuer or user.external_id is None:
            raise NotFound(f"this directory has no user with the id {id[:40]}")
        return user

    async def _find_group(self, tx: Transaction, issuer: str, id: str) -> Group:
        group = await tx[GroupStore].get(id)
        if group is None or group.issuer != issuer:
            raise NotFound(f"this directory has no group with the id {id[:40]}")
        return group

    async def _may_take_over(self, tx: Transaction, user: User, issuer: str) -> bool:
        """True if the account belongs to the provider and no directory manages it yet."""
        if user.kind is not UserKind.PERSON or user.external_id is not None:
            return False
        login = await tx[LoginStore].of_user_at(user.id, issuer)
        return user.issuer == issuer or login is not None

    async def _set_members(
        self, tx: Transaction, issuer: str, group: Group, push: GroupPush
    ) -> frozenset[str]:
        """Ids of the users who were added or removed. Members that a user added here are kept.

        Invalid: the directory does not manage one of the users.
        """
        if not push.edits:
            return frozenset()
        rows = await tx[MembershipStore].of_groups(group.id)
        synced = {row.user_id: row.id for row in rows if row.issuer == issuer}
        members = push.members(synced)
        added = members - {row.user_id for row in rows}
        await self._require_directory_users(tx, issuer, added)
        now = self._context.clock.now()
        await tx[MembershipStore].add_each(
            Membership(self._context.new_id(), group.id, id, now, issuer) for id in sorted(added)
        )
        removed = frozenset(synced) - members
        await tx[MembershipStore].remove_each([synced[user_id] for user_id in removed])
        return added | removed

    async def _require_directory_users(
        self, tx: Transaction, issuer: str, ids: Collection[str]
    ) -> None:
        users = await tx[UserStore].of_issuer_by_ids(issuer, ids) if ids else []
        unknown = set(ids) - {user.id for user in users if user.external_id is not None}
        if unknown:
            example = min(unknown)
            raise Invalid(f"no user has the id {example}", field="members")


async def _revoke_if_disabled(tx: Change, before: User, user: User) -> None:
    if user.disabled_at is not None and before.disabled_at is None:
        await revoke_user_tokens(tx, user.id)


def _publish_users(tx: Change, ids: Collection[str]) -> None:
    for id in ids if len(ids) <= MAX_PUBLISHED_USERS else ("",):
        tx.publish(ACCESS, id)


def _apply_push(user: User, push: UserPush, issuer: str, now: datetime) -> User:
    """The account with the directory's changes; the same object if nothing changes.

    An account that a user disabled here stays disabled.
    """
    changed = user
    if push.address is not None:
        changed = replace(changed, email=check_address(push.address))
    if push.name:
        changed = replace(changed, name=check_text(push.name, "displayName"))
    if push.external_id is not None:
        changed = replace(changed, external_id=push.external_id)
    if push.active is False and user.disabled_at is None:
        changed = replace(changed, disabled_at=now, disabled_by=issuer)
    if push.active and user.disabled_by == issuer:
        changed = replace(changed, disabled_at=None, disabled_by=None)
    return user if changed == user else replace(changed, updated_at=now)


def _audit_action(before: User, after: User) -> str:
    if (before.disabled_at is None) == (after.disabled_at is None):
        return "updateUser"
    return "enableUser" if after.disabled_at is None else "disableUser"


async def _find_by_address(tx: Transaction, address: str) -> list[User]:
    """The account with an address, compared without case; at most one."""
    exact = await tx[UserStore].by_emails({address, address.lower()})
    if exact:
        return sorted(exact, key=lambda user: user.email != address)
    query: PageQuery | None = PageQuery(MAX_PAGE_ROWS, text=address)
    while query is not None:
        page = await tx[UserStore].page(query)
        if same := [user for user in page.items if user.email.lower() == address.lower()]:
            return same
        query = replace(query, after=page.items[-1].id) if page.more else None
    return []


async def _require_unused_address(tx: Transaction, user: User) -> None:
    if any(account.id != user.id for account in await _find_by_address(tx, user.email)):
        raise Conflict(f"account {user.email} already exists")


async def _require_unused_group_name(tx: Transaction, name: str) -> None:
    if await tx[GroupStore].by_name(name) is not None:
        raise Conflict(f"group {name!r} already exists")
