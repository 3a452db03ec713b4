"""Services that wait for others of their cluster."""

import pytest

from controlplane.platform.context import RENDER_SERVICES
from controlplane.services.model.service import Service
from controlplane.services.model.status_codes import ServiceStatus
from controlplane.services.operations.services import ServiceChange
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, Invalid
from core.spec.status import Phase
from tests.fakes.manifests import Folders, config_map
from tests.integration.controlplane.conftest import World


async def pair(world: World) -> tuple[Service, Service, str]:
    """A database, a shop that depends on it, and their repository."""
    cluster, repository = await world.cluster(), await world.repository()
    database = await world.service(cluster, repository, "db")
    shop = await world.service(cluster, repository, "shop", dependencies=["db"])
    return database, shop, repository.id


def push(world: World, repository: str, version: str) -> None:
    """A commit that changes both."""
    folders: Folders = {name: [config_map(name, version=version)] for name in ("db", "shop")}
    world.manifests.push(repository, folders)


async def test_a_dependent_waits_until_the_other_is_healthy_at_its_newest(world: World) -> None:
    """Also when one commit changes both: yesterday's health does not count."""
    database, shop, repository = await pair(world)
    for version in ("one", "two"):
        before = (await world.get(shop)).desired.digest
        push(world, repository, version)
        await world.delivery.deliver(repository)
        held = await world.get(shop)
        assert (held.desired.digest, held.desired.waiting, held.status) == (
            before,
            True,
            ServiceStatus.OUT_OF_SYNC if before else ServiceStatus.STALE,
        )
        assert "db" in held.errors[0].message
        await world.report(database, Phase.APPLIED)
        await world.delivery.deliver(repository)
        assert (await world.get(shop)).desired.waiting
        await world.report(database)
        await world.delivery.deliver(repository)
        free = await world.get(shop)
        assert free.desired.digest != before
        assert (free.desired.waiting, free.errors) == (False, ())


async def test_health_of_the_other_wakes_those_that_wait(world: World) -> None:
    database, shop, repository = await pair(world)
    push(world, repository, "one")
    await world.delivery.deliver(repository)
    wakes = world.deps.bus.subscribe(RENDER_SERVICES)
    await world.report(database)
    assert await anext(aiter(wakes)) == (RENDER_SERVICES, f"{repository}/{shop.id}")


async def test_a_person_lets_a_service_go_on_once(world: World) -> None:
    _, shop, repository = await pair(world)
    push(world, repository, "one")
    await world.delivery.deliver(repository)
    await world.services.proceed(world.admin, shop.id)
    await world.delivery.deliver(repository)
    gone_on = await world.get(shop)
    assert gone_on.desired.digest is not None
    assert not gone_on.desired.waiting
    with pytest.raises(Conflict, match="does not wait"):
        await world.services.proceed(world.admin, shop.id)
    push(world, repository, "two")
    await world.delivery.deliver(repository)
    assert (await world.get(shop)).desired.waiting


async def test_circles_and_strangers_are_refused(world: World) -> None:
    database, shop, _ = await pair(world)
    with pytest.raises(Conflict, match="db → shop → db"):
        await world.services.update(world.admin, database.id, ServiceChange(dependencies=["shop"]))
    with pytest.raises(Conflict, match="shop → shop"):
        await world.services.update(world.admin, shop.id, ServiceChange(dependencies=["shop"]))
    with pytest.raises(Invalid, match="service 'absent' does not exist"):
        await world.services.update(world.admin, shop.id, ServiceChange(dependencies=["absent"]))


async def test_a_service_with_dependents_is_not_deleted(world: World) -> None:
    database, shop, _ = await pair(world)
    with pytest.raises(Conflict, match="shop depend on service 'db'"):
        await world.services.delete(world.admin, database.id)
    await world.services.update(world.admin, shop.id, ServiceChange(dependencies=[]))
    await world.services.delete(world.admin, database.id)


async def test_a_service_without_objects_is_gone_at_once(world: World) -> None:
    """Its agent has said of the newest state that nothing is there."""
    database, _, repository = await pair(world)
    push(world, repository, "one")
    await world.delivery.deliver(repository)
    await world.report(database)
    cluster = database.cluster_id
    await world.clusters.delete(world.admin, cluster)
    async with world.deps.store.read() as tx:
        assert await tx[ServiceStore].get(database.id) is None


async def test_a_clone_is_like_its_model_but_for_what_is_given(world: World) -> None:
    _, shop, _ = await pair(world)
    await world.services.update(
        world.admin, shop.id, ServiceChange(configuration={"a": "1", "b": "2"})
    )
    other = await world.cluster("other")
    change = ServiceChange(name="copy", ref="next", configuration={"b": "3"})
    copy = await world.services.clone(world.admin, shop.id, other.id, change)
    assert (copy.cluster_id, copy.name, copy.spec.ref) == (other.id, "copy", "next")
    assert (copy.spec.folder, copy.namespace) == (shop.spec.folder, shop.namespace)
    assert copy.spec.configuration == {"a": "1", "b": "3"}
    assert copy.spec.dependencies == ()


async def test_forcing_a_service_has_everything_applied_again(world: World) -> None:
    database, _, repository = await pair(world)
    push(world, repository, "one")
    await world.delivery.deliver(repository)
    before = await world.get(database)
    await world.services.force(world.admin, database.id)
    after = await world.get(database)
    assert (after.desired.digest, after.desired.generation) == (
        before.desired.digest,
        before.desired.generation + 1,
    )
