"""Authentication: resolves tokens to actors; creates and revokes tokens and sessions."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from controlplane.access.model.users import SESSION_IDLE, TICKET_LIFE, USER_TOKEN_LIFE, Token, User
from controlplane.access.operations.auth_throttle import AuthThrottle
from controlplane.access.operations.federation import Federation
from controlplane.access.operations.scopes import actor_of_user
from controlplane.access.operations.tokens import (
    SIGN_IN_KINDS,
    check_life,
    latest_expiry,
    mint,
    revoke_user_tokens,
)
from controlplane.access.operations.users import ADMINISTER_USERS, find_user
from controlplane.access.ports import DeployTokens, TokenStore, UserStore
from controlplane.authorization import Actor, ActorKind, Limit, require_member
from controlplane.platform.context import REVOKED, StoreContext
from controlplane.platform.limits import check_count
from controlplane.platform.names import check_text
from controlplane.platform.ports import Transaction
from core.errors import Forbidden, NotFound, Unauthenticated, Unavailable
from core.identity import ClusterId, TokenKind, token_hash, token_kind
from core.runtime.batcher import Batcher

log = structlog.get_logger(__name__)

MAX_SCOPES = 20
_CACHE_SECONDS = 30.0
_CACHE_SIZE = 10_000
_LAST_USED_INTERVAL = timedelta(minutes=1)
_MAX_CREDENTIAL_LENGTH = 48 << 10
_INVALID_TOKEN = "invalid token: mistyped, revoked, or issued by another installation"
_STORED_KINDS = frozenset(
    {TokenKind.USER, TokenKind.SERVICE_ACCOUNT, TokenKind.SESSION, TokenKind.TICKET}
)


class CredentialAuthenticator:
    """Authenticates callers. Results are cached for 30 s, or until permissions change."""

    def __init__(
        self,
        context: StoreContext,
        deploy_tokens: DeployTokens,
        federation: Federation | None = None,
    ) -> None:
        self._context = context
        self._federation = federation
        self._cached_actors: dict[str, tuple[float, Actor]] = {}
        self._throttle = AuthThrottle(context.clock)
        self._deploy_tokens = deploy_tokens
        self._first_uses: Batcher[str, None] = Batcher(self._record_first_uses)
        self._invalidations = 0

    async def authenticate(self, token: str, source: str = "") -> Actor:
        """The actor of a credential.

        Accepts tokens of users and service accounts, sessions, one-use tickets, and ID tokens of
        trusted issuers. Unauthenticated: any other credential, with the reason. LimitExceeded: too
        many wrong credentials from the address `source`, or in total.
        """
        key = token_hash(token)
        cached = self._cached_actors.get(key)
        if cached is not None and cached[0] > self._context.clock.monotonic():
            return replace(cached[1], source=source)
        kind = token_kind(token)
        invalidations = self._invalidations
        if kind not in _STORED_KINDS and not self._may_be_id_token(token):
            raise Unauthenticated(_INVALID_TOKEN)
        with self._throttle.throttled(key, source):
            actor = await self._resolve_credential(kind, key, token, source)
        # A token that was revoked during the read must not be cached.
        if invalidations == self._invalidations and kind is not TokenKind.TICKET:
            self._cache_actor(key, actor)
        return replace(actor, source=source)

    async def authenticate_agent(self, token: str) -> tuple[ClusterId, str]:
        """(cluster id, token id) of a deploy token. Unauthenticated: any other token."""
        if token_kind(token) is not TokenKind.AGENT:
            raise Unauthenticated("an agent must authenticate with its deploy token (twa_…)")
        deploy_token = await self._deploy_tokens.find(token_hash(token))
        if deploy_token is None or deploy_token[0].cluster_id is None:
            raise Unauthenticated(_INVALID_TOKEN)
        row, cluster_id = deploy_token
        row.check(self._context.clock.now())
        if cluster_id is None:
            raise Unauthenticated("the cluster of this deploy token was deleted")
        if row.last_used_at is None:
            await self._first_uses.submit(row.id)
        return cluster_id, row.id

    async def actor_of(self, user_id: str, token_id: str | None = None) -> Actor:
        """The actor of a user who authenticated before, with present permissions.

        Unauthenticated: the account or the token is no longer valid.
        """
        async with self._context.store.read() as tx:
            user = await tx[UserStore].get(user_id)
            row = await tx[TokenStore].get(token_id) if token_id else None
            if token_id and row is None:
                raise Unauthenticated(_INVALID_TOKEN)
            return await self._check_and_load_actor(tx, user, row)

    def drop_token(self, token_id: str) -> None:
        """Drops the cached actor of a revoked token."""
        self._drop_cached(lambda actor: actor.token_id == token_id)

    def drop_user(self, user_id: str) -> None:
        """Drops the cached actors of a user; an empty id drops all."""
        self._drop_cached(lambda actor: not user_id or actor.id == user_id)

    async def me(self, actor: Actor) -> User:
        """The caller's own user."""
        async with self._context.read(actor) as tx:
            return await find_user(tx, actor.id)

    async def tokens(self, actor: Actor) -> list[Token]:
        """The caller's own tokens, oldest first."""
        async with self._context.read(actor) as tx:
            return await tx[TokenStore].of_user(actor.id, TokenKind.USER, TokenKind.SERVICE_ACCOUNT)

    async def sessions(self, actor: Actor) -> list[Token]:
        """The caller's active sessions, oldest first."""
        async with self._context.read(actor) as tx:
            now = self._context.clock.now()
            rows = await tx[TokenStore].usable_of_user(actor.id, TokenKind.SESSION)
        return [row for row in rows if row.ends_at is None or row.ends_at > now]

    async def create_token(
        self,
        actor: Actor,
        name: str,
        life: timedelta = USER_TOKEN_LIFE,
        limits: tuple[Limit, ...] = (),
    ) -> tuple[Token, str]:
        """Creates a token of the caller; returns its row and the secret, which is shown only once.

        The token has at most the permissions of the token that the caller uses, and ends with it
        at the latest, unless the caller has signed in.
        """
        require_member(actor)
        check_text(name, "name")
        check_life(life)
        check_count(len(limits), "scopes", MAX_SCOPES)
        if actor.kind is not ActorKind.USER:
            # Otherwise an exchanged token with a life of one hour could create one for a year.
            raise Forbidden("a service account cannot create tokens: ask an administrator")
        if actor.policy.limits:
            raise Forbidden(
                "a token with scopes cannot create tokens: sign in, or use a token without scopes"
            )
        async with self._context.change(actor, "createAccessToken") as tx:
            tx.authorized_by("own token")
            await find_user(tx, actor.id)
            if (end := await latest_expiry(tx, actor)) is not None:
                life = min(life, end - self._context.clock.now())
            row, secret = await mint(
                tx, self._context, name, user_id=actor.id, life=life, limits=limits
            )
            tx.audit(name, row.id)
        return row, secret

    async def revoke_token(self, actor: Actor, id: str) -> Token:
        """Revokes a token or session, and within seconds everything it opened.

        Callers may revoke their own; user administrators may revoke any.
        """
        async with self._context.change(actor, "deleteAccessToken") as tx:
            token = await tx[TokenStore].get(id)
            if token is None or token.user_id is None:
                raise NotFound
            is_own = token.user_id == actor.id
            if not is_own and not actor.may(*ADMINISTER_USERS):
                raise NotFound
            tx.authorized_by("own token, or user administrator")
            now = self._context.clock.now()
            await tx[TokenStore].revoke(id, now)
            tx.audit(token.name, id)
            tx.publish(REVOKED, id)
        self.drop_token(id)
        return replace(token, revoked_at=now)

    async def sign_out_everywhere(self, actor: Actor) -> int:
        """Ends all sessions and refresh-token families of the caller; returns the number of
        tokens."""
        async with self._context.change(actor, "signOutEverywhere") as tx:
            tx.authorized_by("own sessions")
            revoked = await revoke_user_tokens(tx, actor.id, SIGN_IN_KINDS)
            tx.audit(actor.email, actor.id)
        for id in revoked:
            self.drop_token(id)
        return len(revoked)

    async def create_ticket(self, actor: Actor) -> str:
        """A secret with which a browser opens one WebSocket as the caller within 60 s."""
        require_member(actor)
        if actor.token_id is None:
            raise Forbidden("a ticket needs a session or a token of this installation")
        async with self._context.store.write() as tx:
            _, secret = await mint(
                tx,
                self._context,
                "ticket",
                user_id=actor.id,
                life=TICKET_LIFE,
                kind=TokenKind.TICKET,
                parent_id=actor.token_id,
            )
        self._throttle.mark_accepted(token_hash(secret))
        return secret

    def _may_be_id_token(self, token: str) -> bool:
        """True if the token looks like an ID token and issuers are configured."""
        return (
            self._federation is not None
            and len(token) <= _MAX_CREDENTIAL_LENGTH
            and token.count(".") == 2
        )

    async def _resolve_credential(
        self, kind: TokenKind | None, key: str, token: str, source: str
    ) -> Actor:
        if kind is TokenKind.TICKET:
            return await self._redeem_ticket(key)
        if kind is not None:
            return await self._actor_of_token(key, source)
        return await self._actor_of_id_token(token)

    async def _actor_of_token(self, key: str, source: str) -> Actor:
        """The actor of a token's hash."""
        now = self._context.clock.now()
        async with self._context.store.read() as tx:
            row = await tx[TokenStore].by_hash(key)
            if row is None:
                raise Unauthenticated(_INVALID_TOKEN)
            user = await tx[UserStore].get(row.user_id) if row.user_id else None
            actor = await self._check_and_load_actor(tx, user, row)
        if row.last_used_at is None or row.last_used_at + _LAST_USED_INTERVAL < now:
            await self._record_use(replace(actor, source=source), row, now)
        return actor

    async def _redeem_ticket(self, key: str) -> Actor:
        """The actor of the token that created a ticket; the ticket ends."""
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            ticket = await tx[TokenStore].by_hash(key)
            if ticket is None or ticket.parent_id is None:
                raise Unauthenticated(_INVALID_TOKEN)
            ticket.check(now)
            await tx[TokenStore].revoke(ticket.id, now)
            parent = await tx[TokenStore].get(ticket.parent_id)
            user = await tx[UserStore].get(ticket.user_id) if ticket.user_id else None
            if parent is None:
                raise Unauthenticated(_INVALID_TOKEN)
            return await self._check_and_load_actor(tx, user, parent)

    async def _actor_of_id_token(self, token: str) -> Actor:
        """The actor of an ID token of a trusted issuer."""
        if self._federation is None:
            raise Unauthenticated(_INVALID_TOKEN)
        user, until = await self._federation.user_of_token(token)
        async with self._context.store.read() as tx:
            actor = await self._check_and_load_actor(tx, user, None)
        return replace(actor, expires_at=until)

    async def _check_and_load_actor(
        self, tx: Transaction, user: User | None, row: Token | None
    ) -> Actor:
        now = self._context.clock.now()
        if row is not None:
            row.check(now)
        if user is None:
            raise Unauthenticated("this account was deleted")
        if user.disabled_at is not None:
            raise Unauthenticated(f"the account {user.email} is disabled")
        actor = await actor_of_user(tx, user, now)
        if row is None:
            return actor
        policy = replace(actor.policy, limits=row.limits)
        return replace(actor, policy=policy, token_id=row.id, expires_at=row.expires_at)

    async def _record_first_uses(self, ids: Sequence[str]) -> Sequence[None]:
        """Marks agents' tokens as used; see `Clusters.deploy_token`."""
        now = self._context.clock.now()
        try:
            async with self._context.store.write() as tx:
                await tx[TokenStore].change_each({id: {"last_used_at": now} for id in ids})
        except Unavailable as error:
            log.warning("could not record the use of tokens", tokens=len(ids), error=error.message)
        return [None] * len(ids)

    async def _record_use(self, actor: Actor, row: Token, now: datetime) -> None:
        """Records the use of a token, and its first use of an hour in the audit log.

        Failures are only logged, so that callers can read while the store is read-only.
        """
        columns: dict[str, datetime] = {"last_used_at": now}
        if row.idle_at is not None:
            columns["idle_at"] = now + SESSION_IDLE
        try:
            async with self._context.store.write() as tx:
                await tx[TokenStore].change(row.id, **columns)
                if row.last_used_at is None or _start_of_hour(row.last_used_at) != _start_of_hour(
                    now
                ):
                    await self._context.audit(tx, actor, "useToken", row.name, row.id)
        except Unavailable as error:
            log.warning("could not record the use of a token", token=row.id, error=error.message)

    def _drop_cached(self, is_stale: Callable[[Actor], bool]) -> None:
        self._invalidations += 1
        self._throttle.clear_rejected()
        for key in [k for k, (_, actor) in self._cached_actors.items() if is_stale(actor)]:
            del self._cached_actors[key]

    def _cache_actor(self, key: str, actor: Actor) -> None:
        if len(self._cached_actors) >= _CACHE_SIZE:
            self._cached_actors.clear()
        now = self._context.clock.now()
        expiries = (actor.expires_at, actor.policy.until)
        life = min(((end - now).total_seconds() for end in expiries if end), default=math.inf)
        until = self._context.clock.monotonic() + min(_CACHE_SECONDS, life)
        self._cached_actors[key] = (until, actor)


def _start_of_hour(time: datetime) -> datetime:
    return time.replace(minute=0, second=0, microsecond=0)
