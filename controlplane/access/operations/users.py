"""Users of the installation."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from controlplane.access.model.bindings import Binding, SubjectKind
from controlplane.access.model.users import USER_TOKEN_LIFE, User
from controlplane.access.operations.delegation import (
    require_permissions_of_role,
    require_permissions_of_user,
)
from controlplane.access.operations.tokens import mint, revoke_user_tokens
from controlplane.access.ports import RoleBindingStore, UserStore
from controlplane.authorization import (
    ADMIN,
    BUILT_IN,
    INSTALLATION,
    SYSTEM,
    Actor,
    ActorKind,
    Resource,
    ResourceKind,
    Role,
    Verb,
    require,
    require_member,
)
from controlplane.authorization.roles import BuiltInRole
from controlplane.platform.conflicts import name_conflict
from controlplane.platform.context import ACCESS, Change, StoreContext, StoreOperations
from controlplane.platform.names import check_text
from controlplane.platform.ports import Page, PageQuery, Transaction
from controlplane.platform.references import found
from controlplane.platform.retry import retry_operations
from core.errors import Conflict, Forbidden, Invalid, NotFound

ACCOUNT_DOMAIN = "service-accounts"
"""Domain of the addresses of service accounts."""
_USERS = Resource.whole(ResourceKind.USER)
ADMINISTER_USERS = (Verb.ADMINISTER, _USERS)


@retry_operations
class Users(StoreOperations):
    """Operations on users, and lists of users and service accounts."""

    async def page(self, actor: Actor, query: PageQuery) -> Page[User]:
        """Users and service accounts of this installation."""
        require(actor, Verb.READ, _USERS)
        async with self._context.store.read() as tx:
            return await tx[UserStore].page(query)

    async def roles_everywhere(self, actor: Actor, users: Sequence[User]) -> dict[str, BuiltInRole]:
        """The built-in role of each user in the whole installation, by user id."""
        require_member(actor)
        may_read_all = actor.may(Verb.READ, _USERS)
        ids = [user.id for user in users if may_read_all or user.id == actor.id]
        async with self._context.store.read() as tx:
            rows = await tx[RoleBindingStore].of_subjects_in(ids, INSTALLATION)
        order, now = list(BUILT_IN), self._context.clock.now()
        rows = [row for row in rows if row.role_id in BUILT_IN and row.is_live(now)]
        rows.sort(key=lambda row: order.index(row.role_id))
        return {row.subject_id: BuiltInRole(row.role_id) for row in rows}

    async def get(self, actor: Actor, email: str) -> User:
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
            existing = await tx[UserStore].by_email(email)
            user = existing or new_user(self._context, check_address(email), name)
            if existing is None:
                await tx[UserStore].add(user)
            elif name:
                user = replace(
                    user, name=check_text(name, "name"), updated_at=self._context.clock.now()
                )
                await tx[UserStore].put(user)
            if role is not None:
                await self._set_role(tx, actor, user, BUILT_IN[role])
            tx.audit_as("updateUser" if existing else "createUser", email, user.id, role=role)
            tx.publish(ACCESS, user.id)
        return user

    async def create(self, actor: Actor, email: str, name: str | None = None) -> User:
        """Creates a user without permissions. Conflict: the address is used, also by a disabled
        user.
        """
        async with self._context.change(actor, "createUser", ADMINISTER_USERS) as tx:
            user = new_user(self._context, check_address(email), name)
            if existing := await tx[UserStore].by_email(email):
                raise name_conflict(actor, existing, f"user {email} already exists")
            await tx[UserStore].add(user)
            tx.audit(email, user.id)
        return user

    async def update(self, actor: Actor, id: str, name: str | None, email: str | None) -> User:
        """Changes the name or the address of a user. Conflict: another user has the address."""
        async with self._context.change(actor, "updateUser", ADMINISTER_USERS) as tx:
            return await update_user(
                tx, await find_user(tx, id), self._context.clock.now(), name, email
            )

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

    async def bootstrap(self) -> str | None:
        """Creates the first administrator and returns its token. None: users exist already."""
        async with self._context.change(SYSTEM, "createUser") as tx:
            if (await tx[UserStore].page(PageQuery(first=1))).items:
                return None
            tx.authorized_by("first start")
            user = replace(new_user(self._context, "admin", "Administrator"), email="admin")
            await tx[UserStore].add(user)
            await self._set_role(tx, SYSTEM, user, ADMIN)
            _, secret = await mint(
                tx, self._context, "first start", user_id=user.id, life=USER_TOKEN_LIFE
            )
            tx.audit(user.email, user.id)
        return secret

    async def create_token_for(self, actor: Actor, email: str, name: str) -> str:
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

    async def _set_role(self, tx: Transaction, actor: Actor, user: User, role: Role) -> None:
        """Makes this role the user's only installation-wide role, beside declared bindings."""
        all_bindings = await tx[RoleBindingStore].of_subjects_in(user.id, INSTALLATION)
        bindings = [binding for binding in all_bindings if binding.name is None]
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


def new_user(context: StoreContext, email: str, name: str | None) -> User:
    """Returns a user without permissions, named after the address by default."""
    now = context.clock.now()
    return User(context.new_id(), email, check_text(name, "name") if name else email, now, now)


async def update_user(
    tx: Change, before: User, now: datetime, name: str | None, email: str | None
) -> User:
    """Changes the name or the address of a user. Conflict: another user has the address."""
    user = replace(before, updated_at=now)
    if name:
        user = replace(user, name=check_text(name, "name"))
    if email and email != before.email:
        await require_permissions_of_user(tx, tx.actor, before, now)
        if (existing := await tx[UserStore].by_email(email)) is not None:
            raise name_conflict(tx.actor, existing, f"user {email} already exists")
        user = replace(user, email=check_address(email))
    await tx[UserStore].put(user)
    tx.audit(user.email, user.id)
    tx.publish(ACCESS, user.id)
    return user


async def find_user(tx: Transaction, id: str) -> User:
    """The user with this id. NotFound: it does not exist."""
    return found(await tx[UserStore].get(id), ResourceKind.USER)


def check_address(email: str) -> str:
    """A user's address. Invalid: no address, or one in the form of a service account."""
    if "@" not in email or email.lower().endswith(f"@{ACCOUNT_DOMAIN}"):
        raise Invalid("must be an e-mail address", field="email")
    return check_text(email, "email", 320)
