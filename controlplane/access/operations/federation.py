"""Federated users: maps users of identity providers to accounts, and syncs their groups."""

from datetime import datetime

from controlplane.access.model.sign_in import Claims
from controlplane.access.model.users import Group, Login, Membership, User, UserKind
from controlplane.access.operations.tokens import revoke_user_tokens
from controlplane.access.operations.users import check_address
from controlplane.access.ports import GroupStore, Issuers, LoginStore, MembershipStore, UserStore
from controlplane.authorization import SYSTEM
from controlplane.platform.context import ACCESS, StoreContext
from controlplane.platform.names import MAX_TEXT, check_text
from controlplane.platform.ports import Transaction
from core.errors import Conflict, Forbidden

MAX_GROUPS = 1000


class Federation:
    """Maps the claims of an identity provider to a user of this installation."""

    def __init__(self, context: StoreContext, issuers: Issuers) -> None:
        self._context = context
        self.issuers = issuers

    async def user_of_token(self, token: str) -> tuple[User, datetime]:
        """The user of an ID token, and its expiry. Unauthenticated: the token is invalid."""
        claims = await self.issuers.verify(token)
        return await self.admit(claims), claims.expires_at

    async def admit(self, claims: Claims) -> User:
        """The user that the claims identify, created if new, in the groups that the claims name.

        Forbidden: the user is in none of the groups that the issuer requires; the user's sessions
        end. Conflict: another account has the address and the issuer does not verify it, or a
        directory manages the account and another identity signs in to it. Invalid: the address is
        reserved.
        """
        required = next(
            (
                issuer.required
                for issuer in self.issuers.configured()
                if issuer.url == claims.issuer
            ),
            (),
        )
        admitted = not required or not set(required).isdisjoint(claims.groups or ())
        async with self._context.store.write() as tx:
            user = await self._find_or_add_user(tx, claims, add=admitted)
            if user is not None:
                changed = await self._sync_groups(tx, user, claims)
        if user is not None and changed:
            self._context.bus.publish(ACCESS, user.id)
        if user is None or not admitted:
            if user is not None:
                await self._expel(user)
            raise Forbidden(f"according to {claims.issuer}, you are in none of the required groups")
        return user

    async def _find_or_add_user(self, tx: Transaction, claims: Claims, *, add: bool) -> User | None:
        login = await tx[LoginStore].by_identity(claims.issuer, claims.subject)
        if login is not None:
            return await tx[UserStore].get(login.user_id)
        if not add:
            return None
        now = self._context.clock.now()
        user = await self._pushed_user(tx, claims) or await self._user_with_address(tx, claims)
        if user is None:
            user = self._new_user(claims, now)
            await tx[UserStore].add(user)
            await self._context.audit(
                tx, SYSTEM, "createUser", user.email, user.id, issuer=claims.issuer
            )
        elif user.issuer is not None and await tx[LoginStore].of_user(user.id) is not None:
            # A directory sets the id and the address of an account, but does not prove who owns it.
            raise Conflict(
                f"another identity signs in to the account {user.email}: an administrator must "
                "change that account's address, then the directory must push you again"
            )
        login = Login(self._context.new_id(), claims.issuer, claims.subject, user.id, now)
        await tx[LoginStore].add(login)
        return user

    async def _pushed_user(self, tx: Transaction, claims: Claims) -> User | None:
        """The user that the issuer's directory pushed with the id of this sign-in.

        Entra ID uses a different subject for each application, but the same object id (`oid`).
        """
        ids = [claims.subject, claims.raw.get("oid")]
        external_ids = [candidate for candidate in ids if isinstance(candidate, str) and candidate]
        return await tx[UserStore].by_external_id(claims.issuer, external_ids)

    async def _user_with_address(self, tx: Transaction, claims: Claims) -> User | None:
        user = await tx[UserStore].by_email(claims.email) if claims.email else None
        if user is not None and user.kind is not UserKind.PERSON:
            raise Conflict(f"{user.email} is a service account, which cannot sign in")
        if user is not None and not claims.email_verified:
            raise Conflict(
                f"account {user.email} exists, but {claims.issuer} does not verify the address: "
                "ask an administrator"
            )
        return user

    def _new_user(self, claims: Claims, now: datetime) -> User:
        """The first account of a sign-in.

        Without a verified address, its address is the subject at the issuer. RBAC of clusters and
        approvals trust addresses, and nobody vouches for an unverified one.
        """
        subject = f"{claims.subject}@{claims.issuer.partition('://')[2]}"
        email = check_address(claims.email if claims.email_verified else subject)
        name = check_text(claims.name or email, "name", 320)[:MAX_TEXT]
        return User(self._context.new_id(), email, name, now, now)

    async def _sync_groups(self, tx: Transaction, user: User, claims: Claims) -> bool:
        """Syncs memberships from the issuer with the claims; True if any changed.

        Only the directory changes members of groups that it pushed.
        """
        if claims.groups is None:
            return False
        names = frozenset(claims.groups[:MAX_GROUPS])
        groups = await tx[GroupStore].of_issuer(claims.issuer)
        pushed = {group.id for group in groups if group.external_id is not None}
        claimed = [group for group in groups if group.name in names and group.id not in pushed]
        memberships = await tx[MembershipStore].of_user(user.id)
        others = {row.group_id for row in memberships if row.issuer != claims.issuer}
        synced = {
            membership.group_id: membership
            for membership in memberships
            if membership.issuer == claims.issuer and membership.group_id not in pushed
        }
        ids = {group.id for group in claimed}
        removed = [membership for group, membership in synced.items() if group not in ids]
        for membership in removed:
            await tx[MembershipStore].remove(membership.id)
        added = [group for group in claimed if group.id not in synced.keys() | others]
        for group in added:
            await tx[MembershipStore].add(self._membership(group, user, claims.issuer))
        if removed or added:
            await self._context.audit(
                tx,
                SYSTEM,
                "syncGroups",
                user.email,
                user.id,
                joined=[group.name for group in added],
                left=[membership.group_id for membership in removed],
            )
        return bool(removed or added)

    def _membership(self, group: Group, user: User, issuer: str) -> Membership:
        return Membership(
            self._context.new_id(), group.id, user.id, self._context.clock.now(), issuer=issuer
        )

    async def _expel(self, user: User) -> None:
        """Ends all tokens of a user whom the provider no longer admits."""
        async with self._context.change(SYSTEM, "expelUser") as tx:
            tx.authorized_by("identity provider")
            await revoke_user_tokens(tx, user.id)
            tx.audit(user.email, user.id)
            tx.publish(ACCESS, user.id)
