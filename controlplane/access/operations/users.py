"""Users, service accounts, groups and their members.

To edit a user or a group, the actor must hold every permission that the change grants.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from controlplane.access.model.bindings import Binding, SubjectKind
from controlplane.access.model.users import (
    USER_TOKEN_LIFE,
    Group,
    Membership,
    Token,
    User,
    UserKind,
)
from controlplane.access.operations.scopes import (
    grants_from_bindings,
    grants_of,
    groups_of,
    scope_target,
)
from controlplane.access.operations.tokens import mint, publish_revoked, revoke_user_tokens
from controlplane.access.ports import GroupStore, MembershipStore, RoleBindingStore, UserStore
from controlplane.authorization import (
    ADMIN,
    BUILT_IN,
    INSTALLATION,
    SYSTEM,
    Actor,
    ActorKind,
    Grant,
    Resource,
    ResourceKind,
    Role,
    Verb,
    require,
    require_member,
)
from controlplane.platform.conflicts import name_conflict
from controlplane.platform.context import ACCESS, StoreContext
from controlplane.platform.names import check_label, check_text
from controlplane.platform.ports import Page, PageQuery, Transaction
from controlplane.platform.retry import retry_operations
from core.errors import Conflict, Forbidden, Invalid, NotFound
from core.identity import TokenKind

_MAX_DESCRIPTION_LENGTH = 1000
_ACCOUNT_DOMAIN = "service-accounts"


@dataclass(frozen=True, slots=True)
class GroupChange:
    """Changes to a group. None leaves a field unchanged."""

    name: str | None = None
    description: str | None = None
    everyone: bool | None = None
    issuer: str | None = None


@retry_operations
class UserOperations:
    """Operations on users, service accounts and groups."""

    def __init__(self, deps: StoreContext) -> None:
        self._context = deps

    async def users(self, actor: Actor, query: PageQuery) -> Page[User]:
        """Users and service accounts of this installation."""
        require(actor, Verb.READ, Resource.whole(ResourceKind.USER))
        async with self._context.store.read() as tx:
            return await tx[UserStore].page(query)

    async def roles_everywhere(self, actor: Actor, users: Sequence[User]) -> dict[str, str]:
        """The built-in role of each user in the whole installation, by user id."""
        require_member(actor)
        may = actor.may(Verb.READ, Resource.whole(ResourceKind.USER))
        ids = [user.id for user in users if may or user.id == actor.id]
        async with self._context.store.read() as tx:
            rows = await tx[RoleBindingStore].select(subject_id=ids, scope=INSTALLATION)
        order = list(BUILT_IN)
        rows = [row for row in rows if row.role_id in BUILT_IN]
        rows.sort(key=lambda row: order.index(row.role_id))
        return {row.subject_id: row.role_id for row in rows}

    async def user(self, actor: Actor, email: str) -> User:
        """The user with this address. NotFound: it does not exist, or the actor may not see it."""
        require_member(actor)
        async with self._context.store.read() as tx:
            user = await tx[UserStore].find(email=email)
        if user is None:
            raise NotFound
        if user.id != actor.id:
            require(actor, Verb.READ, user.target)
        return user

    async def upsert(
        self, actor: Actor, email: str, name: str | None = None, role: str | None = None
    ) -> User:
        """Creates a user, or changes the name and the installation-wide role of an existing one.

        None leaves a field unchanged. New users have no permissions until a role is bound to them.
        """
        require(actor, Verb.ADMINISTER, Resource.whole(ResourceKind.USER))
        async with self._context.store.write() as tx:
            known = await tx[UserStore].find(email=email)
            user = known or self._new(check_address(email), name)
            if known is None:
                await tx[UserStore].add(user)
            elif name:
                user = replace(
                    user, name=check_text(name, "name"), updated_at=self._context.clock.now()
                )
                await tx[UserStore].put(user)
            if role is not None:
                await self._set_role(tx, actor, user, BUILT_IN[role])
            action = "updateUser" if known else "createUser"
            await self._context.audit(tx, actor, action, email, user.id, role=role)
        self._context.bus.publish(ACCESS, user.id)
        return user

    async def update(self, actor: Actor, id: str, name: str | None, email: str | None) -> User:
        """Changes the name or the address of a user. Conflict: another user has the address."""
        require(actor, Verb.ADMINISTER, Resource.whole(ResourceKind.USER))
        async with self._context.store.write() as tx:
            before = await find_user(tx, id)
            user = before
            if name:
                user = replace(user, name=check_text(name, "name"))
            if email and email != before.email:
                await require_permissions_of_user(tx, actor, before, self._context.clock.now())
                if (known := await tx[UserStore].find(email=email)) is not None:
                    raise name_conflict(actor, known, f"user {email} already exists")
                user = replace(user, email=check_address(email))
            user = replace(user, updated_at=self._context.clock.now())
            await tx[UserStore].put(user)
            await self._context.audit(tx, actor, "updateUser", user.email, id)
        self._context.bus.publish(ACCESS, id)
        return user

    async def create_account(self, actor: Actor, name: str) -> User:
        """Creates a service account: a user that authenticates only with tokens."""
        require(actor, Verb.ADMINISTER, Resource.whole(ResourceKind.USER))
        email = f"{check_label(name, 'name')}@{_ACCOUNT_DOMAIN}"
        user = replace(self._new(email, name), kind=UserKind.SERVICE_ACCOUNT)
        async with self._context.store.write() as tx:
            if (known := await tx[UserStore].find(email=email)) is not None:
                raise name_conflict(actor, known, f"service account {name!r} already exists")
            await tx[UserStore].add(user)
            await self._context.audit(tx, actor, "createServiceAccount", email, user.id)
        return user

    async def account_token(
        self, actor: Actor, user_id: str, name: str, life: timedelta = USER_TOKEN_LIFE
    ) -> tuple[Token, str]:
        """Creates a token of a service account.

        The actor must hold every permission of the account.
        """
        require(actor, Verb.ADMINISTER, Resource.whole(ResourceKind.USER))
        check_text(name, "name")
        if not timedelta() < life <= timedelta(days=366):
            raise Invalid("must be at most 366 days", field="expiresIn")
        async with self._context.store.write() as tx:
            user = await tx[UserStore].get(user_id)
            if user is None or user.kind is not UserKind.SERVICE_ACCOUNT:
                raise NotFound
            await require_permissions_of_user(tx, actor, user, self._context.clock.now())
            kind = TokenKind.SERVICE_ACCOUNT
            made = await mint(tx, self._context, name, user_id=user.id, life=life, kind=kind)
            await self._context.audit(tx, actor, "createAccessToken", user.email, made[0].id)
        return made

    async def disable(self, actor: Actor, user_id: str, disabled: bool = True) -> User:
        """Disables a user and revokes all tokens and sessions, or enables the user again."""
        require(actor, Verb.ADMINISTER, Resource.whole(ResourceKind.USER))
        if user_id == actor.id:
            raise Conflict("you cannot disable your own account: ask another administrator")
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            user = await tx[UserStore].get(user_id)
            if user is None:
                raise NotFound
            await require_permissions_of_user(tx, actor, user, self._context.clock.now())
            at = now if disabled else None
            user = replace(user, disabled_at=at, disabled_by=None, updated_at=now)
            await tx[UserStore].put(user)
            ended = await revoke_user_tokens(tx, self._context, user_id) if disabled else []
            action = "disableUser" if disabled else "enableUser"
            await self._context.audit(tx, actor, action, user.email, user_id)
        publish_revoked(self._context, ended)
        self._context.bus.publish(ACCESS, user_id)
        return user

    async def groups(self, actor: Actor, query: PageQuery) -> Page[Group]:
        """Groups; every member of the installation may see their names."""
        require_member(actor)
        async with self._context.store.read() as tx:
            return await tx[GroupStore].page(query)

    async def group(self, actor: Actor, name: str) -> Group:
        """The group with this name. NotFound: it does not exist."""
        require_member(actor)
        async with self._context.store.read() as tx:
            group = await tx[GroupStore].find(name=name) if name else None
        if group is None:
            raise NotFound
        return group

    async def members(self, actor: Actor, group_id: str) -> list[User]:
        """The users in a group; empty for a group that contains everyone."""
        require(actor, Verb.READ, Resource.whole(ResourceKind.USER))
        async with self._context.store.read() as tx:
            rows = await tx[MembershipStore].select(group_id=group_id)
            return await tx[UserStore].select(id=[row.user_id for row in rows]) if rows else []

    async def groups_of(self, actor: Actor) -> list[Group]:
        """The caller's own groups."""
        require_member(actor)
        async with self._context.store.read() as tx:
            return await groups_of(tx, actor.id, is_person=actor.kind is ActorKind.USER)

    async def create_group(self, actor: Actor, change: GroupChange) -> Group:
        require(actor, Verb.ADMINISTER, Resource.whole(ResourceKind.GROUP))
        now = self._context.clock.now()
        group = _changed(Group(self._context.new_id(), "", now, now), change)
        async with self._context.store.write() as tx:
            if (known := await tx[GroupStore].find(name=group.name)) is not None:
                raise name_conflict(actor, known, f"group {group.name!r} already exists")
            await tx[GroupStore].add(group)
            await self._context.audit(tx, actor, "createGroup", group.name, group.id)
        return group

    async def update_group(self, actor: Actor, id: str, change: GroupChange) -> Group:
        require(actor, Verb.ADMINISTER, Resource.whole(ResourceKind.GROUP))
        async with self._context.store.write() as tx:
            before = await find_group(tx, id)
            group = replace(_changed(before, change), updated_at=self._context.clock.now())
            if _filled_by(group) != _filled_by(before):
                await self._require_covers_group(tx, actor, id)
            await tx[GroupStore].put(group)
            await self._context.audit(tx, actor, "updateGroup", group.name, id)
        self._context.bus.publish(ACCESS)
        return group

    async def delete_group(self, actor: Actor, id: str) -> Group:
        """Deletes a group and its role bindings."""
        require(actor, Verb.ADMINISTER, Resource.whole(ResourceKind.GROUP))
        async with self._context.store.write() as tx:
            group = await find_group(tx, id)
            await self._require_covers_group(tx, actor, id)
            await delete_group_rows(tx, id)
            await self._context.audit(tx, actor, "deleteGroup", group.name, id)
        self._context.bus.publish(ACCESS)
        return group

    async def add_member(
        self, actor: Actor, group_id: str, user_id: str
    ) -> tuple[Membership, Group, User]:
        """Adds a user to a group.

        Forbidden: the group has a permission that the actor lacks.
        """
        require(actor, Verb.ADMINISTER, Resource.whole(ResourceKind.GROUP))
        async with self._context.store.write() as tx:
            group, user = await find_group(tx, group_id), await find_user(tx, user_id)
            await self._require_covers_group(tx, actor, group_id)
            row = await tx[MembershipStore].find(group_id=group_id, user_id=user_id)
            if row is None:
                now = self._context.clock.now()
                row = Membership(self._context.new_id(), group_id, user_id, now)
                await tx[MembershipStore].add(row)
            await self._context.audit(
                tx, actor, "createGroupMember", group.name, group_id, user=user.email
            )
        self._context.bus.publish(ACCESS, user_id)
        return row, group, user

    async def remove_member(
        self, actor: Actor, group_id: str, user_id: str
    ) -> tuple[Membership, Group, User]:
        """Removes a user from a group. NotFound: the user is not a member."""
        require(actor, Verb.ADMINISTER, Resource.whole(ResourceKind.GROUP))
        async with self._context.store.write() as tx:
            group, user = await find_group(tx, group_id), await find_user(tx, user_id)
            row = await tx[MembershipStore].find(group_id=group_id, user_id=user_id)
            if row is None:
                raise NotFound
            await self._require_covers_group(tx, actor, group_id)
            await tx[MembershipStore].remove(row.id)
            await self._context.audit(
                tx, actor, "deleteGroupMember", group.name, group_id, user=user.email
            )
        self._context.bus.publish(ACCESS, user_id)
        return row, group, user

    async def bootstrap(self) -> str | None:
        """Creates the first administrator and returns its token. None: users exist already."""
        async with self._context.store.write() as tx:
            if (await tx[UserStore].page(PageQuery(first=1))).items:
                return None
            user = replace(self._new("admin", "Administrator"), email="admin")
            await tx[UserStore].add(user)
            await self._set_role(tx, SYSTEM, user, ADMIN)
            _, secret = await mint(
                tx, self._context, "first start", user_id=user.id, life=USER_TOKEN_LIFE
            )
            await self._context.audit(tx, SYSTEM, "createUser", user.email, user.id)
        return secret

    async def token_for(self, actor: Actor, email: str, name: str) -> str:
        """Creates a token of another user; only for the operator of the installation."""
        if actor.kind is not ActorKind.SYSTEM:
            raise Forbidden(
                "only the operator of the installation can create tokens of other users"
            )
        async with self._context.store.write() as tx:
            user = await tx[UserStore].find(email=email)
            if user is None:
                raise NotFound(f"no user has the address {email}")
            row, secret = await mint(tx, self._context, name, user_id=user.id, life=USER_TOKEN_LIFE)
            await self._context.audit(tx, actor, "createAccessToken", email, row.id)
        return secret

    async def _require_covers_group(self, tx: Transaction, actor: Actor, group_id: str) -> None:
        bindings = await tx[RoleBindingStore].select(subject_id=group_id)
        await _require_all(
            tx, actor, await grants_from_bindings(tx, bindings, self._context.clock.now(), {})
        )

    async def _set_role(self, tx: Transaction, actor: Actor, user: User, role: Role) -> None:
        """Makes this role the user's only installation-wide role."""
        held = await tx[RoleBindingStore].select(subject_id=user.id, scope=INSTALLATION)
        if [binding.role_id for binding in held] == [role.id]:
            return
        if user.id == actor.id:
            raise Conflict("you cannot change your own role: ask another administrator")
        await require_permissions_of_user(tx, actor, user, self._context.clock.now())
        require_permissions_of_role(actor, role, Resource.whole(ResourceKind.INSTALLATION))
        for binding in held:
            await tx[RoleBindingStore].remove(binding.id)
        await tx[RoleBindingStore].add(
            Binding(
                self._context.new_id(),
                role.id,
                SubjectKind.USER,
                user.id,
                INSTALLATION,
                self._context.clock.now(),
                given_by=actor.email or actor.name,
            )
        )

    def _new(self, email: str, name: str | None) -> User:
        now = self._context.clock.now()
        return User(
            self._context.new_id(), email, check_text(name, "name") if name else email, now, now
        )


def require_permissions_of_role(actor: Actor, role: Role, target: Resource) -> None:
    """Forbidden: the role has a permission on the target that the actor lacks."""
    if not actor.policy.covers(role, target):
        where = "everywhere" if target.scope == INSTALLATION else f"in {target}"
        who = actor.email or actor.name
        raise Forbidden(
            f"{who} lacks permissions that role {role.name} grants {where}: "
            "you can only grant permissions that you have"
        )


async def require_permissions_of_user(
    tx: Transaction, actor: Actor, user: User, now: datetime
) -> None:
    """Forbidden: the user has a permission that the actor lacks."""
    await _require_all(tx, actor, await grants_of(tx, user, now))


async def _require_all(tx: Transaction, actor: Actor, grants: Collection[Grant]) -> None:
    for grant in grants:
        try:
            target = await scope_target(tx, grant.scope)
        except NotFound:
            continue
        require_permissions_of_role(actor, grant.role, target)


async def find_group(tx: Transaction, id: str) -> Group:
    """The group with this id. NotFound: it does not exist."""
    group = await tx[GroupStore].get(id)
    if group is None:
        raise NotFound
    return group


async def delete_group_rows(tx: Transaction, id: str) -> None:
    """Deletes a group with its memberships and role bindings."""
    await tx[MembershipStore].remove_each(
        [membership.id for membership in await tx[MembershipStore].select(group_id=id)]
    )
    await tx[RoleBindingStore].remove_each(
        [binding.id for binding in await tx[RoleBindingStore].select(subject_id=id)]
    )
    await tx[GroupStore].remove(id)


async def find_user(tx: Transaction, id: str) -> User:
    """The user with this id. NotFound: it does not exist."""
    user = await tx[UserStore].get(id)
    if user is None:
        raise NotFound
    return user


def check_address(email: str) -> str:
    """A user's address. Invalid: no address, or one in the form of a service account."""
    if "@" not in email or email.endswith(f"@{_ACCOUNT_DOMAIN}"):
        raise Invalid("must be an e-mail address", field="email")
    return check_text(email, "email", 320)


def _filled_by(group: Group) -> tuple[bool | None, str | None, str]:
    """The sources of automatic members. An identity provider matches groups by name."""
    return group.everyone, group.issuer, group.name if group.issuer else ""


def _changed(group: Group, change: GroupChange) -> Group:
    if change.name or not group.name:
        group = replace(group, name=check_text(change.name or "", "name"))
    if change.description is not None:
        text = change.description
        if len(text) > _MAX_DESCRIPTION_LENGTH:
            raise Invalid(
                f"must have at most {_MAX_DESCRIPTION_LENGTH} characters", field="description"
            )
        group = replace(group, description=text)
    if change.everyone is not None:
        group = replace(group, everyone=change.everyone)
    if change.issuer is not None:
        group = replace(group, issuer=change.issuer or None)
    return group
