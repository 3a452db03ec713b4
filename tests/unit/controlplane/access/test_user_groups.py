"""Operations on groups of users and their members."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.access.model.users import UserKind
from controlplane.access.operations.groups import GroupChange, Groups
from controlplane.access.operations.scopes import actor_of_user
from controlplane.access.ports import GroupStore, MembershipStore, RoleBindingStore
from controlplane.authorization import ANONYMOUS, ActorKind
from controlplane.authorization.roles import BuiltInRole
from controlplane.platform.context import ACCESS
from controlplane.platform.ports import PageQuery
from core.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated
from tests.fakes.access import USER_MANAGER, bind, join, make_group, make_user
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, person
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, operations_over_memory

ADA, BOB = make_user("ada"), make_user("bob")
CREW, EVERYONE = make_group("crew"), make_group("all", everyone=True)
ADA_HERSELF = person(BuiltInRole.VIEWER, "ada")


@pytest.fixture
def world() -> MemoryOperations:
    return operations_over_memory()


@pytest.fixture
def groups(world: MemoryOperations) -> Groups:
    return Groups(world.context)


async def check_nothing_happened(world: MemoryOperations) -> None:
    assert await world.audited() == [] and world.published == []


async def test_every_member_of_the_installation_sees_groups(
    world: MemoryOperations, groups: Groups
) -> None:
    await world.given(CREW)
    assert (await groups.page(NOBODY, PageQuery())).items == (CREW,)
    assert await groups.get(NOBODY, "crew") == CREW
    for name in ("none", ""):
        with pytest.raises(NotFound):
            await groups.get(ADMIN, name)
    with pytest.raises(Unauthenticated):
        await groups.get(ANONYMOUS, "crew")


async def test_readers_of_users_see_members(world: MemoryOperations, groups: Groups) -> None:
    await world.given(ADA, BOB, CREW, EVERYONE, join(ADA, CREW))
    assert await groups.members(ADMIN, "crew") == [ADA]
    assert await groups.members(ADMIN, "all") == []
    with pytest.raises(Forbidden):
        await groups.members(EDITOR, "crew")


async def test_people_are_in_the_groups_of_everyone(
    world: MemoryOperations, groups: Groups
) -> None:
    bot = replace(make_user("bot"), kind=UserKind.SERVICE_ACCOUNT)
    await world.given(ADA, bot, CREW, EVERYONE, join(ADA, CREW), join(bot, CREW))
    assert await groups.of_actor(ADA_HERSELF) == [CREW, EVERYONE]
    account = replace(NOBODY, id="bot", kind="service-account")
    assert await groups.of_actor(account) == [CREW]
    assert await groups.of_actor(NOBODY) == [EVERYONE]


async def test_the_roles_of_users_name_where_they_come_from(world: MemoryOperations) -> None:
    """Roles of a group of everyone are those of people, and not of service accounts."""
    bot = replace(make_user("bot"), kind=UserKind.SERVICE_ACCOUNT)
    await world.given(ADA, bot, CREW, EVERYONE, join(ADA, CREW), join(bot, CREW))
    until = START + timedelta(hours=1)
    await world.given(
        bind("admin", ADA, until=until),
        replace(bind("editor", CREW), given_by="root@example.org"),
        bind("viewer", EVERYONE),
        bind("viewer", BOB),
        bind("gone", ADA),
    )
    async with world.store.read() as tx:
        ada, account = [await actor_of_user(tx, user, START) for user in (ADA, bot)]
    assert {grant.role.id: grant.why for grant in ada.policy.grants} == {
        "admin": "directly until 2026-01-01T01:00:00Z",
        "editor": "group crew, given by root@example.org",
        "viewer": "group all",
    }
    assert [grant.role.id for grant in account.policy.grants] == ["editor"]
    assert (ada.kind, account.kind) == (ActorKind.USER, ActorKind.SERVICE_ACCOUNT)
    assert (ada.id, ada.name, ada.email) == ("ada", "ada", "ada@example.org")


async def test_a_member_of_a_group_of_everyone_is_in_it_once(
    world: MemoryOperations, groups: Groups
) -> None:
    await world.given(ADA, EVERYONE, join(ADA, EVERYONE))
    assert await groups.of_actor(ADA_HERSELF) == [EVERYONE]


async def test_a_group_is_created(world: MemoryOperations, groups: Groups) -> None:
    made = await groups.create(
        ADMIN, GroupChange("crew", "x" * 1000, everyone=True, issuer="https://idp")
    )
    assert await world.rows(GroupStore) == [made]
    assert (made.name, made.everyone, made.issuer) == ("crew", True, "https://idp")
    assert await world.audited() == [(ADMIN.email, "createGroup", "crew")]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (GroupChange(), "name"),
        (GroupChange("x" * 256), "name"),
        (GroupChange("new", "x" * 1001), "description"),
    ],
)
async def test_an_invalid_group_is_refused(
    world: MemoryOperations, groups: Groups, change: GroupChange, field: str
) -> None:
    with pytest.raises(Invalid) as error:
        await groups.create(ADMIN, change)
    assert error.value.field == field
    assert await world.rows(GroupStore) == []
    await check_nothing_happened(world)


async def test_names_of_groups_are_unique(world: MemoryOperations, groups: Groups) -> None:
    await world.given(CREW, EVERYONE)
    with pytest.raises(Conflict, match="'crew' already exists") as error:
        await groups.create(ADMIN, GroupChange("crew"))
    assert error.value.current["id"] == "crew"
    with pytest.raises(Conflict):
        await groups.update(ADMIN, "all", GroupChange("crew"))
    assert await world.rows(GroupStore) == [EVERYONE, CREW]
    await check_nothing_happened(world)


async def test_a_group_is_changed(world: MemoryOperations, groups: Groups) -> None:
    await world.given(CREW)
    await world.clock.advance(1)
    after = await groups.update(ADMIN, "crew", GroupChange("team", "", False, ""))
    expected = replace(CREW, name="team", description="", everyone=False)
    assert after == replace(expected, updated_at=world.clock.now())
    assert await world.rows(GroupStore) == [after]
    assert await world.audited() == [(ADMIN.email, "updateGroup", "team")]
    assert world.published == [(ACCESS, "")]


@pytest.mark.parametrize(
    ("issuer", "change", "allowed"),
    [
        (None, GroupChange("team", "text"), True),
        (None, GroupChange(everyone=True), False),
        (None, GroupChange(issuer="https://idp"), False),
        ("https://idp", GroupChange("team"), False),
        ("https://idp", GroupChange(description="text"), True),
    ],
)
async def test_a_change_of_the_members_needs_the_permissions_of_the_group(
    world: MemoryOperations,
    groups: Groups,
    issuer: str | None,
    change: GroupChange,
    allowed: bool,
) -> None:
    """Identity providers match groups by name, so the name of such a group decides as well."""
    group = replace(CREW, issuer=issuer)
    await world.given(group, bind("editor", group))
    if allowed:
        after = await groups.update(USER_MANAGER, "crew", change)
        assert await world.rows(GroupStore) == [after]
        return
    with pytest.raises(Forbidden, match="only grant permissions that you have"):
        await groups.update(USER_MANAGER, "crew", change)
    assert await world.rows(GroupStore) == [group]
    await check_nothing_happened(world)


async def test_a_deleted_group_takes_its_members_and_bindings_with_it(
    world: MemoryOperations, groups: Groups
) -> None:
    kept = join(ADA, EVERYONE), bind("viewer", ADA)
    await world.given(ADA, CREW, EVERYONE, join(ADA, CREW), bind("viewer", CREW), *kept)
    assert await groups.delete(ADMIN, "crew") == CREW
    assert await world.rows(GroupStore) == [EVERYONE]
    assert await world.rows(MembershipStore) == [kept[0]]
    assert await world.rows(RoleBindingStore) == [kept[1]]
    assert await world.audited() == [(ADMIN.email, "deleteGroup", "crew")]
    assert world.published == [(ACCESS, "")]


async def test_a_user_joins_a_group_once(world: MemoryOperations, groups: Groups) -> None:
    await world.given(ADA, CREW)
    row, group, user = await groups.add_member(ADMIN, "crew", "ada")
    assert (group, user, row.issuer) == (CREW, ADA, None)
    assert (await groups.add_member(ADMIN, "crew", "ada"))[0] == row
    assert await world.rows(MembershipStore) == [row]
    assert await world.audited() == [(ADMIN.email, "createGroupMember", "crew")] * 2
    assert world.published == [(ACCESS, "ada")] * 2


async def test_a_user_leaves_a_group(world: MemoryOperations, groups: Groups) -> None:
    await world.given(ADA, BOB, CREW, join(ADA, CREW))
    with pytest.raises(NotFound):
        await groups.remove_member(ADMIN, "crew", "bob")
    await check_nothing_happened(world)
    assert await groups.remove_member(ADMIN, "crew", "ada") == (join(ADA, CREW), CREW, ADA)
    assert await world.rows(MembershipStore) == []
    assert await world.audited() == [(ADMIN.email, "deleteGroupMember", "crew")]
    assert world.published == [(ACCESS, "ada")]


CALLS = {
    "create": lambda groups, actor, id: groups.create(actor, GroupChange("new")),
    "update": lambda groups, actor, id: groups.update(actor, id, GroupChange(everyone=True)),
    "delete": lambda groups, actor, id: groups.delete(actor, id),
    "add": lambda groups, actor, id: groups.add_member(actor, id, "bob"),
    "remove": lambda groups, actor, id: groups.remove_member(actor, id, "ada"),
}
_OF_A_GROUP = sorted(CALLS.keys() - {"create"})


@pytest.mark.parametrize("name", sorted(CALLS))
async def test_a_change_needs_a_group_administrator(
    world: MemoryOperations, groups: Groups, name: str
) -> None:
    await world.given(ADA, BOB, CREW, join(ADA, CREW))
    with pytest.raises(Forbidden):
        await CALLS[name](groups, EDITOR, "crew")
    with pytest.raises(Unauthenticated):
        await CALLS[name](groups, ANONYMOUS, "crew")
    assert await world.rows(GroupStore) == [CREW]
    assert await world.rows(MembershipStore) == [join(ADA, CREW)]
    await check_nothing_happened(world)


@pytest.mark.parametrize("name", _OF_A_GROUP)
async def test_a_change_of_members_needs_the_permissions_of_the_group(
    world: MemoryOperations, groups: Groups, name: str
) -> None:
    await world.given(ADA, BOB, CREW, join(ADA, CREW), bind("viewer", CREW))
    with pytest.raises(Forbidden, match="only grant permissions that you have"):
        await CALLS[name](groups, USER_MANAGER, "crew")
    assert await world.rows(MembershipStore) == [join(ADA, CREW)]
    await check_nothing_happened(world)


@pytest.mark.parametrize("name", _OF_A_GROUP)
async def test_a_missing_group_is_not_found(
    world: MemoryOperations, groups: Groups, name: str
) -> None:
    await world.given(ADA, BOB)
    with pytest.raises(NotFound):
        await CALLS[name](groups, ADMIN, "none")
