"""Saved views: their limits, and the users who see, change and share them."""

from dataclasses import replace

import pytest

from controlplane.access.model.bindings import Project
from controlplane.authorization import ANONYMOUS, Limit, Policy, Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.views.model import SavedView, Sharing
from controlplane.views.operations import MAX_VIEWS, SavedViews, ViewChange
from controlplane.views.ports import SavedViewStore
from core.errors import Conflict, Forbidden, Invalid, LimitExceeded, NotFound, Unauthenticated
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER, person
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, operations_over_memory

IN_SHOP = Scope("project:shop")
ADMIN_OF_SHOP = person(BuiltInRole.ADMIN, "sue", IN_SHOP)
VIEWER_OF_SHOP = person(BuiltInRole.VIEWER, "sam", IN_SHOP)
ADMIN_ELSEWHERE = person(BuiltInRole.ADMIN, "eve", Scope("project:bank"))
FAILED = ViewChange("failed", "services", "state:failed", {"status": "FAILED"}, ("name",), "-name")
FOR_SHOP = replace(FAILED, sharing=Sharing.PROJECT, project_id="shop")
FOR_ALL = replace(FAILED, sharing=Sharing.EVERYBODY)
PEOPLE = (ADMIN, EDITOR, NOBODY, VIEWER, ADMIN_OF_SHOP, VIEWER_OF_SHOP, ADMIN_ELSEWHERE)


@pytest.fixture
async def world() -> MemoryOperations:
    found = operations_over_memory()
    await found.given(*(Project(id, id, START, START) for id in ("shop", "bank")))
    return found


@pytest.fixture
def views(world: MemoryOperations) -> SavedViews:
    return SavedViews(world.context)


async def seers(views: SavedViews, id: str) -> set[str]:
    """Names of the users who see a view, in lists and by its id alike."""
    found = set()
    for actor in PEOPLE:
        try:
            view = await views.get(actor, id)
        except NotFound:
            assert id not in {view.id for view in await views.all(actor)}
        else:
            assert view in await views.all(actor)
            found.add(actor.name)
    return found


async def test_a_view_of_somebody_without_roles_is_private(
    world: MemoryOperations, views: SavedViews
) -> None:
    view = await views.save(NOBODY, None, FAILED)
    assert await world.rows(SavedViewStore) == [view]
    assert (view.owner, view.sharing) == ("no@example.org", Sharing.NOBODY)
    assert await seers(views, view.id) == {"no"}
    for actor in (ADMIN, EDITOR):
        with pytest.raises(NotFound):
            await views.save(actor, view.id, ViewChange("mine"))
        with pytest.raises(NotFound):
            await views.delete(actor, view.id)
    assert await world.audited() == [("no@example.org", "saveView", "failed")]


async def test_a_project_shares_views_that_its_administrators_save(views: SavedViews) -> None:
    view = await views.save(ADMIN_OF_SHOP, None, FOR_SHOP)
    assert await seers(views, view.id) == {"sue", "sam", "root", "ed", "vi"}
    for actor in (VIEWER_OF_SHOP, EDITOR, VIEWER):
        with pytest.raises(Forbidden):
            await views.save(actor, None, FOR_SHOP)
        with pytest.raises(Forbidden):
            await views.save(actor, view.id, ViewChange("renamed"))
        with pytest.raises(Forbidden):
            await views.delete(actor, view.id)
    with pytest.raises(NotFound, match="projectId"):
        await views.save(ADMIN_ELSEWHERE, None, FOR_SHOP)


async def test_administrators_of_the_installation_alone_share_with_everybody(
    world: MemoryOperations, views: SavedViews
) -> None:
    view = await views.save(ADMIN, None, FOR_ALL)
    assert await seers(views, view.id) == {actor.name for actor in PEOPLE}
    with pytest.raises(Forbidden):
        await views.save(ADMIN_OF_SHOP, None, FOR_ALL)
    own = await views.save(ADMIN_OF_SHOP, None, FOR_SHOP)
    with pytest.raises(Forbidden):
        await views.save(ADMIN_OF_SHOP, own.id, ViewChange(sharing=Sharing.EVERYBODY))
    with pytest.raises(Forbidden):
        await views.delete(ADMIN_OF_SHOP, view.id)
    assert len(await world.rows(SavedViewStore)) == 2


async def test_an_owner_without_the_permission_may_only_delete(
    world: MemoryOperations, views: SavedViews
) -> None:
    shared = await views.save(ADMIN_OF_SHOP, None, FOR_SHOP)
    demoted = person(BuiltInRole.VIEWER, "sue", IN_SHOP)
    for change in (ViewChange(query="state:healthy"), ViewChange(sharing=Sharing.NOBODY)):
        with pytest.raises(Forbidden):
            await views.save(demoted, shared.id, change)
    await views.delete(demoted, shared.id)
    assert await world.rows(SavedViewStore) == []


async def test_an_administrator_ends_the_sharing_of_a_view(views: SavedViews) -> None:
    view = await views.save(ADMIN_OF_SHOP, None, FOR_SHOP)
    ended = await views.save(ADMIN, view.id, ViewChange(sharing=Sharing.NOBODY))
    assert ended == replace(view, sharing=Sharing.NOBODY, project_id=None)
    assert await seers(views, view.id) == {"sue"}


async def test_views_are_listed_by_list_and_name(views: SavedViews) -> None:
    for list, name in (("services", "b"), ("services", "a"), ("clusters", "c")):
        await views.save(EDITOR, None, ViewChange(name, list))
    assert [view.name for view in await views.all(EDITOR)] == ["c", "a", "b"]
    assert [view.name for view in await views.all(EDITOR, "services")] == ["a", "b"]
    with pytest.raises(Unauthenticated):
        await views.all(ANONYMOUS)


async def test_a_change_keeps_the_other_fields(views: SavedViews) -> None:
    view = await views.save(EDITOR, None, FAILED)
    assert await views.save(EDITOR, view.id, ViewChange("all", query="", columns=())) == replace(
        view, name="all", query="", columns=()
    )


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (ViewChange(list="services"), "name"),
        (ViewChange("x" * 101, "services"), "name"),
        (ViewChange("a"), "list"),
        (ViewChange("a", "/example.org/services"), "list"),
        (ViewChange("a", "https://example.org"), "list"),
        (ViewChange("a", "x" * 256), "list"),
        (ViewChange("a", "services", "x" * 1_001), "query"),
        (ViewChange("a", "services", filters={str(n): "x" for n in range(21)}), "filters"),
        (ViewChange("a", "services", filters={"x": "x" * 256}), "filters"),
        (ViewChange("a", "services", columns=("x",) * 51), "columns"),
        (ViewChange("a", "services", columns=("x" * 65,)), "columns or filters"),
        (ViewChange("a", "services", order="x" * 66), "order"),
        (ViewChange("a", "services", sharing=Sharing.PROJECT), "projectId"),
        (ViewChange("a", "services", project_id="shop"), "projectId"),
        (replace(FOR_ALL, project_id="shop"), "projectId"),
    ],
)
async def test_a_view_is_bounded(views: SavedViews, change: ViewChange, field: str) -> None:
    with pytest.raises(Invalid) as error:
        await views.save(ADMIN, None, change)
    assert error.value.field == field


async def test_names_are_unique_for_owner_and_list(views: SavedViews) -> None:
    view = await views.save(EDITOR, None, FAILED)
    with pytest.raises(Conflict):
        await views.save(EDITOR, None, FAILED)
    await views.save(EDITOR, view.id, FAILED)
    await views.save(VIEWER, None, FAILED)
    await views.save(EDITOR, None, replace(FAILED, list="clusters"))


async def test_a_user_has_a_limited_number_of_views(
    world: MemoryOperations, views: SavedViews
) -> None:
    for n in range(MAX_VIEWS):
        await world.given(SavedView(str(n), str(n), "services", EDITOR.id, "", START, START))
    with pytest.raises(LimitExceeded):
        await views.save(EDITOR, None, FAILED)
    await views.save(EDITOR, "0", FAILED)
    await views.save(VIEWER, None, FAILED)


async def test_a_token_with_scopes_changes_no_view(views: SavedViews) -> None:
    view = await views.save(ADMIN, None, FAILED)
    limited = replace(ADMIN, policy=Policy(ADMIN.policy.grants, (Limit(scopes=(IN_SHOP,)),)))
    assert await views.get(limited, view.id) == view
    with pytest.raises(Forbidden, match="sign in"):
        await views.save(limited, None, replace(FAILED, name="new"))
    with pytest.raises(Forbidden, match="sign in"):
        await views.delete(limited, view.id)
