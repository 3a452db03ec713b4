"""Users and groups that a directory manages, and users that an identity provider identifies."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.access.model.scim import (
    AttributeFilter,
    GroupPush,
    MemberEdit,
    MemberOperation,
    UserPush,
)
from controlplane.access.model.sign_in import Claims, Issuer
from controlplane.access.model.users import Login, UserKind
from controlplane.access.operations.federation import Federation
from controlplane.access.operations.scim import ScimDirectory, ScimGroup
from controlplane.access.ports import (
    GroupStore,
    LoginStore,
    MembershipStore,
    RoleBindingStore,
    TokenStore,
    UserStore,
)
from controlplane.authorization import Actor, ActorKind
from controlplane.platform.context import ACCESS, REVOKED
from controlplane.platform.ports import MAX_PAGE_ROWS
from core.errors import Conflict, Forbidden, Invalid, NotFound, TowlineError
from tests.fakes.access import (
    USER_MANAGER,
    FakeIssuers,
    bind,
    join,
    make_group,
    make_token,
    make_user,
)
from tests.fakes.actors import EDITOR
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, operations_over_memory

IDP = "https://idp"
DIRECTORY = Actor(
    ActorKind.SERVICE_ACCOUNT, "dir", "dir", "dir@service-accounts", USER_MANAGER.policy
)
ADA = make_user("ada", issuer=IDP, external_id="x1")
LOCAL, FOREIGN = make_user("local"), make_user("foreign", issuer="https://other", external_id="f")
CREW = make_group("crew", issuer=IDP, external_id="g1")
CLAIMS = Claims(IDP, "u1", START, "ada@example.org", email_verified=True, name="Ada")


@pytest.fixture
def world() -> MemoryOperations:
    return operations_over_memory()


@pytest.fixture
def scim(world: MemoryOperations) -> ScimDirectory:
    return ScimDirectory(world.context, {DIRECTORY.email: IDP})


def edits(how: MemberOperation, *ids: str) -> GroupPush:
    return GroupPush(edits=(MemberEdit(how, frozenset(ids)),))


async def test_a_directory_sees_only_its_own_users(
    world: MemoryOperations, scim: ScimDirectory
) -> None:
    await world.given(ADA, LOCAL, FOREIGN, make_user("signed", issuer=IDP))
    for condition, found in (
        (None, [ADA]),
        (AttributeFilter("username", "Ada@Example.org"), [ADA]),
        (AttributeFilter("username", LOCAL.email), []),
        (AttributeFilter("username", FOREIGN.email), []),
        (AttributeFilter("externalid", "x1"), [ADA]),
        (AttributeFilter("externalid", "f"), []),
    ):
        assert await scim.users(DIRECTORY, condition) == found
    assert await scim.user(DIRECTORY, "ada") == ADA
    for id in ("local", "foreign", "signed", "none"):
        with pytest.raises(NotFound):
            await scim.user(DIRECTORY, id)


async def test_a_pushed_user_gets_an_account(world: MemoryOperations, scim: ScimDirectory) -> None:
    made = await scim.add_user(DIRECTORY, UserPush("ada@example.org", "Ada", "x1", None))
    assert await world.rows(UserStore) == [made]
    assert (made.name, made.issuer, made.external_id) == ("Ada", IDP, "x1")
    assert made.disabled_at is None
    assert await world.audited() == [(DIRECTORY.email, "createUser", "ada@example.org")]
    assert world.published == [(ACCESS, made.id)]


@pytest.mark.parametrize("known_by", ["issuer", "login"])
async def test_a_directory_takes_over_users_of_its_provider(
    world: MemoryOperations, scim: ScimDirectory, known_by: str
) -> None:
    before = replace(ADA, external_id=None, issuer=IDP if known_by == "issuer" else None)
    token = make_token(before)[0]
    await world.given(before, token, Login("l", IDP, "u1", "ada", START))
    after = await scim.add_user(DIRECTORY, UserPush("ADA@example.org", active=False))
    assert (after.id, after.external_id, after.disabled_by) == ("ada", "", IDP)
    assert [row.revoked_at for row in await world.rows(TokenStore)] == [START]
    assert await world.audited() == [(DIRECTORY.email, "disableUser", "ADA@example.org")]
    assert world.published == [(REVOKED, token.id), (ACCESS, "ada")]


@pytest.mark.parametrize(
    ("push", "error"),
    [
        (UserPush(), Invalid),
        (UserPush("ada"), Invalid),
        (UserPush("x@service-accounts"), Invalid),
        (UserPush("new@example.org", "x" * 256), Invalid),
        (UserPush(ADA.email), Conflict),
        (UserPush(LOCAL.email.upper()), Conflict),
        (UserPush(FOREIGN.email), Conflict),
    ],
)
async def test_a_user_of_somebody_else_is_not_taken_over(
    world: MemoryOperations, scim: ScimDirectory, push: UserPush, error: type[TowlineError]
) -> None:
    await world.given(ADA, LOCAL, FOREIGN)
    with pytest.raises(error):
        await scim.add_user(DIRECTORY, push)
    assert await world.rows(UserStore) == [ADA, FOREIGN, LOCAL]
    assert await world.audited() == [] and world.published == []


async def test_a_directory_changes_disables_and_enables_its_users(
    world: MemoryOperations, scim: ScimDirectory
) -> None:
    await world.given(ADA, LOCAL, make_token(ADA)[0])
    assert await scim.change_user(DIRECTORY, "ada", UserPush(ADA.email, active=True)) == ADA
    assert await world.audited() == [] and world.published == []
    for push in (
        UserPush("countess@example.org", "Countess", "x2"),
        UserPush(active=False),
        UserPush(active=True),
    ):
        after = await scim.change_user(DIRECTORY, "ada", push)
        assert await world.row(UserStore, "ada") == after
    assert (after.email, after.external_id) == ("countess@example.org", "x2")
    assert after.disabled_at is None
    assert [row.revoked_at for row in await world.rows(TokenStore)] == [START]
    actions = [action for _, action, _ in await world.audited()]
    assert actions == ["updateUser", "disableUser", "enableUser"]
    with pytest.raises(Conflict, match="already exists"):
        await scim.change_user(DIRECTORY, "ada", UserPush(LOCAL.email))


async def test_addresses_that_differ_in_case_only_are_the_same(
    world: MemoryOperations, scim: ScimDirectory
) -> None:
    """An account may change the case of its own, and nobody gets that of another account."""
    boss = make_user("boss")
    await world.given(ADA, replace(boss, email="Boss@Example.org"))
    for email in ("Boss@Example.org", "boss@example.org", "BOSS@EXAMPLE.ORG"):
        with pytest.raises(Conflict, match=f"account {email} already exists"):
            await scim.change_user(DIRECTORY, "ada", UserPush(email))
        with pytest.raises(Conflict, match="is not managed by this directory"):
            await scim.add_user(DIRECTORY, UserPush(email))
    after = await scim.change_user(DIRECTORY, "ada", UserPush("Ada@Example.org"))
    assert (after.id, after.email) == ("ada", "Ada@Example.org")
    assert world.published == [(ACCESS, "ada")]


async def test_an_address_that_contains_another_one_is_another_account(
    world: MemoryOperations, scim: ScimDirectory
) -> None:
    """In whatever case the directory writes it."""
    longer = make_user("xada", issuer=IDP, external_id="x9")
    await world.given(longer)
    assert await scim.users(DIRECTORY, AttributeFilter("username", "ADA@example.org")) == []
    made = await scim.add_user(DIRECTORY, UserPush("ADA@example.org", "Ada", "x1", None))
    assert made.id != longer.id and len(await world.rows(UserStore)) == 2
    with pytest.raises(Conflict):
        await scim.change_user(DIRECTORY, made.id, UserPush(longer.email.upper()))


async def test_an_address_is_found_among_many_that_contain_it(
    world: MemoryOperations, scim: ScimDirectory
) -> None:
    others = [make_user(f"{number:05}ada") for number in range(MAX_PAGE_ROWS)]
    known = replace(ADA, email="Ada@Example.org")
    await world.given(*others, known)
    found = await scim.users(DIRECTORY, AttributeFilter("username", "ADA@example.org"))
    assert found == [known]
    assert await scim.users(DIRECTORY, AttributeFilter("username", "da@example.org")) == []


@pytest.mark.parametrize("is_enabled", [True, False])
async def test_only_who_becomes_inactive_loses_the_tokens(
    world: MemoryOperations, scim: ScimDirectory, is_enabled: bool
) -> None:
    token = make_token(ADA)[0]
    await world.given(ADA, token)
    await scim.change_user(DIRECTORY, "ada", UserPush(name="Ada L.", active=is_enabled))
    (row,) = await world.rows(TokenStore)
    assert (row.revoked_at is None) is is_enabled


async def test_a_pushed_group_needs_an_unused_name(
    world: MemoryOperations, scim: ScimDirectory
) -> None:
    await world.given(CREW, make_group("local"))
    for name in ("crew", "local"):
        with pytest.raises(Conflict):
            await scim.add_group(DIRECTORY, GroupPush(name, "g2"))
    assert len(await world.rows(GroupStore)) == 2


async def test_a_directory_takes_over_no_service_account(
    world: MemoryOperations, scim: ScimDirectory
) -> None:
    bot = replace(ADA, kind=UserKind.SERVICE_ACCOUNT, external_id=None)
    await world.given(bot, Login("l", IDP, "u1", "ada", START))
    with pytest.raises(Conflict, match="is not managed by this directory"):
        await scim.add_user(DIRECTORY, UserPush(bot.email))
    assert await world.rows(UserStore) == [bot]


async def test_a_user_who_comes_back_is_enabled_and_managed_again(
    world: MemoryOperations, scim: ScimDirectory
) -> None:
    """Directories push people who return without saying that they are active."""
    await world.given(ADA)
    await world.clock.advance(1)
    await scim.remove_user(DIRECTORY, "ada")
    await world.clock.advance(1)
    back = await scim.add_user(DIRECTORY, UserPush(ADA.email, external_id="x9"))
    changed = {"external_id": "x9", "updated_at": world.clock.now()}
    assert back == replace(ADA, **changed) == await world.row(UserStore, "ada")
    assert await world.audit_details() == [
        ("disableUser", {"directory": IDP, "removed": True}),
        ("enableUser", {"directory": IDP}),
    ]


async def test_the_audit_log_names_the_directory_and_the_number_of_members(
    world: MemoryOperations, scim: ScimDirectory
) -> None:
    bob = make_user("bob", issuer=IDP, external_id="x2")
    await world.given(ADA, bob)
    push = replace(edits(MemberOperation.ADD, "ada", "bob"), name="team")
    group = await scim.add_group(DIRECTORY, push)
    await world.clock.advance(1)
    renamed = replace(edits(MemberOperation.REMOVE, "bob"), name="crew")
    after = await scim.change_group(DIRECTORY, group.id, renamed)
    assert await world.rows(GroupStore) == [after]
    assert (after.name, after.updated_at) == ("crew", world.clock.now())
    await scim.change_group(DIRECTORY, group.id, edits(MemberOperation.REMOVE, "ada"))
    await scim.change_user(DIRECTORY, "ada", UserPush(name="Countess"))
    await scim.remove_group(DIRECTORY, group.id)
    assert await world.audit_details() == [
        ("createGroup", {"directory": IDP, "joined": 2}),
        ("updateGroup", {"directory": IDP, "moved": 1}),
        ("updateGroup", {"directory": IDP, "moved": 1}),
        ("updateUser", {"directory": IDP}),
        ("deleteGroup", {"directory": IDP}),
    ]


async def test_members_are_users_that_the_directory_pushed(
    world: MemoryOperations, scim: ScimDirectory
) -> None:
    """Not those who only signed in through the same provider, and none of another one."""
    signed = make_user("signed", issuer=IDP)
    await world.given(ADA, CREW, signed, FOREIGN)
    for ids, first in ((("ada", "signed"), "signed"), (("signed", "foreign"), "foreign")):
        with pytest.raises(Invalid, match=f"no user has the id {first}") as error:
            await scim.change_group(DIRECTORY, "crew", edits(MemberOperation.ADD, *ids))
        assert error.value.field == "members"
    assert await world.rows(MembershipStore) == [] and world.published == []


async def test_members_of_groups_of_other_providers_are_not_shown(
    world: MemoryOperations, scim: ScimDirectory
) -> None:
    theirs = make_group("theirs", issuer="https://other")
    await world.given(ADA, theirs, join(ADA, theirs, issuer=IDP))
    assert await scim.with_members(DIRECTORY, [theirs]) == [ScimGroup(theirs, ())]
    assert await scim.with_members(DIRECTORY, []) == []
    for change in (
        scim.change_group(DIRECTORY, "theirs", GroupPush("mine")),
        scim.remove_group(DIRECTORY, "theirs"),
    ):
        with pytest.raises(NotFound):
            await change


async def test_a_directory_does_not_enable_whom_an_administrator_disabled(
    world: MemoryOperations, scim: ScimDirectory
) -> None:
    off = replace(ADA, disabled_at=START)
    await world.given(off)
    for active in (True, False):
        assert await scim.change_user(DIRECTORY, "ada", UserPush(active=active)) == off


async def test_a_removed_user_is_disabled_and_leaves_the_groups_of_the_directory(
    world: MemoryOperations, scim: ScimDirectory
) -> None:
    own = make_group("own")
    await world.given(ADA, CREW, own, join(ADA, CREW, issuer=IDP), join(ADA, own))
    token = make_token(ADA)[0]
    await world.given(token)
    await scim.remove_user(DIRECTORY, "ada")
    user = await world.row(UserStore, "ada")
    assert user == replace(ADA, disabled_at=START, disabled_by=IDP, external_id=None)
    assert await world.rows(MembershipStore) == [join(ADA, own)]
    assert world.published == [(REVOKED, token.id), (ACCESS, "ada")]
    assert await world.audited() == [(DIRECTORY.email, "disableUser", ADA.email)]


async def test_a_directory_sees_only_groups_of_its_provider(
    world: MemoryOperations, scim: ScimDirectory
) -> None:
    own = make_group("own")
    await world.given(ADA, LOCAL, CREW, own, join(ADA, CREW, issuer=IDP), join(LOCAL, CREW))
    for condition, found in (
        (None, [CREW]),
        (AttributeFilter("displayname", "crew"), [CREW]),
        (AttributeFilter("displayname", "own"), []),
        (AttributeFilter("externalid", "g1"), [CREW]),
    ):
        assert await scim.groups(DIRECTORY, condition) == found
    assert await scim.group(DIRECTORY, "crew") == CREW
    seen = await scim.with_members(DIRECTORY, [CREW, own])
    assert seen == [ScimGroup(CREW, ["ada"]), ScimGroup(own, ())]
    for id in ("own", "none"):
        with pytest.raises(NotFound):
            await scim.group(DIRECTORY, id)


async def test_a_pushed_group_gets_its_members(
    world: MemoryOperations, scim: ScimDirectory
) -> None:
    await world.given(ADA, LOCAL)
    push = replace(edits(MemberOperation.REPLACE, "ada"), name="crew", external_id="g1")
    made = await scim.add_group(DIRECTORY, push)
    assert (made.name, made.issuer, made.external_id) == ("crew", IDP, "g1")
    (row,) = await world.rows(MembershipStore)
    assert (row.user_id, row.group_id, row.issuer) == ("ada", made.id, IDP)
    assert await world.audited() == [(DIRECTORY.email, "createGroup", "crew")]
    assert world.published == [(ACCESS, "ada")]
    for bad, error in (
        (push, Conflict),
        (GroupPush(), Invalid),
        (replace(edits(MemberOperation.ADD, "local"), name="new"), Invalid),
    ):
        with pytest.raises(error):
            await scim.add_group(DIRECTORY, bad)
    assert await world.rows(GroupStore) == [made]


async def test_a_directory_changes_its_members_and_no_others(
    world: MemoryOperations, scim: ScimDirectory
) -> None:
    bob = make_user("bob", issuer=IDP, external_id="x2")
    kept = join(LOCAL, CREW)
    await world.given(ADA, bob, LOCAL, CREW, join(ADA, CREW, issuer=IDP), kept)
    for same in (GroupPush(), edits(MemberOperation.REPLACE, "ada"), GroupPush("crew", "g1")):
        assert await scim.change_group(DIRECTORY, "crew", same) == CREW
    assert await world.audited() == [] and world.published == []
    push = replace(edits(MemberOperation.REPLACE, "bob", "local"), name="team", external_id="")
    after = await scim.change_group(DIRECTORY, "crew", push)
    assert (after.name, after.external_id) == ("team", "")
    assert {row.user_id for row in await world.rows(MembershipStore)} == {"bob", "local"}
    assert kept in await world.rows(MembershipStore)
    assert sorted(world.published) == [(ACCESS, "ada"), (ACCESS, "bob")]
    assert await world.audited() == [(DIRECTORY.email, "updateGroup", "team")]
    await world.given(make_group("own"))
    with pytest.raises(Conflict, match="'own' already exists"):
        await scim.change_group(DIRECTORY, "crew", GroupPush("own"))


async def test_a_change_of_many_members_is_published_for_all_users_at_once(
    world: MemoryOperations, scim: ScimDirectory
) -> None:
    users = [make_user(f"u{n}", issuer=IDP, external_id="") for n in range(101)]
    await world.given(CREW, *users)
    await scim.change_group(
        DIRECTORY, "crew", edits(MemberOperation.ADD, *(user.id for user in users))
    )
    assert world.published == [(ACCESS, "")]


async def test_a_removed_group_takes_members_and_bindings_with_it(
    world: MemoryOperations, scim: ScimDirectory
) -> None:
    await world.given(ADA, CREW, join(ADA, CREW, issuer=IDP), bind("viewer", CREW))
    await scim.remove_group(DIRECTORY, "crew")
    assert await world.rows(GroupStore) == [] and await world.rows(MembershipStore) == []
    assert await world.rows(RoleBindingStore) == []
    assert await world.audited() == [(DIRECTORY.email, "deleteGroup", "crew")]
    assert world.published == [(ACCESS, "")]


CALLS = {
    "users": lambda scim, actor: scim.users(actor, None),
    "user": lambda scim, actor: scim.user(actor, "ada"),
    "add_user": lambda scim, actor: scim.add_user(actor, UserPush("new@example.org")),
    "change_user": lambda scim, actor: scim.change_user(actor, "ada", UserPush(name="new")),
    "remove_user": lambda scim, actor: scim.remove_user(actor, "ada"),
    "groups": lambda scim, actor: scim.groups(actor, None),
    "with_members": lambda scim, actor: scim.with_members(actor, [CREW]),
    "add_group": lambda scim, actor: scim.add_group(actor, GroupPush("new")),
    "change_group": lambda scim, actor: scim.change_group(actor, "crew", GroupPush("new")),
    "remove_group": lambda scim, actor: scim.remove_group(actor, "crew"),
}


@pytest.mark.parametrize("name", sorted(CALLS))
async def test_only_the_service_account_of_a_provider_is_a_directory(
    world: MemoryOperations, scim: ScimDirectory, name: str
) -> None:
    await world.given(ADA, CREW)
    for actor in (
        replace(DIRECTORY, kind=ActorKind.USER),
        replace(DIRECTORY, email="other@service-accounts"),
        replace(DIRECTORY, policy=EDITOR.policy),
    ):
        with pytest.raises(Forbidden):
            await CALLS[name](scim, actor)
    assert await world.rows(UserStore) == [ADA] and await world.rows(GroupStore) == [CREW]
    assert await world.audited() == [] and world.published == []


def federation(world: MemoryOperations, *required: str) -> Federation:
    return Federation(world.context, FakeIssuers(Issuer("idp", IDP, required=required)))


async def test_a_new_user_of_a_provider_gets_an_account(world: MemoryOperations) -> None:
    user = await federation(world).admit(CLAIMS)
    assert (user.email, user.name) == ("ada@example.org", "Ada")
    assert await world.rows(UserStore) == [user]
    (login,) = await world.rows(LoginStore)
    assert (login.issuer, login.subject, login.user_id) == (IDP, "u1", user.id)
    renamed = replace(CLAIMS, email="countess@example.org")
    assert await federation(world).admit(renamed) == user
    assert await world.audited() == [("towline", "createUser", "ada@example.org")]
    nameless = await federation(world).admit(Claims(IDP, "u2", START))
    assert (nameless.email, nameless.name) == ("u2@idp", "u2@idp")


@pytest.mark.parametrize(
    ("columns", "claims", "text"),
    [
        ({}, replace(CLAIMS, email_verified=False), "does not verify"),
        ({"kind": UserKind.SERVICE_ACCOUNT}, CLAIMS, "service account"),
        ({"issuer": IDP}, CLAIMS, "another identity"),
    ],
)
async def test_an_account_of_somebody_else_is_not_opened(
    world: MemoryOperations, columns: dict, claims: Claims, text: str
) -> None:
    user = replace(make_user("ada"), **columns)
    await world.given(user, Login("l", IDP, "owner", "ada", START))
    with pytest.raises(Conflict, match=text):
        await federation(world).admit(claims)
    assert len(await world.rows(LoginStore)) == 1 and await world.audited() == []


@pytest.mark.parametrize("id", ["u1", "object"])
async def test_a_pushed_user_is_known_by_the_id_of_the_directory(
    world: MemoryOperations, id: str
) -> None:
    pushed = replace(ADA, external_id=id, email="pushed@example.org")
    await world.given(pushed)
    claims = replace(CLAIMS, raw={"oid": "object"})
    assert await federation(world).admit(claims) == pushed


async def test_a_known_address_that_the_provider_verifies_is_the_same_user(
    world: MemoryOperations,
) -> None:
    await world.given(make_user("ada"))
    assert (await federation(world).admit(CLAIMS)).id == "ada"


async def test_a_sign_in_syncs_the_groups_of_the_provider(world: MemoryOperations) -> None:
    """Not those of its directory, and no membership that a user added."""
    joined, left, by_hand = (make_group(id, issuer=IDP) for id in ("new", "old", "hand"))
    user = make_user("ada")
    await world.given(user, CREW, joined, left, by_hand, make_group("own"))
    await world.given(Login("l", IDP, "u1", "ada", START))
    kept = join(user, by_hand), join(user, CREW, issuer=IDP)
    await world.given(join(user, left, issuer=IDP), *kept)
    named = replace(CLAIMS, groups=("new", "hand", "own"))
    for _ in range(2):
        await federation(world).admit(named)
    rows = await world.rows(MembershipStore)
    assert {row.group_id for row in rows} == {"new", "hand", "crew"}
    assert set(kept) <= set(rows)
    await federation(world).admit(CLAIMS)
    assert len(await world.rows(MembershipStore)) == 3
    assert await world.audited() == [("towline", "syncGroups", user.email)]
    assert world.published == [(ACCESS, "ada")]


async def test_a_sign_in_leaves_groups_of_directories_and_of_other_providers(
    world: MemoryOperations,
) -> None:
    """Also if a group has the name that the provider claims, or the user is in it."""
    theirs = make_group("theirs", issuer="https://other")
    user = make_user("ada")
    await world.given(user, CREW, theirs, Login("l", IDP, "u1", "ada", START))
    kept = join(user, theirs, issuer="https://other")
    await world.given(kept)
    for groups in (("crew", "theirs"), ("crew",), ()):
        await federation(world).admit(replace(CLAIMS, groups=groups))
        assert await world.rows(MembershipStore) == [kept]
    assert await world.audited() == [] and world.published == []


async def test_the_audit_log_names_the_groups_that_a_sign_in_changes(
    world: MemoryOperations,
) -> None:
    old, new = make_group("old", issuer=IDP), make_group("new", issuer=IDP)
    user = await federation(world).admit(CLAIMS)
    await world.given(old, new)
    for groups in (("old",), ("new",), ()):
        await federation(world).admit(replace(CLAIMS, groups=groups))
    assert await world.audit_details() == [
        ("createUser", {"issuer": IDP}),
        ("syncGroups", {"joined": ["old"], "left": []}),
        ("syncGroups", {"joined": ["new"], "left": ["old"]}),
        ("syncGroups", {"joined": [], "left": ["new"]}),
    ]
    assert world.published == [(ACCESS, user.id)] * 3


async def test_a_membership_of_a_sign_in_is_the_providers(world: MemoryOperations) -> None:
    """So a later sign-in may end it; of too many claimed groups, the first count."""
    first, last = make_group("g0999", issuer=IDP), make_group("g1000", issuer=IDP)
    await world.given(first, last)
    claimed = tuple(f"g{number:04}" for number in range(1001))
    await federation(world).admit(replace(CLAIMS, groups=claimed))
    (row,) = await world.rows(MembershipStore)
    assert (row.group_id, row.issuer) == ("g0999", IDP)


async def test_the_required_groups_are_those_of_the_provider(world: MemoryOperations) -> None:
    """Others may require nothing, and tokens of trust rules are of issuers that are not here."""
    strict, free = Issuer("strict", "https://strict", required=("crew",)), Issuer("idp", IDP)
    both = Federation(world.context, FakeIssuers(strict, free))
    user = await both.admit(replace(CLAIMS, groups=()))
    with pytest.raises(Forbidden, match="according to https://strict, you are in none"):
        await both.admit(replace(CLAIMS, issuer="https://strict", subject="s", groups=("no",)))
    assert await world.rows(UserStore) == [user]


@pytest.mark.parametrize("oid", [None, "", 7, ["u7"], {"a": "b"}])
async def test_an_odd_object_id_is_nobodys(world: MemoryOperations, oid: object) -> None:
    """A user whose directory gave no id is not the user of each sign-in without one."""
    pushed = make_user("bob", issuer=IDP, external_id="")
    await world.given(pushed)
    user = await federation(world).admit(replace(CLAIMS, raw={"oid": oid}))
    assert user.id != "bob"


async def test_a_provider_that_verifies_no_address_gives_none(world: MemoryOperations) -> None:
    """An account without an address would be everybody's."""
    unverified = replace(CLAIMS, email="boss@example.org", email_verified=False)
    user = await federation(world).admit(unverified)
    assert user.email == "u1@idp"
    for email in ("", "x@service-accounts", "nobody"):
        with pytest.raises(Invalid, match="must be an e-mail address"):
            await federation(world).admit(replace(CLAIMS, subject="u3", email=email))
    assert await world.rows(UserStore) == [user]


async def test_an_account_that_nobody_signed_in_to_is_opened_once(
    world: MemoryOperations,
) -> None:
    """A directory pushed it: the first identity with its verified address opens it."""
    await world.given(ADA)
    assert (await federation(world).admit(CLAIMS)).id == "ada"
    with pytest.raises(Conflict, match="another identity signs in to the account ada@example.org"):
        await federation(world).admit(replace(CLAIMS, subject="u2"))
    local = make_user("cy")
    await world.given(local)
    for subject in ("u3", "u4"):
        named = replace(CLAIMS, subject=subject, email=local.email)
        assert (await federation(world).admit(named)).id == "cy"


async def test_a_user_without_a_required_group_is_expelled(world: MemoryOperations) -> None:
    user = make_user("ada")
    token = make_token(user)[0]
    await world.given(user, token, Login("l", IDP, "u1", "ada", START))
    required = federation(world, "crew", "team")
    assert (await required.admit(replace(CLAIMS, groups=("team",)))).id == "ada"
    for groups in ((), None):
        with pytest.raises(Forbidden, match="none of the required groups"):
            await required.admit(replace(CLAIMS, groups=groups))
    with pytest.raises(Forbidden):
        await required.admit(replace(CLAIMS, subject="u2", email="new@example.org"))
    assert await world.rows(UserStore) == [user]
    assert [row.revoked_at for row in await world.rows(TokenStore)] == [START]
    assert await world.audited() == [("towline", "expelUser", user.email)] * 2
    assert world.published[:2] == [(REVOKED, token.id), (ACCESS, "ada")]


async def test_an_id_token_names_its_user_and_its_end(world: MemoryOperations) -> None:
    issuers = FakeIssuers()
    end = START + timedelta(minutes=5)
    issuers.claims["a.b.c"] = replace(CLAIMS, expires_at=end)
    user, until = await Federation(world.context, issuers).user_of_token("a.b.c")
    assert (user.email, until) == ("ada@example.org", end)
