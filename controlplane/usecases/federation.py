"""Users of identity providers: who they are here, and keeping their groups as the provider says."""

from datetime import datetime

from controlplane.domain.access import SYSTEM
from controlplane.domain.people import Group, Login, Membership, User, UserKind
from controlplane.domain.signin import Claims
from controlplane.ports import Issuers, Transaction
from controlplane.usecases.deps import ACCESS, Deps
from controlplane.usecases.tokens import end_tokens, publish_ended
from fleet.errors import Conflict, Forbidden

MOST_GROUPS = 1000


class Federation:
    """Turns what an identity provider says into a user of this installation."""

    def __init__(self, deps: Deps, issuers: Issuers) -> None:
        self._deps = deps
        self.issuers = issuers

    async def user_of(self, token: str) -> tuple[User, datetime]:
        """The user behind an ID token, and when it ends. Unauthenticated: it is not good."""
        claims = await self.issuers.verify(token)
        return await self.admit(claims), claims.expires_at

    async def admit(self, claims: Claims) -> User:
        """The user whom claims speak of, made if new, in the groups that the claims name.

        Forbidden: in none of the groups that the issuer's users need; their sessions end.
        Conflict: somebody else has the address, and the issuer does not vouch for it; or a
        directory keeps the account, and somebody else signs in to it.
        """
        required = next((i.required for i in self.issuers.known() if i.url == claims.issuer), ())
        admitted = not required or not set(required).isdisjoint(claims.groups or ())
        async with self._deps.store.write() as tx:
            user = await self._user(tx, claims, make=admitted)
            if user is not None:
                changed = await self._sync_groups(tx, user, claims)
        if user is not None and changed:
            self._deps.bus.publish(ACCESS, user.id)
        if user is None or not admitted:
            if user is not None:
                await self._expel(user)
            raise Forbidden(f"{claims.issuer} says that you are in none of the groups needed here")
        return user

    async def _user(self, tx: Transaction, claims: Claims, *, make: bool) -> User | None:
        login = await tx.logins.find(issuer=claims.issuer, subject=claims.subject)
        if login is not None:
            return await tx.users.get(login.user_id)
        if not make:
            return None
        email = claims.email or f"{claims.subject}@{claims.issuer.partition('://')[2]}"
        now = self._deps.clock.now()
        user = await self._kept(tx, claims) or await self._by_address(tx, claims, email)
        if user is None:
            name = (claims.name or email)[:255]
            user = User(self._deps.new_id(), email[:320], name, now, now)
            await tx.users.add(user)
            await self._deps.audit(tx, SYSTEM, "createUser", email, user.id, issuer=claims.issuer)
        elif user.issuer is not None and await tx.logins.find(user_id=user.id) is not None:
            # A directory says which id and address an account has, but not whose it is.
            raise Conflict(
                f"somebody else signs in to the account {user.email}: an administrator can give "
                "that one another address, and the directory push you anew"
            )
        login = Login(self._deps.new_id(), claims.issuer, claims.subject, user.id, now)
        await tx.logins.add(login)
        return user

    async def _kept(self, tx: Transaction, claims: Claims) -> User | None:
        """Whom the issuer's directory has pushed under the id that it signs in with.

        Entra ID names people to each program otherwise, and by their object id to all.
        """
        ids = [claims.subject, claims.every.get("oid")]
        named = [candidate for candidate in ids if isinstance(candidate, str) and candidate]
        return await tx.users.find(issuer=claims.issuer, external_id=named)

    async def _by_address(self, tx: Transaction, claims: Claims, email: str) -> User | None:
        user = await tx.users.find(email=email[:320])
        if user is not None and user.kind is not UserKind.PERSON:
            raise Conflict(f"{email} is a service account here: nobody signs in as one")
        if user is not None and not (claims.email and claims.email_verified):
            raise Conflict(
                f"an account {email} exists, and {claims.issuer} does not vouch for the address: "
                "ask an administrator"
            )
        return user

    async def _sync_groups(self, tx: Transaction, user: User, claims: Claims) -> bool:
        """Make the memberships that came from the issuer what it says now; whether any changed.

        Who is in a group that its directory has pushed, only that says.
        """
        if claims.groups is None:
            return False
        named = frozenset(claims.groups[:MOST_GROUPS])
        every = await tx.groups.select(issuer=claims.issuer)
        pushed = {group.id for group in every if group.external_id is not None}
        wanted = [group for group in every if group.name in named and group.id not in pushed]
        held = await tx.memberships.select(user_id=user.id)
        others = {membership.group_id for membership in held if membership.issuer != claims.issuer}
        synced = {
            membership.group_id: membership
            for membership in held
            if membership.issuer == claims.issuer and membership.group_id not in pushed
        }
        ids = {group.id for group in wanted}
        gone = [membership for group, membership in synced.items() if group not in ids]
        for membership in gone:
            await tx.memberships.remove(membership.id)
        new = [group for group in wanted if group.id not in synced.keys() | others]
        for group in new:
            await tx.memberships.add(self._membership(group, user, claims.issuer))
        if gone or new:
            await self._deps.audit(
                tx,
                SYSTEM,
                "syncGroups",
                user.email,
                user.id,
                joined=[group.name for group in new],
                left=[membership.group_id for membership in gone],
            )
        return bool(gone or new)

    def _membership(self, group: Group, user: User, issuer: str) -> Membership:
        return Membership(
            self._deps.new_id(), group.id, user.id, self._deps.clock.now(), issuer=issuer
        )

    async def _expel(self, user: User) -> None:
        """End what somebody has opened whom the provider has let go."""
        async with self._deps.store.write() as tx:
            ended = await end_tokens(tx, self._deps, user.id)
            await self._deps.audit(tx, SYSTEM, "expelUser", user.email, user.id)
        publish_ended(self._deps, ended)
        self._deps.bus.publish(ACCESS, user.id)
