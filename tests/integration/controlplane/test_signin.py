"""Passwords, sessions, devices, tickets and the link of the first start."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from controlplane.access.operations.sign_in import DevicePending
from controlplane.access.ports import UserStore
from controlplane.authorization import Limit, Resource, ResourceKind, Verb
from controlplane.authorization.roles import BuiltInRole as Role
from controlplane.platform.audit_entry import AuditVerdict
from controlplane.platform.ports import PageQuery
from core.errors import Conflict, Forbidden, Invalid, LimitExceeded, NotFound, Unauthenticated
from core.identity import TokenKind, token_kind
from tests.integration.controlplane.conftest import World
from tests.integration.controlplane.signin import HASHER, AccessOperations, access_operations

PASSWORD = "correct horse battery"


@pytest.fixture
async def access(world: World) -> AsyncIterator[AccessOperations]:
    async with access_operations(world) as opened:
        yield opened


async def someone(
    access: AccessOperations, email: str = "bo@example.org", role: Role = Role.VIEWER
) -> str:
    """A person with a password; their id."""
    user = await access.world.people.upsert(access.world.admin, email, None, role)
    async with access.world.deps.store.write() as tx:
        await tx[UserStore].change(user.id, password=HASHER.hash(PASSWORD))
    return user.id


async def test_a_password_opens_a_session_that_ends(access: AccessOperations) -> None:
    """Idle for too long, at its absolute end, and with signing out."""
    await someone(access)
    secret = await access.signin.sign_in_with_password("bo@example.org", PASSWORD, "10.0.0.1")
    assert token_kind(secret) is TokenKind.SESSION
    actor = await access.identity.authenticate(secret)
    assert actor.email == "bo@example.org"
    for _ in range(20):
        await access.world.clock.advance(8 * 3600)
        await access.identity.authenticate(secret)
    await access.world.clock.advance(9 * 3600)
    with pytest.raises(Unauthenticated, match="expired"):
        await access.identity.authenticate(secret)
    idle = await access.signin.sign_in_with_password("bo@example.org", PASSWORD, "")
    await access.world.clock.advance(13 * 3600)
    with pytest.raises(Unauthenticated, match="expired through inactivity"):
        await access.identity.authenticate(idle)
    left = await access.signin.sign_in_with_password("bo@example.org", PASSWORD, "")
    actor = await access.identity.authenticate(left)
    await access.signin.sign_out(actor)
    access.identity.drop_token(actor.token_id or "")
    with pytest.raises(Unauthenticated, match="revoked"):
        await access.identity.authenticate(left)


async def test_signing_out_everywhere_ends_all_sessions(access: AccessOperations) -> None:
    """And no access token."""
    await someone(access)
    secrets = [
        await access.signin.sign_in_with_password("bo@example.org", PASSWORD, "") for _ in range(3)
    ]
    actor = await access.identity.authenticate(secrets[0])
    _, token = await access.identity.create_token(actor, "laptop")
    assert await access.identity.sign_out_everywhere(actor) == 3
    for secret in secrets:
        with pytest.raises(Unauthenticated):
            await access.identity.authenticate(secret)
    assert (await access.identity.authenticate(token)).id == actor.id


async def test_wrong_is_wrong_whoever_it_was(access: AccessOperations) -> None:
    """Unknown, wrong, disabled, without a password and a service account read alike."""
    await someone(access)
    gone = await someone(access, "gone@example.org")
    await access.world.people.disable(access.world.admin, gone)
    await access.world.people.upsert(access.world.admin, "none@example.org")
    await access.world.accounts.create(access.world.admin, "robot")
    said = set()
    for email, password in (
        ("bo@example.org", "wrong"),
        ("nobody@example.org", PASSWORD),
        ("gone@example.org", PASSWORD),
        ("none@example.org", ""),
        ("robot@service-accounts", ""),
    ):
        with pytest.raises(Unauthenticated) as refused:
            await access.signin.sign_in_with_password(email, password, "10.0.0.1")
        said.add(refused.value.message)
    assert len(said) == 1
    page = await access.world.records.page(access.world.admin, PageQuery())
    found = [row.verdict for row in page.items if row.action == "signIn"]
    assert found == [AuditVerdict.REFUSED] * 5


async def test_guessing_ends_after_ten_tries_and_survives_a_restart(
    access: AccessOperations,
) -> None:
    """The counter is in the store; other accounts and the window's end are not held up."""
    await someone(access)
    await someone(access, "eve@example.org")
    for _ in range(10):
        with pytest.raises(Unauthenticated):
            await access.signin.sign_in_with_password("bo@example.org", "guess", "10.0.0.1")
    with pytest.raises(LimitExceeded, match="try again in 15 minutes"):
        await access.signin.sign_in_with_password("bo@example.org", PASSWORD, "10.0.0.1")
    async with access_operations(access.world) as restarted:
        with pytest.raises(LimitExceeded):
            await restarted.signin.sign_in_with_password("BO@example.org", PASSWORD, "10.0.0.2")
    await access.signin.sign_in_with_password("eve@example.org", PASSWORD, "10.0.0.1")
    await access.world.clock.advance(15 * 60)
    await access.signin.sign_in_with_password("bo@example.org", PASSWORD, "10.0.0.1")


async def test_one_source_cannot_try_many_accounts(access: AccessOperations) -> None:
    """Nor drive anybody's counter out of the table."""
    await someone(access)
    for number in range(50):
        with pytest.raises(Unauthenticated):
            await access.signin.sign_in_with_password(
                f"user{number}@example.org", "guess", "10.0.0.9"
            )
    with pytest.raises(LimitExceeded):
        await access.signin.sign_in_with_password("bo@example.org", PASSWORD, "10.0.0.9")
    await access.signin.sign_in_with_password("bo@example.org", PASSWORD, "10.0.0.1")


async def test_passwords_can_be_switched_off(access: AccessOperations) -> None:
    await someone(access)
    access.signin.local = False
    with pytest.raises(Forbidden, match="disabled"):
        await access.signin.sign_in_with_password("bo@example.org", PASSWORD, "")
    assert await access.signin.setup_secret() is None


async def test_the_setup_link_works_once(access: AccessOperations) -> None:
    """It makes the first administrator's password; afterwards there is no link any more."""
    await access.world.people.bootstrap()
    secret = await access.signin.setup_secret() or ""
    assert len(secret) >= 43
    with pytest.raises(Invalid):
        await access.signin.set_up(secret, "ada@example.org", "", "short", "")
    with pytest.raises(Unauthenticated):
        await access.signin.set_up("guessed", "ada@example.org", "", PASSWORD, "")
    session = await access.signin.set_up(secret, "ada@example.org", "Ada", PASSWORD, "")
    actor = await access.identity.authenticate(session)
    assert actor.may(Verb.ADMINISTER, Resource.whole(ResourceKind.ROLE))
    with pytest.raises(Unauthenticated, match="already used"):
        await access.signin.set_up(secret, "eve@example.org", "", PASSWORD, "")
    assert await access.signin.setup_secret() is None


async def test_a_device_is_let_in_by_who_has_signed_in(access: AccessOperations) -> None:
    """RFC 8628: pending, then a token, once."""
    await someone(access)
    device, code = await access.signin.begin_device("towline on laptop", "10.0.0.5")
    with pytest.raises(DevicePending):
        await access.signin.poll_device(device)
    actor = await access.identity.authenticate(
        await access.signin.sign_in_with_password("bo@example.org", PASSWORD, "")
    )
    typed = f"{code[:4].lower()}-{code[4:]}"
    assert (await access.signin.pending_device(actor, typed)).detail["source"] == "10.0.0.5"
    await access.signin.decide_device(actor, typed, approve=True)
    row, secret, refresh = await access.signin.poll_device(device)
    assert refresh == ""
    assert (await access.identity.authenticate(secret)).id == actor.id
    assert row.name == "towline on laptop"
    with pytest.raises(Unauthenticated):
        await access.signin.poll_device(device)


async def test_a_device_is_refused_forgotten_and_never_let_in_by_half(
    access: AccessOperations,
) -> None:
    """A no, the end of its time, a wrong code, and a token that lets through less than all."""
    await someone(access)
    actor = await access.identity.authenticate(
        await access.signin.sign_in_with_password("bo@example.org", PASSWORD, "")
    )
    device, code = await access.signin.begin_device("x", "")
    with pytest.raises(NotFound):
        await access.signin.decide_device(actor, "BCDFGHJK", approve=True)
    _, narrow = await access.identity.create_token(actor, "ci", limits=(Limit((Verb.READ,)),))
    with pytest.raises(Forbidden, match="signed-in"):
        robot = await access.identity.authenticate(narrow)
        await access.signin.decide_device(robot, code, approve=True)
    await access.signin.decide_device(actor, code, approve=False)
    with pytest.raises(Forbidden, match="denied"):
        await access.signin.poll_device(device)
    device, code = await access.signin.begin_device("x", "")
    await access.world.clock.advance(601)
    with pytest.raises(NotFound):
        await access.signin.decide_device(actor, code, approve=True)
    with pytest.raises(Unauthenticated):
        await access.signin.poll_device(device)


async def test_a_ticket_opens_one_socket_as_its_maker(access: AccessOperations) -> None:
    """60 s, one use; what it opened is known by the session it was made in."""
    await someone(access)
    session = await access.signin.sign_in_with_password("bo@example.org", PASSWORD, "")
    actor = await access.identity.authenticate(session)
    ticket = await access.identity.create_ticket(actor)
    opened = await access.identity.authenticate(ticket)
    assert (opened.id, opened.token_id) == (actor.id, actor.token_id)
    with pytest.raises(Unauthenticated, match="revoked"):
        await access.identity.authenticate(ticket)
    late = await access.identity.create_ticket(actor)
    await access.world.clock.advance(61)
    with pytest.raises(Unauthenticated, match="expired"):
        await access.identity.authenticate(late)
    unused = await access.identity.create_ticket(actor)
    await access.signin.sign_out(actor)
    with pytest.raises(Unauthenticated):
        await access.identity.authenticate(unused)


async def test_a_narrow_token_lets_through_what_it_names(access: AccessOperations) -> None:
    """Its scopes cut rights, it makes no other tokens, and lists are as narrow."""
    await someone(access, role=Role.EDITOR)
    full = await access.identity.authenticate(
        await access.signin.sign_in_with_password("bo@example.org", PASSWORD, "")
    )
    dev, prod = await access.world.cluster("dev"), await access.world.cluster("prod")
    limit = Limit(
        (Verb.READ, Verb.WRITE), (ResourceKind.CLUSTER, ResourceKind.SERVICE), (dev.target.scope,)
    )
    _, secret = await access.identity.create_token(full, "ci", limits=(limit,))
    narrow = await access.identity.authenticate(secret)
    assert full.may(Verb.WRITE, prod.target)
    assert narrow.may(Verb.WRITE, dev.target) and not narrow.may(Verb.READ, prod.target)
    page = await access.world.clusters.page(narrow, PageQuery())
    assert [one.handle for one in page.items] == ["dev"]
    with pytest.raises(Forbidden, match="cannot create tokens"):
        await access.identity.create_token(narrow, "wider", timedelta(days=1))


async def test_the_first_use_of_a_day_is_on_the_record(access: AccessOperations) -> None:
    """One row a token and day, however often it is used."""
    await someone(access)
    secret = await access.signin.sign_in_with_password("bo@example.org", PASSWORD, "")
    for _ in range(5):
        await access.identity.authenticate(secret, "10.0.0.7")
        await access.world.clock.advance(120)
    rows = (await access.world.records.page(access.world.admin, PageQuery())).items
    (row,) = (row for row in rows if row.action == "useToken")
    assert (row.actor, row.source) == ("bo@example.org", "10.0.0.7")


async def test_a_taken_address_is_not_set_up_again(access: AccessOperations) -> None:
    await access.world.people.bootstrap()
    await access.world.people.upsert(access.world.admin, "ada@example.org")
    secret = await access.signin.setup_secret() or ""
    with pytest.raises(Conflict):
        await access.signin.set_up(secret, "ada@example.org", "", PASSWORD, "")
