"""Refresh tokens, and the exchange of tokens of other issuers."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controlplane.access.model.sign_in import Claims
from controlplane.access.model.trust_rules import TrustRule, TrustRuleSpec
from controlplane.access.model.users import User, UserKind
from controlplane.access.operations.refresh_tokens import IssuedTokens, RefreshTokens
from controlplane.access.operations.token_exchange import TokenExchange
from controlplane.access.ports import TokenStore, UserStore
from controlplane.platform.context import REVOKED
from core.errors import Unauthenticated
from core.identity import TokenKind, new_token
from tests.fakes.access import FakeIssuers, make_user
from tests.fakes.audit_rows import audit_rows
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, operations_over_memory

ADA = make_user("ada")
BOT = replace(make_user("bot"), kind=UserKind.SERVICE_ACCOUNT)
SPEC = TrustRuleSpec("bot", "https://ci", "towline", "repo:*", {"ref": "refs/heads/*"}, 30)
RULE = TrustRule("rule", "ci", START, START, SPEC)
CLAIMS = Claims(
    "https://ci",
    "repo:fleet",
    START + timedelta(minutes=5),
    raw={"aud": "towline", "ref": "refs/heads/main"},
)


@pytest.fixture
def world() -> MemoryOperations:
    return operations_over_memory()


@pytest.fixture
def issuers() -> FakeIssuers:
    return FakeIssuers()


@pytest.fixture
def exchange(world: MemoryOperations, issuers: FakeIssuers) -> TokenExchange:
    return TokenExchange(world.context, issuers)


async def begin(world: MemoryOperations, user: User = ADA) -> tuple[RefreshTokens, IssuedTokens]:
    await world.given(user)
    tokens = RefreshTokens(world.context)
    async with world.store.write() as tx:
        return tokens, await tokens.start_family(tx, "cli", user.id, "192.0.2.1")


async def test_a_refresh_token_returns_the_next_one_until_the_family_ends(
    world: MemoryOperations,
) -> None:
    tokens, issued = await begin(world)
    end = START + timedelta(days=7)
    for _ in range(2):
        await world.clock.advance(timedelta(days=3).total_seconds())
        issued = await tokens.renew(issued.refresh, "s" * 64)
        assert issued.token.expires_at == world.clock.now() + timedelta(hours=1)
        assert (issued.token.source, issued.token.name) == ("s" * 64, "cli")
    await world.clock.advance(timedelta(hours=23.5).total_seconds())
    issued = await tokens.renew(issued.refresh, "")
    assert issued.token.expires_at == end
    live = await world.rows(TokenStore, kind=TokenKind.USER)
    assert [row.id for row in live] == [issued.token.id]
    await world.clock.advance(1800)
    with pytest.raises(Unauthenticated):
        await tokens.renew(issued.refresh, "")
    assert await world.audited() == [(ADA.email, "renewToken", "cli")] * 3


async def test_the_second_use_of_a_refresh_token_ends_its_family(world: MemoryOperations) -> None:
    tokens, first = await begin(world)
    second = await tokens.renew(first.refresh, "")
    for refresh in (first.refresh, second.refresh, first.refresh):
        with pytest.raises(Unauthenticated, match="sign in again"):
            await tokens.renew(refresh, "192.0.2.66")
    assert all(row.revoked_at is not None for row in await world.rows(TokenStore))
    assert {topic for topic, _ in world.published} == {REVOKED} and len(world.published) == 3
    actions = [action for _, action, _ in await world.audited()]
    assert actions == ["renewToken", "endTokens"]


async def test_a_revoked_token_ends_its_family(world: MemoryOperations) -> None:
    tokens, issued = await begin(world)
    async with world.store.write() as tx:
        await tx[TokenStore].revoke(issued.token.id, START)
    with pytest.raises(Unauthenticated):
        await tokens.renew(issued.refresh, "")
    assert all(row.revoked_at is not None for row in await world.rows(TokenStore))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("renew"), st.sampled_from([0, 0, 0, 1, 2])),
        st.tuples(st.just("revoke"), st.integers(0, 2)),
        st.tuples(st.just("wait"), st.sampled_from([1, 3599, 86_400, 7 * 86_400])),
    ),
    max_size=8,
)


@given(STEPS)
@example([("renew", 0), ("revoke", 1), ("renew", 0)])
def test_a_family_is_renewed_with_its_newest_token_until_it_ends(
    steps: list[tuple[str, int]],
) -> None:
    """The model: it ends by a revocation, by a token that was used before, or after 7 days."""

    async def run() -> None:
        world = operations_over_memory()
        tokens, issued = await begin(world)
        family, ended, end = [issued], False, START + timedelta(days=7)
        for step, number in steps:
            if step == "wait":
                await world.clock.advance(number)
            elif step == "revoke":
                id = family[-1 - min(number, len(family) - 1)].token.id
                ended = ended or await world.row(TokenStore, id) is not None
                async with world.store.write() as tx:
                    await tx[TokenStore].revoke(id, world.clock.now())
            else:
                chosen = family[-1 - min(number, len(family) - 1)]
                is_over = world.clock.now() >= end
                if ended or is_over or chosen is not family[-1]:
                    ended = ended or not is_over
                    with pytest.raises(Unauthenticated):
                        await tokens.renew(chosen.refresh, "")
                else:
                    family.append(await tokens.renew(chosen.refresh, ""))
                    expires_at = family[-1].token.expires_at
                    assert expires_at == min(world.clock.now() + timedelta(hours=1), end)
        if ended and world.clock.now() < end:
            with pytest.raises(Unauthenticated):
                await tokens.renew(family[-1].refresh, "")
            rows = await world.rows(TokenStore)
            assert all(row.revoked_at is not None for row in rows)

    asyncio.run(run())


async def test_a_new_sign_in_leaves_other_families_as_they_are(world: MemoryOperations) -> None:
    """A user signs in on several machines."""
    tokens, first = await begin(world)
    async with world.store.write() as tx:
        second = await tokens.start_family(tx, "laptop", "ada", "")
    assert first.token.parent_id != second.token.parent_id
    for issued in (first, second):
        await tokens.renew(issued.refresh, "")
    with pytest.raises(Unauthenticated):
        await tokens.renew(first.refresh, "")
    live = [row for row in await world.rows(TokenStore) if row.revoked_at is None]
    assert {row.parent_id for row in live} == {second.token.parent_id}


async def test_the_audit_log_names_the_family_and_who_came_with_a_copy(
    world: MemoryOperations,
) -> None:
    tokens, issued = await begin(world)
    await tokens.renew(issued.refresh, "192.0.2.1")
    with pytest.raises(Unauthenticated):
        await tokens.renew(issued.refresh, "192.0.2.66")
    async with world.store.read() as tx:
        entries = await audit_rows(tx)
    family = issued.token.parent_id
    assert [(entry.action, entry.target_id, entry.source) for entry in entries] == [
        ("renewToken", family, "192.0.2.1"),
        ("endTokens", family, "192.0.2.66"),
    ]


async def test_no_token_for_a_disabled_user_or_another_kind_of_token(
    world: MemoryOperations,
) -> None:
    tokens, issued = await begin(world)
    for secret in (issued.secret, new_token(TokenKind.REFRESH), "twr_x"):
        with pytest.raises(Unauthenticated):
            await tokens.renew(secret, "")
    async with world.store.write() as tx:
        await tx[UserStore].change("ada", disabled_at=START)
    with pytest.raises(Unauthenticated):
        await tokens.renew(issued.refresh, "")
    assert len(await world.rows(TokenStore)) == 2 and await world.audited() == []


async def test_expired_families_are_deleted(world: MemoryOperations) -> None:
    tokens, _ = await begin(world)
    await world.clock.advance(timedelta(days=7).total_seconds())
    async with world.store.write() as tx:
        issued = await tokens.start_family(tx, "cli", "ada", "")
    rows = await world.rows(TokenStore, kind=TokenKind.REFRESH)
    assert [row.parent_id for row in rows] == [issued.token.parent_id]


@pytest.mark.parametrize(
    ("minutes", "ends", "life"), [(30, 5, 30), (1440, 5, 65), (1440, 1500, 1440)]
)
async def test_a_matching_token_is_exchanged(
    world: MemoryOperations,
    exchange: TokenExchange,
    issuers: FakeIssuers,
    minutes: int,
    ends: int,
    life: int,
) -> None:
    """The new token ends at most one hour after the exchanged one."""
    other = replace(RULE, id="another", name="another", spec=replace(SPEC, audience="other"))
    await world.given(BOT, other, replace(RULE, spec=replace(SPEC, minutes=minutes)))
    issuers.claims["jwt"] = replace(CLAIMS, expires_at=START + timedelta(minutes=ends))
    token, secret = await exchange.exchange("jwt", "192.0.2.1")
    assert await world.rows(TokenStore) == [token]
    assert (token.kind, token.user_id) == (TokenKind.SERVICE_ACCOUNT, "bot")
    assert (token.name, token.source) == ("exchanged by repo:fleet", "192.0.2.1")
    assert token.expires_at == START + timedelta(minutes=life)
    assert secret.startswith("tws_")
    assert await world.audited() == [("towline", "exchangeToken", BOT.email)]
    assert await world.audit_details() == [("exchangeToken", {"subject": "repo:fleet"})]


@pytest.mark.parametrize(
    ("claims", "user"),
    [
        (replace(CLAIMS, issuer="https://other"), BOT),
        (replace(CLAIMS, subject="user:fleet"), BOT),
        (replace(CLAIMS, raw={**CLAIMS.raw, "aud": "other"}), BOT),
        (replace(CLAIMS, raw={**CLAIMS.raw, "ref": "refs/tags/v1"}), BOT),
        (replace(CLAIMS, raw={"aud": "towline"}), BOT),
        (CLAIMS, replace(BOT, disabled_at=START)),
    ],
)
async def test_a_token_without_a_matching_rule_is_refused(
    world: MemoryOperations,
    exchange: TokenExchange,
    issuers: FakeIssuers,
    claims: Claims,
    user: User,
) -> None:
    await world.given(user, RULE)
    issuers.claims["jwt"] = claims
    with pytest.raises(Unauthenticated, match="no trust rule matches"):
        await exchange.exchange("jwt")
    assert await world.rows(TokenStore) == [] and await world.audited() == []
