"""Services of stages: which pipeline promotes them, and what happens when they leave it."""

from itertools import pairwise

import pytest

from controlplane.clusters.model.groups import ClusterGroup
from controlplane.pipelines.model.rollout import Rollout, Strategy
from controlplane.pipelines.operations.drafts import EdgeDraft, PipelineDraft, StageDraft
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.pipelines.ports import PipelineServiceStore
from controlplane.platform.context import DESIRED_STATE
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, Invalid
from core.spec.verification import Verification
from tests.fakes.actors import ADMIN
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_service,
    operations_over_memory,
)

DEV = make_cluster("dev")
A, B, C = (make_service(name, DEV) for name in ("a", "b", "c"))


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(DEV, A, B, C)
    return world


async def save(
    world: MemoryOperations, name: str, *stages: list[str], rollout: Rollout | None = None
) -> str:
    """Saves a line of stages with these services, named by their numbers."""
    drafts = [
        StageDraft(str(number), services, rollout=rollout if rollout and number else Rollout())
        for number, services in enumerate(stages)
    ]
    edges = [EdgeDraft(str(number), str(number + 1)) for number in range(len(stages) - 1)]
    return (await Pipelines(world.context).save(ADMIN, PipelineDraft(name, drafts, edges))).row.id


async def promoted(world: MemoryOperations) -> dict[str, bool]:
    rows = await world.rows(PipelineServiceStore)
    services = await world.rows(ServiceStore)
    held = {str(service.id): service.spec.promoted for service in services}
    assert all(held[row.service_id] is row.promoted for row in rows)
    return {row.service_id: row.promoted for row in rows}


async def test_a_service_is_promoted_by_one_pipeline(world: MemoryOperations) -> None:
    await save(world, "first", ["dev-a"], ["dev-b"])
    with pytest.raises(Conflict, match="service 'b' belongs to another pipeline: first"):
        await save(world, "second", ["dev-a"], ["dev-b", "dev-c"])
    assert await promoted(world) == {"dev-a": False, "dev-b": True}
    await save(world, "second", ["dev-a"], ["dev-c"])


async def test_pipelines_do_not_promote_each_other_in_a_cycle(world: MemoryOperations) -> None:
    await save(world, "first", ["dev-a"], ["dev-b"])
    await save(world, "second", ["dev-b"], ["dev-c"])
    with pytest.raises(Invalid, match="pipelines would promote in a cycle: ") as error:
        await save(world, "third", ["dev-c"], ["dev-a"])
    cycle = str(error.value).rpartition(": ")[2].split(" → ")
    steps = "a first/0 first/1 b second/0 second/1 c third/0 third/1 a".split()
    assert set(pairwise(cycle)) == set(pairwise(steps)), "in the direction of the promotions"
    with pytest.raises(Invalid, match="pipelines would promote in a cycle"):
        await save(world, "first", ["dev-c"], ["dev-b"])


async def test_a_service_that_changes_its_stage_is_promoted_from_then_on(
    world: MemoryOperations,
) -> None:
    await save(world, "first", ["dev-a"], ["dev-b"])
    await save(world, "first", ["dev-b"], ["dev-a"])
    assert await promoted(world) == {"dev-a": True, "dev-b": False}
    await save(world, "first", ["dev-b"], ["dev-c"])
    assert await promoted(world) == {"dev-b": False, "dev-c": True}


@pytest.mark.parametrize(
    ("verification", "digest", "generation"),
    [
        (Verification(60), "sha256:a", 8),
        (Verification(60), None, 7),
        (None, "sha256:a", 7),
    ],
)
async def test_the_agent_hears_that_a_stage_no_longer_verifies_the_bundle(
    world: MemoryOperations, verification: Verification | None, digest: str | None, generation: int
) -> None:
    id = await save(world, "first", ["dev-a"], ["dev-b"])
    async with world.store.write() as tx:
        await tx[ServiceStore].change(
            B.id, stage_verification=verification, digest=digest, generation=7, pinned_sha="a" * 40
        )
    world.published.clear()
    await Pipelines(world.context).delete(ADMIN, id)
    left = await world.row(ServiceStore, B.id)
    assert left is not None
    assert (left.spec.promoted, left.desired.pinned_sha) == (False, None)
    assert (left.desired.stage_verification, left.desired.generation) == (None, generation)
    assert (DESIRED_STATE, f"dev/{B.id}") in world.published
    assert await world.rows(PipelineServiceStore) == []


async def test_a_stage_rolls_out_by_groups_that_exist(world: MemoryOperations) -> None:
    rollout = Rollout(Strategy.WAVES, groups=("eu",))
    with pytest.raises(Invalid, match="cluster group eu does not exist: select another one"):
        await save(world, "first", ["dev-a"], ["dev-b"], rollout=rollout)
    await world.given(ClusterGroup("eu", "eu", START, START))
    await save(world, "first", ["dev-a"], ["dev-b"], rollout=rollout)
