"""Questions about permissions: who may do what, and what a scope is called."""

from dataclasses import replace

import pytest

from controlplane.access.model.bindings import Project
from controlplane.access.model.users import UserKind
from controlplane.access.operations.permissions import Permissions
from controlplane.authorization import (
    ANONYMOUS,
    INSTALLATION,
    Actor,
    ResourceKind,
    Scope,
    Verb,
)
from controlplane.authorization.roles import BuiltInRole
from core.errors import Forbidden, NotFound, Unauthenticated
from tests.fakes.access import bind, join, make_group, make_user
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER, person
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, make_cluster, operations_over_memory

SHOP, OF_SHOP = Project("shop", "shop", START, START), Scope("project:shop")
DEV, OF_DEV = make_cluster("dev", project_id="shop"), Scope("cluster:dev")
GONE = Scope("project:gone")
ADMIN_OF_SHOP = person(BuiltInRole.ADMIN, "sue", OF_SHOP)
EDITOR_OF_DEV = person(BuiltInRole.EDITOR, "eve", OF_DEV)
ADA, BOB, CREW = make_user("ada"), make_user("bob"), make_group("crew")


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(SHOP, DEV, ADA, BOB, CREW)
    return world


@pytest.fixture
def permissions(world: MemoryOperations) -> Permissions:
    return Permissions(world.context)


@pytest.mark.parametrize(
    ("actor", "scope", "name"),
    [
        (ADMIN, INSTALLATION, "the installation"),
        (ADMIN, OF_SHOP, 'project "shop"'),
        (ADMIN_OF_SHOP, OF_DEV, 'cluster "dev"'),
        (EDITOR_OF_DEV, OF_DEV, 'cluster "dev"'),
        (EDITOR_OF_DEV, OF_SHOP, OF_SHOP),
        (NOBODY, OF_DEV, OF_DEV),
        (person(BuiltInRole.VIEWER, "vi", GONE), GONE, "a deleted project"),
        (ADMIN, GONE, GONE),
        (ADMIN, Scope("nonsense"), "nonsense"),
    ],
)
async def test_a_scope_has_its_name_for_those_who_see_it(
    permissions: Permissions, actor: Actor, scope: Scope, name: str
) -> None:
    """Of a scope of others, nobody learns whether it was deleted."""
    assert await permissions.scope_display_name(actor, scope) == name


@pytest.mark.parametrize(
    ("actor", "kind", "id", "can"),
    [
        (EDITOR_OF_DEV, ResourceKind.CLUSTER, "dev", True),
        (VIEWER, ResourceKind.CLUSTER, "dev", False),
        (ADMIN, ResourceKind.CLUSTER, "none", False),
        (EDITOR, ResourceKind.PIPELINE, "", True),
        (EDITOR_OF_DEV, ResourceKind.PIPELINE, "", False),
    ],
)
async def test_callers_learn_what_they_may_do(
    permissions: Permissions, actor: Actor, kind: ResourceKind, id: str, can: bool
) -> None:
    """A resource that does not exist is like one that the caller may not change."""
    assert await permissions.can(actor, Verb.WRITE, kind, id) is can


async def test_strangers_learn_nothing(permissions: Permissions) -> None:
    for question in (
        permissions.can(ANONYMOUS, Verb.READ, ResourceKind.CLUSTER, "dev"),
        permissions.scope_display_name(ANONYMOUS, INSTALLATION),
        permissions.who_can(ANONYMOUS, Verb.READ, ResourceKind.CLUSTER, "dev"),
    ):
        with pytest.raises(Unauthenticated):
            await question


async def test_holders_of_a_permission_are_listed_with_the_reasons(
    world: MemoryOperations, permissions: Permissions
) -> None:
    """Expired bindings, disabled users and programs in groups of everyone hold nothing."""
    everyone = make_group("all", everyone=True)
    off = make_user("off", disabled_at=START)
    bot = replace(make_user("bot"), kind=UserKind.SERVICE_ACCOUNT)
    empty = make_group("empty")
    await world.given(off, bot, everyone, empty, join(BOB, CREW))
    await world.given(
        replace(bind("editor", ADA, OF_SHOP), given_by="root@example.org"),
        bind("editor", CREW),
        bind("editor", off),
        bind("editor", empty),
        bind("editor", make_group("gone")),
        bind("editor", make_user("left")),
        bind("viewer", everyone),
        replace(bind("admin", BOB), expires_at=START),
    )
    kind = ResourceKind.CLUSTER
    holders = await permissions.who_can(ADMIN, Verb.WRITE, kind, "dev")
    assert [(holder.user.id, [grant.why for grant in holder.grants]) for holder in holders] == [
        ("ada", ["directly, given by root@example.org"]),
        ("bob", ["group crew"]),
    ]
    readers = await permissions.who_can(ADMIN, Verb.READ, kind, "dev")
    assert [len(holder.grants) for holder in readers] == [2, 2]


async def test_holders_are_shown_to_those_who_read_bindings_there(
    permissions: Permissions,
) -> None:
    for actor, id, error in (
        (EDITOR_OF_DEV, "dev", Forbidden),
        (VIEWER, "dev", Forbidden),
        (NOBODY, "dev", NotFound),
        (ADMIN, "none", NotFound),
        (ADMIN_OF_SHOP, "", Forbidden),
    ):
        with pytest.raises(error):
            await permissions.who_can(actor, Verb.READ, ResourceKind.CLUSTER, id)
    assert await permissions.who_can(ADMIN_OF_SHOP, Verb.READ, ResourceKind.CLUSTER, "dev") == []
