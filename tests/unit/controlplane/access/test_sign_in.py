"""Sign-in by password, identity provider, device code and setup link."""

import asyncio
import hashlib
from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.access.model.sign_in import (
    MAX_FAILURES_PER_ACCOUNT,
    Claims,
    Issuer,
    source_network,
)
from controlplane.access.model.users import Login, User, UserKind
from controlplane.access.operations.federation import Federation
from controlplane.access.operations.sign_in import DevicePending, ProviderReply, SignIn
from controlplane.access.operations.users import Users
from controlplane.access.ports import (
    ChallengeStore,
    SignInFailureStore,
    TokenStore,
    UserStore,
)
from controlplane.authorization import ANONYMOUS, ActorKind
from controlplane.notifications.ports import NotificationStore
from controlplane.platform.context import REVOKED
from core.errors import (
    Conflict,
    Forbidden,
    Invalid,
    LimitExceeded,
    NotFound,
    TowlineError,
    Unauthenticated,
)
from core.identity import TokenKind
from tests.fakes.access import (
    FakeIssuers,
    FakePasswords,
    limited,
    make_token,
    make_user,
    password_hash,
)
from tests.fakes.actors import ADMIN, person
from tests.fakes.audit_rows import audit_rows
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, operations_over_memory

PASSWORD = "correct horse"
ADA = make_user("ada", password=password_hash(PASSWORD))
ASKER = person(None, "ada")
IDP = Issuer("idp", "https://idp", "Our provider")
HOME = "192.0.2.1"


@pytest.fixture
def world() -> MemoryOperations:
    return operations_over_memory()


@pytest.fixture
def issuers() -> FakeIssuers:
    return FakeIssuers(IDP)


@pytest.fixture
def sign_in(world: MemoryOperations, issuers: FakeIssuers) -> SignIn:
    return SignIn(world.context, Federation(world.context, issuers), FakePasswords())


def local_off(world: MemoryOperations, issuers: FakeIssuers) -> SignIn:
    federation = Federation(world.context, issuers)
    return SignIn(world.context, federation, FakePasswords(), local=False)


async def test_a_password_opens_a_session(world: MemoryOperations, sign_in: SignIn) -> None:
    await world.given(ADA)
    secret = await sign_in.sign_in_with_password(ADA.email, PASSWORD, HOME)
    (row,) = await world.rows(TokenStore)
    assert secret.startswith("twx_")
    assert (row.kind, row.user_id, row.source) == (TokenKind.SESSION, "ada", HOME)
    assert row.expires_at == START + timedelta(days=7)
    assert row.idle_at == START + timedelta(hours=12)
    assert await world.audited() == [(ADA.email, "signIn", ADA.email)]


@pytest.mark.parametrize(
    ("user", "password"),
    [
        (ADA, "wrong horse"),
        (replace(ADA, disabled_at=START), PASSWORD),
        (replace(ADA, kind=UserKind.SERVICE_ACCOUNT), PASSWORD),
        (replace(ADA, email="other@example.org"), PASSWORD),
        (replace(ADA, password=None), PASSWORD),
    ],
)
async def test_a_wrong_password_is_counted_and_audited(
    world: MemoryOperations, sign_in: SignIn, user: User, password: str
) -> None:
    """All causes have the same error."""
    await world.given(user)
    with pytest.raises(Unauthenticated, match="^wrong address or password$"):
        await sign_in.sign_in_with_password(ADA.email, password, HOME)
    assert [row.count for row in await world.rows(SignInFailureStore)] == [1, 1]
    assert await world.rows(TokenStore) == []
    assert await world.audited() == [("", "signIn", ADA.email)]


async def test_the_audit_log_says_from_where_and_how_people_sign_in(
    world: MemoryOperations, sign_in: SignIn
) -> None:
    """A failure is a refusal of nobody: whether the account exists is not said."""
    await world.given(ADA)
    for email in (ADA.email, "nobody@example.org"):
        with pytest.raises(Unauthenticated):
            await sign_in.sign_in_with_password(email, "wrong", "192.0.2.66")
    await sign_in.sign_in_with_password(ADA.email, PASSWORD, HOME)
    async with world.store.read() as tx:
        rows = await audit_rows(tx)
    assert [(row.target, row.source, row.verdict.value, row.actor_id) for row in rows] == [
        (ADA.email, "192.0.2.66", "refused", ""),
        ("nobody@example.org", "192.0.2.66", "refused", ""),
        (ADA.email, HOME, "allowed", "ada"),
    ]
    assert rows[2].detail == {"by": "password"} and rows[0].detail == {}


class BusyPasswords(FakePasswords):
    """Refuses to compare while it has too much to do."""

    busy = True

    async def verify(self, hash: str | None, password: str) -> bool:
        if self.busy:
            raise LimitExceeded("too many sign-ins at once")
        return await super().verify(hash, password)


async def test_an_attempt_that_was_not_compared_is_not_counted(
    world: MemoryOperations, issuers: FakeIssuers
) -> None:
    await world.given(ADA)
    passwords = BusyPasswords()
    sign_in = SignIn(world.context, Federation(world.context, issuers), passwords)
    for _ in range(MAX_FAILURES_PER_ACCOUNT + 1):
        with pytest.raises(LimitExceeded, match="too many sign-ins at once"):
            await sign_in.sign_in_with_password(ADA.email, "wrong", HOME)
    assert await world.rows(SignInFailureStore) == [] and await world.audited() == []
    passwords.busy = False
    assert await sign_in.sign_in_with_password(ADA.email, PASSWORD, HOME)


async def test_failures_of_others_stay_counted(world: MemoryOperations, sign_in: SignIn) -> None:
    """A success takes back its own attempt, and ended counts go with any attempt."""
    bob = make_user("bob", password=password_hash("battery staple"))
    await world.given(ADA, bob)
    for source in ("192.0.2.2", "192.0.2.3"):
        with pytest.raises(Unauthenticated):
            await sign_in.sign_in_with_password(ADA.email, "wrong", source)
    await sign_in.sign_in_with_password(bob.email, "battery staple", HOME)
    assert sorted(row.count for row in await world.rows(SignInFailureStore)) == [1, 1, 2]
    await world.clock.advance(15 * 60)
    await sign_in.sign_in_with_password(bob.email, "battery staple", HOME)
    assert await world.rows(SignInFailureStore) == []


async def test_long_values_of_browsers_and_programs_are_cut(
    world: MemoryOperations, sign_in: SignIn
) -> None:
    """To the columns of the store; a password is compared up to its greatest length."""
    longest = "p" * 256
    await world.given(replace(ADA, password=password_hash(longest)))
    await sign_in.sign_in_with_password(ADA.email, longest, "s" * 70)
    with pytest.raises(Unauthenticated):
        await sign_in.sign_in_with_password(ADA.email, longest + "p", HOME)
    _, code = await sign_in.begin_device("cli", "s" * 70)
    assert (await sign_in.pending_device(ASKER, code)).detail["source"] == "s" * 64
    assert [row.source for row in await world.rows(TokenStore)] == ["s" * 64]


async def test_an_account_is_closed_for_15_minutes_after_10_failures(
    world: MemoryOperations, sign_in: SignIn
) -> None:
    """The right password ends the count of the account, not that of the source."""
    await world.given(ADA)

    async def fail(times: int, error: type[TowlineError] = Unauthenticated) -> None:
        for _ in range(times):
            with pytest.raises(error):
                await sign_in.sign_in_with_password(ADA.email.upper(), "wrong", HOME)

    await fail(9)
    await sign_in.sign_in_with_password(ADA.email, PASSWORD, HOME)
    assert [row.count for row in await world.rows(SignInFailureStore)] == [9]
    await fail(10)
    await fail(1, LimitExceeded)
    with pytest.raises(LimitExceeded, match="in 15 minutes") as error:
        await sign_in.sign_in_with_password(ADA.email, PASSWORD, "192.0.2.2")
    assert error.value.retry_after == 15 * 60
    await world.clock.advance(15 * 60)
    await fail(1)
    assert [row.count for row in await world.rows(SignInFailureStore)] == [1, 1]
    await sign_in.sign_in_with_password(ADA.email, PASSWORD, HOME)


async def test_a_source_is_closed_after_50_failures(
    world: MemoryOperations, sign_in: SignIn
) -> None:
    await world.given(ADA)
    for number in range(50):
        with pytest.raises(Unauthenticated):
            await sign_in.sign_in_with_password(f"{number}@example.org", "wrong", HOME)
    with pytest.raises(LimitExceeded):
        await sign_in.sign_in_with_password(ADA.email, PASSWORD, HOME)
    await sign_in.sign_in_with_password(ADA.email, PASSWORD, "192.0.2.2")


async def test_an_ipv6_network_is_one_source_of_failures(
    world: MemoryOperations, sign_in: SignIn
) -> None:
    """Its user chooses among all addresses of a /64."""
    await world.given(ADA)
    for number in range(50):
        with pytest.raises(Unauthenticated):
            await sign_in.sign_in_with_password(
                f"{number}@example.org", "wrong", f"2001:db8::{number:x}"
            )
    with pytest.raises(LimitExceeded):
        await sign_in.sign_in_with_password(ADA.email, PASSWORD, "2001:db8::ffff")
    await sign_in.sign_in_with_password(ADA.email, PASSWORD, "2001:db8:0:1::1")


async def test_passwords_can_be_disabled(world: MemoryOperations, issuers: FakeIssuers) -> None:
    await world.given(ADA, make_user("admin"))
    sign_in = local_off(world, issuers)
    with pytest.raises(Forbidden, match="identity provider"):
        await sign_in.sign_in_with_password(ADA.email, PASSWORD, HOME)
    assert await sign_in.setup_secret() is None
    assert sign_in.providers() == [("idp", "Our provider")]


async def test_a_sign_in_from_a_new_address_is_notified_of(
    world: MemoryOperations, sign_in: SignIn
) -> None:
    await world.given(ADA)
    for source in (HOME, HOME, "192.0.2.2", HOME):
        await sign_in.sign_in_with_password(ADA.email, PASSWORD, source)
    async with world.store.read() as tx:
        notified = await tx[NotificationStore].select()
    assert [row.subject for row in notified] == [
        "ada@example.org signed in from a new address: 192.0.2.2"
    ]


async def test_an_identity_provider_signs_a_user_in(
    world: MemoryOperations, sign_in: SignIn, issuers: FakeIssuers
) -> None:
    started = await sign_in.begin_oidc("idp", "https://towline/back", "/clusters", HOME)
    ((redirect, state, nonce, challenge),) = issuers.began
    assert (started.url.endswith(state), redirect) == (True, "https://towline/back")
    assert len({state, nonce, challenge, started.browser}) == 4
    issuers.claims["code"] = Claims("https://idp", "u1", START, "ada@example.org")
    secret, back = await sign_in.finish_oidc(
        ProviderReply("https://towline/back", state, "code"), started.browser, HOME
    )
    assert (secret.startswith("twx_"), back) == (True, "/clusters")
    assert (await world.rows(TokenStore))[0].name == "session by idp"
    with pytest.raises(Unauthenticated, match="already used"):
        await sign_in.finish_oidc(
            ProviderReply("https://towline/back", state, "code"), started.browser, HOME
        )
    assert len(await world.rows(TokenStore)) == 1


async def test_a_sign_in_ends_in_another_browser_too_late_and_for_a_disabled_user(
    world: MemoryOperations, sign_in: SignIn, issuers: FakeIssuers
) -> None:
    off = make_user("off", disabled_at=START)
    await world.given(off, Login("l", "https://idp", "u1", "off", START))
    issuers.claims["code"] = Claims("https://idp", "u1", START)
    for wait, browser, text in (
        (0, "other", "another browser"),
        (600, None, "expired"),
        (0, None, "is disabled"),
    ):
        started = await sign_in.begin_oidc("idp", "https://towline/back", "/", HOME)
        await world.clock.advance(wait)
        with pytest.raises(Unauthenticated, match=text):
            state = issuers.began[-1][1]
            await sign_in.finish_oidc(
                ProviderReply("https://towline/back", state, "code"),
                browser or started.browser,
                HOME,
            )
    assert await world.rows(TokenStore) == []
    with pytest.raises(NotFound):
        await sign_in.begin_oidc("none", "https://towline/back", "/", HOME)


async def test_one_address_starts_few_sign_ins(world: MemoryOperations, sign_in: SignIn) -> None:
    """All addresses of an IPv6 network count as one; others are not affected."""
    for number in range(120):
        await sign_in.begin_device("cli", f"2001:db8::{number:x}")
    with pytest.raises(LimitExceeded, match="try again in 1 s"):
        await sign_in.begin_oidc("idp", "https://towline/back", "/", "2001:db8::ffff")
    await sign_in.begin_oidc("idp", "https://towline/back", "/", "2001:db8:0:1::1")
    await sign_in.begin_oidc("idp", "https://towline/back", "/", HOME)


async def test_many_addresses_stop_no_sign_in(
    world: MemoryOperations, sign_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above the limit the oldest pending sign-ins end; a setup link stays."""
    await world.given(ADMINISTRATOR)
    setup = await sign_in.setup_secret()
    monkeypatch.setattr("controlplane.access.operations.sign_in.MAX_CHALLENGES", 150)
    devices = []
    for number in range(400):
        devices.append(await sign_in.begin_device("cli", f"198.51.{number // 100}.{number}"))
        await world.clock.advance(0.001)
    assert len(await world.rows(ChallengeStore)) <= 150
    with pytest.raises(DevicePending):
        await sign_in.poll_device(devices[-1][0])
    with pytest.raises(Unauthenticated):
        await sign_in.poll_device(devices[0][0])
    assert setup is not None
    await sign_in.set_up(setup, ADA.email, "", PASSWORD, HOME)


async def test_concurrent_wrong_passwords_do_not_pass_the_limit(world: MemoryOperations) -> None:
    """Each attempt counts before the slow check."""
    await world.given(ADA)
    passwords = FakePasswords()
    checked: list[str] = []
    gate = asyncio.Event()

    class SlowPasswords(FakePasswords):
        async def verify(self, hash: str | None, password: str) -> bool:
            checked.append(password)
            await gate.wait()
            return await passwords.verify(hash, password)

    federation = Federation(world.context, FakeIssuers())
    sign_in = SignIn(world.context, federation, SlowPasswords())
    tries = [
        asyncio.ensure_future(sign_in.sign_in_with_password(ADA.email, f"wrong {number}", HOME))
        for number in range(30)
    ]
    for _ in range(500):
        await asyncio.sleep(0)
    gate.set()
    errors = [type(error) for error in await asyncio.gather(*tries, return_exceptions=True)]
    assert len(checked) == errors.count(Unauthenticated) == 10
    assert errors.count(LimitExceeded) == 20


async def test_an_identity_provider_answers_for_itself_only(
    world: MemoryOperations, sign_in: SignIn, issuers: FakeIssuers
) -> None:
    """A reply on the redirect URI of another provider, or with another `iss`, is refused."""
    issuers.claims["code"] = Claims("https://idp", "u1", START)
    back = "https://towline/back/idp"
    for redirect, issuer, text in (
        ("https://towline/back/evil", "", "another provider"),
        (back, "https://evil", "another issuer"),
    ):
        started = await sign_in.begin_oidc("idp", back, "/", HOME)
        reply = ProviderReply(redirect, issuers.began[-1][1], "code", issuer)
        with pytest.raises(Unauthenticated, match=text):
            await sign_in.finish_oidc(reply, started.browser, HOME)
    assert await world.rows(TokenStore) == []
    started = await sign_in.begin_oidc("idp", back, "/", HOME)
    reply = ProviderReply(back, issuers.began[-1][1], "code", "https://idp")
    await sign_in.finish_oidc(reply, started.browser, HOME)


async def test_names_of_strangers_have_no_control_characters(
    world: MemoryOperations, sign_in: SignIn
) -> None:
    await world.given(ADMINISTRATOR)
    secret = await sign_in.setup_secret() or ""
    for text in ("a\u202eb", "a\x1b[2Jb", "a\nb"):
        with pytest.raises(Invalid, match="control characters"):
            await sign_in.begin_device(text, HOME)
        with pytest.raises(Invalid, match="control characters"):
            await sign_in.set_up(secret, ADA.email, text, PASSWORD, HOME)
        with pytest.raises(Invalid, match="control characters"):
            await sign_in.set_up(secret, f"{text}@example.org", "", PASSWORD, HOME)
    with pytest.raises(Invalid):
        await sign_in.set_up(secret, "admin@service-accounts", "", PASSWORD, HOME)


@pytest.mark.parametrize("renewable", [False, True])
async def test_an_approved_device_gets_a_token_once(
    world: MemoryOperations, sign_in: SignIn, renewable: bool
) -> None:
    await world.given(ADA)
    device, code = await sign_in.begin_device("c" * 81, HOME, renewable=renewable)
    with pytest.raises(DevicePending):
        await sign_in.poll_device(device)
    typed = f"{code[:4].lower()}-{code[4:]} "
    assert (await sign_in.pending_device(ASKER, typed)).detail["client"] == "c" * 80
    await sign_in.decide_device(ASKER, typed, approve=True)
    issued = await sign_in.poll_device(device)
    assert (issued.token.user_id, issued.token.name) == ("ada", "c" * 80)
    life = timedelta(hours=1) if renewable else timedelta(days=90)
    assert issued.token.expires_at == START + life
    assert bool(issued.refresh) is renewable
    assert issued.secret not in repr(issued)
    with pytest.raises(Unauthenticated, match="already used"):
        await sign_in.poll_device(device)
    assert issued.token.source == HOME
    assert await world.audited() == [(ASKER.email, "approveDevice", "c" * 80)]
    assert await world.audit_details() == [("approveDevice", {"device": HOME})]


async def test_a_device_of_a_user_who_was_disabled_meanwhile_gets_no_token(
    world: MemoryOperations, sign_in: SignIn
) -> None:
    """Also after the user is enabled again: disabling ended all that they had approved."""
    await world.given(ADA)
    device, code = await sign_in.begin_device("cli", HOME)
    await sign_in.decide_device(ASKER, code, approve=True)
    users = Users(world.context)
    await users.disable(ADMIN, "ada")
    with pytest.raises(Forbidden, match="denied"):
        await sign_in.poll_device(device)
    await users.disable(ADMIN, "ada", disabled=False)
    with pytest.raises(Unauthenticated, match="already used"):
        await sign_in.poll_device(device)
    assert await world.rows(TokenStore) == []


async def test_a_denied_device_gets_no_token(world: MemoryOperations, sign_in: SignIn) -> None:
    await world.given(ADA)
    device, code = await sign_in.begin_device("cli", HOME)
    await sign_in.decide_device(ASKER, code, approve=False)
    for decide in (True, False):
        with pytest.raises(NotFound):
            await sign_in.decide_device(ASKER, code, approve=decide)
    with pytest.raises(Forbidden, match="denied"):
        await sign_in.poll_device(device)
    assert await world.rows(TokenStore) == []
    assert await world.audited() == [(ASKER.email, "refuseDevice", "cli")]


async def test_only_users_with_all_their_permissions_decide_on_devices(
    world: MemoryOperations, sign_in: SignIn
) -> None:
    await world.given(ADA)
    device, code = await sign_in.begin_device("cli", HOME)
    account = replace(ASKER, kind=ActorKind.SERVICE_ACCOUNT)
    for actor, error in (
        (account, Forbidden),
        (limited(ASKER), Forbidden),
        (ANONYMOUS, Unauthenticated),
    ):
        with pytest.raises(error):
            await sign_in.decide_device(actor, code, approve=True)
    with pytest.raises(NotFound, match="mistyped"):
        await sign_in.pending_device(ASKER, "BCDFGHJK")
    with pytest.raises(DevicePending):
        await sign_in.poll_device(device)
    await world.clock.advance(600)
    with pytest.raises(NotFound, match="expired"):
        await sign_in.decide_device(ASKER, code, approve=True)
    with pytest.raises(Unauthenticated):
        await sign_in.poll_device(device)
    assert await world.audited() == []


ADMINISTRATOR = replace(make_user("admin"), email="admin")


async def test_a_setup_link_sets_up_the_first_administrator_once(
    world: MemoryOperations, sign_in: SignIn
) -> None:
    await world.given(ADMINISTRATOR)
    secret = await sign_in.setup_secret()
    assert secret is not None
    session = await sign_in.set_up(secret, ADA.email, "", PASSWORD, HOME)
    (user,) = await world.rows(UserStore)
    assert (user.id, user.email, user.name) == ("admin", ADA.email, ADA.email)
    assert session.startswith("twx_")
    assert await sign_in.setup_secret() is None
    with pytest.raises(Unauthenticated, match="already used"):
        await sign_in.set_up(secret, ADA.email, "", PASSWORD, HOME)
    assert [action for _, action, _ in await world.audited()] == ["setUp", "signIn"]


@pytest.mark.parametrize(
    ("email", "password", "error"),
    [
        ("ada", PASSWORD, Invalid),
        (f"{'a' * 309}@example.org", PASSWORD, Invalid),
        ("new@example.org", "x" * 11, Invalid),
        ("new@example.org", "x" * 257, Invalid),
        ("bob@example.org", PASSWORD, Conflict),
    ],
)
async def test_an_invalid_setup_is_refused(
    world: MemoryOperations, sign_in: SignIn, email: str, password: str, error: type[TowlineError]
) -> None:
    await world.given(ADMINISTRATOR, make_user("bob"))
    secret = await sign_in.setup_secret()
    assert secret is not None
    with pytest.raises(error):
        await sign_in.set_up(secret, email, "", password, HOME)
    assert await world.row(UserStore, "admin") == ADMINISTRATOR
    assert await world.rows(TokenStore) == [] and await world.audited() == []


async def test_no_setup_link_beside_a_user_with_a_password(
    world: MemoryOperations, sign_in: SignIn
) -> None:
    await world.given(ADMINISTRATOR, ADA)
    assert await sign_in.setup_secret() is None


async def test_no_setup_link_where_passwords_are_disabled(
    world: MemoryOperations, issuers: FakeIssuers
) -> None:
    """The log of the first start must not show a link that nobody may use."""
    await world.given(ADMINISTRATOR)
    assert await local_off(world, issuers).setup_secret() is None
    assert await world.rows(ChallengeStore) == []


async def test_a_setup_takes_over_no_other_account(
    world: MemoryOperations, sign_in: SignIn
) -> None:
    bob = make_user("bob")
    await world.given(ADMINISTRATOR, bob)
    secret = await sign_in.setup_secret()
    assert secret is not None
    with pytest.raises(Conflict):
        await sign_in.set_up(secret, bob.email, "Bob", "correct horse battery", HOME)
    assert await world.rows(UserStore) == [ADMINISTRATOR, bob]
    assert await world.rows(TokenStore) == [] and await world.audited() == []


async def test_a_setup_link_is_for_the_account_of_the_first_start(
    world: MemoryOperations, sign_in: SignIn
) -> None:
    """It makes no other user an administrator, and two links make one."""
    await world.given(ADMINISTRATOR)
    first, second = await sign_in.setup_secret(), await sign_in.setup_secret()
    assert first is not None and second is not None and first != second
    await world.clock.advance(1)
    await sign_in.set_up(first, ADA.email, "Ada", PASSWORD, HOME)
    with pytest.raises(Conflict, match="is already set up"):
        await sign_in.set_up(second, "eve@example.org", "Eve", PASSWORD, HOME)
    (user,) = await world.rows(UserStore)
    assert (user.email, user.updated_at) == (ADA.email, world.clock.now())
    assert await world.audit_details() == [
        ("setUp", {"role": "admin"}),
        ("signIn", {"by": "setup link"}),
    ]


async def test_no_setup_link_after_a_sign_in_by_a_provider(
    world: MemoryOperations, sign_in: SignIn
) -> None:
    await world.given(ADMINISTRATOR, Login("l", "https://idp", "u1", "admin", START))
    assert await sign_in.setup_secret() is None


async def test_a_token_that_expires_approves_no_device(
    world: MemoryOperations, sign_in: SignIn
) -> None:
    token = make_token(ADA, expires_at=START + timedelta(minutes=5))[0]
    session = make_token(ADA, TokenKind.SESSION, expires_at=START + timedelta(days=7))[0]
    await world.given(ADA, token, session)
    brief = replace(ASKER, token_id=token.id, expires_at=token.expires_at)
    id_token = replace(ASKER, expires_at=token.expires_at)
    _, code = await sign_in.begin_device("cli", HOME)
    for actor in (brief, id_token):
        with pytest.raises(Forbidden, match="sign in to decide on devices"):
            await sign_in.decide_device(actor, code, approve=True)
    assert await world.audited() == []
    browser = replace(ASKER, token_id=session.id, expires_at=session.expires_at)
    await sign_in.decide_device(browser, code, approve=True)


async def test_a_session_is_signed_out(world: MemoryOperations, sign_in: SignIn) -> None:
    session = make_token(ADA, TokenKind.SESSION)[0]
    await world.given(ADA, session)
    await sign_in.sign_out(ASKER)
    assert await world.audited() == []
    await sign_in.sign_out(replace(ASKER, token_id=session.id))
    assert [row.revoked_at for row in await world.rows(TokenStore)] == [START]
    assert await world.audited() == [(ASKER.email, "signOut", ASKER.email)]
    assert world.published == [(REVOKED, session.id)]
    with pytest.raises(Unauthenticated):
        await sign_in.sign_out(ANONYMOUS)


async def test_the_store_keeps_no_secret_of_a_pending_sign_in(
    world: MemoryOperations, sign_in: SignIn
) -> None:
    device, _ = await sign_in.begin_device("cli", HOME)
    (row,) = await world.rows(ChallengeStore)
    assert row.hash == hashlib.sha256(device.encode()).hexdigest()
    assert device not in str(row)


@pytest.mark.parametrize(
    ("source", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("testclient", "testclient"),
        ("", ""),
    ],
)
def test_addresses_of_one_user_count_together(source: str, network: str) -> None:
    assert source_network(source) == network
