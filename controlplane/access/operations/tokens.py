"""Creates and revokes tokens; rows contain only the SHA-256 hash of a secret that is shown once."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta

from controlplane.access.model.users import MAX_TOKEN_LIFETIME, Token
from controlplane.access.ports import TokenStore
from controlplane.authorization import Actor
from controlplane.platform.context import REVOKED, Change, StoreContext
from controlplane.platform.ports import Transaction
from core.errors import Invalid
from core.identity import TokenKind, new_token, token_hash

SIGN_IN_KINDS = (TokenKind.SESSION, TokenKind.REFRESH)


def check_life(life: timedelta) -> None:
    """Raises Invalid unless a token may live that long."""
    if not timedelta() < life <= MAX_TOKEN_LIFETIME:
        raise Invalid("must be 1 to 366 days", field="expiresInDays")


async def latest_expiry(tx: Transaction, actor: Actor) -> datetime | None:
    """The latest expiry of a credential that the caller creates with its own credential.

    None: the caller has signed in, or its credential does not expire.
    """
    row = await tx[TokenStore].get(actor.token_id) if actor.token_id else None
    is_sign_in = row is not None and (row.kind is TokenKind.SESSION or row.parent_id is not None)
    return None if is_sign_in else actor.expires_at


async def revoke_user_tokens(
    tx: Change, user_id: str, kinds: Collection[TokenKind] = tuple(TokenKind)
) -> list[str]:
    """Revokes a user's valid tokens of some kinds, and those issued by refresh tokens.

    The commit ends everything that they opened. Returns their IDs.
    """
    live = await tx[TokenStore].usable_of_user(user_id, *kinds)
    if families := {token.parent_id for token in live if token.kind is TokenKind.REFRESH}:
        issued = await tx[TokenStore].usable_children_of(user_id, families)
        live = list({token.id: token for token in (*live, *issued)}.values())
    now = tx.context.clock.now()
    for token in live:
        await tx[TokenStore].revoke(token.id, now)
        tx.publish(REVOKED, token.id)
    return [token.id for token in live]


async def revoke_cluster_tokens(tx: Transaction, cluster_id: str, now: datetime) -> list[str]:
    """Revokes all deploy tokens of a cluster; returns their IDs."""
    live = await tx[TokenStore].usable_of_cluster(cluster_id)
    for token in live:
        await tx[TokenStore].revoke(token.id, now)
    return [token.id for token in live]


async def mint(
    tx: Transaction,
    context: StoreContext,
    name: str,
    *,
    user_id: str | None = None,
    cluster_id: str | None = None,
    life: timedelta | None = None,
    kind: TokenKind | None = None,
    **columns: object,
) -> tuple[Token, str]:
    """Creates a token for a user or a cluster's agent, and stores its hash."""
    if kind is None:
        kind = TokenKind.AGENT if cluster_id else TokenKind.USER
    secret = new_token(kind)
    now = context.clock.now()
    row = replace(
        Token(
            id=context.new_id(),
            kind=kind,
            name=name,
            hash=token_hash(secret),
            inserted_at=now,
            user_id=user_id,
            cluster_id=cluster_id,
            expires_at=None if life is None else now + life,
        ),
        **columns,
    )
    await tx[TokenStore].add(row)
    return row, secret
