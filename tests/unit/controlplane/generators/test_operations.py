"""Operations that global services, service sets and managed namespaces share."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from controlplane.authorization import ANONYMOUS, DEFAULT_PROJECT, Actor
from controlplane.clusters.model.selectors import Selector
from controlplane.generators.model.definitions import MAX_DELETIONS, LeavePolicy
from controlplane.generators.model.global_service import GlobalOverride
from controlplane.generators.operations.definitions import GeneratorOperations
from controlplane.generators.operations.global_services import GlobalChange
from controlplane.generators.operations.namespaces import NamespaceChange
from controlplane.generators.operations.service_sets import SetChange
from controlplane.generators.ports import GlobalOverrideStore
from controlplane.platform.context import GENERATORS
from controlplane.platform.ports import PageQuery
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.model.templates import TemplateOverride
from core.errors import Conflict, Forbidden, Invalid, NotFound, TowlineError, Unauthenticated
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER
from tests.fakes.clock import START
from tests.fakes.generators import EDITOR_OF_SHOP, WEB, GeneratorWorld, generator_world
from tests.fakes.operations import make_cluster


@dataclass(frozen=True)
class Kind:
    """A kind of generator under test: its operations, and a change that creates one."""

    noun: str
    key: str
    operations: Callable[[GeneratorWorld], GeneratorOperations[Any, Any]]
    change: Any

    def of(self, world: GeneratorWorld) -> GeneratorOperations[Any, Any]:
        return self.operations(world)


KINDS = [
    Kind("GlobalService", "global", lambda w: w.globals, GlobalChange("agents", template=WEB)),
    Kind("ServiceSet", "set", lambda w: w.sets, SetChange("agents", template=WEB)),
    Kind("ManagedNamespace", "namespace", lambda w: w.namespaces, NamespaceChange("agents")),
]


@pytest.fixture
async def world() -> GeneratorWorld:
    return await generator_world()


@pytest.fixture(params=KINDS, ids=lambda kind: kind.key)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


async def test_a_generator_is_created_with_the_defaults_that_are_documented(
    world: GeneratorWorld, kind: Kind
) -> None:
    made = await kind.of(world).create(EDITOR, kind.change)
    assert await world.stored(made) == made
    assert (made.project_id, made.selector, made.on_delete) == (None, Selector(), "detach")
    assert made.leave is (LeavePolicy.DELETE if kind.key == "set" else LeavePolicy.DETACH)
    assert (made.budget, made.confirmed, made.waiting, made.problem) == (10, 0, 0, "")
    assert (made.evaluated_at, made.ending_at) == (None, None)


async def test_a_created_generator_is_recorded_and_reconciled(
    world: GeneratorWorld, kind: Kind
) -> None:
    made = await kind.of(world).create(EDITOR, kind.change)
    assert world.memory.published == [(GENERATORS, f"{kind.key}/{made.id}")]
    assert await world.memory.audited() == [("ed@example.org", f"create{kind.noun}", "agents")]
    plan = await world.reconcile(made)
    assert plan is not None and len(plan.create) == 2


@pytest.mark.parametrize(
    ("actor", "project", "error"),
    [
        (ANONYMOUS, None, Unauthenticated),
        (NOBODY, None, Forbidden),
        (VIEWER, None, Forbidden),
        (EDITOR_OF_SHOP, None, Forbidden),
        (EDITOR_OF_SHOP, DEFAULT_PROJECT, NotFound),
        (EDITOR, "none", NotFound),
        (VIEWER, "shop", Forbidden),
    ],
)
async def test_creation_needs_the_permission_for_services_where_they_appear(
    world: GeneratorWorld,
    kind: Kind,
    actor: Actor,
    project: str | None,
    error: type[TowlineError],
) -> None:
    """Without a project that is everywhere."""
    with pytest.raises(error):
        await kind.of(world).create(actor, replace(kind.change, project_id=project))
    assert world.memory.published == [] and await world.memory.audited() == []
    assert not (await kind.of(world).page(ADMIN, PageQuery())).items


async def test_an_editor_of_a_project_generates_services_there(
    world: GeneratorWorld, kind: Kind
) -> None:
    await world.memory.given(make_cluster("own", project_id="shop"))
    change = replace(kind.change, project_id="shop")
    if kind.key != "namespace":
        with pytest.raises(NotFound):
            await kind.of(world).create(EDITOR_OF_SHOP, change)
    made = await kind.of(world).create(EDITOR, change)
    await world.reconcile(made)
    (service,) = (await world.owned(made)).values()
    assert (service.cluster_id, service.project_id) == ("own", "shop")
    updated = await kind.of(world).update(EDITOR_OF_SHOP, made.id, type(kind.change)(budget=3))
    assert updated.budget == 3


CALLS: list[Callable[[GeneratorOperations[Any, Any], Actor, str, Kind], Awaitable[Any]]] = [
    lambda operations, actor, id, kind: operations.update(actor, id, type(kind.change)(budget=1)),
    lambda operations, actor, id, kind: operations.delete(actor, id),
    lambda operations, actor, id, kind: operations.sync(actor, id, 5),
]


@pytest.mark.parametrize("call", CALLS, ids=("update", "delete", "sync"))
async def test_every_change_needs_the_permission_of_the_generator(
    world: GeneratorWorld, kind: Kind, call: Callable[..., Awaitable[Any]]
) -> None:
    operations = kind.of(world)
    made = await operations.create(ADMIN, kind.change)
    for actor, error in (
        (ANONYMOUS, Unauthenticated),
        (NOBODY, NotFound),
        (EDITOR_OF_SHOP, NotFound),
        (VIEWER, Forbidden),
    ):
        with pytest.raises(error):
            await call(operations, actor, made.id, kind)
    with pytest.raises(NotFound):
        await call(operations, ADMIN, "none", kind)
    assert await world.stored(made) == made
    assert len(await world.memory.audited()) == 1


async def test_an_update_changes_the_given_fields_and_names_them(
    world: GeneratorWorld, kind: Kind
) -> None:
    made = await kind.of(world).create(ADMIN, kind.change)
    world.memory.bus.published.clear()
    await world.memory.clock.advance(60)
    change = type(kind.change)("renamed", leave=LeavePolicy.DELETE, budget=0)
    updated = await kind.of(world).update(EDITOR, made.id, change)
    expected = replace(
        made,
        name="renamed",
        leave=LeavePolicy.DELETE,
        budget=0,
        updated_at=world.memory.clock.now(),
    )
    assert updated == await world.stored(made) == expected
    assert await world.last_audit() == {"changed": ["budget", "leave", "name"]}
    assert (await world.memory.audited())[-1][1:] == (f"update{kind.noun}", "renamed")
    assert world.memory.published == [(GENERATORS, f"{kind.key}/{made.id}")]


async def test_conditions_of_a_selector_are_changed_one_by_one(
    world: GeneratorWorld, kind: Kind
) -> None:
    operations = kind.of(world)
    made = await operations.create(
        ADMIN, replace(kind.change, selector={"tags": {"tier": "prod"}, "excluded": ("us",)})
    )
    updated = await operations.update(ADMIN, made.id, type(kind.change)(selector={"excluded": ()}))
    assert (updated.selector.tags, updated.selector.excluded) == ({"tier": "prod"}, ())


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 300}, "name"),
        ({"budget": -1}, "deletionBudget"),
        ({"budget": MAX_DELETIONS + 1}, "deletionBudget"),
    ],
)
async def test_an_invalid_field_is_named(
    world: GeneratorWorld, kind: Kind, change: dict[str, Any], field: str
) -> None:
    made = await kind.of(world).create(ADMIN, kind.change)
    for call in (
        kind.of(world).create(ADMIN, replace(kind.change, **change)),
        kind.of(world).update(ADMIN, made.id, type(kind.change)(**change)),
    ):
        with pytest.raises(Invalid) as error:
            await call
        assert error.value.field == field
    assert await world.stored(made) == made


async def test_a_new_generator_needs_a_name(world: GeneratorWorld, kind: Kind) -> None:
    with pytest.raises(Invalid) as error:
        await kind.of(world).create(ADMIN, replace(kind.change, name=None))
    assert error.value.field == "name"


async def test_a_name_is_used_once_within_a_kind(world: GeneratorWorld, kind: Kind) -> None:
    operations = kind.of(world)
    await operations.create(ADMIN, kind.change)
    other = await operations.create(ADMIN, replace(kind.change, name="other"))
    with pytest.raises(Conflict, match="'agents' already exists"):
        await operations.create(ADMIN, kind.change)
    with pytest.raises(Conflict):
        await operations.update(ADMIN, other.id, type(kind.change)(name="agents"))
    assert (await world.stored(other)).name == "other"


async def test_a_selector_names_existing_cluster_groups(world: GeneratorWorld, kind: Kind) -> None:
    operations, unknown = kind.of(world), {"groups": ("gone",)}
    with pytest.raises(TowlineError, match="gone"):
        await operations.create(ADMIN, replace(kind.change, selector=unknown))
    made = await operations.create(ADMIN, kind.change)
    with pytest.raises(TowlineError, match="gone"):
        await operations.update(ADMIN, made.id, type(kind.change)(selector=unknown))
    for id, change in ((None, kind.change), (made.id, type(kind.change)())):
        with pytest.raises(TowlineError, match="gone"):
            await operations.preview(ADMIN, id, replace(change, selector=unknown))
    assert await world.stored(made) == made


async def test_a_generator_stays_in_its_project(world: GeneratorWorld, kind: Kind) -> None:
    operations = kind.of(world)
    everywhere = await operations.create(ADMIN, kind.change)
    inside = await operations.create(ADMIN, replace(kind.change, name="in", project_id="shop"))
    for made, project in ((everywhere, "shop"), (inside, DEFAULT_PROJECT)):
        with pytest.raises(Conflict, match="cannot be moved to another project"):
            await operations.update(ADMIN, made.id, type(kind.change)(project_id=project))
    same = await operations.update(ADMIN, inside.id, type(kind.change)(project_id="shop"))
    assert same.project_id == "shop"


async def test_a_generator_without_services_is_deleted_at_once(
    world: GeneratorWorld, kind: Kind
) -> None:
    made = await kind.of(world).create(ADMIN, kind.change)
    ended = await kind.of(world).delete(EDITOR, made.id)
    assert ended.ending_at == world.memory.clock.now()
    assert await world.stored(made) is None
    assert (await world.memory.audited())[-1][1:] == (f"delete{kind.noun}", "agents")
    assert await world.last_audit() == {"services": "detach"}


async def test_a_generator_with_services_is_deleted_after_them(
    world: GeneratorWorld, kind: Kind
) -> None:
    """Until then it stays as it is, and takes no change."""
    made = await kind.of(world).create(ADMIN, kind.change)
    await world.reconcile(made)
    await kind.of(world).delete(EDITOR, made.id)
    assert (await world.stored(made)).ending_at == world.memory.clock.now()
    assert len(await world.owned(made)) == 2
    with pytest.raises(Conflict, match="'agents' is being deleted"):
        await kind.of(world).update(ADMIN, made.id, type(kind.change)(budget=1))
    await world.reconcile(made)
    assert await world.owned(made) == {}
    assert await world.stored(made) is None


async def test_the_overrides_of_a_global_service_are_deleted_with_it(world: GeneratorWorld) -> None:
    """Those of another one stay."""
    patch = TemplateOverride(ref="v2")
    made = await world.globals.create(ADMIN, KINDS[0].change)
    other = await world.globals.create(ADMIN, replace(KINDS[0].change, name="other"))
    async with world.memory.store.write() as tx:
        for number, definition in enumerate((made, other)):
            row = GlobalOverride(str(number), definition.id, "eu", START, START, patch)
            await tx[GlobalOverrideStore].add(row)
    await world.globals.delete(ADMIN, made.id)
    left = await world.memory.rows(GlobalOverrideStore)
    assert [row.global_id for row in left] == [other.id]


async def test_deletions_are_confirmed_for_one_reconcile(world: GeneratorWorld, kind: Kind) -> None:
    operations = kind.of(world)
    made = await operations.create(ADMIN, kind.change)
    assert (await operations.sync(EDITOR, made.id, 7)).confirmed == 7
    assert (await world.stored(made)).confirmed == 7
    assert await world.last_audit() == {"confirmed": 7}
    assert (await operations.sync(EDITOR, made.id)).confirmed == 7, "a sync withdraws none"
    assert world.memory.published == [(GENERATORS, f"{kind.key}/{made.id}")] * 3
    for number in (-1, MAX_DELETIONS + 1):
        with pytest.raises(Invalid):
            await operations.sync(EDITOR, made.id, number)


async def test_services_of_a_generator_are_listed_to_their_readers(
    world: GeneratorWorld, kind: Kind
) -> None:
    await world.memory.given(make_cluster("own", project_id="shop"))
    made = await kind.of(world).create(ADMIN, replace(kind.change, project_id="shop"))
    await world.reconcile(made)
    seen = await kind.of(world).services(EDITOR_OF_SHOP, made.id)
    assert [service.cluster_id for service in seen] == ["own"]
    with pytest.raises(NotFound):
        await kind.of(world).services(NOBODY, made.id)


URL = "https://git.example.org/new.git"
BY_URL = GlobalChange("agents", template=replace(WEB, repository_id=None), repository_url=URL)


@pytest.mark.parametrize(("project", "expected"), [(None, DEFAULT_PROJECT), ("shop", "shop")])
async def test_a_global_service_adds_the_repository_of_an_unknown_url(
    world: GeneratorWorld, project: str | None, expected: str
) -> None:
    made = await world.globals.create(EDITOR, replace(BY_URL, project_id=project))
    added = next(row for row in await world.memory.rows(RepositoryStore) if row.url == URL)
    assert made.template is not None and made.template.repository_id == added.id
    assert added.project_id == expected
    actions = [entry[1:] for entry in await world.memory.audited()]
    assert actions == [("createGitRepository", URL), ("createGlobalService", "agents")]


async def test_a_refused_global_service_leaves_no_repository(world: GeneratorWorld) -> None:
    await world.globals.create(EDITOR, KINDS[0].change)
    before = await world.memory.rows(RepositoryStore)
    with pytest.raises(Conflict, match="agents"):
        await world.globals.create(EDITOR, BY_URL)
    with pytest.raises(Invalid, match="either repositoryId or repositoryUrl"):
        await world.globals.create(EDITOR, replace(BY_URL, template=WEB))
    with pytest.raises(Invalid, match="needs a template"):
        await world.globals.create(EDITOR, replace(BY_URL, template=None, source_id="s"))
    assert await world.memory.rows(RepositoryStore) == before
    assert len(await world.memory.audited()) == 1
