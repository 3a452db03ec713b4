"""Operations on cluster groups, and what a frozen group forbids."""

from dataclasses import replace
from typing import Any

import pytest

from controlplane.access.model.bindings import Project
from controlplane.authorization import ANONYMOUS, Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.clusters.model.groups import (
    MAX_CHANGING_CLUSTERS,
    ClusterFreeze,
    ClusterGroup,
)
from controlplane.clusters.model.selectors import Selector
from controlplane.clusters.operations.freezes import check_not_frozen, frozen_clusters
from controlplane.clusters.operations.groups import ClusterGroupChange, ClusterGroups
from controlplane.clusters.ports import ClusterGroupStore
from controlplane.generators.model.global_service import GlobalService
from controlplane.platform.context import GENERATORS, RENDER_SERVICES
from controlplane.platform.ports import PageQuery
from core.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER, person
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    operations_over_memory,
)

DEV, PROD = make_cluster("dev", tags={"env": "dev"}), make_cluster("prod", tags={"env": "prod"})
SHOP = Project("shop", "shop", START, START)
GROUP = ClusterGroup("g", "eu", START, START, tags={"env": "prod"}, cluster_ids=("dev",))
FROZEN = replace(GROUP, frozen=True, reason="sale", frozen_by="ada", frozen_at=START)
EDITOR_OF_SHOP = person(BuiltInRole.EDITOR, "sue", Scope("project:shop"))


@pytest.fixture
def world() -> MemoryOperations:
    return operations_over_memory()


@pytest.fixture
def groups(world: MemoryOperations) -> ClusterGroups:
    return ClusterGroups(world.context)


async def test_a_group_is_created(world: MemoryOperations, groups: ClusterGroups) -> None:
    """A cluster that is named twice is in it once."""
    await world.given(DEV)
    change = ClusterGroupChange("eu", "Europe", None, {"env": "prod"}, ["dev", "dev"], 2)
    group = await groups.create(EDITOR, change)
    assert (group.cluster_ids, group.description, group.max_changing) == (("dev",), "Europe", 2)
    assert await world.rows(ClusterGroupStore) == [group]
    assert await world.audited() == [("ed@example.org", "createClusterGroup", "eu")]


async def test_a_group_of_a_project_needs_the_permissions_of_the_project(
    world: MemoryOperations, groups: ClusterGroups
) -> None:
    await world.given(SHOP, Project("ops", "ops", START, START))
    made = await groups.create(EDITOR_OF_SHOP, ClusterGroupChange("eu", project_id="shop"))
    assert made.project_id == "shop"
    for project, error in (("ops", NotFound), ("none", NotFound), (None, Forbidden)):
        with pytest.raises(error):
            await groups.create(EDITOR_OF_SHOP, ClusterGroupChange("us", project_id=project))
    assert len(await world.rows(ClusterGroupStore)) == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({}, "name"),
        ({"name": "Not a label"}, "name"),
        ({"name": "eu", "description": "x" * 1001}, "description"),
        ({"name": "eu", "tags": {"": "x"}}, "tags.name"),
        ({"name": "eu", "cluster_ids": ["c"] * 10_001}, "clusterIds"),
        ({"name": "eu", "max_changing": -1}, "maxChanging"),
        ({"name": "eu", "max_changing": MAX_CHANGING_CLUSTERS + 1}, "maxChanging"),
    ],
)
async def test_an_invalid_value_is_named(
    world: MemoryOperations, groups: ClusterGroups, change: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as error:
        await groups.create(EDITOR, ClusterGroupChange(**change))
    assert error.value.field == field
    assert await world.rows(ClusterGroupStore) == []


async def test_names_are_unique(world: MemoryOperations, groups: ClusterGroups) -> None:
    await world.given(GROUP, replace(GROUP, id="other", name="us", cluster_ids=()))
    with pytest.raises(Conflict, match="'eu' already exists"):
        await groups.create(EDITOR, ClusterGroupChange("eu"))
    with pytest.raises(Conflict, match="already exists"):
        await groups.update(EDITOR, "other", ClusterGroupChange("eu"))


async def test_only_visible_clusters_can_be_named(
    world: MemoryOperations, groups: ClusterGroups
) -> None:
    await world.given(SHOP, DEV, replace(PROD, project_id="shop"))
    made = await groups.create(
        EDITOR_OF_SHOP, ClusterGroupChange("eu", project_id="shop", cluster_ids=["prod"])
    )
    for hidden in ("dev", "none"):
        with pytest.raises(NotFound):
            await groups.update(
                EDITOR_OF_SHOP, made.id, ClusterGroupChange(cluster_ids=["prod", hidden])
            )
    assert await world.rows(ClusterGroupStore) == [made]
    for hidden in ("dev", "none"):
        change = ClusterGroupChange("us", project_id="shop", cluster_ids=[hidden])
        with pytest.raises(NotFound):
            await groups.create(EDITOR_OF_SHOP, change)
    assert await world.rows(ClusterGroupStore) == [made]


async def test_a_group_changes_although_a_cluster_of_it_was_deleted(
    world: MemoryOperations, groups: ClusterGroups
) -> None:
    """Programs such as Terraform send the whole list again."""
    of_shop = replace(GROUP, project_id="shop", cluster_ids=("gone", "dev"))
    await world.given(SHOP, DEV, make_cluster("gone", deleted_at=START), of_shop)
    change = ClusterGroupChange(description="Europe", cluster_ids=["gone", "dev"])
    changed = await groups.update(EDITOR_OF_SHOP, "g", change)
    assert (changed.description, changed.cluster_ids) == ("Europe", ("gone", "dev"))
    change = ClusterGroupChange(cluster_ids=["gone", "dev", "none"])
    with pytest.raises(NotFound, match='clusterIds: cluster "none" does not exist'):
        await groups.update(EDITOR_OF_SHOP, "g", change)


async def test_a_group_of_a_project_freezes_no_cluster_of_another(
    world: MemoryOperations, groups: ClusterGroups
) -> None:
    """Whatever tags it selects, and whichever clusters it names."""
    tags = {"env": "prod"}
    of_shop = ClusterGroup("s", "shop", START, START, "shop", tags=tags, cluster_ids=("dev",))
    theirs = replace(make_cluster("theirs", tags=tags), project_id="shop")
    await world.given(SHOP, DEV, PROD, theirs, of_shop)
    await groups.freeze(EDITOR_OF_SHOP, "s", "sale")
    async with world.store.read() as tx:
        assert list(await frozen_clusters(tx)) == ["theirs"]
        await check_not_frozen(tx, "prod")
    assert [row.id for row in await groups.clusters(ADMIN, "s")] == ["theirs"]
    everywhere = ClusterGroup("e", "all", START, START, tags=tags)
    await world.given(everywhere)
    assert [row.id for row in await groups.clusters(ADMIN, "e")] == ["prod", "theirs"]
    of_prod = person(BuiltInRole.EDITOR, "di", Scope("cluster:prod"))
    with pytest.raises(NotFound):
        await groups.freeze(of_prod, "e", "")


async def test_a_freeze_is_seen_by_readers_of_the_cluster(
    world: MemoryOperations, groups: ClusterGroups
) -> None:
    """Its group has a name only for those who read it."""
    await world.given(DEV, PROD, FROZEN, make_cluster("free"))
    of_prod = person(BuiltInRole.VIEWER, "di", Scope("cluster:prod"))
    for actor, name in ((VIEWER, "eu"), (of_prod, "")):
        freeze = ClusterFreeze("ada", START, "sale", name)
        assert await groups.freezes(actor, ["prod", "free"]) == {"prod": freeze}
    with pytest.raises(Unauthenticated):
        await groups.freezes(ANONYMOUS, ["prod"])


async def test_a_group_stays_in_its_project_and_the_audit_log_says_what_changed(
    world: MemoryOperations, groups: ClusterGroups
) -> None:
    of_shop = replace(GROUP, id="s", name="shop", project_id="shop", cluster_ids=())
    await world.given(SHOP, DEV, GROUP, of_shop)
    for id, project in (("g", "shop"), ("s", "ops")):
        with pytest.raises(Conflict, match="cannot be moved to another project"):
            await groups.update(ADMIN, id, ClusterGroupChange("x", project_id=project))
    await groups.update(ADMIN, "s", ClusterGroupChange("x", project_id="shop", max_changing=3))
    frozen = await groups.freeze(ADMIN, "s", "sale")
    assert await world.row(ClusterGroupStore, "s") == frozen
    await groups.unfreeze(ADMIN, "s")
    deleted = await groups.delete(ADMIN, "s")
    assert (deleted.name, deleted.max_changing) == ("x", 3)
    assert await world.audit_details() == [
        ("updateClusterGroup", {"changed": ["max_changing", "name"]}),
        ("freezeClusterGroup", {"reason": "sale"}),
        ("unfreezeClusterGroup", {"reason": ""}),
        ("deleteClusterGroup", {}),
    ]


async def test_groups_are_read_like_clusters(
    world: MemoryOperations, groups: ClusterGroups
) -> None:
    of_shop = replace(GROUP, id="s", name="shop", project_id="shop", cluster_ids=())
    await world.given(SHOP, GROUP, of_shop, DEV, replace(PROD, project_id="shop"))
    assert [g.id for g in (await groups.page(VIEWER, PageQuery())).items] == ["g", "s"]
    assert [g.id for g in (await groups.page(EDITOR_OF_SHOP, PageQuery())).items] == ["s"]
    assert await groups.get(VIEWER, None, "eu") == GROUP
    assert await groups.get(EDITOR_OF_SHOP, "s") == of_shop
    for id, name in (("g", None), (None, "eu"), (None, None), ("none", None)):
        with pytest.raises(NotFound):
            await groups.get(EDITOR_OF_SHOP, id, name)
    assert [c.id for c in await groups.clusters(VIEWER, "g")] == ["dev", "prod"]
    only_dev = person(BuiltInRole.VIEWER, "di", Scope("cluster:dev"))
    with pytest.raises(NotFound):
        await groups.clusters(only_dev, "g")


async def test_a_change_reconciles_generators(
    world: MemoryOperations, groups: ClusterGroups
) -> None:
    await world.given(GROUP, DEV)
    await world.clock.advance(1)
    changed = await groups.update(EDITOR, "g", ClusterGroupChange(description="", tags={}))
    assert (changed.tags, changed.updated_at) == ({}, world.clock.now())
    assert await world.rows(ClusterGroupStore) == [changed]
    assert world.published == [(GENERATORS, "")]
    assert await world.audited() == [("ed@example.org", "updateClusterGroup", "eu")]


async def test_a_frozen_group_keeps_its_members(
    world: MemoryOperations, groups: ClusterGroups
) -> None:
    await world.given(DEV, FROZEN)
    with pytest.raises(Conflict, match="unfreeze it first"):
        await groups.update(EDITOR, "g", ClusterGroupChange(cluster_ids=[]))
    with pytest.raises(Conflict, match="unfreeze it first"):
        await groups.delete(EDITOR, "g")
    assert await world.rows(ClusterGroupStore) == [FROZEN]


async def test_a_group_is_deleted_unless_a_generator_selects_by_it(
    world: MemoryOperations, groups: ClusterGroups
) -> None:
    await world.given(
        GROUP,
        replace(GROUP, id="free", name="us"),
        GlobalService("gs", "log", START, START, selector=Selector(groups=("g",))),
    )
    with pytest.raises(Conflict, match="'log' selects clusters by this group"):
        await groups.delete(EDITOR, "g")
    await groups.delete(EDITOR, "free")
    assert await world.rows(ClusterGroupStore) == [GROUP]
    assert await world.audited() == [("ed@example.org", "deleteClusterGroup", "us")]


async def test_a_group_is_frozen_and_unfrozen(
    world: MemoryOperations, groups: ClusterGroups
) -> None:
    """Unfreezing renders what waited."""
    await world.given(GROUP, make_repository("git"))
    frozen = await groups.freeze(EDITOR, "g", "sale")
    assert (frozen.frozen, frozen.reason, frozen.frozen_by) == (True, "sale", "ed@example.org")
    assert frozen.frozen_at == world.clock.now()
    assert world.published == []
    freed = await groups.unfreeze(EDITOR, "g")
    assert freed == replace(GROUP, updated_at=world.clock.now())
    assert world.published == [(GENERATORS, ""), (RENDER_SERVICES, "git/")]
    assert [action for _, action, _ in await world.audited()] == [
        "freezeClusterGroup",
        "unfreezeClusterGroup",
    ]
    with pytest.raises(Invalid):
        await groups.freeze(EDITOR, "g", "x" * 1001)


async def test_clusters_of_frozen_groups_are_frozen(world: MemoryOperations) -> None:
    await world.given(DEV, PROD, make_cluster("free"))
    async with world.store.read() as tx:
        assert await frozen_clusters(tx) == {}
        await check_not_frozen(tx, "dev")
    await world.given(FROZEN)
    async with world.store.read() as tx:
        assert await frozen_clusters(tx) == {"dev": FROZEN, "prod": FROZEN}
        await check_not_frozen(tx, "free")
        await check_not_frozen(tx, "none")
        with pytest.raises(Conflict, match="by ada: sale"):
            await check_not_frozen(tx, "prod")


CALLS = {
    "update": lambda groups, actor: groups.update(actor, "g", ClusterGroupChange("new")),
    "delete": lambda groups, actor: groups.delete(actor, "g"),
    "freeze": lambda groups, actor: groups.freeze(actor, "g", ""),
    "unfreeze": lambda groups, actor: groups.unfreeze(actor, "g"),
    "create": lambda groups, actor: groups.create(actor, ClusterGroupChange("new")),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_change_needs_write_access(
    world: MemoryOperations, groups: ClusterGroups, name: str
) -> None:
    await world.given(GROUP)
    with pytest.raises(Forbidden):
        await CALLS[name](groups, VIEWER)
    with pytest.raises(Forbidden if name == "create" else NotFound):
        await CALLS[name](groups, NOBODY)
    with pytest.raises(Unauthenticated):
        await CALLS[name](groups, ANONYMOUS)
    assert await world.rows(ClusterGroupStore) == [GROUP]
    assert await world.audited() == [] and world.published == []


@pytest.mark.parametrize("name", sorted(CALLS.keys() - {"create"}))
async def test_a_missing_group_is_not_found(groups: ClusterGroups, name: str) -> None:
    with pytest.raises(NotFound):
        await CALLS[name](groups, ADMIN)
