"""Fields and secrets that a generator manages on its services."""

from dataclasses import replace

import pytest

from controlplane.clusters.model.groups import ClusterGroup
from controlplane.generators.model.global_service import GlobalService
from controlplane.generators.model.namespaces import ManagedNamespace, NamespaceSpec
from controlplane.generators.operations.global_services import GlobalChange
from controlplane.generators.operations.template_ownership import (
    check_changeable,
    check_deletable,
)
from controlplane.generators.ports import GlobalServiceStore
from controlplane.secrets.model.secret import MAX_USES, Secret, SecretVersion
from controlplane.secrets.ports import SecretStore, SecretVersionStore
from controlplane.services.model.service import OwnerKind, Service
from controlplane.services.operations.services import ServiceChange
from controlplane.services.ports import SecretUseStore, ServiceStore
from core.errors import Conflict, Forbidden, Invalid, NotFound, TowlineError
from tests.fakes.actors import ADMIN, EDITOR
from tests.fakes.clock import START
from tests.fakes.generators import (
    EDITOR_OF_SHOP,
    EU,
    TEMPLATE,
    WEB,
    GeneratorWorld,
    generator_world,
)
from tests.fakes.operations import make_service

AGENTS = GlobalService("g", "agents", START, START, template=TEMPLATE)
TEAM = ManagedNamespace("n", "team", START, START, spec=NamespaceSpec("team"))
COPY = make_service("web", EU, owner_kind=OwnerKind.GLOBAL, owner_id="g")
FROZEN = ClusterGroup(
    "f", "f", START, START, cluster_ids=("eu",), frozen=True, reason="sale", frozen_by="ada"
)


@pytest.fixture
async def world() -> GeneratorWorld:
    return await generator_world()


async def refused(
    world: GeneratorWorld, service: Service, *changed: str, error: type[TowlineError] = Conflict
) -> str:
    """The reason why an editor of one project may not change these fields."""
    async with world.memory.store.read() as tx:
        with pytest.raises(error) as refusal:
            await check_changeable(tx, EDITOR_OF_SHOP, service, changed)
    return refusal.value.message


async def test_an_inherited_field_is_changed_in_its_generator(world: GeneratorWorld) -> None:
    await world.memory.given(AGENTS, TEAM)
    assert await refused(world, COPY, "ref", "folder", "paused") == (
        "folder, ref of service 'web' comes from global service 'agents': change it there, "
        "or give this cluster an override"
    )
    namespaced = replace(COPY, owner_kind=OwnerKind.NAMESPACE, owner_id="n")
    assert await refused(world, namespaced, "ref") == (
        "ref of service 'web' comes from managed namespace 'team': change it there"
    )


async def test_fields_of_one_service_alone_are_changed_there(world: GeneratorWorld) -> None:
    await world.memory.given(AGENTS)
    async with world.memory.store.read() as tx:
        await check_changeable(tx, EDITOR_OF_SHOP, COPY, ("paused", "promoted"))
        await check_changeable(tx, EDITOR_OF_SHOP, COPY)


async def test_a_service_whose_generator_is_gone_can_be_changed(world: GeneratorWorld) -> None:
    async with world.memory.store.read() as tx:
        await check_changeable(tx, EDITOR_OF_SHOP, COPY, ("ref",))
        await check_deletable(tx, COPY)


async def test_a_copied_service_is_changed_by_those_who_may_change_the_copies(
    world: GeneratorWorld,
) -> None:
    source = make_service("api", EU)
    copies = replace(AGENTS, source_id=source.id, template=None)
    await world.memory.given(source, copies)
    reason = await refused(world, source, "ref", error=Forbidden)
    assert "copies service 'api' to other clusters, where sue@example.org may not" in reason
    async with world.memory.store.read() as tx:
        await check_changeable(tx, EDITOR_OF_SHOP, source, ("paused",))
        await check_changeable(tx, EDITOR, source, ("ref",))


async def test_nothing_of_a_frozen_cluster_is_changed_or_deleted(world: GeneratorWorld) -> None:
    await world.memory.given(FROZEN)
    assert "sale" in await refused(world, make_service("api", EU), "paused")
    async with world.memory.store.read() as tx:
        with pytest.raises(Conflict, match="sale"):
            await check_deletable(tx, make_service("api", EU))


async def test_a_generated_service_is_deleted_by_its_generator(world: GeneratorWorld) -> None:
    await world.memory.given(AGENTS)
    async with world.memory.store.read() as tx:
        with pytest.raises(Conflict, match="comes from global service 'agents' and would be rec"):
            await check_deletable(tx, COPY)


async def test_a_source_is_deleted_after_the_global_service(world: GeneratorWorld) -> None:
    """One that is being deleted copies nothing any more."""
    source = make_service("api", EU)
    copies = replace(AGENTS, source_id=source.id, template=None)
    await world.memory.given(source, copies)
    async with world.memory.store.read() as tx:
        with pytest.raises(Conflict, match="is the source of global service 'agents'"):
            await check_deletable(tx, source)
    await world.change(copies, ending_at=START)
    async with world.memory.store.read() as tx:
        await check_deletable(tx, source)


async def secrets(world: GeneratorWorld, *ids: str) -> None:
    """Secrets with a value; `empty` has none."""
    async with world.memory.store.write() as tx:
        for id in ids:
            number = int(id != "empty")
            await tx[SecretStore].add(Secret(id, id, START, START, current=number, newest=number))
            if number:
                await tx[SecretVersionStore].add(
                    SecretVersion(f"{id}-1", id, 1, START, "ada", b"x")
                )


async def used(world: GeneratorWorld) -> dict[str, list[tuple[str, str, bool]]]:
    """Name, secret and whether it is pinned of each use, by cluster."""
    clusters = {str(one.id): one.cluster_id for one in await world.memory.rows(ServiceStore)}
    found: dict[str, list[tuple[str, str, bool]]] = {}
    for use in await world.memory.rows(SecretUseStore):
        row = (use.name, use.secret_id, use.pinned)
        found.setdefault(clusters[use.service_id], []).append(row)
    return {cluster: sorted(rows) for cluster, rows in found.items()}


async def test_services_use_the_secrets_of_their_template(world: GeneratorWorld) -> None:
    """Each follows the current version; a change of the template reaches all."""
    await secrets(world, "one", "two")
    template = replace(WEB, uses={"token": ("one", None), "key": ("two", None)})
    made = await world.globals.create(ADMIN, GlobalChange("x", template=template))
    await world.reconcile(made)
    both = [("key", "two", False), ("token", "one", False)]
    assert await used(world) == {"eu": both, "us": both}
    before = await world.memory.rows(SecretUseStore)
    await world.reconcile(made)
    assert await world.memory.rows(SecretUseStore) == before
    change = GlobalChange(template=ServiceChange(uses={"token": ("two", None)}))
    await world.globals.update(ADMIN, made.id, change)
    plan = await world.reconcile(made)
    assert plan is not None and len(plan.update) == 2
    moved = [("token", "two", False)]
    assert await used(world) == {"eu": moved, "us": moved}


async def test_a_template_without_secrets_leaves_those_of_its_services(
    world: GeneratorWorld,
) -> None:
    """An empty list removes them."""
    await secrets(world, "one")
    template = replace(WEB, uses={"token": ("one", None)})
    made = await world.globals.create(ADMIN, GlobalChange("x", template=template))
    await world.reconcile(made)
    assert made.template is not None
    await world.change(made, template=replace(made.template, secrets=None))
    await world.reconcile(made)
    assert set(await used(world)) == {"eu", "us"}
    empty = GlobalChange(template=ServiceChange(uses={}))
    await world.globals.update(ADMIN, made.id, empty)
    await world.reconcile(made)
    assert await used(world) == {}


async def test_a_deleted_secret_is_a_problem_and_deletes_no_service(world: GeneratorWorld) -> None:
    await secrets(world, "one", "two")
    template = replace(WEB, uses={"token": ("one", None), "key": ("two", None)})
    made = await world.globals.create(ADMIN, GlobalChange("x", template=template))
    async with world.memory.store.write() as tx:
        await tx[SecretVersionStore].remove("one-1")
        await tx[SecretStore].remove("one")
    await world.reconcile(made)
    assert (await world.stored(made)).problem == (
        "1 secrets of the template were deleted: select others"
    )
    key = [("key", "two", False)]
    assert await used(world) == {"eu": key, "us": key}


async def test_secrets_of_a_template_must_be_usable(world: GeneratorWorld) -> None:
    await secrets(world, "one", "empty")
    project = GlobalChange("x", project_id="shop")
    for uses, error, message in (
        ({"token": ("none", None)}, NotFound, "none"),
        ({"token": ("empty", None)}, Invalid, "has no value yet"),
        ({"token": ("one", 1)}, Invalid, "must not specify a version"),
        ({"Not a name": ("one", None)}, Invalid, "not a valid name"),
        ({f"t{number}": ("one", None) for number in range(MAX_USES + 1)}, Invalid, "at most"),
    ):
        change = replace(project, template=replace(WEB, uses=uses))
        with pytest.raises(error, match=message):
            await world.globals.create(ADMIN, change)
    template = ServiceChange("web", "shop", "apps", "main", "web", uses={"token": ("one", None)})
    with pytest.raises(NotFound):
        await world.globals.create(EDITOR_OF_SHOP, replace(project, template=template))
    assert await world.memory.rows(GlobalServiceStore) == []
