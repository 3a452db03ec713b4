"""Operations on users and service accounts."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controlplane.access.model.users import UserKind
from controlplane.access.operations.service_accounts import ServiceAccounts
from controlplane.access.operations.users import Users
from controlplane.access.ports import RoleBindingStore, TokenStore, UserStore
from controlplane.authorization import (
    ANONYMOUS,
    BUILT_IN,
    INSTALLATION,
    SYSTEM,
    Grant,
    Policy,
    Role,
    Scope,
)
from controlplane.platform.context import ACCESS, REVOKED
from controlplane.platform.ports import PageQuery
from core.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated
from core.identity import TokenKind
from tests.fakes.access import USER_MANAGER, bind, make_token, make_user
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, operations_over_memory

ADA, BOB = make_user("ada"), make_user("bob")
BOT = replace(make_user("bot"), email="bot@service-accounts", kind=UserKind.SERVICE_ACCOUNT)
ADMIN_BOT = replace(BOT, id="rootbot", email="rootbot@service-accounts")
DEFAULT = Scope("project:00000000-0000-7000-8000-000000000001")


@pytest.fixture
def world() -> MemoryOperations:
    return operations_over_memory()


@pytest.fixture
def users(world: MemoryOperations) -> Users:
    return Users(world.context)


@pytest.fixture
def accounts(world: MemoryOperations) -> ServiceAccounts:
    return ServiceAccounts(world.context)


async def check_nothing_happened(world: MemoryOperations) -> None:
    assert await world.audited() == [] and world.published == []


async def test_readers_of_users_list_them(world: MemoryOperations, users: Users) -> None:
    await world.given(ADA, BOT)
    assert (await users.page(ADMIN, PageQuery())).items == (ADA, BOT)
    for actor, error in ((EDITOR, Forbidden), (ANONYMOUS, Unauthenticated)):
        with pytest.raises(error):
            await users.page(actor, PageQuery())


async def test_a_user_is_found_by_address_and_sees_itself(
    world: MemoryOperations, users: Users
) -> None:
    viewer = make_user("vi")
    await world.given(ADA, viewer)
    assert await users.get(ADMIN, ADA.email) == ADA
    assert await users.get(VIEWER, viewer.email) == viewer
    for actor, email in ((VIEWER, ADA.email), (ADMIN, "none@example.org")):
        with pytest.raises(NotFound):
            await users.get(actor, email)


async def test_the_strongest_built_in_role_is_shown(world: MemoryOperations, users: Users) -> None:
    viewer = make_user("vi")
    await world.given(
        ADA,
        BOB,
        viewer,
        Role("own", "own", START, START),
        bind("admin", ADA),
        bind("viewer", ADA),
        bind("own", BOB),
        bind("admin", BOB, DEFAULT),
        bind("viewer", viewer),
    )
    assert await users.roles_everywhere(ADMIN, [ADA, BOB]) == {"ada": "admin"}
    assert await users.roles_everywhere(VIEWER, [ADA, viewer]) == {"vi": "viewer"}


async def test_a_new_user_gets_a_role(world: MemoryOperations, users: Users) -> None:
    made = await users.upsert(ADMIN, "ada@example.org", "Ada", "editor")
    assert await world.rows(UserStore) == [made]
    assert (made.email, made.name, made.kind) == ("ada@example.org", "Ada", UserKind.PERSON)
    (row,) = await world.rows(RoleBindingStore)
    assert (row.subject_id, row.role_id, row.scope) == (made.id, "editor", INSTALLATION)
    assert row.given_by == ADMIN.email
    assert await world.audited() == [(ADMIN.email, "createUser", "ada@example.org")]
    assert world.published == [(ACCESS, made.id)]


async def test_a_new_user_without_a_name_is_named_after_the_address(
    world: MemoryOperations, users: Users
) -> None:
    made = await users.upsert(ADMIN, "ada@example.org")
    assert made.name == "ada@example.org"
    assert await world.rows(RoleBindingStore) == []


async def test_a_known_user_gets_another_name_and_another_role_everywhere(
    world: MemoryOperations, users: Users
) -> None:
    kept = bind("viewer", ADA, DEFAULT)
    await world.given(ADA, bind("viewer", ADA), bind("editor", ADA), kept)
    await world.clock.advance(1)
    after = await users.upsert(ADMIN, ADA.email, "Countess", "admin")
    assert after == replace(ADA, name="Countess", updated_at=world.clock.now())
    assert await world.rows(UserStore) == [after]
    rows = await world.rows(RoleBindingStore)
    assert [row.role_id for row in rows if row.scope == INSTALLATION] == ["admin"]
    assert kept in rows
    assert await world.audited() == [(ADMIN.email, "updateUser", ADA.email)]


async def test_the_same_role_stays_bound(world: MemoryOperations, users: Users) -> None:
    held = bind("admin", ADA)
    await world.given(ADA, held)
    await users.upsert(USER_MANAGER, ADA.email, None, "admin")
    assert await world.rows(RoleBindingStore) == [held]
    assert await world.rows(UserStore) == [ADA]


async def test_a_temporary_role_becomes_permanent(world: MemoryOperations, users: Users) -> None:
    await world.given(ADA, bind("viewer", ADA, until=START + timedelta(hours=1)))
    await users.upsert(ADMIN, ADA.email, None, "viewer")
    (row,) = await world.rows(RoleBindingStore)
    assert (row.role_id, row.expires_at) == ("viewer", None)


async def test_nobody_changes_the_own_role(world: MemoryOperations, users: Users) -> None:
    root = make_user("root")
    await world.given(root, bind("admin", root))
    with pytest.raises(Conflict, match="your own role"):
        await users.upsert(ADMIN, root.email, None, "viewer")
    assert [row.role_id for row in await world.rows(RoleBindingStore)] == ["admin"]
    await check_nothing_happened(world)


async def test_nobody_gives_or_takes_permissions_that_they_lack(
    world: MemoryOperations, users: Users
) -> None:
    await world.given(ADA, BOB, bind("admin", BOB))
    for email, role in ((ADA.email, "viewer"), (BOB.email, "viewer"), ("new@x.org", "admin")):
        with pytest.raises(Forbidden, match="only grant permissions that you have"):
            await users.upsert(USER_MANAGER, email, "changed", role)
    assert await world.rows(UserStore) == [ADA, BOB]
    assert await world.rows(RoleBindingStore) == [bind("admin", BOB)]
    await check_nothing_happened(world)


async def test_to_replace_a_role_one_needs_the_old_one_too(
    world: MemoryOperations, users: Users
) -> None:
    """Also now only: a manager whose role ends soon may still take it away."""
    manager = USER_MANAGER.policy.grants[0]
    viewer = replace(USER_MANAGER, policy=Policy((manager, Grant(BUILT_IN["viewer"]))))
    await world.given(BOB, bind("admin", BOB))
    with pytest.raises(Forbidden, match="role admin grants everywhere"):
        await users.upsert(viewer, BOB.email, role="viewer")
    brief = Grant(BUILT_IN["admin"], expires_at=START + timedelta(minutes=1))
    brief_admin = replace(viewer, policy=Policy((manager, Grant(BUILT_IN["viewer"]), brief)))
    await users.upsert(brief_admin, BOB.email, role="viewer")
    (row,) = await world.rows(RoleBindingStore)
    assert (row.role_id, row.given_by) == ("viewer", "mia@example.org")
    assert await world.audit_details() == [("updateUser", {"role": "viewer"})]


async def test_a_user_is_created_once(world: MemoryOperations, users: Users) -> None:
    """Also if it is disabled: its roles are somebody's."""
    await world.given(replace(BOB, disabled_at=START))
    made = await users.create(ADMIN, "new@example.org")
    assert (made.name, made.disabled_at) == ("new@example.org", None)
    assert await world.row(UserStore, made.id) == made
    assert await world.rows(RoleBindingStore) == []
    for email, error in ((BOB.email, Conflict), (made.email, Conflict), ("x", Invalid)):
        with pytest.raises(error):
            await users.create(ADMIN, email)
    with pytest.raises(Forbidden):
        await users.create(EDITOR, "other@example.org")
    assert await world.audited() == [(ADMIN.email, "createUser", "new@example.org")]


LONG_ADDRESS = f"{'a' * 308}@example.org"


@pytest.mark.parametrize(
    ("email", "name", "field"),
    [
        ("ada", None, "email"),
        ("ada@service-accounts", None, "email"),
        (f"a{LONG_ADDRESS}", None, None),
        ("a\x1b@example.org", None, "email"),
        ("ada@example.org", "x" * 256, "name"),
        ("bob@example.org", "x" * 256, "name"),
        ("bob@example.org", " ", "name"),
    ],
)
async def test_an_invalid_user_is_refused(
    world: MemoryOperations, users: Users, email: str, name: str | None, field: str | None
) -> None:
    await world.given(BOB)
    with pytest.raises(Invalid) as error:
        await users.upsert(ADMIN, email, name)
    assert error.value.field == field
    assert await world.rows(UserStore) == [BOB]
    await check_nothing_happened(world)


async def test_the_longest_address_and_name_are_accepted(users: Users) -> None:
    made = await users.upsert(ADMIN, LONG_ADDRESS, "x" * 255)
    assert (len(made.email), len(made.name)) == (320, 255)


async def test_a_user_is_renamed(world: MemoryOperations, users: Users) -> None:
    """A name needs no permission of the user, an address does."""
    await world.given(ADA, bind("admin", ADA))
    await world.clock.advance(1)
    after = await users.update(USER_MANAGER, "ada", "Countess", ADA.email)
    assert after == replace(ADA, name="Countess", updated_at=world.clock.now())
    with pytest.raises(Forbidden):
        await users.update(USER_MANAGER, "ada", None, "mallory@example.org")
    assert await world.rows(UserStore) == [after]
    assert await world.audited() == [(USER_MANAGER.email, "updateUser", ADA.email)]
    assert world.published == [(ACCESS, "ada")]


async def test_an_address_changes_unless_it_is_taken(world: MemoryOperations, users: Users) -> None:
    await world.given(ADA, BOB)
    with pytest.raises(Conflict, match="already exists") as error:
        await users.update(ADMIN, "ada", None, BOB.email)
    assert error.value.current["id"] == "bob"
    with pytest.raises(Invalid):
        await users.update(ADMIN, "ada", None, "ada@service-accounts")
    after = await users.update(ADMIN, "ada", None, "countess@example.org")
    assert await world.rows(UserStore) == [after, BOB]
    assert await world.audited() == [(ADMIN.email, "updateUser", "countess@example.org")]


async def test_a_service_account_is_created_once(
    world: MemoryOperations, accounts: ServiceAccounts
) -> None:
    made = await accounts.create(ADMIN, "deploy")
    assert (made.email, made.kind) == ("deploy@service-accounts", UserKind.SERVICE_ACCOUNT)
    assert await world.rows(UserStore) == [made]
    with pytest.raises(Conflict, match="deploy@service-accounts already exists"):
        await accounts.create(ADMIN, "deploy")
    for name in ("", "Deploy", "x" * 64):
        with pytest.raises(Invalid) as error:
            await accounts.create(ADMIN, name)
        assert error.value.field == "name"
    await accounts.create(ADMIN, "x" * 63)
    assert [action for _, action, _ in await world.audited()] == ["createServiceAccount"] * 2


async def test_a_service_account_with_an_address_is_updated(
    world: MemoryOperations, accounts: ServiceAccounts
) -> None:
    await world.given(ADA)
    made = await accounts.create(ADMIN, "CI bot", "ci@example.org")
    assert (made.name, made.email) == ("CI bot", "ci@example.org")
    with pytest.raises(Conflict, match="ada@example.org already exists"):
        await accounts.create(ADMIN, "ada", ADA.email)
    after = await accounts.update(ADMIN, made.id, "CD bot", "cd@example.org")
    assert (after.name, after.email, after.kind) == ("CD bot", "cd@example.org", made.kind)
    assert await accounts.update(ADMIN, made.id, None, None) == after
    with pytest.raises(NotFound):
        await accounts.update(ADMIN, ADA.id, "x", None)
    with pytest.raises(Forbidden):
        await accounts.update(EDITOR, made.id, "x", None)
    assert (await world.audited())[1] == (ADMIN.email, "updateServiceAccount", "cd@example.org")


async def test_a_disabled_account_is_created_again_with_its_roles(
    world: MemoryOperations, accounts: ServiceAccounts
) -> None:
    """By those who have these roles; its tokens stay revoked."""
    off = replace(BOT, disabled_at=START)
    token = make_token(BOT, TokenKind.SERVICE_ACCOUNT, revoked_at=START)[0]
    await world.given(off, token, bind("editor", off))
    await world.clock.advance(1)
    with pytest.raises(Forbidden, match="only grant permissions that you have"):
        await accounts.create(USER_MANAGER, "bot")
    await check_nothing_happened(world)
    back = await accounts.create(ADMIN, "bot")
    assert back == replace(BOT, updated_at=world.clock.now()) == await world.row(UserStore, "bot")
    assert [row.revoked_at for row in await world.rows(TokenStore)] == [START]
    assert await world.audited() == [(ADMIN.email, "createServiceAccount", BOT.email)]
    assert world.published == [(ACCESS, "bot")]


@pytest.mark.parametrize(
    "columns",
    [
        {"kind": UserKind.PERSON, "disabled_at": START},
        {"disabled_at": START, "disabled_by": "https://idp"},
        {},
    ],
)
async def test_people_and_accounts_of_a_directory_are_not_created_again(
    world: MemoryOperations, accounts: ServiceAccounts, columns: dict[str, Any]
) -> None:
    existing = replace(BOT, email="ci@example.org", **columns)
    await world.given(existing)
    with pytest.raises(Conflict, match="ci@example.org already exists"):
        await accounts.create(ADMIN, "CI", "ci@example.org")
    assert await world.rows(UserStore) == [existing]
    await check_nothing_happened(world)


async def test_a_service_account_gets_a_token(
    world: MemoryOperations, accounts: ServiceAccounts
) -> None:
    await world.given(BOT)
    token, secret = await accounts.create_token(ADMIN, "bot", "ci", timedelta(days=366))
    assert await world.rows(TokenStore) == [token]
    assert (token.kind, token.user_id) == (TokenKind.SERVICE_ACCOUNT, "bot")
    assert token.expires_at == START + timedelta(days=366)
    assert secret.startswith("tws_") and secret not in repr(token)
    assert await world.audited() == [(ADMIN.email, "createAccessToken", BOT.email)]


@pytest.mark.parametrize(
    ("id", "name", "life", "error"),
    [
        ("bot", "", timedelta(1), Invalid),
        ("bot", "ci", timedelta(), Invalid),
        ("bot", "ci", timedelta(days=366, microseconds=1), Invalid),
        ("ada", "ci", timedelta(1), NotFound),
        ("none", "ci", timedelta(1), NotFound),
        ("rootbot", "ci", timedelta(1), Forbidden),
    ],
)
async def test_a_token_of_an_account_is_refused(
    world: MemoryOperations,
    accounts: ServiceAccounts,
    id: str,
    name: str,
    life: timedelta,
    error: type[Exception],
) -> None:
    await world.given(ADA, BOT, ADMIN_BOT, bind("admin", ADMIN_BOT))
    with pytest.raises(error):
        await accounts.create_token(USER_MANAGER, id, name, life)
    assert await world.rows(TokenStore) == []
    await check_nothing_happened(world)


async def test_a_disabled_user_loses_all_tokens(world: MemoryOperations, users: Users) -> None:
    """The tokens stay revoked when the user is enabled again."""
    live, _ = make_token(ADA)
    session, _ = make_token(ADA, TokenKind.SESSION)
    dead, _ = make_token(ADA, id="dead", revoked_at=START)
    other, _ = make_token(BOB)
    await world.given(replace(ADA, disabled_by="https://idp"), BOB, live, session, dead, other)
    await world.clock.advance(1)
    now = world.clock.now()
    gone = await users.disable(ADMIN, "ada")
    assert gone == replace(ADA, disabled_at=now, updated_at=now)
    revoked = {row.id: row.revoked_at for row in await world.rows(TokenStore)}
    assert revoked == {live.id: now, session.id: now, "dead": START, other.id: None}
    assert world.published == [(REVOKED, live.id), (REVOKED, session.id), (ACCESS, "ada")]
    back = await users.disable(ADMIN, "ada", disabled=False)
    assert back == replace(ADA, updated_at=now) == (await world.row(UserStore, "ada"))
    assert {row.id: row.revoked_at for row in await world.rows(TokenStore)} == revoked
    assert [action for _, action, _ in await world.audited()] == ["disableUser", "enableUser"]


async def test_users_with_more_permissions_and_the_actor_stay_enabled(
    world: MemoryOperations, users: Users
) -> None:
    root = make_user("root")
    await world.given(root, ADA, bind("viewer", ADA))
    with pytest.raises(Conflict, match="your own account"):
        await users.disable(ADMIN, "root")
    with pytest.raises(Forbidden):
        await users.disable(USER_MANAGER, "ada")
    assert await world.rows(UserStore) == [ADA, root]
    await check_nothing_happened(world)


async def test_a_role_in_a_deleted_scope_protects_nobody(
    world: MemoryOperations, users: Users
) -> None:
    await world.given(ADA, bind("admin", ADA, Scope("project:gone")))
    assert (await users.disable(USER_MANAGER, "ada")).disabled_at is not None


async def test_the_first_start_makes_one_administrator(
    world: MemoryOperations, users: Users
) -> None:
    secret = await users.bootstrap()
    assert secret is not None and secret.startswith("twu_")
    (admin,) = await world.rows(UserStore)
    assert (admin.email, admin.name) == ("admin", "Administrator")
    assert [row.role_id for row in await world.rows(RoleBindingStore)] == ["admin"]
    assert await world.audited() == [("towline", "createUser", "admin")]
    assert await users.bootstrap() is None
    assert await world.rows(UserStore) == [admin]
    (token,) = await world.rows(TokenStore)
    assert (token.user_id, token.expires_at) == (admin.id, START + timedelta(days=90))


async def test_only_the_operator_creates_tokens_of_other_users(
    world: MemoryOperations, users: Users
) -> None:
    await world.given(ADA)
    with pytest.raises(Forbidden, match="operator of the installation"):
        await users.create_token_for(ADMIN, ADA.email, "rescue")
    with pytest.raises(NotFound, match="none@example.org"):
        await users.create_token_for(SYSTEM, "none@example.org", "rescue")
    await check_nothing_happened(world)
    assert (await users.create_token_for(SYSTEM, ADA.email, "rescue")).startswith("twu_")
    (token,) = await world.rows(TokenStore)
    assert (token.user_id, token.name) == ("ada", "rescue")
    assert token.expires_at == START + timedelta(days=90)
    assert await world.audited() == [("towline", "createAccessToken", ADA.email)]


CALLS = {
    "upsert": lambda context, actor, id: Users(context).upsert(actor, f"{id}@example.org"),
    "update": lambda context, actor, id: Users(context).update(actor, id, "new", None),
    "create_account": lambda context, actor, id: ServiceAccounts(context).create(actor, "deploy"),
    "account_token": lambda context, actor, id: ServiceAccounts(context).create_token(
        actor, id, "ci"
    ),
    "disable": lambda context, actor, id: Users(context).disable(actor, id),
}


@pytest.mark.parametrize("name", sorted(CALLS))
async def test_a_change_needs_a_user_administrator(world: MemoryOperations, name: str) -> None:
    await world.given(ADA, BOT)
    for actor in (EDITOR, NOBODY):
        with pytest.raises(Forbidden):
            await CALLS[name](world.context, actor, "ada")
    with pytest.raises(Unauthenticated):
        await CALLS[name](world.context, ANONYMOUS, "ada")
    assert await world.rows(UserStore) == [ADA, BOT]
    await check_nothing_happened(world)


@pytest.mark.parametrize("name", ["account_token", "disable", "update"])
async def test_a_missing_user_is_not_found(world: MemoryOperations, name: str) -> None:
    with pytest.raises(NotFound):
        await CALLS[name](world.context, ADMIN, "none")
