"""Removed services and ending clusters."""

import pytest

from controlplane.clusters.ports import ClusterStore
from controlplane.configuration.model.contexts import ServiceContext
from controlplane.configuration.model.flow import (
    Export,
    Import,
    ServiceExport,
    ServiceImport,
)
from controlplane.configuration.ports import ServiceExportStore, ServiceImportStore
from controlplane.secrets.model.secret import Secret
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.model.parts import ContextBinding, SecretUse
from controlplane.services.model.service import Component, DryRunResult, Service, ServiceSource
from controlplane.services.operations.removal import (
    begin_removal,
    delete_cluster_if_empty,
    delete_service_rows,
)
from controlplane.services.ports import (
    ComponentStore,
    ContextBindingStore,
    PlanStore,
    SecretUseStore,
    ServiceSourceStore,
    ServiceStore,
)
from core.errors import Conflict
from core.spec.status import Phase
from core.spec.sync import Removal
from tests.fakes.actors import EDITOR
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

NEW, SEEN = make_cluster("new"), make_cluster("seen", pinged_at=START)
DONE = make_service("web", SEEN, generation=2, observed_generation=2, phase=Phase.HEALTHY)
FLEET = make_repository("fleet")


def pod(service: Service) -> Component:
    return Component(
        "pod", service.id, SEEN.id, "", "v1", "Pod", "n", "p", "u", "", None, "", True, (), START
    )


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(NEW, SEEN, FLEET)
    return world


async def removed(world: MemoryOperations, service: Service, removal: Removal) -> bool:
    cluster = NEW if service.cluster_id == "new" else SEEN
    async with world.store.write() as tx:
        return await begin_removal(world.context, tx, EDITOR, service, removal, cluster)


@pytest.mark.parametrize(
    ("service", "has_objects", "at_once"),
    [
        (make_service("web", NEW, generation=3), False, True),
        (make_service("web", SEEN), False, True),
        (make_service("web", SEEN, generation=3, mirrored=True), True, True),
        (DONE, False, True),
        (DONE, True, False),
        (DONE.changed(observed_generation=1), False, False),
        (DONE.changed(phase=Phase.APPLIED), False, True),
        (DONE.changed(phase=Phase.APPLYING), False, False),
    ],
)
async def test_a_service_is_deleted_at_once_if_nothing_is_left_in_the_cluster(
    world: MemoryOperations, service: Service, has_objects: bool, at_once: bool
) -> None:
    await world.given(service)
    async with world.store.write() as tx:
        await tx[ComponentStore].upsert([pod(service)] if has_objects else [])
    assert await removed(world, service, Removal.CASCADE) is at_once
    ending = await world.rows(ServiceStore, deleted_at=START)
    assert [row.desired.generation for row in ending] == ([] if at_once else [3])
    assert await world.rows(ServiceStore) == []
    (entry,) = await world.ledger()
    assert (entry.stage, entry.message) == (LedgerStage.DELETED, "cascade")
    assert (entry.actor, entry.sequence) == ("ed@example.org", service.desired.generation + 1)


async def test_protection_keeps_the_objects(world: MemoryOperations) -> None:
    protected = make_service("web", SEEN, protect=True, generation=1)
    await world.given(protected)
    with pytest.raises(Conflict, match="set protect to false first"):
        await removed(world, protected, Removal.CASCADE)
    assert await world.ledger() == []
    assert not await removed(world, protected, Removal.ORPHAN)
    (row,) = await world.rows(ServiceStore, deleted_at=START)
    assert row.removal is Removal.ORPHAN


async def test_no_row_of_a_deleted_service_stays(world: MemoryOperations) -> None:
    other = make_service("other", SEEN)
    await world.given(
        DONE,
        other,
        ServiceContext("c", "base", START, START),
        Secret("s", "password", START, START),
    )
    for number, service in enumerate((DONE, other)):
        await world.given(
            ContextBinding(f"b{number}", "c", service.id),
            SecretUse(f"u{number}", "s", service.id, "p", 1, 0, START),
            ServiceSource(f"f{number}", service.id, FLEET.id, 0, "main", "", ""),
            DryRunResult(service.id, 1, ()),
            ServiceExport(f"e{number}", service.id, Export("host", "x")),
            ServiceImport(f"i{number}", service.id, Import("host", other.id, "host", "x")),
        )
    async with world.store.write() as tx:
        await tx[ComponentStore].upsert([pod(DONE)])
        await delete_service_rows(tx, DONE)
    assert [row.id for row in await world.rows(ContextBindingStore)] == ["b1"]
    assert [row.id for row in await world.rows(SecretUseStore)] == ["u1"]
    assert [row.id for row in await world.rows(ServiceSourceStore)] == ["f1"]
    assert [row.id for row in await world.rows(PlanStore)] == [other.id]
    assert [row.id for row in await world.rows(ServiceExportStore)] == ["e1"]
    assert [row.id for row in await world.rows(ServiceImportStore)] == ["i1"]
    assert await world.rows(ComponentStore) == []
    assert await world.rows(ServiceStore) == [other]


async def test_a_cluster_that_stays_loses_only_its_services(world: MemoryOperations) -> None:
    await world.given(make_cluster("kept"))
    async with world.store.write() as tx:
        for forced in (False, True):
            assert await delete_cluster_if_empty(tx, "kept", START, forced=forced) == []
    assert await world.row(ClusterStore, "kept") is not None


@pytest.mark.parametrize(
    ("cluster", "has_service", "forced", "ends"),
    [
        ("ending", False, False, True),
        ("ending", True, False, False),
        ("ending", True, True, True),
        ("seen", False, True, False),
        ("none", False, True, False),
    ],
)
async def test_an_ending_cluster_ends_after_its_last_service(
    world: MemoryOperations, cluster: str, has_service: bool, forced: bool, ends: bool
) -> None:
    ending = make_cluster("ending", ending_at=START)
    await world.given(ending)
    if has_service:
        await world.given(make_service("web", ending, deleted_at=START))
    async with world.store.write() as tx:
        await delete_cluster_if_empty(tx, cluster, START, forced=forced)
    found = await world.row(ClusterStore, "ending")
    assert (found is None) is ends
    assert len(await world.rows(ServiceStore, deleted_at=START)) == (has_service and not ends)
