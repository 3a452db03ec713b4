"""Operations on roles and role bindings."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.access.model.bindings import Project
from controlplane.access.operations.binding_subjects import Subjects
from controlplane.access.operations.role_bindings import BindingDraft, RoleBindings
from controlplane.access.operations.roles import RoleChange, Roles
from controlplane.access.ports import RoleBindingStore, RoleStore
from controlplane.authorization import (
    ANONYMOUS,
    BUILT_IN,
    INSTALLATION,
    Grant,
    KubernetesRights,
    KubernetesRule,
    Policy,
    ResourceKind,
    Role,
    Rule,
    Scope,
    Verb,
)
from controlplane.authorization.roles import MAX_RULES, BuiltInRole
from controlplane.platform.context import ACCESS
from core.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated
from tests.fakes.access import USER_MANAGER, bind, make_group, make_user
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, person
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, make_cluster, operations_over_memory

ADA, BOB, CREW = make_user("ada"), make_user("bob"), make_group("crew")
SHOP, OF_SHOP = Project("shop", "shop", START, START), Scope("project:shop")
ADMIN_OF_SHOP = person(BuiltInRole.ADMIN, "sue", OF_SHOP)
ANY_REQUEST = KubernetesRule()
READ_CLUSTERS = (Rule((Verb.READ,), (ResourceKind.CLUSTER,)),)
USER_MANAGER_RULES = USER_MANAGER.policy.grants[0].role.rules
WATCH = Role("watch", "watch", START, START, rules=READ_CLUSTERS)
DEV = make_cluster("dev", project_id="shop")


@pytest.fixture
def world() -> MemoryOperations:
    return operations_over_memory()


@pytest.fixture
def roles(world: MemoryOperations) -> Roles:
    return Roles(world.context)


@pytest.fixture
def bindings(world: MemoryOperations) -> RoleBindings:
    return RoleBindings(world.context)


async def check_nothing_happened(world: MemoryOperations) -> None:
    assert await world.audited() == [] and world.published == []


async def test_built_in_roles_come_first(world: MemoryOperations, roles: Roles) -> None:
    own = replace(WATCH, name="abc")
    await world.given(own)
    assert await roles.all(NOBODY) == [*BUILT_IN.values(), own]
    for name in ("watch", "abc"):
        assert await roles.get(NOBODY, name) == own
    assert await roles.get(NOBODY, "editor") == BUILT_IN["editor"]
    with pytest.raises(NotFound, match="'none' does not exist"):
        await roles.get(NOBODY, "none")


async def test_a_role_is_created_and_changed(world: MemoryOperations, roles: Roles) -> None:
    made = await roles.create(ADMIN, RoleChange("watch", "x" * 1000, READ_CLUSTERS))
    assert await world.rows(RoleStore) == [made]
    assert (made.name, made.rules) == ("watch", READ_CLUSTERS)
    await world.clock.advance(1)
    rights = KubernetesRights(("viewers",))
    after = await roles.update(ADMIN, made.id, RoleChange(kubernetes=rights, description=""))
    expected = replace(made, kubernetes=rights, description="")
    assert after == replace(expected, updated_at=world.clock.now())
    assert await world.rows(RoleStore) == [after]
    same = await roles.update(ADMIN, made.id, RoleChange("watch"))
    assert same.name == "watch"
    actions = [action for _, action, _ in await world.audited()]
    assert actions == ["createRole", "updateRole", "updateRole"]
    assert world.published == [(ACCESS, "")] * 3


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (RoleChange(), "name"),
        (RoleChange("x" * 256), "name"),
        (RoleChange("new", "x" * 1001), "description"),
        (RoleChange("new", rules=READ_CLUSTERS * (MAX_RULES + 1)), "rules"),
        (RoleChange("new", kubernetes=KubernetesRights(("system:masters",))), "kubernetes.groups"),
        (RoleChange("new", kubernetes=KubernetesRights(record_input=True)), "kubernetes.record"),
        (RoleChange("new", kubernetes=KubernetesRights(("x" * 254,))), "kubernetes"),
        (RoleChange("new", kubernetes=KubernetesRights(rules=(ANY_REQUEST,) * 501)), "kubernetes"),
    ],
)
async def test_an_invalid_role_is_refused(
    world: MemoryOperations, roles: Roles, change: RoleChange, field: str
) -> None:
    with pytest.raises(Invalid) as error:
        await roles.create(ADMIN, change)
    assert error.value.field == field
    assert await world.rows(RoleStore) == []
    await check_nothing_happened(world)


async def test_a_role_has_at_most_50_rules(roles: Roles) -> None:
    made = await roles.create(ADMIN, RoleChange("new", rules=READ_CLUSTERS * MAX_RULES))
    assert len(made.rules) == 50


@pytest.mark.parametrize(
    ("name", "id", "error"),
    [
        ("watch", None, Conflict),
        ("admin", None, Conflict),
        ("watch", "other", Conflict),
        ("new", "admin", Conflict),
        ("new", "none", NotFound),
    ],
)
async def test_names_of_roles_are_unique_and_built_in_roles_stay(
    world: MemoryOperations,
    roles: Roles,
    name: str,
    id: str | None,
    error: type[Exception],
) -> None:
    other = replace(WATCH, id="other", name="other")
    await world.given(WATCH, other)
    with pytest.raises(error):
        await (
            roles.update(ADMIN, id, RoleChange(name))
            if id
            else roles.create(ADMIN, RoleChange(name))
        )
    assert await world.rows(RoleStore) == [other, WATCH]
    await check_nothing_happened(world)


async def test_nobody_defines_a_role_with_permissions_that_they_lack(
    world: MemoryOperations, roles: Roles
) -> None:
    """Taking permissions away needs them as well."""
    await world.given(WATCH)
    with pytest.raises(Forbidden):
        await roles.create(USER_MANAGER, RoleChange("new", rules=READ_CLUSTERS))
    with pytest.raises(Forbidden):
        await roles.update(USER_MANAGER, "watch", RoleChange(rules=()))
    assert await world.rows(RoleStore) == [WATCH]
    await check_nothing_happened(world)


async def test_a_role_gets_no_permission_that_its_editor_lacks(
    world: MemoryOperations, roles: Roles
) -> None:
    """Not even one that only people elsewhere have now."""
    people = Role("people", "people", START, START, rules=USER_MANAGER_RULES)
    await world.given(people)
    with pytest.raises(Forbidden, match="only grant permissions that you have"):
        await roles.update(USER_MANAGER, "people", RoleChange(rules=READ_CLUSTERS))
    wide = KubernetesRights(("team",))
    with pytest.raises(Forbidden):
        await roles.update(USER_MANAGER, "people", RoleChange(kubernetes=wide))
    assert await world.rows(RoleStore) == [people]
    fewer = (Rule((Verb.READ,), (ResourceKind.USER,)),)
    after = await roles.update(USER_MANAGER, "people", RoleChange(rules=fewer))
    assert after.rules == fewer


async def test_a_changed_role_keeps_its_name_and_takes_no_other(
    world: MemoryOperations, roles: Roles
) -> None:
    await world.given(WATCH, replace(WATCH, id="other", name="other"))
    for name in ("other", "admin"):
        with pytest.raises(Conflict):
            await roles.update(ADMIN, "watch", RoleChange(name))
    with pytest.raises(Conflict, match="role 'watch' already exists"):
        await roles.create(ADMIN, RoleChange("watch", rules=READ_CLUSTERS))
    assert (await roles.update(ADMIN, "watch", RoleChange("watch", "text"))).description == "text"


async def test_an_unbound_role_is_deleted(world: MemoryOperations, roles: Roles) -> None:
    await world.given(ADA, WATCH, bind("watch", ADA))
    with pytest.raises(Conflict, match="has 1 bindings"):
        await roles.delete(ADMIN, "watch")
    for id, error in (("admin", Conflict), ("none", NotFound)):
        with pytest.raises(error):
            await roles.delete(ADMIN, id)
    await check_nothing_happened(world)
    async with world.store.write() as tx:
        await tx[RoleBindingStore].remove(bind("watch", ADA).id)
    assert await roles.delete(ADMIN, "watch") == WATCH
    assert await world.rows(RoleStore) == []
    assert await world.audited() == [(ADMIN.email, "deleteRole", "watch")]


async def test_a_list_of_bindings_that_needs_several_reads_is_whole(
    world: MemoryOperations, bindings: RoleBindings
) -> None:
    ids = {f"b{number:04}" for number in range(2001)}
    await world.given(ADA, *(replace(bind("viewer", ADA), id=id) for id in sorted(ids)))
    views = await bindings.all(ADMIN)
    assert len(views) == 2001 and {view.id for view in views} == ids


async def test_bindings_as_fields_are_seen_as_a_whole_or_not(
    world: MemoryOperations, bindings: RoleBindings
) -> None:
    """By editors, who change services there, and by readers of bindings; not by their subjects."""
    of_shop, declared = bind("editor", CREW, OF_SHOP), bind("viewer", ADA, OF_SHOP)
    await world.given(SHOP, ADA, CREW, of_shop, replace(declared, name="declared"))
    auditor = Role("auditor", "auditor", rules=(Rule((Verb.READ,), (ResourceKind.BINDING,)),))
    reader = replace(NOBODY, policy=Policy((Grant(auditor, OF_SHOP),)))
    for actor in (EDITOR, ADMIN_OF_SHOP, reader, USER_MANAGER):
        assert [view.row for view in await bindings.of_resources(actor, OF_SHOP)] == [of_shop]
    for actor in (person(BuiltInRole.VIEWER), person(None, "ada"), NOBODY):
        assert await bindings.of_resources(actor) == []


async def test_the_audit_log_names_role_scope_and_end_of_a_binding(
    world: MemoryOperations, bindings: RoleBindings
) -> None:
    await world.given(SHOP, ADA, CREW)
    until = START + timedelta(hours=1)
    draft = BindingDraft("viewer", OF_SHOP, user="ada", expires_at=until, name="b")
    view = await bindings.create(ADMIN, draft)
    await bindings.update(ADMIN, view.id, replace(draft, role="editor", expires_at=None))
    await bindings.delete(ADMIN, view.id)
    await bindings.set_subjects(ADMIN, OF_SHOP, {"viewer": Subjects(frozenset({"ada"}))})
    editor = {"role": "editor", "scope": OF_SHOP}
    assert await world.audit_details() == [
        (
            "createRoleBinding",
            {"role": "viewer", "scope": OF_SHOP, "until": "2026-01-01T01:00:00Z"},
        ),
        ("updateRoleBinding", {**editor, "until": ""}),
        ("deleteRoleBinding", editor),
        ("setBindings", {"roles": ["viewer"]}),
    ]


async def test_bindings_are_seen_where_the_actor_reads_them(
    world: MemoryOperations, bindings: RoleBindings
) -> None:
    """Everybody sees their own; bindings in deleted scopes or of deleted roles are left out."""
    of_shop, everywhere = bind("editor", CREW, OF_SHOP), bind("viewer", ADA)
    lost = bind("viewer", BOB, Scope("project:gone")), bind("gone", BOB)
    await world.given(SHOP, ADA, BOB, CREW, of_shop, everywhere, *lost)
    seen = {view.row.id: view for view in await bindings.all(ADMIN)}
    assert seen.keys() == {of_shop.id, everywhere.id}
    assert (seen[of_shop.id].group, seen[of_shop.id].user) == (CREW, None)
    assert (seen[everywhere.id].user, seen[everywhere.id].role) == (ADA, BUILT_IN["viewer"])
    assert [view.row for view in await bindings.all(ADMIN, OF_SHOP)] == [of_shop]
    assert [view.row for view in await bindings.all(ADMIN_OF_SHOP)] == [of_shop]
    assert [view.row for view in await bindings.all(person(None, "ada"))] == [everywhere]
    assert await bindings.all(EDITOR) == []


@pytest.mark.parametrize(
    ("draft", "named", "key"),
    [
        (BindingDraft("viewer", OF_SHOP, user="ada@example.org"), "ada@example.org", "ada"),
        (BindingDraft("viewer", OF_SHOP, user="ada"), "ada@example.org", "ada"),
        (BindingDraft("viewer", OF_SHOP, group="team"), "team", ""),
        (BindingDraft("viewer", OF_SHOP, group="crew"), "team", ""),
    ],
)
async def test_a_role_is_bound_to_a_user_or_a_group(
    world: MemoryOperations, bindings: RoleBindings, draft: BindingDraft, named: str, key: str
) -> None:
    await world.given(SHOP, ADA, replace(CREW, name="team"))
    end = START + timedelta(microseconds=1)
    view = await bindings.create(ADMIN_OF_SHOP, replace(draft, expires_at=end, reason="r" * 1000))
    assert await world.rows(RoleBindingStore) == [view.row]
    assert (view.row.role_id, view.row.scope) == ("viewer", OF_SHOP)
    assert (view.row.given_by, view.row.expires_at) == (ADMIN_OF_SHOP.email, end)
    assert view.row.reason == "r" * 1000
    assert (view.user or view.group) in (ADA, replace(CREW, name="team"))
    assert await world.audited() == [(ADMIN_OF_SHOP.email, "createRoleBinding", named)]
    assert world.published == [(ACCESS, key)]


@pytest.mark.parametrize(
    ("draft", "error"),
    [
        (BindingDraft("viewer", INSTALLATION), Invalid),
        (BindingDraft("viewer", INSTALLATION, user="ada", group="crew"), Invalid),
        (BindingDraft("viewer", INSTALLATION, user="ada", expires_at=START), Invalid),
        (BindingDraft("viewer", INSTALLATION, user="ada", reason="r" * 1001), Invalid),
        (BindingDraft("viewer", INSTALLATION, user="ada", name="No Label"), Invalid),
        (BindingDraft("viewer", Scope("planet:earth"), user="ada"), Invalid),
        (BindingDraft("viewer", Scope("project:"), user="ada"), Invalid),
        (BindingDraft("viewer", Scope("project:none"), user="ada"), NotFound),
        (BindingDraft("none", INSTALLATION, user="ada"), NotFound),
        (BindingDraft("viewer", INSTALLATION, user="none"), NotFound),
        (BindingDraft("viewer", INSTALLATION, group="none"), NotFound),
    ],
)
async def test_an_invalid_binding_is_refused(
    world: MemoryOperations,
    bindings: RoleBindings,
    draft: BindingDraft,
    error: type[Exception],
) -> None:
    await world.given(ADA, CREW)
    with pytest.raises(error):
        await bindings.create(ADMIN, draft)
    assert await world.rows(RoleBindingStore) == []
    await check_nothing_happened(world)


async def test_a_binding_needs_the_permissions_of_its_role_in_its_scope(
    world: MemoryOperations, bindings: RoleBindings
) -> None:
    await world.given(SHOP, ADA)
    everywhere, of_shop = (BindingDraft("viewer", s, user="ada") for s in (INSTALLATION, OF_SHOP))
    for actor, draft, error in (
        (ADMIN_OF_SHOP, everywhere, Forbidden),
        (USER_MANAGER, everywhere, Forbidden),
        (USER_MANAGER, of_shop, NotFound),
        (EDITOR, of_shop, Forbidden),
        (NOBODY, of_shop, NotFound),
        (ANONYMOUS, of_shop, Unauthenticated),
    ):
        with pytest.raises(error):
            await bindings.create(actor, draft)
    assert await world.rows(RoleBindingStore) == []
    await check_nothing_happened(world)


async def test_a_binding_is_deleted(world: MemoryOperations, bindings: RoleBindings) -> None:
    first, second = bind("viewer", ADA, OF_SHOP), bind("viewer", CREW, OF_SHOP)
    await world.given(SHOP, ADA, CREW, first, second)
    for row in (first, second):
        assert (await bindings.delete(ADMIN_OF_SHOP, row.id)).row == row
    assert await world.rows(RoleBindingStore) == []
    by = ADMIN_OF_SHOP.email
    assert await world.audited() == [
        (by, "deleteRoleBinding", ADA.email),
        (by, "deleteRoleBinding", "crew"),
    ]
    assert world.published == [(ACCESS, "ada"), (ACCESS, "")]


async def test_a_binding_of_a_deleted_user_is_deleted(
    world: MemoryOperations, bindings: RoleBindings
) -> None:
    await world.given(bind("viewer", ADA))
    view = await bindings.delete(ADMIN, bind("viewer", ADA).id)
    assert (view.user, view.group) == (None, None)
    assert await world.rows(RoleBindingStore) == []


async def test_a_binding_stays_without_the_permissions_to_delete_it(
    world: MemoryOperations, bindings: RoleBindings
) -> None:
    root, reader = make_user("root"), person(None, "rita")
    rows = [bind("admin", root), bind("viewer", ADA), bind("viewer", BOB, Scope("project:gone"))]
    await world.given(ADA, BOB, root, *rows)
    for actor, row, error in (
        (ADMIN, rows[0], Conflict),
        (USER_MANAGER, rows[1], Forbidden),
        (EDITOR, rows[1], NotFound),
        (reader, rows[1], NotFound),
        (ANONYMOUS, rows[1], Unauthenticated),
        (ADMIN, rows[2], NotFound),
        (ADMIN, bind("none", ADA), NotFound),
    ):
        with pytest.raises(error):
            await bindings.delete(actor, row.id)
    assert len(await world.rows(RoleBindingStore)) == 3
    await check_nothing_happened(world)


async def test_the_subjects_of_roles_are_replaced(
    world: MemoryOperations, bindings: RoleBindings
) -> None:
    """Temporary bindings and other roles stay."""
    leaving, kept = bind("editor", ADA, OF_SHOP), bind("editor", CREW, OF_SHOP)
    temporary = replace(bind("editor", BOB, OF_SHOP, START + timedelta(1)), id="temporary")
    other = bind("viewer", ADA, OF_SHOP)
    await world.given(SHOP, ADA, BOB, CREW, leaving, kept, temporary, other)
    subjects = {"editor": Subjects(frozenset({"bob"}), frozenset({"crew"}))}
    await bindings.set_subjects(ADMIN_OF_SHOP, OF_SHOP, subjects)
    rows = {row.id: row for row in await world.rows(RoleBindingStore)}
    added = rows.keys() - {kept.id, temporary.id, other.id}
    assert len(rows) == 4 and len(added) == 1
    new = rows[added.pop()]
    assert (new.subject_id, new.role_id, new.given_by) == ("bob", "editor", ADMIN_OF_SHOP.email)
    assert await world.audited() == [(ADMIN_OF_SHOP.email, "setBindings", 'project "shop"')]
    assert sorted(world.published) == [(ACCESS, "ada"), (ACCESS, "bob")]


async def test_the_same_subjects_change_nothing(
    world: MemoryOperations, bindings: RoleBindings
) -> None:
    """They need no permissions of the role."""
    held = bind("admin", ADA)
    await world.given(ADA, held)
    await bindings.set_subjects(USER_MANAGER, INSTALLATION, {"admin": Subjects(frozenset({"ada"}))})
    await bindings.set_subjects(USER_MANAGER, INSTALLATION, {})
    assert await world.rows(RoleBindingStore) == [held]
    await check_nothing_happened(world)


@pytest.mark.parametrize(
    ("subjects", "error"),
    [
        ({"admin": Subjects(frozenset({"ada"}))}, Forbidden),
        ({"viewer": Subjects()}, Forbidden),
        ({"none": Subjects()}, NotFound),
        ({"viewer": Subjects(frozenset({"none"}))}, NotFound),
        ({"viewer": Subjects(frozenset(), frozenset({"none"}))}, NotFound),
    ],
)
async def test_subjects_that_are_unknown_or_beyond_the_actor_are_refused(
    world: MemoryOperations,
    bindings: RoleBindings,
    subjects: dict[str, Subjects],
    error: type[Exception],
) -> None:
    held = bind("viewer", ADA)
    await world.given(ADA, held)
    with pytest.raises(error):
        await bindings.set_subjects(USER_MANAGER, INSTALLATION, subjects)
    assert await world.rows(RoleBindingStore) == [held]
    await check_nothing_happened(world)


CALLS = {
    "create": lambda roles, actor: roles.create(actor, RoleChange("new")),
    "update": lambda roles, actor: roles.update(actor, "watch", RoleChange("new")),
    "delete": lambda roles, actor: roles.delete(actor, "watch"),
}


@pytest.mark.parametrize("name", sorted(CALLS))
async def test_a_change_of_roles_needs_their_administrator(
    world: MemoryOperations, roles: Roles, name: str
) -> None:
    await world.given(WATCH)
    for actor, error in (
        (EDITOR, Forbidden),
        (ADMIN_OF_SHOP, Forbidden),
        (ANONYMOUS, Unauthenticated),
    ):
        with pytest.raises(error):
            await CALLS[name](roles, actor)
    assert await world.rows(RoleStore) == [WATCH]
    await check_nothing_happened(world)
