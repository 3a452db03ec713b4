"""Short-lived tokens with refresh tokens (RFC 6749, section 6), for programs that store both.

A refresh token is valid once and returns the next one. All tokens of one sign-in form a family,
identified by their `parent_id`. Reuse of a spent refresh token means that a copy exists, so the
family is revoked (RFC 9700, section 4.14.2). Revoking any token of a family also revokes the
family.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from controlplane.access.model.users import SESSION_LIFE, Token
from controlplane.access.operations.tokens import mint
from controlplane.access.operations.users import find_user
from controlplane.access.ports import TokenStore
from controlplane.authorization import Actor, ActorKind
from controlplane.platform.context import REVOKED, StoreOperations
from controlplane.platform.ports import Transaction
from core.errors import Unauthenticated
from core.identity import TokenKind, token_hash, token_kind

ACCESS_LIFE = timedelta(hours=1)
_SPENT = "this refresh token was used or has expired: sign in again"


class IssuedTokens(NamedTuple):
    """An issued token, its secret, and its refresh token, if any."""

    token: Token
    secret: str
    refresh: str = ""

    def __repr__(self) -> str:
        return f"IssuedTokens({self.token.id})"


class RefreshTokens(StoreOperations):
    """Operations on refresh tokens."""

    async def start_family(
        self, tx: Transaction, name: str, user_id: str, source: str
    ) -> IssuedTokens:
        """Issues the first tokens of a family, which ends after 7 days like a session."""
        now = self._context.clock.now()
        for old in await tx[TokenStore].of_user(user_id, TokenKind.REFRESH):
            if old.expires_at is not None and old.expires_at <= now:
                await tx[TokenStore].remove(old.id)
        family, end = self._context.new_id(), now + SESSION_LIFE
        return await self._issue_pair(tx, name, user_id, source, family, end)

    async def renew(self, refresh: str, source: str) -> IssuedTokens:
        """Issues the next tokens of a family.

        Unauthenticated: the refresh token was used before or has expired.
        """
        ended: list[str] = []
        async with self._context.store.write() as tx:
            row = await self._find_refresh_token(tx, refresh)
            family = await tx[TokenStore].children_of(row.parent_id)
            if row.revoked_at is None and not _is_revoked(family):
                return await self._rotate(tx, row, family, source)
            ended = await self._revoke_family(tx, row, family, source)
        for id in ended:
            self._context.bus.publish(REVOKED, id)
        raise Unauthenticated(_SPENT)

    async def _find_refresh_token(self, tx: Transaction, refresh: str) -> Token:
        is_refresh = token_kind(refresh) is TokenKind.REFRESH
        row = await tx[TokenStore].by_hash(token_hash(refresh)) if is_refresh else None
        if row is None or row.expires_at is None or row.expires_at <= self._context.clock.now():
            raise Unauthenticated(_SPENT)
        return row

    async def _rotate(
        self, tx: Transaction, row: Token, family: list[Token], source: str
    ) -> IssuedTokens:
        """Spends a refresh token, and deletes expired tokens of the family."""
        user = await find_user(tx, row.user_id or "")
        if user.disabled_at is not None or row.expires_at is None or row.parent_id is None:
            raise Unauthenticated(_SPENT)
        now = self._context.clock.now()
        await tx[TokenStore].revoke(row.id, now)
        for token in family:
            is_expired = token.expires_at is not None and token.expires_at <= now
            if token.kind is TokenKind.USER and is_expired:
                await tx[TokenStore].remove(token.id)
        actor = Actor(ActorKind.USER, user.id, user.name, user.email, source=source)
        await self._context.audit(tx, actor, "renewToken", row.name, row.parent_id)
        return await self._issue_pair(tx, row.name, user.id, source, row.parent_id, row.expires_at)

    async def _issue_pair(
        self, tx: Transaction, name: str, user_id: str, source: str, family: str, end: datetime
    ) -> IssuedTokens:
        remaining = end - self._context.clock.now()

        async def mint_token(kind: TokenKind, life: timedelta) -> tuple[Token, str]:
            return await mint(
                tx, self._context, name, user_id=user_id, life=life, kind=kind,
                source=source[:64], parent_id=family,
            )  # fmt: skip

        token, secret = await mint_token(TokenKind.USER, min(ACCESS_LIFE, remaining))
        _, refresh = await mint_token(TokenKind.REFRESH, remaining)
        return IssuedTokens(token, secret, refresh)

    async def _revoke_family(
        self, tx: Transaction, row: Token, family: list[Token], source: str
    ) -> list[str]:
        """Revokes the remaining tokens of a family; returns their ids."""
        live = [token.id for token in family if token.revoked_at is None]
        for id in live:
            await tx[TokenStore].revoke(id, self._context.clock.now())
        if live:
            user = await find_user(tx, row.user_id or "")
            actor = Actor(ActorKind.USER, user.id, user.name, user.email, source=source)
            await self._context.audit(tx, actor, "endTokens", row.name, row.parent_id or "")
        return live


def _is_revoked(family: list[Token]) -> bool:
    """True if an access token of the family was revoked."""
    return any(token.revoked_at for token in family if token.kind is TokenKind.USER)
