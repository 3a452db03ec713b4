"""Refresh tokens: good once, ended by a copy, by a revocation and by time."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from controlplane.access.model.users import SESSION_LIFE
from controlplane.access.operations.refresh_tokens import IssuedTokens
from controlplane.access.ports import TokenStore, UserStore
from controlplane.audit.model.chains import AuditFilter, AuditKind
from controlplane.audit.ports import AuditLog
from controlplane.authorization import Actor
from controlplane.authorization.roles import BuiltInRole
from controlplane.platform.ports import PageQuery
from core.errors import Unauthenticated
from core.identity import TokenKind, token_hash
from tests.integration.controlplane.conftest import World
from tests.integration.controlplane.signin import Gate, gate

SOURCE = "10.0.0.5"


@pytest.fixture
async def door(world: World) -> AsyncIterator[Gate]:
    async with gate(world) as opened:
        yield opened


async def person(door: Gate) -> Actor:
    """Somebody with an account, signed in."""
    admin = door.world.admin
    await door.world.people.upsert(admin, "bo@example.org", None, BuiltInRole.VIEWER)
    async with door.world.deps.store.read() as tx:
        user = await tx[UserStore].by_email("bo@example.org")
    assert user is not None
    return await door.identity.actor_of(user.id)


async def begun(door: Gate) -> IssuedTokens:
    """What a device gets that wants a refresh token."""
    actor = await person(door)
    device, code = await door.signin.begin_device("kubectl", SOURCE, renewable=True)
    await door.signin.decide_device(actor, code, approve=True)
    return await door.signin.poll_device(device)


async def is_good(door: Gate, secret: str) -> bool:
    try:
        await door.identity.authenticate(secret)
    except Unauthenticated:
        return False
    return True


async def refused(door: Gate, refresh: str) -> None:
    with pytest.raises(Unauthenticated, match="sign in again"):
        await door.signin.refresh_tokens.renew(refresh, SOURCE)


async def test_each_refresh_token_brings_the_next_and_the_token_of_before_goes_on(
    door: Gate,
) -> None:
    """Programs that still hold the last token end with its hour, not before."""
    first = await begun(door)
    await door.world.clock.advance(3500)
    second = await door.signin.refresh_tokens.renew(first.refresh, SOURCE)
    assert await is_good(door, first.secret) and await is_good(door, second.secret)
    await door.world.clock.advance(200)
    assert not await is_good(door, first.secret)
    third = await door.signin.refresh_tokens.renew(second.refresh, SOURCE)
    assert await is_good(door, third.secret)
    names = [one.id for one in await door.identity.tokens(await person(door))]
    assert first.token.id not in names and third.token.id in names


async def test_a_spent_refresh_token_ends_all_that_came_from_its_sign_in(door: Gate) -> None:
    """Of thief and owner nobody knows which is which; other sign-ins go on."""
    first, other = await begun(door), await begun(door)
    second = await door.signin.refresh_tokens.renew(first.refresh, SOURCE)
    await refused(door, first.refresh)
    await refused(door, second.refresh)
    door.identity.drop_user("")
    assert not await is_good(door, first.secret) and not await is_good(door, second.secret)
    assert await is_good(door, other.secret)
    async with door.world.deps.store.read() as tx:
        rows = await tx[AuditLog].search(AuditFilter(action="endTokens"), PageQuery())
        kinds = await tx[AuditLog].search(AuditFilter(kind=AuditKind.SIGN_IN), PageQuery())
    assert [(one.target, one.source) for one in rows.items] == [("kubectl", SOURCE)]
    assert {"renewToken", "endTokens"} <= {one.action for one in kinds.items}


async def test_no_renewal_after_a_revocation_or_signing_out_everywhere(door: Gate) -> None:
    """Whoever revokes the token that the list shows means the program."""
    admin = await person(door)
    one, other = await begun(door), await begun(door)
    await door.identity.revoke_token(admin, one.token.id)
    await refused(door, one.refresh)
    await door.identity.sign_out_everywhere(admin)
    await refused(door, other.refresh)
    assert not await is_good(door, other.secret)


async def test_no_renewal_beyond_the_end_of_a_session(door: Gate) -> None:
    """However often: 7 days after the sign-in the last token ends."""
    given = await begun(door)
    end = door.world.clock.now() + SESSION_LIFE
    for _ in range(6):
        await door.world.clock.advance(timedelta(hours=27.9).total_seconds())
        given = await door.signin.refresh_tokens.renew(given.refresh, SOURCE)
    assert given.token.expires_at == end
    await door.world.clock.advance(3600)
    await refused(door, given.refresh)
    await begun(door)
    async with door.world.deps.store.read() as tx:
        assert len(await tx[TokenStore].of_kind(TokenKind.REFRESH)) == 1


async def test_a_refresh_token_opens_nothing_and_is_kept_as_its_hash(door: Gate) -> None:
    given = await begun(door)
    assert not await is_good(door, given.refresh)
    await refused(door, given.secret)
    await refused(door, "twr_made-up")
    async with door.world.deps.store.read() as tx:
        (row,) = await tx[TokenStore].of_kind(TokenKind.REFRESH)
    assert row.hash == token_hash(given.refresh)
    assert given.refresh not in repr(given) and given.secret not in repr(given)
