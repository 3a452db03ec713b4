"""Authentication of credentials, and the tokens and sessions of the caller."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controlplane.access.model.sign_in import Claims, Issuer
from controlplane.access.model.users import Token, UserKind
from controlplane.access.operations.auth_throttle import MAX_PER_ADDRESS
from controlplane.access.operations.federation import Federation
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.operations.tokens import revoke_cluster_tokens
from controlplane.access.ports import TokenStore
from controlplane.authorization import ANONYMOUS, Actor, ActorKind, Limit, Policy, Verb
from controlplane.platform.context import REVOKED
from controlplane.platform.ports import Store, Transaction
from core.errors import Forbidden, Invalid, LimitExceeded, NotFound, Unauthenticated
from core.identity import ClusterId, TokenKind, new_token, token_hash
from tests.fakes.access import (
    FakeDeployTokens,
    FakeIssuers,
    ReadOnlyStore,
    bind,
    make_token,
    make_user,
)
from tests.fakes.actors import ADMIN, VIEWER, person
from tests.fakes.audit_rows import audit_rows
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, make_cluster, operations_over_memory

ADA, BOB = make_user("ada"), make_user("bob")
ASKER = person(None, "ada")
HOUR = timedelta(hours=1)


@pytest.fixture
def world() -> MemoryOperations:
    return operations_over_memory()


@pytest.fixture
def identity(world: MemoryOperations) -> CredentialAuthenticator:
    return CredentialAuthenticator(world.context, FakeDeployTokens({}))


@pytest.mark.parametrize(
    ("user_kind", "kind", "actor_kind"),
    [
        (UserKind.PERSON, TokenKind.USER, ActorKind.USER),
        (UserKind.PERSON, TokenKind.SESSION, ActorKind.USER),
        (UserKind.SERVICE_ACCOUNT, TokenKind.SERVICE_ACCOUNT, ActorKind.SERVICE_ACCOUNT),
    ],
)
async def test_a_token_authenticates_its_user(
    world: MemoryOperations,
    identity: CredentialAuthenticator,
    user_kind: UserKind,
    kind: TokenKind,
    actor_kind: ActorKind,
) -> None:
    limits = (Limit((Verb.READ,)),)
    token, secret = make_token(ADA, kind, limits=limits, expires_at=START + HOUR)
    await world.given(replace(ADA, kind=user_kind), token, bind("admin", ADA))
    actor = await identity.authenticate(secret, "192.0.2.1")
    assert (actor.kind, actor.id, actor.email) == (actor_kind, "ada", ADA.email)
    assert (actor.token_id, actor.expires_at) == (token.id, START + HOUR)
    assert (actor.policy.limits, actor.source) == (limits, "192.0.2.1")
    assert [grant.role.id for grant in actor.policy.grants] == ["admin"]


async def test_invalid_credentials_are_refused(
    world: MemoryOperations, identity: CredentialAuthenticator
) -> None:
    off = make_user("off", disabled_at=START)
    (gone, gone_secret), (late, late_secret), (idle, idle_secret), (of_off, off_secret) = (
        make_token(ADA, id="gone", revoked_at=START),
        make_token(ADA, id="late", expires_at=START),
        make_token(ADA, TokenKind.SESSION, id="idle", idle_at=START),
        make_token(off),
    )
    await world.given(ADA, off, gone, late, idle, of_off)
    for secret, text in (
        (gone_secret, "was revoked"),
        (late_secret, "expired at"),
        (idle_secret, "inactivity"),
        (off_secret, "is disabled"),
        (new_token(TokenKind.USER), "invalid token"),
        (new_token(TokenKind.TICKET), "invalid token"),
        (new_token(TokenKind.REFRESH), "invalid token"),
        ("a.b.c", "invalid token"),
        ("", "invalid token"),
    ):
        with pytest.raises(Unauthenticated, match=text):
            await identity.authenticate(secret)
    assert await world.audited() == []


async def test_the_use_of_a_token_is_recorded_once_a_minute_and_audited_once_an_hour(
    world: MemoryOperations, identity: CredentialAuthenticator
) -> None:
    session, secret = make_token(ADA, TokenKind.SESSION, idle_at=START + HOUR)
    await world.given(ADA, session)
    for seconds in (0, 60, 1, 3600, 61):
        await world.clock.advance(seconds)
        identity.drop_user("ada")
        await identity.authenticate(secret)
        row = await world.row(TokenStore, session.id)
        assert row is not None
        recorded = START if seconds == 60 else world.clock.now()
        assert row.last_used_at == recorded
        assert row.idle_at == recorded + timedelta(hours=12)
    assert await world.audited() == [(ADA.email, "useToken", session.name)] * 2


async def test_a_token_works_while_the_store_is_read_only(world: MemoryOperations) -> None:
    token, secret = make_token(ADA)
    agent = replace(token, id="a", kind=TokenKind.AGENT, cluster_id="dev")
    agent_secret = new_token(TokenKind.AGENT)
    await world.given(ADA, token)
    context = replace(world.context, store=ReadOnlyStore(world.store))
    found = FakeDeployTokens({token_hash(agent_secret): (agent, ClusterId("dev"))})
    identity = CredentialAuthenticator(context, found)
    assert (await identity.authenticate(secret)).id == "ada"
    assert await identity.authenticate_agent(agent_secret) == ("dev", "a")
    row = await world.row(TokenStore, token.id)
    assert row is not None and row.last_used_at is None


async def test_an_actor_is_cached_for_30_s(
    world: MemoryOperations, identity: CredentialAuthenticator
) -> None:
    token, secret = make_token(ADA)
    await world.given(ADA, token)
    first = await identity.authenticate(secret)
    async with world.store.write() as tx:
        await tx[TokenStore].revoke(token.id, START)
    await world.clock.advance(29.9)
    again = await identity.authenticate(secret, "192.0.2.9")
    assert (again, again.source) == (first, "192.0.2.9")
    await world.clock.advance(0.1)
    with pytest.raises(Unauthenticated):
        await identity.authenticate(secret)


async def test_actors_are_cached_beside_each_other(
    world: MemoryOperations, identity: CredentialAuthenticator
) -> None:
    """Else two users in turn would read their permissions for each request."""
    (of_ada, ada_secret), (of_bob, bob_secret) = make_token(ADA), make_token(BOB)
    await world.given(ADA, BOB, of_ada, of_bob)
    for secret in (ada_secret, bob_secret):
        await identity.authenticate(secret)
    async with world.store.write() as tx:
        for token in (of_ada, of_bob):
            await tx[TokenStore].remove(token.id)
    actors = [await identity.authenticate(secret) for secret in (ada_secret, bob_secret)]
    assert [actor.id for actor in actors] == ["ada", "bob"]


async def test_a_revoked_token_is_refused_at_once(
    world: MemoryOperations, identity: CredentialAuthenticator
) -> None:
    """Also before other replicas and this one hear of it by the bus."""
    token, secret = make_token(ADA)
    session, session_secret = make_token(ADA, TokenKind.SESSION)
    await world.given(ADA, token, session)
    for credential in (secret, session_secret):
        await identity.authenticate(credential)
    await identity.revoke_token(ASKER, token.id)
    with pytest.raises(Unauthenticated, match="was revoked"):
        await identity.authenticate(secret)
    assert (await identity.authenticate(session_secret)).id == "ada"
    await identity.sign_out_everywhere(ASKER)
    with pytest.raises(Unauthenticated, match="was revoked"):
        await identity.authenticate(session_secret)


class InterruptedStore:
    """A store in which something happens at the end of the next read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.write = store.write
        self.interrupt: Callable[[], Awaitable[None]] | None = None

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[Transaction]:
        async with self._store.read() as tx:
            yield tx
        if (interrupt := self.interrupt) is not None:
            self.interrupt = None
            await interrupt()


async def test_a_token_that_is_revoked_while_it_is_read_is_not_cached(
    world: MemoryOperations,
) -> None:
    token, secret = make_token(ADA, last_used_at=START)
    await world.given(ADA, token)
    store = InterruptedStore(world.store)
    context = replace(world.context, store=store)
    identity = CredentialAuthenticator(context, FakeDeployTokens({}))

    async def revoke() -> None:
        async with world.store.write() as tx:
            await tx[TokenStore].revoke(token.id, START)
        identity.drop_token(token.id)

    store.interrupt = revoke
    await identity.authenticate(secret)
    with pytest.raises(Unauthenticated, match="was revoked"):
        await identity.authenticate(secret)


async def test_an_actor_is_cached_until_the_first_end_of_its_rights(
    world: MemoryOperations, identity: CredentialAuthenticator
) -> None:
    """Whichever comes first: that of the token, or that of a role."""
    soon, later = START + timedelta(seconds=5), START + timedelta(seconds=20)
    brief, brief_secret = make_token(ADA, id="brief", expires_at=soon)
    long, long_secret = make_token(BOB, id="long", expires_at=later)
    await world.given(ADA, BOB, brief, long)
    await world.given(bind("viewer", ADA, until=later), bind("viewer", BOB, until=soon))
    for secret in (brief_secret, long_secret):
        assert (await identity.authenticate(secret)).policy.grants
    await world.clock.advance(5)
    with pytest.raises(Unauthenticated, match="expired"):
        await identity.authenticate(brief_secret)
    assert not (await identity.authenticate(long_secret)).policy.grants


async def test_a_new_role_lets_a_refused_token_in(
    world: MemoryOperations, identity: CredentialAuthenticator
) -> None:
    """A refusal is remembered for some seconds, until something changes."""
    _, secret = make_token(BOB)
    with pytest.raises(Unauthenticated):
        await identity.authenticate(secret)
    row = replace(make_token(BOB)[0], hash=token_hash(secret))
    await world.given(BOB, row)
    with pytest.raises(Unauthenticated):
        await identity.authenticate(secret)
    identity.drop_user("bob")
    assert (await identity.authenticate(secret)).id == "bob"


async def test_the_audit_log_says_from_where_a_token_is_used(
    world: MemoryOperations, identity: CredentialAuthenticator
) -> None:
    token, secret = make_token(ADA)
    await world.given(ADA, token)
    await identity.authenticate(secret, "192.0.2.7")
    async with world.store.read() as tx:
        (entry,) = await audit_rows(tx)
    assert (entry.action, entry.source, entry.target_id) == ("useToken", "192.0.2.7", token.id)


async def test_a_ticket_opens_beside_somebody_who_guesses(
    world: MemoryOperations, identity: CredentialAuthenticator
) -> None:
    """Its first use is known, because it was issued here."""
    token, secret = make_token(ADA)
    await world.given(ADA, token)
    ticket = await identity.create_ticket(await identity.authenticate(secret, "192.0.2.7"))
    for _ in range(MAX_PER_ADDRESS):
        with pytest.raises(Unauthenticated):
            await identity.authenticate(new_token(TokenKind.USER), "192.0.2.7")
    with pytest.raises(LimitExceeded):
        await identity.authenticate(new_token(TokenKind.USER), "192.0.2.7")
    assert (await identity.authenticate(ticket, "192.0.2.7")).id == "ada"


async def test_only_what_looks_like_an_id_token_reaches_the_provider(
    world: MemoryOperations,
) -> None:
    """The fake believes all of them, so each refusal is ours."""
    issuers = FakeIssuers(Issuer("idp", "https://idp"))
    federation = Federation(world.context, issuers)
    identity = CredentialAuthenticator(world.context, FakeDeployTokens({}), federation)
    ada = Claims("https://idp", "u1", START + HOUR, ADA.email, email_verified=True)
    longest = "a.b." + "c" * ((48 << 10) - 4)
    others = ("", "a", "a.b", "a.b.c.d", f"{longest}c", new_token(TokenKind.AGENT))
    for text in ("a.b.c", longest, *others):
        issuers.claims[text] = ada
    for text in others:
        with pytest.raises(Unauthenticated, match="invalid token"):
            await identity.authenticate(text)
    for text in ("a.b.c", longest):
        assert (await identity.authenticate(text)).email == ADA.email


async def test_a_temporary_grant_shortens_the_cache(
    world: MemoryOperations, identity: CredentialAuthenticator
) -> None:
    token, secret = make_token(ADA)
    await world.given(ADA, token, bind("viewer", ADA, until=START + timedelta(seconds=5)))
    assert (await identity.authenticate(secret)).policy.grants
    await world.clock.advance(5)
    assert not (await identity.authenticate(secret)).policy.grants


@pytest.mark.parametrize("how", ["forget", "user", "everybody"])
async def test_a_change_drops_cached_actors(
    world: MemoryOperations, identity: CredentialAuthenticator, how: str
) -> None:
    token, secret = make_token(ADA)
    await world.given(ADA, token)
    await identity.authenticate(secret)
    async with world.store.write() as tx:
        await tx[TokenStore].revoke(token.id, START)
    identity.drop_token("other")
    identity.drop_user("bob")
    assert (await identity.authenticate(secret)).id == "ada"
    {"forget": identity.drop_token, "user": identity.drop_user, "everybody": identity.drop_user}[
        how
    ]({"forget": token.id, "user": "ada", "everybody": ""}[how])
    with pytest.raises(Unauthenticated):
        await identity.authenticate(secret)


async def test_an_id_token_of_a_trusted_issuer_authenticates(world: MemoryOperations) -> None:
    issuers = FakeIssuers()
    end = START + timedelta(minutes=5)
    issuers.claims["a.b.c"] = Claims("https://idp", "u1", end, ADA.email, email_verified=True)
    federation = Federation(world.context, issuers)
    identity = CredentialAuthenticator(world.context, FakeDeployTokens({}), federation)
    await world.given(ADA)
    actor = await identity.authenticate("a.b.c")
    assert (actor.id, actor.token_id, actor.expires_at) == ("ada", None, end)
    for token in ("a.b.d", "a.b", f"a.b.{'c' * (48 << 10)}"):
        with pytest.raises(Unauthenticated):
            await identity.authenticate(token)


async def test_an_agent_authenticates_with_its_deploy_token(world: MemoryOperations) -> None:
    """The first use is recorded."""
    secrets = {name: new_token(TokenKind.AGENT) for name in ("new", "used", "gone", "late", "odd")}
    new = Token("new", TokenKind.AGENT, "t", token_hash(secrets["new"]), START, cluster_id="dev")
    rows: dict[str, tuple[Token, ClusterId | None]] = {
        "new": (new, ClusterId("dev")),
        "used": (
            replace(new, id="used", hash=token_hash(secrets["used"]), last_used_at=START),
            ClusterId("dev"),
        ),
        "gone": (replace(new, id="gone"), None),
        "late": (replace(new, id="late", expires_at=START), ClusterId("dev")),
        "odd": (replace(new, id="odd", cluster_id=None), None),
    }
    await world.given(make_cluster("dev"), new, rows["used"][0])
    found = FakeDeployTokens({token_hash(secrets[name]): row for name, row in rows.items()})
    identity = CredentialAuthenticator(world.context, found)
    await world.clock.advance(1)
    assert await identity.authenticate_agent(secrets["new"]) == ("dev", "new")
    assert (await world.rows(TokenStore))[0].last_used_at == world.clock.now()
    first_use = world.clock.now()
    await world.clock.advance(1)
    assert await identity.authenticate_agent(secrets["used"]) == ("dev", "used")
    assert [row.last_used_at for row in await world.rows(TokenStore)] == [first_use, START]
    for secret, text in (
        (secrets["gone"], "was deleted"),
        (secrets["late"], "expired"),
        (secrets["odd"], "invalid token"),
        (new_token(TokenKind.AGENT), "invalid token"),
        (new_token(TokenKind.USER), "deploy token"),
    ):
        with pytest.raises(Unauthenticated, match=text):
            await identity.authenticate_agent(secret)


async def test_an_authenticated_user_is_looked_up_again(
    world: MemoryOperations, identity: CredentialAuthenticator
) -> None:
    token, _ = make_token(ADA)
    await world.given(ADA, token, bind("viewer", ADA))
    actor = await identity.actor_of("ada", token.id)
    assert (actor.token_id, len(actor.policy.grants)) == (token.id, 1)
    assert (await identity.actor_of("ada")).token_id is None
    for user, id in (("ada", "none"), ("none", None)):
        with pytest.raises(Unauthenticated):
            await identity.actor_of(user, id)


async def test_a_ticket_opens_once_as_its_creator(
    world: MemoryOperations, identity: CredentialAuthenticator
) -> None:
    session, _ = make_token(ADA, TokenKind.SESSION)
    await world.given(ADA, session)
    caller = replace(ASKER, token_id=session.id)
    secret, late = await identity.create_ticket(caller), await identity.create_ticket(caller)
    assert (await identity.authenticate(secret)).token_id == session.id
    with pytest.raises(Unauthenticated, match="revoked"):
        await identity.authenticate(secret)
    await world.clock.advance(60)
    with pytest.raises(Unauthenticated, match="expired"):
        await identity.authenticate(late)
    with pytest.raises(Forbidden):
        await identity.create_ticket(ASKER)
    with pytest.raises(Unauthenticated):
        await identity.create_ticket(ANONYMOUS)


async def test_a_ticket_ends_with_the_token_of_its_creator(
    world: MemoryOperations, identity: CredentialAuthenticator
) -> None:
    session, _ = make_token(ADA, TokenKind.SESSION)
    await world.given(ADA, session)
    secrets = [await identity.create_ticket(replace(ASKER, token_id=session.id)) for _ in range(2)]
    async with world.store.write() as tx:
        await tx[TokenStore].revoke(session.id, START)
    with pytest.raises(Unauthenticated, match="revoked"):
        await identity.authenticate(secrets[0])
    async with world.store.write() as tx:
        await tx[TokenStore].remove(session.id)
    with pytest.raises(Unauthenticated, match="invalid token"):
        await identity.authenticate(secrets[1])


async def test_callers_see_themselves_and_their_own_tokens(
    world: MemoryOperations, identity: CredentialAuthenticator
) -> None:
    token, session = make_token(ADA)[0], make_token(ADA, TokenKind.SESSION)[0]
    lasting = make_token(
        ADA, TokenKind.SESSION, id="z", expires_at=START + HOUR, idle_at=START + HOUR
    )[0]
    over = make_token(ADA, TokenKind.SESSION, id="over", expires_at=START)[0]
    ended = make_token(ADA, TokenKind.SESSION, id="ended", revoked_at=START)[0]
    idle = make_token(ADA, TokenKind.SESSION, id="idle", expires_at=START + HOUR, idle_at=START)[0]
    await world.given(ADA, BOB, token, session, lasting, over, ended, idle, make_token(BOB)[0])
    assert await identity.me(ASKER) == ADA
    assert await identity.tokens(ASKER) == [token]
    assert await identity.sessions(ASKER) == [session, lasting]
    with pytest.raises(NotFound):
        await identity.me(VIEWER)
    for call in (identity.me, identity.tokens, identity.sessions):
        with pytest.raises(Unauthenticated):
            await call(ANONYMOUS)


async def test_a_caller_creates_a_token(
    world: MemoryOperations, identity: CredentialAuthenticator
) -> None:
    await world.given(ADA)
    limits = (Limit((Verb.READ,)),) * 20
    token, secret = await identity.create_token(ASKER, "x" * 255, timedelta(days=366), limits)
    assert await world.rows(TokenStore) == [token]
    assert (token.kind, token.limits) == (TokenKind.USER, limits)
    assert token.expires_at == START + timedelta(days=366)
    assert (await identity.authenticate(secret)).token_id == token.id
    assert (await world.audited())[0] == (ASKER.email, "createAccessToken", token.name)


@pytest.mark.parametrize(
    ("kind", "columns", "life"),
    [
        (TokenKind.USER, {}, timedelta(minutes=5)),
        (None, {}, timedelta(minutes=5)),
        (TokenKind.SESSION, {}, HOUR),
        (TokenKind.USER, {"parent_id": "family"}, HOUR),
    ],
    ids=["token", "ID token", "session", "device that signed in"],
)
async def test_a_token_ends_with_the_token_that_created_it(
    world: MemoryOperations,
    identity: CredentialAuthenticator,
    kind: TokenKind | None,
    columns: dict[str, Any],
    life: timedelta,
) -> None:
    """Unless its user signed in."""
    end = START + timedelta(minutes=5)
    used = make_token(ADA, kind or TokenKind.USER, id="used", expires_at=end, **columns)[0]
    await world.given(ADA, used)
    actor = replace(ASKER, token_id=used.id if kind else None, expires_at=end)
    token, _ = await identity.create_token(actor, "ci", HOUR)
    assert token.expires_at == START + life


@pytest.mark.parametrize(
    ("actor", "name", "life", "limits", "error"),
    [
        (ANONYMOUS, "ci", HOUR, 0, Unauthenticated),
        (ASKER, " ", HOUR, 0, Invalid),
        (ASKER, "x" * 256, HOUR, 0, Invalid),
        (ASKER, "ci", timedelta(), 0, Invalid),
        (ASKER, "ci", timedelta(days=366, microseconds=1), 0, Invalid),
        (ASKER, "ci", HOUR, 21, Invalid),
        (replace(ASKER, kind=ActorKind.SERVICE_ACCOUNT), "ci", HOUR, 0, Forbidden),
        (replace(ASKER, policy=Policy((), (Limit(),))), "ci", HOUR, 0, Forbidden),
        (person(None, "none"), "ci", HOUR, 0, NotFound),
    ],
)
async def test_a_token_is_refused(
    world: MemoryOperations,
    identity: CredentialAuthenticator,
    actor: Actor,
    name: str,
    life: timedelta,
    limits: int,
    error: type[Exception],
) -> None:
    await world.given(ADA)
    with pytest.raises(error):
        await identity.create_token(actor, name, life, (Limit(),) * limits)
    assert await world.rows(TokenStore) == [] and await world.audited() == []


async def test_a_token_is_revoked_by_its_owner_or_an_administrator(
    world: MemoryOperations, identity: CredentialAuthenticator
) -> None:
    first, second = make_token(ADA, id="first")[0], make_token(ADA, id="second")[0]
    agent = Token("agent", TokenKind.AGENT, "agent", "hash", START, cluster_id="dev")
    await world.given(make_cluster("dev"), ADA, first, second, agent)
    for actor, id in ((VIEWER, "first"), (ADMIN, "none"), (ADMIN, "agent")):
        with pytest.raises(NotFound):
            await identity.revoke_token(actor, id)
    with pytest.raises(Unauthenticated):
        await identity.revoke_token(ANONYMOUS, "first")
    assert await world.audited() == [] and world.published == []
    for actor, id in ((ASKER, "first"), (ADMIN, "second")):
        revoked = await identity.revoke_token(actor, id)
        assert revoked.revoked_at == START
        assert await world.row(TokenStore, id) == revoked
    assert await world.audited() == [
        (ASKER.email, "deleteAccessToken", "first"),
        (ADMIN.email, "deleteAccessToken", "second"),
    ]
    assert world.published == [(REVOKED, "first"), (REVOKED, "second")]


async def test_all_sessions_and_refresh_tokens_of_a_caller_end(
    world: MemoryOperations, identity: CredentialAuthenticator
) -> None:
    """Tokens that came from a refresh token end with it; others stay."""
    session, kept = make_token(ADA, TokenKind.SESSION)[0], make_token(ADA, id="kept")[0]
    refresh = make_token(ADA, TokenKind.REFRESH, parent_id="family")[0]
    came = make_token(ADA, id="came", parent_id="family")[0]
    other = make_token(BOB, TokenKind.SESSION)[0]
    await world.given(ADA, BOB, session, kept, refresh, came, other)
    assert await identity.sign_out_everywhere(ASKER) == 3
    live = {row.id for row in await world.rows(TokenStore) if row.revoked_at is None}
    assert live == {"kept", other.id}
    assert await world.audited() == [(ASKER.email, "signOutEverywhere", ASKER.email)]
    assert {id for _, id in world.published} == {session.id, refresh.id, "came"}


async def test_the_tokens_of_a_cluster_are_revoked(world: MemoryOperations) -> None:
    agent = Token("agent", TokenKind.AGENT, "agent", "hash", START, cluster_id="dev")
    gone = replace(agent, id="gone", hash="other", revoked_at=START)
    await world.given(make_cluster("dev"), agent, gone, ADA, make_token(ADA)[0])
    async with world.store.write() as tx:
        assert await revoke_cluster_tokens(tx, "dev", START + HOUR) == ["agent"]
    revoked = await world.rows(TokenStore, cluster_id="dev")
    assert {row.id: row.revoked_at for row in revoked} == {"agent": START + HOUR, "gone": START}
