"""Dependencies between services: who waits, and who is woken."""

from typing import Any

import pytest

from controlplane.platform.context import DESIRED_STATE, RENDER_SERVICES, SERVICE
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.model.service import Service
from controlplane.services.operations.dependencies import (
    MAX_DEPENDENCIES,
    check_dependencies,
    check_dependency_names,
    check_not_needed,
    dependents_to_wake,
    waiting_services,
)
from controlplane.services.operations.generations import raise_generation, wake_agents
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, Invalid
from core.spec.status import Phase
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

DEV, PROD = make_cluster("dev"), make_cluster("prod")
FLEET = make_repository("fleet")


def healthy(name: str, **columns: Any) -> Service:
    return make_service(name, DEV, digest="sha256:x", phase=Phase.HEALTHY, **columns)


WEB = make_service("web", DEV, dependencies=("db",), repository_id=FLEET.id)


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(DEV, PROD, FLEET)
    return world


def test_dependencies_are_at_most_64_different_names() -> None:
    names = [f"s{n}" for n in range(MAX_DEPENDENCIES)]
    assert check_dependency_names(names) == tuple(names)
    assert check_dependency_names(["b", "a", "b"]) == ("b", "a")
    for wrong, field in (([*names, "x"], "dependencies"), (["A"], "dependencies.name")):
        with pytest.raises(Invalid) as error:
            check_dependency_names(wrong)
        assert error.value.field == field


async def test_a_dependency_exists_in_the_same_cluster(world: MemoryOperations) -> None:
    await world.given(WEB, make_service("db", PROD))
    async with world.store.read() as tx:
        with pytest.raises(Invalid, match="service 'db' does not exist in this cluster"):
            await check_dependencies(tx, WEB)
        await check_dependencies(tx, WEB.changed(dependencies=()))
        with pytest.raises(Conflict, match="web → web"):
            await check_dependencies(tx, WEB.changed(dependencies=("web",)))
    await world.given(healthy("db", dependencies=("gone",)))
    async with world.store.read() as tx:
        await check_dependencies(tx, WEB)


async def test_the_first_five_dependents_are_named(world: MemoryOperations) -> None:
    users = [make_service(f"u{n}", DEV, dependencies=("db",)) for n in range(6)]
    await world.given(*users, make_service("db", PROD))
    async with world.store.read() as tx:
        with pytest.raises(Conflict, match="u0, u1, u2, u3, u4 depend on service 'db'"):
            await check_not_needed(tx, healthy("db"))
        await check_not_needed(tx, make_service("db", PROD))


@pytest.mark.parametrize(
    ("service", "database", "ready"),
    [
        (WEB, healthy("db"), True),
        (WEB, healthy("db", generation=1), False),
        (WEB, None, False),
        (WEB.changed(wait_skipped=True), None, True),
        (WEB.changed(dependencies=()), None, True),
    ],
)
async def test_a_service_waits_until_its_dependencies_are_healthy(
    world: MemoryOperations, service: Service, database: Service | None, ready: bool
) -> None:
    elsewhere = make_service("db", PROD, digest="sha256:x", phase=Phase.HEALTHY)
    await world.given(service, elsewhere, *([database] if database else []))
    async with world.store.read() as tx:
        assert (await waiting_services(tx, [service]) == set()) is ready


async def test_a_service_waits_for_each_of_its_dependencies(world: MemoryOperations) -> None:
    both = WEB.changed(dependencies=("cache", "db"))
    await world.given(both, healthy("cache"), healthy("db", generation=1))
    async with world.store.read() as tx:
        assert await waiting_services(tx, [both]) == {both.id}


async def test_waiting_services_of_a_cluster_are_woken(world: MemoryOperations) -> None:
    await world.given(
        WEB.changed(waiting=True),
        make_service("idle", DEV, repository_id=FLEET.id),
        make_service("bare", DEV, waiting=True),
        make_service("far", PROD, waiting=True, repository_id=FLEET.id),
    )
    async with world.store.read() as tx:
        assert await dependents_to_wake(tx, ["dev"]) == {(RENDER_SERVICES, f"fleet/{WEB.id}")}
        assert await dependents_to_wake(tx, []) == set()


async def test_new_secrets_raise_the_generation_of_rendered_services(
    world: MemoryOperations,
) -> None:
    """A service without a bundle has nothing to apply again."""
    rendered = healthy("db", generation=3)
    await world.given(rendered, WEB)
    async with world.store.write() as tx:
        for service in (rendered, WEB):
            await raise_generation(world.context, tx, service, ["a", "b" * 1000], "x" * 400)
    rows = await world.rows(ServiceStore)
    assert {row.name: row.desired.generation for row in rows} == {"db": 4, "web": 0}
    first, second = await world.ledger()
    assert (first.stage, first.sequence, second.sequence) == (LedgerStage.CONFIGURED, 4, 0)
    assert (len(first.actor), len(first.message)) == (320, 1000)
    assert first.message.startswith("secrets: a, b")
    wake_agents(world.context, [rendered])
    assert world.published == [(SERVICE, "dev-db"), (DESIRED_STATE, "dev/dev-db")]
