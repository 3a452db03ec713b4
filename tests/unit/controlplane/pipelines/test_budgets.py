"""Limits on the clusters of a group that pipelines change at once."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from controlplane.clusters.model.groups import ClusterGroup
from controlplane.pipelines.engine.events import Budgeted
from controlplane.pipelines.model.pipeline import EdgeId, Pipeline, Stage, StageEdge, StageId
from controlplane.pipelines.model.records import PipelineRecord, PipelineService
from controlplane.pipelines.model.rollout import BudgetRoom, Progress
from controlplane.pipelines.model.state import PipelineState, ReleaseId, StageState
from controlplane.pipelines.operations.budgets import (
    awaits_budget,
    budget_events,
    frees_budget,
    store_changing,
)
from controlplane.pipelines.ports import PipelineServiceStore
from controlplane.services.model.service import Service
from core.identity import ServiceId
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_service,
    operations_over_memory,
)

CLUSTERS = [make_cluster(f"c{number}", tags={"ring": str(number % 2)}) for number in range(5)]
SERVICES: Mapping[str, Service] = {
    service.id: service
    for name in ("shop", "web")
    for service in (make_service(name, cluster) for cluster in CLUSTERS)
}
DEV, PROD, LAST = (StageId(name) for name in ("dev", "prod", "last"))
FULL = "cluster group 'eu': its limit of {} changing clusters is reached"


def ids(*names: str) -> tuple[ServiceId, ...]:
    return tuple(map(ServiceId, names))


PIPELINE = Pipeline(
    "p",
    "shop",
    (
        Stage(DEV, "dev", ids("c0-shop")),
        Stage(PROD, "prod", ids("c1-shop", "c2-shop")),
        Stage(LAST, "last", ids("c3-shop", "c4-shop")),
    ),
    (StageEdge(EdgeId("a"), DEV, PROD), StageEdge(EdgeId("b"), PROD, LAST)),
)


def group(limit: int, *clusters: str, **columns: object) -> ClusterGroup:
    """A group that limits its changing clusters."""
    group = ClusterGroup("eu", "eu", START, START, cluster_ids=clusters, max_changing=limit)
    return replace(group, **columns)


def rolling(progress: Mapping[str, Progress], stage: StageId = PROD) -> PipelineState:
    """A pipeline whose stage rolls a release out."""
    begun = {ServiceId(id): value for id, value in progress.items()}
    room = BudgetRoom((), "")
    return PipelineState(
        stages={stage: StageState(release=ReleaseId("r1"), progress=begun)}, room=room
    )


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(*CLUSTERS, *SERVICES.values())
    for name in ("p", "q"):
        await world.given(PipelineRecord(name, name, START, START))
    for id in ("c1-shop", "c2-shop", "c3-shop", "c4-shop"):
        await world.given(PipelineService(f"p/{id}", "p", id, True))
    return world


async def room(
    world: MemoryOperations, state: PipelineState, pipeline: Pipeline = PIPELINE
) -> BudgetRoom | None:
    """The part of the budgets that a pipeline gets."""
    async with world.store.write() as tx:
        (event,) = await budget_events(tx, pipeline, state, SERVICES)
    return event.room


async def others_change(world: MemoryOperations, *services: str) -> None:
    """Another pipeline rolls a release out to these services."""
    rows = [PipelineService(f"q/{id}", "q", id, True, changing=True) for id in services]
    await world.given(*rows)


async def test_without_a_limit_a_pipeline_has_no_budget(world: MemoryOperations) -> None:
    await world.given(group(0, "c1"))
    async with world.store.write() as tx:
        assert await budget_events(tx, PIPELINE, PipelineState(), SERVICES) == []
        lifted = replace(PipelineState(), room=BudgetRoom((), "full"))
        assert await budget_events(tx, PIPELINE, lifted, SERVICES) == [Budgeted(None)]


async def test_a_group_of_other_clusters_limits_nothing(world: MemoryOperations) -> None:
    """Nor does one with only the first stage, which git changes."""
    await world.given(group(1, "c0"))
    async with world.store.write() as tx:
        assert await budget_events(tx, PIPELINE, PipelineState(), SERVICES) == []


async def test_services_beyond_the_limit_wait_for_a_reason(world: MemoryOperations) -> None:
    await world.given(group(2, "c1", "c2", "c3"))
    found = await room(world, PipelineState())
    assert found == BudgetRoom(ids("c1-shop", "c2-shop", "c4-shop"), FULL.format(2))


async def test_a_group_by_tags_has_a_budget_too(world: MemoryOperations) -> None:
    await world.given(group(1, tags={"ring": "1"}))
    found = await room(world, PipelineState())
    assert found == BudgetRoom(ids("c1-shop", "c2-shop", "c4-shop"), FULL.format(1))


async def test_clusters_that_other_pipelines_change_count(world: MemoryOperations) -> None:
    await world.given(group(2, "c1", "c2", "c3"))
    await others_change(world, "c3-web")
    found = await room(world, PipelineState())
    assert found == BudgetRoom(ids("c1-shop", "c3-shop", "c4-shop"), FULL.format(2))


async def test_a_cluster_that_changes_already_needs_no_further_budget(
    world: MemoryOperations,
) -> None:
    await world.given(group(1, "c1", "c2"))
    await others_change(world, "c2-web")
    found = await room(world, PipelineState())
    assert found == BudgetRoom(ids("c2-shop", "c3-shop", "c4-shop"), FULL.format(1))


@pytest.mark.parametrize(
    ("progress", "stopped", "free"),
    [
        (Progress.GIVEN, "", ("c3-shop", "c4-shop")),
        (Progress.HEALTHY, "", ("c2-shop", "c3-shop", "c4-shop")),
        (Progress.FAILED, "", ("c2-shop", "c3-shop", "c4-shop")),
        (Progress.GIVEN, "aborted", ("c2-shop", "c3-shop", "c4-shop")),
    ],
)
async def test_a_cluster_counts_until_its_service_is_healthy_or_has_failed(
    world: MemoryOperations, progress: Progress, stopped: str, free: tuple[str, ...]
) -> None:
    """An aborted rollout no longer counts."""
    await world.given(group(1, "c1", "c2"))
    state = rolling({"c1-shop": progress})
    stage = replace(state.stages[PROD], stopped=stopped)
    found = await room(world, replace(state, stages={PROD: stage}))
    assert found is not None and found.free == ids(*free)
    assert awaits_budget(replace(state, room=found)) is (free == ("c3-shop", "c4-shop"))


async def test_the_stage_that_rolls_out_comes_first(world: MemoryOperations) -> None:
    """So a rollout ends before the next one begins."""
    await world.given(group(2, "c1", "c2", "c3", "c4"))
    found = await room(world, rolling({"c3-shop": Progress.GIVEN}, LAST))
    assert found is not None and found.free == ids("c4-shop")


async def test_services_get_the_budget_in_the_order_of_their_waves(
    world: MemoryOperations,
) -> None:
    await world.given(group(1, "c1", "c2"))
    dev, prod, last = PIPELINE.stages
    waves = (ids("c2-shop"), ids("c1-shop"))
    found = await room(
        world,
        PipelineState(),
        replace(PIPELINE, stages=(dev, replace(prod, waves=waves), last)),
    )
    assert found is not None and found.free == ids("c2-shop", "c3-shop", "c4-shop")


async def test_a_service_on_a_frozen_cluster_takes_no_budget(world: MemoryOperations) -> None:
    await world.given(group(1, "c1", "c2"))
    frozen = {ServiceId("c1-shop"): "maintenance"}
    found = await room(world, replace(PipelineState(), frozen=frozen))
    assert found == BudgetRoom(ids("c2-shop", "c3-shop", "c4-shop"), "")


async def test_the_tightest_of_several_groups_decides(world: MemoryOperations) -> None:
    us = replace(group(1, "c1", "c2", "c3"), id="us", name="us")
    await world.given(group(3, "c1", "c2", "c3", "c4"), us)
    found = await room(world, PipelineState())
    text = "cluster group 'us': its limit of 1 changing clusters is reached"
    assert found == BudgetRoom(ids("c1-shop", "c4-shop"), text)


async def test_a_deleted_service_needs_no_budget(world: MemoryOperations) -> None:
    await world.given(group(1, "c2"))
    known: Mapping[str, Service] = {
        id: service for id, service in SERVICES.items() if id != "c1-shop"
    }
    async with world.store.write() as tx:
        (event,) = await budget_events(tx, PIPELINE, PipelineState(), known)
    assert event.room == BudgetRoom(ids("c1-shop", "c2-shop", "c3-shop", "c4-shop"), "")


@pytest.mark.parametrize(
    ("after", "frees"),
    [
        ({"c1-shop": Progress.HEALTHY, "c2-shop": Progress.GIVEN}, True),
        ({"c1-shop": Progress.GIVEN, "c2-shop": Progress.GIVEN}, False),
        ({"c1-shop": Progress.GIVEN, "c2-shop": Progress.GIVEN, "c3-shop": Progress.GIVEN}, False),
        ({}, True),
    ],
)
def test_a_service_that_ends_frees_budget(after: Mapping[str, Progress], frees: bool) -> None:
    before = rolling({"c1-shop": Progress.GIVEN, "c2-shop": Progress.GIVEN})
    assert frees_budget(before, rolling(after)) is frees
    assert not frees_budget(replace(before, room=None), rolling(after))


async def test_other_pipelines_see_the_services_that_change_now(world: MemoryOperations) -> None:
    async def changing(before: PipelineState, after: PipelineState) -> list[str]:
        async with world.store.write() as tx:
            await store_changing(tx, "p", before, after)
        return sorted(
            row.service_id for row in await world.rows(PipelineServiceStore, changing=True)
        )

    none = PipelineState()
    one, two = rolling({"c1-shop": Progress.GIVEN}), rolling({"c2-shop": Progress.GIVEN})
    assert await changing(none, replace(one, room=None)) == []
    assert await changing(none, one) == ["c1-shop"]
    assert await changing(one, two) == ["c2-shop"]
    assert await changing(two, replace(two, room=None)) == []
