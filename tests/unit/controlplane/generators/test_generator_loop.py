"""Generators are reconciled when something that they depend on changes."""

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from controlplane.clusters.model.cluster import Distribution
from controlplane.clusters.ports import ClusterStore
from controlplane.generators.loop import GeneratorLoop
from controlplane.generators.operations.reconciler import GeneratorReconciler
from controlplane.platform.context import CLUSTER, GENERATORS, SERVICE
from core.errors import Unavailable
from core.identity import RepositoryId
from core.spec.source import RepositorySpec
from tests.fakes.clock import START, settle
from tests.fakes.operations import MemoryOperations, make_cluster, operations_over_memory

SWEEP = 60


class Generators:
    """A `GeneratorReconciler` of two generators; `a` depends on a repository and a service."""

    def __init__(self) -> None:
        self.known = ["a", "b"]
        self.reconciled: list[str] = []
        self.is_away = False

    async def keys(self) -> list[str]:
        if self.is_away:
            raise Unavailable("the store does not answer")
        return list(self.known)

    async def sources(self) -> dict[str, set[str]]:
        return {"fleet": {"a"}, "template": {"a"}}

    async def reconcile(self, key: str) -> None:
        self.reconciled.append(key)

    async def since_last(self) -> list[str]:
        """Reconciled generators since the last call."""
        await settle(50)
        found, self.reconciled = sorted(self.reconciled), []
        return found


class Fleet:
    """A started loop that has reconciled all generators once."""

    def __init__(self) -> None:
        self.world: MemoryOperations = operations_over_memory()
        self.generators = Generators()
        self.loop = GeneratorLoop(
            cast(GeneratorReconciler, self.generators),
            self.world.manifests,
            self.world.store,
            self.world.bus,
            self.world.clock,
        )

    async def change(self, id: str = "dev", **columns: Any) -> list[str]:
        """Reconciled generators after a change of a cluster."""
        async with self.world.store.write() as tx:
            await tx[ClusterStore].change(id, **columns)
        self.world.bus.publish(CLUSTER, id)
        await self.world.clock.advance(1)
        return await self.generators.since_last()


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    fleet = Fleet()
    await fleet.world.given(make_cluster("dev"))
    await fleet.loop.start()
    assert await fleet.generators.since_last() == ["a", "b"]
    fleet.world.bus.publish(CLUSTER, "dev")
    await fleet.world.clock.advance(1)
    assert await fleet.generators.since_last() == ["a", "b"]
    yield fleet
    await fleet.loop.stop()


async def test_all_generators_are_reconciled_each_minute(fleet: Fleet) -> None:
    """No event tells of a pull request."""
    await fleet.world.clock.advance(SWEEP)
    assert await fleet.generators.since_last() == ["a", "b"]


async def test_a_commit_reconciles_the_generators_of_its_repository(fleet: Fleet) -> None:
    for id in ("fleet", "other"):
        fleet.world.manifests.follow(
            RepositorySpec(RepositoryId(id), f"https://git.example.org/{id}", frozenset({"main"}))
        )
    fleet.world.manifests.push("other", {})
    assert await fleet.generators.since_last() == []
    fleet.world.manifests.push("fleet", {})
    assert await fleet.generators.since_last() == ["a"]


async def test_a_service_reconciles_the_generators_that_copy_it(fleet: Fleet) -> None:
    fleet.world.bus.publish(SERVICE, "other")
    assert await fleet.generators.since_last() == []
    fleet.world.bus.publish(SERVICE, "template")
    assert await fleet.generators.since_last() == ["a"]


async def test_a_changed_generator_is_reconciled_alone(fleet: Fleet) -> None:
    fleet.world.bus.publish(GENERATORS, "b")
    assert await fleet.generators.since_last() == ["b"]
    fleet.world.bus.publish(GENERATORS)
    assert await fleet.generators.since_last() == ["a", "b"]


@pytest.mark.parametrize(
    "columns",
    [
        {"tags": {"env": "prod"}},
        {"handle": "prod"},
        {"name": "prod"},
        {"distribution": Distribution.K3S},
        {"ending_at": START},
        {"deleted_at": START},
    ],
)
async def test_a_change_that_selectors_see_reconciles_all_generators(
    fleet: Fleet, columns: dict[str, Any]
) -> None:
    assert await fleet.change(**columns) == ["a", "b"]
    assert await fleet.change(**columns) == []


async def test_a_change_that_selectors_do_not_see_reconciles_nothing(fleet: Fleet) -> None:
    assert await fleet.change(pinged_at=START, alarm="two agents") == []


async def test_clusters_that_change_together_are_handled_together(fleet: Fleet) -> None:
    """So 1,000 agents that connect at once cause few reads of all generators."""
    await fleet.world.given(*(make_cluster(f"c{number}") for number in range(20)))
    fleet.world.bus.publish(CLUSTER, "c0")
    assert await fleet.generators.since_last() == ["a", "b"]
    for number in range(1, 20):
        fleet.world.bus.publish(CLUSTER, f"c{number}")
    assert await fleet.generators.since_last() == []
    await fleet.world.clock.advance(0.25)
    assert await fleet.generators.since_last() == ["a", "b"]


async def test_a_change_during_an_outage_is_handled_after_it(fleet: Fleet) -> None:
    fleet.generators.is_away = True
    assert await fleet.change(tags={"env": "prod"}) == []
    fleet.generators.is_away = False
    await fleet.world.clock.advance(5)
    assert await fleet.generators.since_last() == ["a", "b"]
