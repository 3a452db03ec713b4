"""Users, service accounts, groups and their members.

To edit a user or a group, the actor must hold every permission that the change grants.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from controlplane.access.model.bindings import Binding, SubjectKind
from controlplane.access.model.users import (
    MAX_TOKEN_LIFETIME,
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
from controlplane.access.operations.tokens import mint, revoke_user_tokens
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
from controlplane.authorization.roles import BuiltInRole
from controlplane.platform.conflicts import name_conflict
from controlplane.platform.context import ACCESS, Change, StoreOperations
from controlplane.platform.limits import check_length
from controlplane.platform.names import check_label, check_text
from controlplane.platform.ports import Page, PageQuery, Transaction
from controlplane.platform.references import found, reference
from controlplane.platform.retry import retry_operations
from core.errors import Conflict, Forbidden, Invalid, NotFound
from core.identity import TokenKind

_MAX_DESCRIPTION_LENGTH = 1000
ACCOUNT_DOMAIN = "service-accounts"
_USERS = Resource.whole(ResourceKind.USER)
ADMINISTER_USERS = (Verb.ADMINISTER, _USERS)
_ADMINISTER_GROUPS = (Verb.ADMINISTER, Resource.whole(ResourceKind.GROUP))


@dataclass(frozen=True, slots=True)
class GroupChange:
    """Changes to a group. None leaves a field unchanged."""

    name: str | None = None
    """Unique name."""
    description: str | None = None
    """Free text. Limit: 1,000 characters."""
    everyone: bool | None = None
    """True makes every user a member. Default: false."""
    issuer: str | None = None
    """Identity provider that manages the members. Null: members are managed here."""

    def applied(self, group: Group) -> Group:
        """The changed group. Invalid: a value is not allowed."""
        if self.name or not group.name:
            group = replace(group, name=check_text(self.name or "", "name"))
        if self.description is not None:
            description = check_length(self.description, "description", _MAX_DESCRIPTION_LENGTH)
            group = replace(group, description=description)
        if self.everyone is not None:
            group = replace(group, everyone=self.everyone)
        if self.issuer is not None:
            group = replace(group, issuer=self.issuer or None)
        return group


@retry_operations
class UserOperations(StoreOperations):
    """Operations on users, service accounts and groups."""

    async def users(self, actor: Actor, query: PageQuery) -> Page[User]:
        """Users and service accounts of this installation."""
        require(actor, Verb.READ, _USERS)
        async with self._context.store.read() as tx:
            return await tx[UserStore].page(query)

    async def roles_everywhere(self, actor: Actor, users: Sequence[User]) -> dict[str, BuiltInRole]:
        """The built-in role of each user in the whole installation, by user id."""
        require_member(actor)
        may = actor.may(Verb.READ, _USERS)
        ids = [user.id for user in users if may or user.id == actor.id]
        async with self._context.store.read() as tx:
            rows = await tx[RoleBindingStore].of_subjects_in(ids, INSTALLATION)
        order, now = list(BUILT_IN), self._context.clock.now()
        rows = [row for row in rows if row.role_id in BUILT_IN and row.is_live(now)]
        rows.sort(key=lambda row: order.index(row.role_id))
        return {row.subject_id: BuiltInRole(row.role_id) for row in rows}

    async def user(self, actor: Actor, email: str) -> User:
        """The user with this address. NotFound: it does not exist, or the actor may not see it."""
        async with self._context.read(actor) as tx:
            user = await tx[UserStore].by_email(email)
        if user is None:
            raise NotFound(kind=ResourceKind.USER)
        if user.id != actor.id:
            require(actor, Verb.READ, user.target)
        return user

    async def upsert(
        self, actor: Actor, email: str, name: str | None = None, role: str | None = None
    ) -> User:
        """Creates a user, or changes the name and the installation-wide role of an existing one.

        None leaves a field unchanged. New users have no permissions until a role is bound to them.
        """
        async with self._context.change(actor, "updateUser", ADMINISTER_USERS) as tx:
            known = await tx[UserStore].by_email(email)
            user = known or self._new_user(check_address(email), name)
            if known is None:
                await tx[UserStore].add(user)
            elif name:
                user = replace(
                    user, name=check_text(name, "name"), updated_at=self._context.clock.now()
                )
                await tx[UserStore].put(user)
            if role is not None:
                await self._set_role(tx, actor, user, BUILT_IN[role])
            tx.audit_as("updateUser" if known else "createUser", email, user.id, role=role)
            tx.publish(ACCESS, user.id)
        return user

    async def create_person(self, actor: Actor, email: str, name: str | None = None) -> User:
        """Creates a user without permissions. Conflict: the address is used, also by a disabled
        user.
        """
        async with self._context.change(actor, "createUser", ADMINISTER_USERS) as tx:
            user = self._new_user(check_address(email), name)
            if known := await tx[UserStore].by_email(email):
                raise name_conflict(actor, known, f"user {email} already exists")
            await tx[UserStore].add(user)
            tx.audit(email, user.id)
        return user

    async def update(self, actor: Actor, id: str, name: str | None, email: str | None) -> User:
        """Changes the name or the address of a user. Conflict: another user has the address."""
        async with self._context.change(actor, "updateUser", ADMINISTER_USERS) as tx:
            return await self._updated(tx, await find_user(tx, id), name, email)

    async def create_account(self, actor: Actor, name: str, email: str | None = None) -> User:
        """Creates a service account: a user that authenticates only with tokens.

        Without an address, the account gets `NAME@service-accounts`. A disabled account with this
        address is enabled again, with its roles.
        """
        async with self._context.change(actor, "createServiceAccount", ADMINISTER_USERS) as tx:
            address = (
                check_address(email) if email else f"{check_label(name, 'name')}@{ACCOUNT_DOMAIN}"
            )
            user = replace(self._new_user(address, name), kind=UserKind.SERVICE_ACCOUNT)
            known = await tx[UserStore].by_email(address)
            if known is None:
                await tx[UserStore].add(user)
            elif _is_disabled_account(known):
                now = self._context.clock.now()
                await require_permissions_of_user(tx, actor, known, now)
                user = replace(known, name=user.name, disabled_at=None, updated_at=now)
                await tx[UserStore].put(user)
                tx.publish(ACCESS, user.id)
            else:
                raise name_conflict(actor, known, f"user {address} already exists")
            tx.audit(address, user.id)
        return user

    async def update_account(
        self, actor: Actor, id: str, name: str | None, email: str | None
    ) -> User:
        """Like `update`, for service accounts only."""
        async with self._context.change(actor, "updateServiceAccount", ADMINISTER_USERS) as tx:
            return await self._updated(tx, await find_service_account(tx, id), name, email)

    async def _updated(self, tx: Change, before: User, name: str | None, email: str | None) -> User:
        now = self._context.clock.now()
        user = replace(before, updated_at=now)
        if name:
            user = replace(user, name=check_text(name, "name"))
        if email and email != before.email:
            await require_permissions_of_user(tx, tx.actor, before, now)
            if (known := await tx[UserStore].by_email(email)) is not None:
                raise name_conflict(tx.actor, known, f"user {email} already exists")
            user = replace(user, email=check_address(email))
        await tx[UserStore].put(user)
        tx.audit(user.email, user.id)
        tx.publish(ACCESS, user.id)
        return user

    async def account_token(
        self, actor: Actor, user_id: str, name: str, life: timedelta = USER_TOKEN_LIFE
    ) -> tuple[Token, str]:
        """Creates a token of a service account.

        The actor must hold every permission of the account.
        """
        async with self._context.change(actor, "createAccessToken", ADMINISTER_USERS) as tx:
            check_text(name, "name")
            if not timedelta() < life <= MAX_TOKEN_LIFETIME:
                raise Invalid("must be at most 366 days", field="expiresIn")
            user, now = await find_service_account(tx, user_id), self._context.clock.now()
            await require_permissions_of_user(tx, actor, user, now, now + life)
            kind = TokenKind.SERVICE_ACCOUNT
            row, secret = await mint(tx, self._context, name, user_id=user.id, life=life, kind=kind)
            tx.audit(user.email, row.id)
        return row, secret

    async def disable(self, actor: Actor, user_id: str, disabled: bool = True) -> User:
        """Disables a user and revokes all tokens and sessions, or enables the user again."""
        now = self._context.clock.now()
        action = "disableUser" if disabled else "enableUser"
        async with self._context.change(actor, action, ADMINISTER_USERS) as tx:
            if user_id == actor.id:
                raise Conflict("you cannot disable your own account: ask another administrator")
            user, at = await find_user(tx, user_id), now if disabled else None
            await require_permissions_of_user(tx, actor, user, now, at)
            user = replace(user, disabled_at=at, disabled_by=None, updated_at=now)
            await tx[UserStore].put(user)
            if disabled:
                await revoke_user_tokens(tx, user_id)
            tx.audit(user.email, user_id)
            tx.publish(ACCESS, user_id)
        return user

    async def groups(self, actor: Actor, query: PageQuery) -> Page[Group]:
        """Groups; every member of the installation may see their names."""
        async with self._context.read(actor) as tx:
            return await tx[GroupStore].page(query)

    async def group(self, actor: Actor, name: str) -> Group:
        """The group with this name. NotFound: it does not exist."""
        async with self._context.read(actor) as tx:
            group = await tx[GroupStore].by_name(name) if name else None
        if group is None:
            raise NotFound
        return group

    async def members(self, actor: Actor, group_id: str) -> list[User]:
        """The users in a group; empty for a group that contains everyone."""
        require(actor, Verb.READ, _USERS)
        async with self._context.store.read() as tx:
            rows = await tx[MembershipStore].of_groups(group_id)
            return await tx[UserStore].by_ids([row.user_id for row in rows]) if rows else []

    async def groups_of(self, actor: Actor) -> list[Group]:
        """The caller's own groups."""
        async with self._context.read(actor) as tx:
            return await groups_of(tx, actor.id, is_person=actor.kind is ActorKind.USER)

    async def create_group(self, actor: Actor, change: GroupChange) -> Group:
        now = self._context.clock.now()
        async with self._context.change(actor, "createGroup", _ADMINISTER_GROUPS) as tx:
            group = change.applied(Group(self._context.new_id(), "", now, now))
            if (known := await tx[GroupStore].by_name(group.name)) is not None:
                raise name_conflict(actor, known, f"group {group.name!r} already exists")
            await tx[GroupStore].add(group)
            tx[MembershipStore].expect_none("group_id", group.id)
            tx[RoleBindingStore].expect_none("subject_id", group.id)
            tx.audit(group.name, group.id)
        return group

    async def update_group(self, actor: Actor, id: str, change: GroupChange) -> Group:
        async with self._context.change(actor, "updateGroup", _ADMINISTER_GROUPS) as tx:
            before = await find_group(tx, id)
            group = replace(change.applied(before), updated_at=self._context.clock.now())
            if _member_sources(group) != _member_sources(before):
                await self._require_covers_group(tx, actor, id)
            await tx[GroupStore].put(group)
            tx.audit(group.name, id)
            tx.publish(ACCESS)
        return group

    async def delete_group(self, actor: Actor, id: str) -> Group:
        """Deletes a group and its role bindings."""
        async with self._context.change(actor, "deleteGroup", _ADMINISTER_GROUPS) as tx:
            group = await find_group(tx, id)
            await self._require_covers_group(tx, actor, id, self._context.clock.now())
            await delete_group_rows(tx, id)
            tx.audit(group.name, id)
            tx.publish(ACCESS)
        return group

    async def add_member(
        self, actor: Actor, group_id: str, user_id: str
    ) -> tuple[Membership, Group, User]:
        """Adds a user to a group.

        Forbidden: the group has a permission that the actor lacks.
        """
        async with self._context.change(actor, "createGroupMember", _ADMINISTER_GROUPS) as tx:
            with reference("groupId", group_id):
                group = await find_group(tx, group_id)
            with reference("userId", user_id):
                user = await find_user(tx, user_id)
            await self._require_covers_group(tx, actor, group_id)
            row = await tx[MembershipStore].of_member(group_id, user_id)
            if row is None:
                now = self._context.clock.now()
                row = Membership(self._context.new_id(), group_id, user_id, now)
                await tx[MembershipStore].add(row)
            tx.audit(group.name, group_id, user=user.email)
            tx.publish(ACCESS, user_id)
        return row, group, user

    async def remove_member(
        self, actor: Actor, group_id: str, user_id: str
    ) -> tuple[Membership, Group, User]:
        """Removes a user from a group. NotFound: the user is not a member."""
        async with self._context.change(actor, "deleteGroupMember", _ADMINISTER_GROUPS) as tx:
            group, user = await find_group(tx, group_id), await find_user(tx, user_id)
            row = found(await tx[MembershipStore].of_member(group_id, user_id))
            await self._require_covers_group(tx, actor, group_id, self._context.clock.now())
            await tx[MembershipStore].remove(row.id)
            tx.audit(group.name, group_id, user=user.email)
            tx.publish(ACCESS, user_id)
        return row, group, user

    async def bootstrap(self) -> str | None:
        """Creates the first administrator and returns its token. None: users exist already."""
        async with self._context.change(SYSTEM, "createUser") as tx:
            if (await tx[UserStore].page(PageQuery(first=1))).items:
                return None
            tx.authorized_by("first start")
            user = replace(self._new_user("admin", "Administrator"), email="admin")
            await tx[UserStore].add(user)
            await self._set_role(tx, SYSTEM, user, ADMIN)
            _, secret = await mint(
                tx, self._context, "first start", user_id=user.id, life=USER_TOKEN_LIFE
            )
            tx.audit(user.email, user.id)
        return secret

    async def token_for(self, actor: Actor, email: str, name: str) -> str:
        """Creates a token of another user; only for the operator of the installation."""
        if actor.kind is not ActorKind.SYSTEM:
            raise Forbidden(
                "only the operator of the installation can create tokens of other users"
            )
        async with self._context.change(actor, "createAccessToken") as tx:
            tx.authorized_by("operator of the installation")
            user = await tx[UserStore].by_email(email)
            if user is None:
                raise NotFound(f"no user has the address {email}")
            row, secret = await mint(tx, self._context, name, user_id=user.id, life=USER_TOKEN_LIFE)
            tx.audit(email, row.id)
        return secret

    async def _require_covers_group(
        self, tx: Transaction, actor: Actor, group_id: str, until: datetime | None = None
    ) -> None:
        bindings = await tx[RoleBindingStore].of_subjects(group_id)
        grants = await grants_from_bindings(
            tx, bindings, self._context.clock.now(), {}, in_whole_scopes=True
        )
        await _require_all(tx, actor, grants, until)

    async def _set_role(self, tx: Transaction, actor: Actor, user: User, role: Role) -> None:
        """Makes this role the user's only installation-wide role, beside declared bindings."""
        found = await tx[RoleBindingStore].of_subjects_in(user.id, INSTALLATION)
        bindings = [binding for binding in found if binding.name is None]
        if [(binding.role_id, binding.expires_at) for binding in bindings] == [(role.id, None)]:
            return
        if user.id == actor.id:
            raise Conflict("you cannot change your own role: ask another administrator")
        now = self._context.clock.now()
        await require_permissions_of_user(tx, actor, user, now, now)
        require_permissions_of_role(actor, role, Resource.whole(ResourceKind.INSTALLATION))
        for binding in bindings:
            await tx[RoleBindingStore].remove(binding.id)
        await tx[RoleBindingStore].add(
            Binding(
                self._context.new_id(),
                role.id,
                SubjectKind.USER,
                user.id,
                INSTALLATION,
                now,
                given_by=actor.shown_name,
            )
        )

    def _new_user(self, email: str, name: str | None) -> User:
        now = self._context.clock.now()
        return User(
            self._context.new_id(), email, check_text(name, "name") if name else email, now, now
        )


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
    await _require_all(tx, actor, grants, until)


async def _require_all(
    tx: Transaction, actor: Actor, grants: Collection[Grant], until: datetime | None
) -> None:
    for grant in grants:
        try:
            target = await scope_target(tx, grant.scope)
        except NotFound:
            continue
        require_permissions_of_role(actor, grant.role, target, until or grant.expires_at)


async def find_group(tx: Transaction, id: str) -> Group:
    """The group with this id. NotFound: it does not exist."""
    return found(await tx[GroupStore].get(id))


async def delete_group_rows(tx: Transaction, id: str) -> None:
    """Deletes a group with its memberships and role bindings."""
    await tx[MembershipStore].remove_each(
        [membership.id for membership in await tx[MembershipStore].of_groups(id)]
    )
    await tx[RoleBindingStore].remove_each(
        [binding.id for binding in await tx[RoleBindingStore].of_subjects(id)]
    )
    await tx[GroupStore].remove(id)


async def find_user(tx: Transaction, id: str) -> User:
    """The user with this id. NotFound: it does not exist."""
    return found(await tx[UserStore].get(id), ResourceKind.USER)


async def find_service_account(tx: Transaction, id: str) -> User:
    """The service account with this id. NotFound: it does not exist."""
    user = await find_user(tx, id)
    if user.kind is not UserKind.SERVICE_ACCOUNT:
        raise NotFound(kind=ResourceKind.USER)
    return user


def check_address(email: str) -> str:
    """A user's address. Invalid: no address, or one in the form of a service account."""
    if "@" not in email or email.lower().endswith(f"@{ACCOUNT_DOMAIN}"):
        raise Invalid("must be an e-mail address", field="email")
    return check_text(email, "email", 320)


def _member_sources(group: Group) -> tuple[bool | None, str | None, str]:
    """The sources of automatic members. An identity provider matches groups by name."""
    return group.everyone, group.issuer, group.name if group.issuer else ""


def _is_disabled_account(user: User) -> bool:
    """Returns whether an administrator disabled a service account. A directory enables its own."""
    is_account = user.kind is UserKind.SERVICE_ACCOUNT
    return is_account and user.disabled_at is not None and user.disabled_by is None
