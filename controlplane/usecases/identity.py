"""Who is calling: tokens in, actors out; making and revoking tokens."""

import math
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from controlplane.domain.access import SYSTEM, Actor, ActorKind, Role, Verb, require
from controlplane.domain.names import check_text
from controlplane.domain.people import LONGEST_TOKEN_LIFE, USER_TOKEN_LIFE, Token, User
from controlplane.ports import Page, PageQuery, Transaction
from controlplane.usecases.deps import REVOKED, Deps
from fleet.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated, Unavailable
from fleet.identity import ClusterId, TokenKind, new_token, token_hash, token_kind

log = structlog.get_logger(__name__)

_CACHE_SECONDS = 30.0
_CACHE_SIZE = 10_000
_SEEN_EVERY = timedelta(minutes=1)
_WRONG = "this token is not known here: it is mistyped, or from another installation"


class Identity:
    """Verbs on users and tokens. Recognised tokens are remembered for 30 s, until revoked."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._recognised: dict[str, tuple[float, Actor]] = {}
        self._revocations = 0

    async def authenticate(self, token: str, source: str = "") -> Actor:
        """The actor behind a user's token. Unauthenticated, with the reason, for any other."""
        key = token_hash(token)
        known = self._recognised.get(key)
        if known is not None and known[0] > self._deps.clock.monotonic():
            return replace(known[1], source=source)
        if token_kind(token) is not TokenKind.USER:
            raise Unauthenticated(_WRONG)
        before = self._revocations
        actor, life = await self._recognise(key)
        # A token revoked while its row was read must not be remembered as good.
        if before == self._revocations:
            self._remember(key, actor, min(_CACHE_SECONDS, life))
        return replace(actor, source=source)

    async def authenticate_agent(self, token: str) -> tuple[ClusterId, str]:
        """(cluster id, token id) of a deploy token. Unauthenticated for any other."""
        if token_kind(token) is not TokenKind.AGENT:
            raise Unauthenticated("an agent signs in with its deploy token (twa_…)")
        async with self._deps.store.read() as tx:
            row = await tx.tokens.find(hash=token_hash(token))
            if row is None or row.cluster_id is None:
                raise Unauthenticated(_WRONG)
            row.check(self._deps.clock.now())
            cluster = await tx.clusters.get(row.cluster_id)
        if cluster is None:
            raise Unauthenticated("the cluster of this deploy token was deleted")
        return cluster.id, row.id

    def forget(self, token_id: str) -> None:
        """Drop what is remembered of a revoked token."""
        self._revocations += 1
        stale = [k for k, (_, actor) in self._recognised.items() if actor.token_id == token_id]
        for key in stale:
            del self._recognised[key]

    async def me(self, actor: Actor) -> User:
        """The caller's own user."""
        require(actor, Verb.READ, "their own account")
        async with self._deps.store.read() as tx:
            user = await tx.users.get(actor.id)
        if user is None:
            raise NotFound
        return user

    async def tokens(self, actor: Actor) -> list[Token]:
        """The caller's own tokens, oldest first."""
        require(actor, Verb.READ, "their own tokens")
        async with self._deps.store.read() as tx:
            return await tx.tokens.select(user_id=actor.id, kind=TokenKind.USER)

    async def create_token(
        self, actor: Actor, name: str, life: timedelta = USER_TOKEN_LIFE
    ) -> tuple[Token, str]:
        """A new token of the caller's: what is kept, and the secret, shown only now."""
        require(actor, Verb.READ, "their own tokens")
        check_text(name, "name")
        if not timedelta() < life <= LONGEST_TOKEN_LIFE:
            raise Invalid("a token lives up to 366 days", field="expiresIn")
        async with self._deps.store.write() as tx:
            made = await mint(tx, self._deps, name, user_id=actor.id, life=life)
            await self._deps.audit(tx, actor, "createAccessToken", name, made[0].id)
        return made

    async def revoke_token(self, actor: Actor, id: str) -> Token:
        """End a token; connections that it opened end within seconds."""
        require(actor, Verb.READ, "their own tokens")
        async with self._deps.store.write() as tx:
            token = await tx.tokens.get(id)
            if token is None:
                raise NotFound
            if token.user_id != actor.id and not actor.may(Verb.ADMINISTER):
                raise NotFound
            now = self._deps.clock.now()
            await tx.tokens.change(id, revoked_at=now)
            await self._deps.audit(tx, actor, "deleteAccessToken", token.name, id)
        self.forget(id)
        self._deps.bus.publish(REVOKED, id)
        return replace(token, revoked_at=now)

    async def users(self, actor: Actor, query: PageQuery) -> Page[User]:
        """People of this installation."""
        require(actor, Verb.ADMINISTER, "users")
        async with self._deps.store.read() as tx:
            return await tx.users.page(query)

    async def upsert_user(
        self, actor: Actor, email: str, name: str | None, role: Role | None
    ) -> User:
        """Register a person, or change name and role of the one with this address.

        What is None stays; a new person is a viewer called by their address.
        """
        require(actor, Verb.ADMINISTER, "users")
        async with self._deps.store.read() as tx:
            known = await tx.users.find(email=email)
        if known is None:
            return await self.create_user(actor, email, name or email, role or Role.VIEWER)
        if known.id == actor.id and role not in (None, known.role):
            raise Conflict("nobody changes their own role: ask another administrator")
        changed = replace(
            known,
            name=check_text(name, "name") if name else known.name,
            role=role or known.role,
            updated_at=self._deps.clock.now(),
        )
        async with self._deps.store.write() as tx:
            await tx.users.put(changed)
            await self._deps.audit(
                tx, actor, "updateUser", email, known.id, role=changed.role.value
            )
        self.forget_user(known.id)
        return changed

    def forget_user(self, user_id: str) -> None:
        """Drop what is remembered of a user whose rights have changed."""
        stale = [k for k, (_, actor) in self._recognised.items() if actor.id == user_id]
        for key in stale:
            del self._recognised[key]

    async def create_user(self, actor: Actor, email: str, name: str, role: Role) -> User:
        """Register a person."""
        require(actor, Verb.ADMINISTER, "users")
        if "@" not in email:
            raise Invalid("give an e-mail address", field="email")
        now = self._deps.clock.now()
        user = User(self._deps.new_id(), check_text(email, "email"), name or email, role, now, now)
        async with self._deps.store.write() as tx:
            await tx.users.add(user)
            await self._deps.audit(tx, actor, "createUser", email, user.id, role=role.value)
        return user

    async def bootstrap(self) -> str | None:
        """Make the first administrator; its token. None: there are users already."""
        async with self._deps.store.write() as tx:
            if (await tx.users.page(PageQuery(first=1))).items:
                return None
            now = self._deps.clock.now()
            user = User(self._deps.new_id(), "admin", "Administrator", Role.ADMIN, now, now)
            await tx.users.add(user)
            _, secret = await mint(
                tx, self._deps, "first start", user_id=user.id, life=USER_TOKEN_LIFE
            )
            await self._deps.audit(tx, SYSTEM, "createUser", user.email, user.id)
        return secret

    async def token_for(self, actor: Actor, email: str, name: str) -> str:
        """A token of another user; for the operator of the installation only."""
        if actor.kind is not ActorKind.SYSTEM:
            raise Forbidden("only the operator of the installation makes tokens for others")
        async with self._deps.store.write() as tx:
            user = await tx.users.find(email=email)
            if user is None:
                raise NotFound(f"no user has the address {email}")
            row, secret = await mint(tx, self._deps, name, user_id=user.id, life=USER_TOKEN_LIFE)
            await self._deps.audit(tx, actor, "createAccessToken", email, row.id)
        return secret

    def _remember(self, key: str, actor: Actor, seconds: float) -> None:
        if len(self._recognised) >= _CACHE_SIZE:
            self._recognised.clear()
        self._recognised[key] = (self._deps.clock.monotonic() + seconds, actor)

    async def _recognise(self, key: str) -> tuple[Actor, float]:
        """The actor behind a token's hash, and how many seconds the token still lives."""
        now = self._deps.clock.now()
        async with self._deps.store.read() as tx:
            row = await tx.tokens.find(hash=key)
            user = await tx.users.get(row.user_id) if row and row.user_id else None
        if row is None or user is None:
            raise Unauthenticated(_WRONG)
        row.check(now)
        if user.disabled_at is not None:
            raise Unauthenticated(f"the account {user.email} is disabled")
        if row.last_used_at is None or row.last_used_at + _SEEN_EVERY < now:
            await self._note_use(row.id, now)
        actor = Actor(
            ActorKind.USER,
            id=user.id,
            name=user.name,
            email=user.email,
            role=user.role,
            token_id=row.id,
            expires_at=row.expires_at,
        )
        return actor, (row.expires_at - now).total_seconds() if row.expires_at else math.inf

    async def _note_use(self, token_id: str, now: datetime) -> None:
        """Whoever can be recognised may read, even while the store cannot be written."""
        try:
            async with self._deps.store.write() as tx:
                await tx.tokens.change(token_id, last_used_at=now)
        except Unavailable as error:
            log.warning("could not note a token's use", token=token_id, error=error.message)


async def mint(
    tx: Transaction,
    deps: Deps,
    name: str,
    *,
    user_id: str | None = None,
    cluster_id: str | None = None,
    life: timedelta | None = None,
) -> tuple[Token, str]:
    """Make a token for a user or a cluster's agent, and keep its hash."""
    kind = TokenKind.AGENT if cluster_id else TokenKind.USER
    secret = new_token(kind)
    now = deps.clock.now()
    row = Token(
        id=deps.new_id(),
        kind=kind,
        name=name,
        hash=token_hash(secret),
        inserted_at=now,
        user_id=user_id,
        cluster_id=cluster_id,
        expires_at=None if life is None else now + life,
    )
    await tx.tokens.add(row)
    return row, secret
