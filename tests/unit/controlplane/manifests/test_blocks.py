"""Freezes, pauses and overrides of clusters are fields of their kinds."""

from typing import Any

import pytest

from controlplane.authorization import Actor
from controlplane.clusters.operations.groups import ClusterGroups
from controlplane.clusters.ports import ClusterGroupStore
from controlplane.generators.ports import GlobalOverrideStore
from controlplane.manifests.model.plan import ManifestAction
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.pipelines.ports import PipelineStore
from tests.fakes.actors import ADMIN, VIEWER
from tests.fakes.manifest_world import ManifestWorld, document, manifest_world

REPOSITORY = "https://git.example.org/fleet.git"
BASE = document("GitRepository", REPOSITORY) + document("Cluster", "eu-1", {"tags": {"env": "a"}})
SERVICE = document("Service", "web", {"namespace": "a", "repository": REPOSITORY}, cluster="eu-1")


async def applied(*texts: str) -> ManifestWorld:
    world = manifest_world()
    for text in texts:
        assert (await world.apply(text)).problems == ()
    return world


async def problems(world: ManifestWorld, text: str, actor: Actor = ADMIN) -> str:
    return "; ".join(p.message for p in (await world.apply(text, actor)).problems)


def group(**spec: Any) -> str:
    return document("ClusterGroup", "all", {"clusters": ["eu-1"], **spec})


async def group_of(world: ManifestWorld) -> tuple[bool, str]:
    (row,) = await world.memory.rows(ClusterGroupStore)
    return row.frozen, row.reason


FROZEN = group(frozen=True, freezeReason="black friday")


async def test_a_frozen_group_is_rebuilt_with_the_services_that_it_blocks() -> None:
    first = await applied(BASE + SERVICE + FROZEN)
    assert await group_of(first) == (True, "black friday")
    exported = await first.export()
    second = await applied(exported)
    assert await second.export() == exported
    other = SERVICE.replace("name: web", "name: shop")
    assert "is frozen through cluster group 'all'" in await problems(second, other)


async def test_a_freeze_ends_with_its_field_and_before_other_changes() -> None:
    world = await applied(BASE, FROZEN)
    changed = group(frozen=True, freezeReason="black friday", description="a")
    assert "unfreeze it first" in await problems(world, changed)
    assert await group_of(world) == (True, "black friday")
    await world.apply(group(frozen=True, freezeReason="longer"))
    assert await group_of(world) == (True, "longer")
    assert await problems(world, group(description="open", maxChanging=2)) == ""
    assert await group_of(world) == (False, "")


async def test_a_freeze_that_a_user_set_stays_until_a_manager_sets_the_field() -> None:
    world = await applied(BASE, group())
    (row,) = await world.memory.rows(ClusterGroupStore)
    await world.operations[ClusterGroups].freeze(ADMIN, row.id, "incident")
    plan = await world.apply(group())
    assert {item.action for item in plan.items} == {ManifestAction.UNCHANGED}
    assert await group_of(world) == (True, "incident")


async def test_a_reason_needs_a_freeze() -> None:
    world = await applied(BASE)
    assert "needs frozen: true" in await problems(world, group(freezeReason="a"))
    assert await world.memory.rows(ClusterGroupStore) == []


def pipeline(**spec: Any) -> str:
    stages = [{"name": "only", "services": ["eu-1/web"]}]
    return document("Pipeline", "main", {"stages": stages, **spec})


async def test_a_pipeline_is_paused_and_resumed_by_its_field() -> None:
    world = await applied(BASE + SERVICE + pipeline(paused=True))
    exported = await world.export("Pipeline")
    assert "paused: true" in exported
    assert await problems(world, pipeline()) == ""
    assert "paused" not in await world.export("Pipeline")
    (row,) = await world.memory.rows(PipelineStore)
    await world.operations[Pipelines].pause(ADMIN, row.id, "incident")
    assert await problems(world, pipeline(onCommit=False)) == ""
    assert "paused: true" in await world.export("Pipeline")


def globals(*overrides: Any) -> str:
    template = {"name": "web", "namespace": "a", "repository": REPOSITORY, "folder": "web"}
    spec: dict[str, Any] = {"template": template, "selector": {"tags": {"env": "a"}}}
    if overrides:
        spec["overrides"] = list(overrides)
    return document("GlobalService", "web", spec)


EU = {
    "cluster": "eu-1",
    "ref": "canary",
    "configuration": {"level": "debug"},
    "without": ["zone"],
    "helm": {"values": "a: 1\n"},
    "options": {"drift": "REPORT"},
}


async def test_overrides_of_clusters_round_trip_and_leave_with_their_field() -> None:
    world = await applied(BASE, globals(EU))
    (row,) = await world.memory.rows(GlobalOverrideStore)
    assert row.patch.ref == "canary"
    assert dict(row.patch.configuration or {}) == {"level": "debug", "zone": None}
    plan = await world.apply(globals(EU))
    assert {item.action for item in plan.items} == {ManifestAction.UNCHANGED}
    exported = await world.export()
    second = await applied(exported)
    assert await second.export() == exported
    plan = await world.apply(globals({**EU, "ref": "main"}))
    assert [change.path for change in plan.items[0].changes] == ["spec.overrides[0].ref"]
    assert await problems(world, globals()) == ""
    assert await world.memory.rows(GlobalOverrideStore) == []


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ({"cluster": "us-1"}, "Cluster 'us-1' does not exist"),
        ({"ref": "a"}, "needs the field cluster"),
        ({"cluster": "eu-1", "namespace": "b"}, "unknown field 'namespace'"),
    ],
)
async def test_a_wrong_override_is_refused(override: Any, message: str) -> None:
    world = await applied(BASE)
    assert message in await problems(world, globals(override))


async def test_two_overrides_of_one_cluster_are_refused() -> None:
    world = await applied(BASE)
    assert "contains a cluster twice" in await problems(world, globals(EU, EU))
    assert await world.memory.rows(GlobalOverrideStore) == []


async def test_readers_of_all_clusters_see_overrides() -> None:
    world = await applied(BASE, globals(EU))
    assert "overrides" in await world.manifests.export(VIEWER)
