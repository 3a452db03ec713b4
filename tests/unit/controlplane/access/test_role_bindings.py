"""Declared role bindings: their names, changes and expiry."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.access.model.bindings import Project
from controlplane.access.model.trust_rules import TrustRuleSpec
from controlplane.access.model.users import UserKind
from controlplane.access.operations.access_requests import AccessRequests
from controlplane.access.operations.binding_subjects import Subjects
from controlplane.access.operations.groups import Groups
from controlplane.access.operations.permissions import Permissions
from controlplane.access.operations.role_bindings import BindingDraft, RoleBindings
from controlplane.access.operations.roles import RoleChange, Roles
from controlplane.access.operations.service_accounts import ServiceAccounts
from controlplane.access.operations.trust_rules import TrustRuleChange, TrustRules
from controlplane.access.operations.users import Users
from controlplane.access.ports import MembershipStore, RoleBindingStore
from controlplane.authorization import (
    ANONYMOUS,
    BUILT_IN,
    INSTALLATION,
    Grant,
    Policy,
    ResourceKind,
    Role,
    Rule,
    Scope,
    Verb,
)
from controlplane.authorization.roles import BuiltInRole
from controlplane.platform.context import ACCESS
from controlplane.platform.labels import LabelOperator, LabelRequirement
from controlplane.platform.parts import Given, column_values
from core.errors import Conflict, Forbidden, NotFound, Unauthenticated
from tests.fakes.access import USER_MANAGER, bind, join, make_group, make_user
from tests.fakes.actors import ADMIN, EDITOR, person
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, operations_over_memory

ADA, BOB, CREW = make_user("ada"), make_user("bob"), make_group("crew")
SHOP, OF_SHOP = Project("shop", "shop", START, START), Scope("project:shop")
ADMIN_OF_SHOP = person(BuiltInRole.ADMIN, "sue", OF_SHOP)
END = START + timedelta(hours=1)
DRAFT = BindingDraft("editor", OF_SHOP, user="ada", expires_at=END, name="on-call")


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(SHOP, ADA, BOB, CREW)
    return world


@pytest.fixture
def bindings(world: MemoryOperations) -> RoleBindings:
    return RoleBindings(world.context)


async def test_a_declared_binding_stays_after_its_expiry_and_grants_nothing(
    world: MemoryOperations, bindings: RoleBindings
) -> None:
    requests, permissions = AccessRequests(world.context), Permissions(world.context)
    view = await bindings.create(ADMIN_OF_SHOP, DRAFT)
    other = bind("viewer", BOB, OF_SHOP, until=END)
    await world.given(other)
    holders = await permissions.who_can(ADMIN, Verb.READ, ResourceKind.PROJECT, "shop")
    assert (view.expired, [holder.user for holder in holders]) == (False, [ADA, BOB])
    await world.clock.advance(3599)
    assert await requests.next_expiry(timedelta(seconds=1)) == END
    world.published.clear()
    await world.clock.advance(1)
    (seen,) = [v for v in await bindings.all(ADMIN) if v.row.name == "on-call"]
    assert seen.expired
    assert await permissions.who_can(ADMIN, Verb.READ, ResourceKind.PROJECT, "shop") == []
    assert await requests.end_expired() == 2
    ended = replace(view.row, ended_at=world.clock.now())
    assert await world.rows(RoleBindingStore) == [ended]
    assert sorted(world.published) == [(ACCESS, "ada"), (ACCESS, "bob")]
    audited = [row for row in await world.audited() if row[1] == "expireRoleBinding"]
    assert sorted(audited) == [
        ("towline", "expireRoleBinding", "bob"),
        ("towline", "expireRoleBinding", "on-call"),
    ]
    assert (await requests.end_expired(), await requests.next_expiry(timedelta(days=9))) == (
        0,
        None,
    )


async def test_a_declared_binding_is_extended_and_moved(
    world: MemoryOperations, bindings: RoleBindings
) -> None:
    view = await bindings.create(ADMIN, DRAFT)
    await world.clock.advance(3600)
    await AccessRequests(world.context).end_expired()
    world.published.clear()
    later = replace(DRAFT, expires_at=END + timedelta(hours=1))
    extended = await bindings.update(ADMIN, view.id, later)
    assert extended.row == replace(
        view.row, expires_at=later.expires_at, inserted_at=START, given_by=ADMIN.email
    )
    moved = await bindings.update(
        ADMIN, view.id, BindingDraft("viewer", INSTALLATION, group="crew", name="on-call")
    )
    assert (moved.row.role_id, moved.row.scope, moved.subject) == ("viewer", INSTALLATION, "crew")
    assert moved.row.expires_at is None
    assert world.published == [(ACCESS, "ada"), (ACCESS, "ada"), (ACCESS, "")]
    assert (await world.audited())[-2:] == [
        (ADMIN.email, "updateRoleBinding", ADA.email),
        (ADMIN.email, "updateRoleBinding", "crew"),
    ]


async def test_a_binding_that_is_over_can_be_declared(bindings: RoleBindings) -> None:
    assert (await bindings.create(ADMIN, replace(DRAFT, expires_at=START))).expired


async def test_names_of_bindings_are_unique_until_the_scope_is_gone(
    world: MemoryOperations, bindings: RoleBindings
) -> None:
    await bindings.create(ADMIN, DRAFT)
    with pytest.raises(Conflict, match="role binding 'on-call' already exists"):
        await bindings.create(ADMIN, replace(DRAFT, user="bob"))
    gone = replace(bind("editor", ADA, Scope("project:gone")), name="gone")
    await world.given(gone)
    view = await bindings.create(ADMIN, replace(DRAFT, name="gone"))
    assert [row.scope for row in await world.rows(RoleBindingStore, name="gone")] == [OF_SHOP]
    assert view.row.name == "gone"


async def test_a_change_needs_the_permissions_of_both_roles(
    world: MemoryOperations, bindings: RoleBindings
) -> None:
    everywhere = replace(bind("viewer", BOB), name="everywhere")
    of_shop = replace(bind("viewer", ADA, OF_SHOP), name="of-shop")
    own = replace(bind("viewer", make_user("root"), OF_SHOP), name="own")
    unnamed = bind("viewer", CREW, OF_SHOP)
    await world.given(everywhere, of_shop, own, unnamed, make_user("root"))
    to_shop = replace(DRAFT, name="everywhere")
    for actor, row, draft, error in (
        (ADMIN_OF_SHOP, everywhere, to_shop, NotFound),
        (ADMIN_OF_SHOP, of_shop, replace(DRAFT, name="of-shop", scope=INSTALLATION), Forbidden),
        (USER_MANAGER, everywhere, to_shop, Forbidden),
        (EDITOR, of_shop, replace(DRAFT, name="of-shop"), NotFound),
        (ANONYMOUS, of_shop, replace(DRAFT, name="of-shop"), Unauthenticated),
        (ADMIN, of_shop, replace(DRAFT, name="other"), Conflict),
        (ADMIN, own, replace(DRAFT, name="own"), Conflict),
        (ADMIN, unnamed, replace(DRAFT, name=None), Conflict),
        (ADMIN, bind("none", ADA), DRAFT, NotFound),
    ):
        with pytest.raises(error):
            await bindings.update(actor, row.id, draft)
    assert len(await world.rows(RoleBindingStore)) == 4
    assert await world.audited() == [] and world.published == []


async def test_subjects_of_a_resource_leave_declared_bindings_alone(
    world: MemoryOperations, bindings: RoleBindings
) -> None:
    declared = replace(bind("editor", ADA, OF_SHOP), name="declared")
    await world.given(declared)
    await bindings.set_subjects(ADMIN, OF_SHOP, {"editor": Subjects(frozenset({"bob"}))})
    rows = await world.rows(RoleBindingStore, scope=OF_SHOP)
    assert declared in rows and {row.subject_id for row in rows} == {"ada", "bob"}
    fields = await bindings.of_resources(ADMIN, OF_SHOP)
    assert [view.row.subject_id for view in fields] == ["bob"]


async def test_a_role_of_a_user_leaves_declared_bindings_alone(world: MemoryOperations) -> None:
    """An expired one is no role of the user any more."""
    declared = replace(bind("admin", ADA, until=END), name="declared")
    await world.given(declared, bind("viewer", ADA))
    users = Users(world.context)
    assert await users.roles_everywhere(ADMIN, [ADA]) == {"ada": BuiltInRole.ADMIN}
    await users.upsert(ADMIN, ADA.email, role="editor")
    rows = await world.rows(RoleBindingStore)
    assert declared in rows and {row.role_id for row in rows} == {"admin", "editor"}
    await world.clock.advance(3600)
    assert await users.roles_everywhere(ADMIN, [ADA]) == {"ada": BuiltInRole.EDITOR}


BRIEF = replace(ADMIN, id="tim", policy=Policy((Grant(BUILT_IN["admin"], expires_at=END),)))
"""An administrator for an hour."""


async def test_nobody_grants_a_role_for_longer_than_they_have_it(
    world: MemoryOperations, bindings: RoleBindings
) -> None:
    """Otherwise an hour of permissions would give itself, or an accomplice, all of the future."""
    context = world.context
    roles, rules, users = Roles(context), TrustRules(context), Users(context)
    groups, accounts = Groups(context), ServiceAccounts(context)
    robot = replace(make_user("robot"), kind=UserKind.SERVICE_ACCOUNT)
    await world.given(robot, bind("viewer", robot), bind("viewer", CREW))
    permanent = replace(DRAFT, expires_at=None)
    await bindings.create(BRIEF, DRAFT)
    view = await bindings.create(ADMIN, replace(DRAFT, name="late"))
    spec = TrustRuleSpec(robot.id, "https://ci.example.org", "towline", "repo:shop")
    rule = TrustRuleChange("ci", Given(column_values(spec)))
    for attempt in (
        bindings.create(BRIEF, replace(permanent, name="more")),
        bindings.create(BRIEF, replace(DRAFT, name="more", expires_at=END + timedelta(seconds=1))),
        bindings.create(BRIEF, BindingDraft("viewer", INSTALLATION, user="tim")),
        bindings.update(BRIEF, view.id, replace(permanent, name="late")),
        bindings.set_subjects(BRIEF, OF_SHOP, {"editor": Subjects(frozenset({"bob"}))}),
        roles.create(BRIEF, RoleChange("mine", rules=(Rule(),))),
        users.upsert(BRIEF, BOB.email, role="admin"),
        groups.add_member(BRIEF, CREW.id, BOB.id),
        accounts.create_token(BRIEF, robot.id, "token"),
        rules.create(BRIEF, rule),
    ):
        with pytest.raises(Forbidden, match="you can only grant permissions that you have, and no"):
            await attempt


@pytest.mark.parametrize(
    ("seconds", "is_allowed"), [(-1, True), (0, True), (1, False), (None, False)]
)
async def test_who_has_a_role_for_a_while_adds_members_to_groups_that_lose_theirs_before(
    world: MemoryOperations, seconds: int | None, is_allowed: bool
) -> None:
    end = None if seconds is None else END + timedelta(seconds=seconds)
    groups = Groups(world.context)
    await world.given(bind("viewer", CREW, OF_SHOP, until=end))
    if is_allowed:
        await groups.add_member(BRIEF, CREW.id, BOB.id)
    else:
        with pytest.raises(Forbidden, match='that role viewer grants in project "shop"'):
            await groups.add_member(BRIEF, CREW.id, BOB.id)
    assert len(await world.rows(MembershipStore)) == is_allowed


async def test_bindings_and_roles_are_found_by_labels(
    world: MemoryOperations, bindings: RoleBindings
) -> None:
    """Built-in roles have none."""
    own = Role("own", "own", START, START)
    given = bind("viewer", ADA)
    await world.given(own, given)
    roles = Roles(world.context)
    with_team = [LabelRequirement("team", LabelOperator.Exists)]
    without = [LabelRequirement("team", LabelOperator.DoesNotExist)]
    assert await bindings.all(ADMIN, labels=with_team) == []
    assert [view.id for view in await bindings.all(ADMIN, labels=without)] == [given.id]
    assert await roles.all(ADMIN, with_team) == []
    assert await roles.all(ADMIN, [*without, *with_team]) == []
    assert await roles.all(ADMIN, without) == [*BUILT_IN.values(), own]


async def test_who_has_a_role_for_a_while_takes_it_from_others(
    world: MemoryOperations, bindings: RoleBindings
) -> None:
    """As in an incident; and grants as long as it lasts."""
    groups = Groups(world.context)
    users = Users(world.context)
    accounts = ServiceAccounts(world.context)
    given, named = bind("editor", ADA, OF_SHOP), replace(bind("viewer", BOB), name="named")
    await world.given(given, named, join(ADA, CREW), bind("viewer", CREW, OF_SHOP))
    await bindings.set_subjects(BRIEF, OF_SHOP, {"editor": Subjects()})
    await bindings.delete(BRIEF, named.id)
    await groups.remove_member(BRIEF, CREW.id, ADA.id)
    await users.disable(BRIEF, BOB.id)
    token, _ = await accounts.create_token(
        BRIEF, (await accounts.create(BRIEF, "robot")).id, "token", timedelta(hours=1)
    )
    assert token.expires_at == END
    assert [row.subject_id for row in await world.rows(RoleBindingStore)] == [CREW.id]
