"""Creation and changes of services, over the store in memory."""

from typing import Any

import pytest

from controlplane.access.model.users import User
from controlplane.access.operations.binding_subjects import Subjects
from controlplane.authorization import ANONYMOUS, Actor
from controlplane.bridges import SERVICE_PARTS
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.platform.context import ACCESS, DESIRED_STATE, RENDER_SERVICES, SERVICE
from controlplane.services.operations.services import ServiceChange, Services
from controlplane.services.operations.sources import SourceChange
from controlplane.services.ports import LedgerStore, ServiceStore
from core.errors import Conflict, Forbidden, Invalid, NotFound, TowlineError, Unauthenticated
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

EU, REPOSITORY = make_cluster("eu"), make_repository("fleet")
SHOP = make_service("shop", EU, ref="main", folder="shop", generation=4, digest="d", pinned_sha="p")
SOURCES = [SourceChange("fleet", "main", "values", "values")]
NEW = ServiceChange("web", "web", "fleet", "main", "web", sources=SOURCES)


@pytest.fixture
async def world() -> MemoryOperations:
    operations = operations_over_memory()
    await operations.given(EU, REPOSITORY)
    return operations


@pytest.fixture
def services(world: MemoryOperations) -> Services:
    return Services(world.context, SERVICE_PARTS)


async def test_a_service_is_created(world: MemoryOperations, services: Services) -> None:
    service = await services.create(EDITOR, "eu", None, NEW)
    assert await world.rows(ServiceStore) == [service]
    assert await world.audited() == [("ed@example.org", "createServiceDeployment", "eu/web")]
    assert world.published == [
        (RENDER_SERVICES, "fleet/"),
        (SERVICE, service.id),
        (DESIRED_STATE, f"eu/{service.id}"),
        (RENDER_SERVICES, f"fleet/{service.id}"),
    ]


async def test_the_audit_log_lists_a_creation_in_the_order_of_its_steps(
    world: MemoryOperations, services: Services
) -> None:
    await world.given(User("u", "u@example.org", "u", START, START))
    chart = {"url": "https://charts.example.org/web", "chart": "web"}
    subjects = {"viewer": Subjects(users=frozenset({"u"}))}
    change = ServiceChange("web", "web", helm=chart, subjects=subjects)
    await services.create(ADMIN, "eu", None, change)
    assert [action for _, action, _ in await world.audited()] == [
        "createHelmRepository",
        "createServiceDeployment",
        "setBindings",
    ]
    assert (ACCESS, "u") in world.published


@pytest.mark.parametrize(
    ("actor", "error"), [(ANONYMOUS, Unauthenticated), (NOBODY, NotFound), (VIEWER, Forbidden)]
)
async def test_a_creation_without_permission_leaves_no_trace(
    actor: Actor, error: type[TowlineError], world: MemoryOperations, services: Services
) -> None:
    with pytest.raises(error):
        await services.create(actor, "eu", None, NEW)
    assert await world.rows(ServiceStore) == [] and await world.audited() == []
    assert world.published == []


@pytest.mark.parametrize(
    ("change", "columns"),
    [
        (ServiceChange(version="2"), {"pinned_sha": "p", "input_digest": "i", "generation": 4}),
        (ServiceChange(ref="next"), {"pinned_sha": None, "input_digest": None, "generation": 4}),
        (ServiceChange(configuration={"a": "b"}), {"pinned_sha": "p", "input_digest": None}),
        (ServiceChange(paused=True), {"input_digest": "i", "generation": 5}),
        (ServiceChange(ref="main", paused=False), {"pinned_sha": "p", "generation": 4}),
    ],
)
async def test_a_change_affects_the_render_or_the_apply(
    change: ServiceChange, columns: dict[str, Any], world: MemoryOperations, services: Services
) -> None:
    await world.given(SHOP.changed(input_digest="i"))
    desired = (await services.update(EDITOR, SHOP.id, change)).desired
    assert {name: getattr(desired, name) for name in columns} == columns


async def test_the_ledger_lists_the_changed_fields(
    world: MemoryOperations, services: Services
) -> None:
    await world.given(SHOP)
    await services.update(EDITOR, SHOP.id, ServiceChange(ref="main", folder="web", paused=True))
    await services.update(EDITOR, SHOP.id, ServiceChange(folder="web"))
    async with world.store.read() as tx:
        (entry,) = await tx[LedgerStore].select()
    assert entry.message == "folder, generation, input_digest, paused, pinned_sha"
    assert (entry.sequence, entry.actor) == (5, "ed@example.org")
    assert len(await world.audited()) == 2


async def test_a_frozen_service_stays_as_it_is(world: MemoryOperations, services: Services) -> None:
    group = ClusterGroup("g", "all", START, START, cluster_ids=("eu",), frozen=True)
    await world.given(SHOP, group)
    with pytest.raises(Conflict, match="frozen"):
        await services.update(EDITOR, SHOP.id, ServiceChange(paused=True))
    assert await world.rows(ServiceStore) == [SHOP] and await world.audited() == []


async def test_a_service_whose_dependency_is_gone_can_still_be_paused(
    world: MemoryOperations, services: Services
) -> None:
    """Generators remove services without a question to their dependents."""
    lonely = make_service("lonely", EU, dependencies=("gone",))
    await world.given(lonely)
    paused = await services.update(EDITOR, lonely.id, ServiceChange(paused=True))
    assert paused.spec.paused and paused.spec.dependencies == ("gone",)
    for names in (["gone", "other"], ["other"]):
        with pytest.raises(Invalid, match="does not exist in this cluster"):
            await services.update(EDITOR, lonely.id, ServiceChange(dependencies=names))
    freed = await services.update(EDITOR, lonely.id, ServiceChange(dependencies=[]))
    assert freed.spec.dependencies == ()
