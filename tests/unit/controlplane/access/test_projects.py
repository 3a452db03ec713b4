"""Operations on projects."""

from dataclasses import replace

import pytest

from controlplane.access.model.bindings import Project
from controlplane.access.operations.binding_subjects import Subjects
from controlplane.access.operations.projects import ProjectChange, Projects
from controlplane.access.operations.scopes import project_for
from controlplane.access.ports import ProjectStore, RoleBindingStore
from controlplane.authorization import (
    ANONYMOUS,
    BUILT_IN,
    DEFAULT_PROJECT,
    Actor,
    ActorKind,
    Grant,
    Policy,
    ResourceKind,
    Role,
    Rule,
    Scope,
    Verb,
)
from controlplane.authorization.roles import BuiltInRole
from controlplane.clusters.operations.clusters import ClusterChange, Clusters
from controlplane.platform.context import ACCESS
from controlplane.platform.ports import PageQuery
from controlplane.services.operations.fences import ServiceFences
from core.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated
from tests.fakes.access import bind, make_user
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER, person
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, make_cluster, operations_over_memory

ADA = make_user("ada")
SHOP, OF_SHOP = Project("shop", "shop", START, START), Scope("project:shop")
ADMIN_OF_SHOP = person(BuiltInRole.ADMIN, "sue", OF_SHOP)
EDITOR_OF_SHOP = person(BuiltInRole.EDITOR, "eve", OF_SHOP)
DEV_OF_SHOP = make_cluster("dev", project_id="shop")
ADA_EDITS = {"editor": Subjects(frozenset({"ada"}))}


@pytest.fixture
def world() -> MemoryOperations:
    return operations_over_memory()


@pytest.fixture
def projects(world: MemoryOperations) -> Projects:
    return Projects(world.context, ServiceFences())


async def test_only_visible_projects_are_listed_and_found(
    world: MemoryOperations, projects: Projects
) -> None:
    await world.given(SHOP)
    listed = (await projects.page(VIEWER, PageQuery())).items
    assert [project.id for project in listed] == [DEFAULT_PROJECT, "shop"]
    assert (await projects.page(EDITOR_OF_SHOP, PageQuery())).items == (SHOP,)
    assert await projects.get(EDITOR_OF_SHOP, None, "shop") == SHOP
    assert await projects.readable_by_id(EDITOR_OF_SHOP, ["shop", DEFAULT_PROJECT, "none"]) == {
        "shop": SHOP
    }
    assert await projects.readable_by_id(ADMIN, []) == {}
    for id, name in ((DEFAULT_PROJECT, None), (None, "default"), ("none", None), (None, None)):
        with pytest.raises(NotFound):
            await projects.get(EDITOR_OF_SHOP, id, name)


async def test_a_project_is_created_with_its_bindings(
    world: MemoryOperations, projects: Projects
) -> None:
    await world.given(ADA)
    made = await projects.create(ADMIN, ProjectChange("shop", "x" * 1000, ADA_EDITS))
    assert await world.row(ProjectStore, made.id) == made
    (row,) = await world.rows(RoleBindingStore)
    assert (row.scope, row.subject_id) == (made.target.scope, "ada")
    assert await world.audited() == [
        (ADMIN.email, "createProject", "shop"),
        (ADMIN.email, "setBindings", 'project "shop"'),
    ]
    assert world.published == [(ACCESS, "ada")]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (ProjectChange(), "name"),
        (ProjectChange("x" * 256), "name"),
        (ProjectChange("new", "x" * 1001), "description"),
    ],
)
async def test_an_invalid_project_is_refused(
    world: MemoryOperations, projects: Projects, change: ProjectChange, field: str
) -> None:
    with pytest.raises(Invalid) as error:
        await projects.create(ADMIN, change)
    assert error.value.field == field
    assert [row.id for row in await world.rows(ProjectStore)] == [DEFAULT_PROJECT]


async def test_names_of_projects_are_unique(world: MemoryOperations, projects: Projects) -> None:
    await world.given(SHOP)
    with pytest.raises(Conflict, match="'shop' already exists") as error:
        await projects.create(ADMIN, ProjectChange("shop"))
    assert error.value.current["id"] == "shop"
    with pytest.raises(Conflict):
        await projects.update(ADMIN, DEFAULT_PROJECT, ProjectChange("shop"))
    assert await world.audited() == []


async def test_a_project_is_changed(world: MemoryOperations, projects: Projects) -> None:
    await world.given(SHOP, ADA)
    await world.clock.advance(1)
    after = await projects.update(ADMIN_OF_SHOP, "shop", ProjectChange("store", "", ADA_EDITS))
    assert after == replace(SHOP, name="store", description="", updated_at=world.clock.now())
    assert await world.row(ProjectStore, "shop") == after
    assert len(await world.rows(RoleBindingStore)) == 1
    actions = [action for _, action, _ in await world.audited()]
    assert actions == ["updateProject", "setBindings"]
    assert world.published == [(ACCESS, "ada")]


async def test_a_refused_binding_leaves_the_project_as_it_was(
    world: MemoryOperations, projects: Projects
) -> None:
    await world.given(SHOP)
    with pytest.raises(NotFound):
        await projects.update(ADMIN_OF_SHOP, "shop", ProjectChange("store", None, ADA_EDITS))
    assert await world.row(ProjectStore, "shop") == SHOP
    assert await world.audited() == [] and world.published == []


async def test_who_may_change_a_resource_does_not_bind_roles_there(
    world: MemoryOperations, projects: Projects
) -> None:
    """Not even roles whose permissions they all have."""
    writes = Role("w", "w", rules=(Rule((Verb.WRITE,), (ResourceKind.PROJECT,)),))
    grants = (Grant(writes, OF_SHOP), Grant(BUILT_IN["editor"], OF_SHOP))
    writer = Actor(ActorKind.USER, "wes", "wes", "wes@example.org", Policy(grants))
    await world.given(SHOP, ADA, DEV_OF_SHOP)
    await projects.update(writer, "shop", ProjectChange("store"))
    clusters = Clusters(world.context)
    for change in (
        projects.update(writer, "shop", ProjectChange("mall", subjects=ADA_EDITS)),
        clusters.update(writer, "dev", ClusterChange(subjects=ADA_EDITS)),
    ):
        with pytest.raises(Forbidden, match="may not administer bindings"):
            await change
    assert await world.rows(RoleBindingStore) == []
    assert [action for _, action, _ in await world.audited()] == ["updateProject"]


async def test_an_empty_project_is_deleted_with_its_bindings(
    world: MemoryOperations, projects: Projects
) -> None:
    kept = bind("viewer", ADA)
    await world.given(SHOP, ADA, bind("editor", ADA, OF_SHOP), kept)
    assert await projects.delete(ADMIN_OF_SHOP, "shop") == SHOP
    assert [row.id for row in await world.rows(ProjectStore)] == [DEFAULT_PROJECT]
    assert await world.rows(RoleBindingStore) == [kept]
    assert await world.audited() == [(ADMIN_OF_SHOP.email, "deleteProject", "shop")]


async def test_the_default_project_and_one_with_contents_stay(
    world: MemoryOperations, projects: Projects
) -> None:
    await world.given(SHOP, make_cluster("dev", project_id="shop"))
    with pytest.raises(Conflict, match="'shop' still has 1 cluster"):
        await projects.delete(ADMIN, "shop")
    with pytest.raises(Conflict, match="default project"):
        await projects.delete(ADMIN, DEFAULT_PROJECT)
    assert len(await world.rows(ProjectStore)) == 2
    assert await world.audited() == []


async def test_a_resource_is_created_in_a_project_that_the_actor_may_write(
    world: MemoryOperations,
) -> None:
    await world.given(SHOP)
    kind = ResourceKind.CLUSTER

    async def chosen(actor: Actor, id: str | None) -> str:
        async with world.context.change(actor, "create") as tx:
            return await project_for(tx, kind, id)

    assert await chosen(EDITOR_OF_SHOP, "shop") == "shop"
    assert await chosen(EDITOR, "") == await chosen(EDITOR, None) == DEFAULT_PROJECT
    for actor, id, error in (
        (EDITOR_OF_SHOP, None, Forbidden),
        (VIEWER, "shop", Forbidden),
        (NOBODY, "shop", NotFound),
        (ADMIN, "none", NotFound),
    ):
        with pytest.raises(error):
            await chosen(actor, id)


CALLS = {
    "create": lambda projects, actor: projects.create(actor, ProjectChange("new")),
    "update": lambda projects, actor: projects.update(actor, "shop", ProjectChange("new")),
    "delete": lambda projects, actor: projects.delete(actor, "shop"),
}


@pytest.mark.parametrize("name", sorted(CALLS))
async def test_a_change_needs_permission(
    world: MemoryOperations, projects: Projects, name: str
) -> None:
    await world.given(SHOP)
    hidden = Forbidden if name == "create" else NotFound
    for actor, error in ((EDITOR, Forbidden), (NOBODY, hidden), (ANONYMOUS, Unauthenticated)):
        with pytest.raises(error):
            await CALLS[name](projects, actor)
    assert await world.row(ProjectStore, "shop") == SHOP
    assert await world.audited() == []


@pytest.mark.parametrize("name", ["delete", "update"])
async def test_a_missing_project_is_not_found(projects: Projects, name: str) -> None:
    with pytest.raises(NotFound):
        await CALLS[name](projects, ADMIN)
