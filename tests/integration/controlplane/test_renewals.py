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
from tests.integration.controlplane.signin import AccessOperations, access_operations

SOURCE = "10.0.0.5"


@pytest.fixture
async def access(world: World) -> AsyncIterator[AccessOperations]:
    async with access_operations(world) as opened:
        yield opened


async def person(access: AccessOperations) -> Actor:
    """Somebody with an account, signed in."""
    admin = access.world.admin
    await access.world.people.upsert(admin, "bo@example.org", None, BuiltInRole.VIEWER)
    async with access.world.deps.store.read() as tx:
        user = await tx[UserStore].by_email("bo@example.org")
    assert user is not None
    return await access.identity.actor_of(user.id)


async def begun(access: AccessOperations) -> IssuedTokens:
    """What a device gets that wants a refresh token."""
    actor = await person(access)
    device, code = await access.signin.begin_device("kubectl", SOURCE, renewable=True)
    await access.signin.decide_device(actor, code, approve=True)
    return await access.signin.poll_device(device)


async def is_good(access: AccessOperations, secret: str) -> bool:
    try:
        await access.identity.authenticate(secret)
    except Unauthenticated:
        return False
    return True


async def refused(access: AccessOperations, refresh: str) -> None:
    with pytest.raises(Unauthenticated, match="sign in again"):
        await access.signin.refresh_tokens.renew(refresh, SOURCE)


async def test_each_refresh_token_brings_the_next_and_the_token_of_before_goes_on(
    access: AccessOperations,
) -> None:
    """Programs that still hold the last token end with its hour, not before."""
    first = await begun(access)
    await access.world.clock.advance(3500)
    second = await access.signin.refresh_tokens.renew(first.refresh, SOURCE)
    assert await is_good(access, first.secret) and await is_good(access, second.secret)
    await access.world.clock.advance(200)
    assert not await is_good(access, first.secret)
    third = await access.signin.refresh_tokens.renew(second.refresh, SOURCE)
    assert await is_good(access, third.secret)
    names = [one.id for one in await access.identity.tokens(await person(access))]
    assert first.token.id not in names and third.token.id in names


async def test_a_spent_refresh_token_ends_all_that_came_from_its_sign_in(
    access: AccessOperations,
) -> None:
    """Of thief and owner nobody knows which is which; other sign-ins go on."""
    first, other = await begun(access), await begun(access)
    second = await access.signin.refresh_tokens.renew(first.refresh, SOURCE)
    await refused(access, first.refresh)
    await refused(access, second.refresh)
    access.identity.drop_user("")
    assert not await is_good(access, first.secret) and not await is_good(access, second.secret)
    assert await is_good(access, other.secret)
    async with access.world.deps.store.read() as tx:
        rows = await tx[AuditLog].search(AuditFilter(action="endTokens"), PageQuery())
        kinds = await tx[AuditLog].search(AuditFilter(kind=AuditKind.SIGN_IN), PageQuery())
    assert [(one.target, one.source) for one in rows.items] == [("kubectl", SOURCE)]
    assert {"renewToken", "endTokens"} <= {one.action for one in kinds.items}


async def test_no_renewal_after_a_revocation_or_signing_out_everywhere(
    access: AccessOperations,
) -> None:
    """Whoever revokes the token that the list shows means the program."""
    admin = await person(access)
    one, other = await begun(access), await begun(access)
    await access.identity.revoke_token(admin, one.token.id)
    await refused(access, one.refresh)
    await access.identity.sign_out_everywhere(admin)
    await refused(access, other.refresh)
    assert not await is_good(access, other.secret)


async def test_no_renewal_beyond_the_end_of_a_session(access: AccessOperations) -> None:
    """However often: 7 days after the sign-in the last token ends."""
    given = await begun(access)
    end = access.world.clock.now() + SESSION_LIFE
    for _ in range(6):
        await access.world.clock.advance(timedelta(hours=27.9).total_seconds())
        given = await access.signin.refresh_tokens.renew(given.refresh, SOURCE)
    assert given.token.expires_at == end
    await access.world.clock.advance(3600)
    await refused(access, given.refresh)
    await begun(access)
    async with access.world.deps.store.read() as tx:
        assert len(await tx[TokenStore].of_kind(TokenKind.REFRESH)) == 1


async def test_a_refresh_token_opens_nothing_and_is_kept_as_its_hash(
    access: AccessOperations,
) -> None:
    given = await begun(access)
    assert not await is_good(access, given.refresh)
    await refused(access, given.secret)
    await refused(access, "twr_made-up")
    async with access.world.deps.store.read() as tx:
        (row,) = await tx[TokenStore].of_kind(TokenKind.REFRESH)
    assert row.hash == token_hash(given.refresh)
    assert given.refresh not in repr(given) and given.secret not in repr(given)
