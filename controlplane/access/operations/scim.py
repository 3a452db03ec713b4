"""Directories: users and groups that an identity provider manages here through SCIM (RFC 7644).

Each provider uses one service account, whose tokens authenticate its requests. They can only change
the provider's own users and groups. An administrator binds roles to the groups; the directory sets
the members.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from controlplane.access.model.scim import AttributeFilter, GroupPush, UserPush
from controlplane.access.model.users import Group, Membership, User, UserKind
from controlplane.access.operations.tokens import publish_revoked, revoke_user_tokens
from controlplane.access.operations.users import check_address, delete_group_rows
from controlplane.access.ports import GroupStore, LoginStore, MembershipStore, UserStore
from controlplane.authorization import Actor, ActorKind, Resource, ResourceKind, Verb, require
from controlplane.platform.context import ACCESS, StoreContext
from controlplane.platform.names import check_text
from controlplane.platform.ports import MAX_PAGE_ROWS, PageQuery, Transaction
from controlplane.platform.retry import retry_operations
from core.errors import Conflict, Forbidden, Invalid, NotFound

MAX_NAMED_WAKES = 100


@dataclass(frozen=True, slots=True)
class ScimGroup:
    """A group and the user ids of the members that its directory set."""

    group: Group
    members: Collection[str]


@retry_operations
class ScimDirectory:
    """Operations of a directory. `accounts` maps each service account to its issuer."""

    def __init__(self, deps: StoreContext, accounts: Mapping[str, str]) -> None:
        self._context = deps
        self._accounts = accounts

    async def people(self, actor: Actor, wanted: AttributeFilter | None) -> Sequence[User]:
        """All users of the directory, or those that match."""
        issuer = self._issuer(actor, ResourceKind.USER)
        async with self._context.store.read() as tx:
            if wanted is None:
                found = await tx[UserStore].select(issuer=issuer)
            elif wanted.attribute == "username":
                found = [
                    user
                    for user in await _find_by_address(tx, wanted.value)
                    if user.issuer == issuer
                ]
            else:
                found = await tx[UserStore].select(issuer=issuer, external_id=wanted.value)
        return [user for user in found if user.external_id is not None]

    async def person(self, actor: Actor, id: str) -> User:
        """A user of the directory. NotFound: it does not exist, or belongs to another directory."""
        issuer = self._issuer(actor, ResourceKind.USER)
        async with self._context.store.read() as tx:
            return await self._person(tx, issuer, id)

    async def add_user(self, actor: Actor, push: UserPush) -> User:
        """Creates an account, or takes over the account of a user who signed in through the
        provider.

        Conflict: the address belongs to another account.
        """
        issuer = self._issuer(actor, ResourceKind.USER)
        address, now = check_address(push.address or ""), self._context.clock.now()
        async with self._context.store.write() as tx:
            known = next(iter(await _find_by_address(tx, address)), None)
            if known is not None and not await self._may_keep(tx, known, issuer):
                raise Conflict(f"account {address} exists and is not managed by this directory")
            before = known or User(self._context.new_id(), address, address, now, now)
            kept = replace(before, issuer=issuer, external_id="")
            user = _applied(kept, replace(push, active=push.active is not False), issuer, now)
            await (tx[UserStore].add(user) if known is None else tx[UserStore].put(user))
            ended = await self._ended(tx, before, user)
            action = "createUser" if known is None else _action(before, user)
            await self._context.audit(tx, actor, action, user.email, user.id, directory=issuer)
        self._tell(user.id, ended)
        return user

    async def change_user(self, actor: Actor, id: str, push: UserPush) -> User:
        """Changes the given fields.

        Revokes all tokens and sessions of a user who becomes inactive.
        """
        issuer = self._issuer(actor, ResourceKind.USER)
        async with self._context.store.write() as tx:
            before = await self._person(tx, issuer, id)
            user = _applied(before, push, issuer, self._context.clock.now())
            if user == before:
                return before
            if user.email != before.email:
                await _require_unused(tx, user)
            await tx[UserStore].put(user)
            ended = await self._ended(tx, before, user)
            action = _action(before, user)
            await self._context.audit(tx, actor, action, user.email, id, directory=issuer)
        self._tell(id, ended)
        return user

    async def remove_user(self, actor: Actor, id: str) -> None:
        """Disables a user, removes it from the directory's groups, and stops managing it."""
        issuer = self._issuer(actor, ResourceKind.USER)
        async with self._context.store.write() as tx:
            before = await self._person(tx, issuer, id)
            gone = _applied(before, UserPush(active=False), issuer, self._context.clock.now())
            user = replace(gone, external_id=None)
            await tx[UserStore].put(user)
            rows = await tx[MembershipStore].select(user_id=id, issuer=issuer)
            await tx[MembershipStore].remove_each([row.id for row in rows])
            ended = await self._ended(tx, before, user)
            await self._context.audit(
                tx, actor, "disableUser", user.email, id, directory=issuer, removed=True
            )
        self._tell(id, ended)

    async def groups(self, actor: Actor, wanted: AttributeFilter | None) -> Sequence[Group]:
        """All groups with members from the provider, or those that match."""
        issuer = self._issuer(actor, ResourceKind.GROUP)
        async with self._context.store.read() as tx:
            column = "name" if wanted and wanted.attribute == "displayname" else "external_id"
            fits = {column: wanted.value} if wanted else {}
            return await tx[GroupStore].select(issuer=issuer, **fits)

    async def viewed(self, actor: Actor, groups: Sequence[Group]) -> list[ScimGroup]:
        """Groups with their members."""
        issuer = self._issuer(actor, ResourceKind.GROUP)
        async with self._context.store.read() as tx:
            ids = [group.id for group in groups if group.issuer == issuer]
            rows = await tx[MembershipStore].select(group_id=ids, issuer=issuer) if ids else []
        held: dict[str, list[str]] = {}
        for row in rows:
            held.setdefault(row.group_id, []).append(row.user_id)
        return [ScimGroup(group, held.get(group.id, ())) for group in groups]

    async def group(self, actor: Actor, id: str) -> Group:
        """A group of the directory. NotFound: it does not exist, or belongs to another provider."""
        issuer = self._issuer(actor, ResourceKind.GROUP)
        async with self._context.store.read() as tx:
            return await self._group(tx, issuer, id)

    async def add_group(self, actor: Actor, push: GroupPush) -> Group:
        """Creates a group with members and without roles. Conflict: the name is already used."""
        issuer = self._issuer(actor, ResourceKind.GROUP)
        name, now = check_text(push.name or "", "displayName"), self._context.clock.now()
        group = Group(self._context.new_id(), name, now, now, issuer=issuer)
        group = replace(group, external_id=push.external_id or "")
        async with self._context.store.write() as tx:
            await _require_free(tx, name)
            await tx[GroupStore].add(group)
            changed = await self._set_members(tx, issuer, group, push)
            await self._context.audit(
                tx, actor, "createGroup", name, group.id, directory=issuer, joined=len(changed)
            )
        self._publish_users(changed)
        return group

    async def change_group(self, actor: Actor, id: str, push: GroupPush) -> Group:
        """Changes the name or the members. From then on sign-ins do not change the members."""
        issuer = self._issuer(actor, ResourceKind.GROUP)
        async with self._context.store.write() as tx:
            before = await self._group(tx, issuer, id)
            external = before.external_id if push.external_id is None else push.external_id
            name = check_text(push.name, "displayName") if push.name else before.name
            group = replace(before, name=name, external_id=external or "")
            if name != before.name:
                await _require_free(tx, name)
            changed = await self._set_members(tx, issuer, group, push)
            if group == before and not changed:
                return before
            group = replace(group, updated_at=self._context.clock.now())
            await tx[GroupStore].put(group)
            await self._context.audit(
                tx, actor, "updateGroup", name, id, directory=issuer, moved=len(changed)
            )
        self._publish_users(changed)
        return group

    async def remove_group(self, actor: Actor, id: str) -> None:
        """Deletes a group and its role bindings."""
        issuer = self._issuer(actor, ResourceKind.GROUP)
        async with self._context.store.write() as tx:
            group = await self._group(tx, issuer, id)
            await delete_group_rows(tx, id)
            await self._context.audit(tx, actor, "deleteGroup", group.name, id, directory=issuer)
        self._context.bus.publish(ACCESS)

    def _issuer(self, actor: Actor, kind: ResourceKind) -> str:
        """The issuer of the caller.

        Forbidden: the caller belongs to no issuer, or lacks the permission.
        """
        require(actor, Verb.WRITE, Resource.whole(kind))
        is_account = actor.kind is ActorKind.SERVICE_ACCOUNT
        issuer = self._accounts.get(actor.email) if is_account else None
        if issuer is None:
            raise Forbidden(
                f"{actor.email or actor.name} is not the scim_account of any identity provider"
            )
        return issuer

    async def _person(self, tx: Transaction, issuer: str, id: str) -> User:
        user = await tx[UserStore].get(id)
        if user is None or user.issuer != issuer or user.external_id is None:
            raise NotFound(f"this directory has no user with the id {id[:40]}")
        return user

    async def _group(self, tx: Transaction, issuer: str, id: str) -> Group:
        group = await tx[GroupStore].get(id)
        if group is None or group.issuer != issuer:
            raise NotFound(f"this directory has no group with the id {id[:40]}")
        return group

    async def _may_keep(self, tx: Transaction, user: User, issuer: str) -> bool:
        """True if the account belongs to the provider and no directory manages it yet."""
        if user.kind is not UserKind.PERSON or user.external_id is not None:
            return False
        login = await tx[LoginStore].find(user_id=user.id, issuer=issuer)
        return user.issuer == issuer or login is not None

    async def _set_members(
        self, tx: Transaction, issuer: str, group: Group, push: GroupPush
    ) -> frozenset[str]:
        """Ids of the users who were added or removed. Members that a user added here are kept.

        Invalid: the directory does not manage one of the users.
        """
        if not push.edits:
            return frozenset()
        rows = await tx[MembershipStore].select(group_id=group.id)
        synced = {row.user_id: row.id for row in rows if row.issuer == issuer}
        wanted = push.members(synced)
        new = wanted - {row.user_id for row in rows}
        await self._require_kept(tx, issuer, new)
        now = self._context.clock.now()
        await tx[MembershipStore].add_each(
            Membership(self._context.new_id(), group.id, id, now, issuer) for id in sorted(new)
        )
        gone = frozenset(synced) - wanted
        await tx[MembershipStore].remove_each([synced[user_id] for user_id in gone])
        return new | gone

    async def _require_kept(self, tx: Transaction, issuer: str, ids: Collection[str]) -> None:
        known = await tx[UserStore].select(issuer=issuer, id=list(ids)) if ids else []
        unknown = set(ids) - {user.id for user in known if user.external_id is not None}
        if unknown:
            first = min(unknown)
            raise Invalid(f"no user has the id {first}", field="members")

    async def _ended(self, tx: Transaction, before: User, user: User) -> list[str]:
        if user.disabled_at is None or before.disabled_at is not None:
            return []
        return await revoke_user_tokens(tx, self._context, user.id)

    def _tell(self, id: str, ended: Collection[str]) -> None:
        publish_revoked(self._context, ended)
        self._context.bus.publish(ACCESS, id)

    def _publish_users(self, changed: Collection[str]) -> None:
        for id in changed if len(changed) <= MAX_NAMED_WAKES else ("",):
            self._context.bus.publish(ACCESS, id)


def _applied(user: User, push: UserPush, issuer: str, now: datetime) -> User:
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


def _action(before: User, after: User) -> str:
    if (before.disabled_at is None) == (after.disabled_at is None):
        return "updateUser"
    return "enableUser" if after.disabled_at is None else "disableUser"


async def _find_by_address(tx: Transaction, address: str) -> list[User]:
    """The account with an address, compared without case; at most one."""
    exact = await tx[UserStore].select(email={address, address.lower()})
    if exact:
        return sorted(exact, key=lambda user: user.email != address)
    page = await tx[UserStore].page(PageQuery(MAX_PAGE_ROWS, text=address))
    return [item for item in page.items if item.email.lower() == address.lower()]


async def _require_unused(tx: Transaction, user: User) -> None:
    if any(account.id != user.id for account in await _find_by_address(tx, user.email)):
        raise Conflict(f"account {user.email} already exists")


async def _require_free(tx: Transaction, name: str) -> None:
    if await tx[GroupStore].find(name=name) is not None:
        raise Conflict(f"group {name!r} already exists")
