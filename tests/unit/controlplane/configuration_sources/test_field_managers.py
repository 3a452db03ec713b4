"""Managers of the fields of a resource, and what they do to changes of others."""

from dataclasses import replace
from typing import Any

import pytest

from controlplane.authorization import Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.configuration_sources.model.managers import FieldManager
from controlplane.configuration_sources.model.source import ApplyMode
from controlplane.configuration_sources.operations.field_managers import FieldManagers
from core.errors import Forbidden, NotFound
from core.spec.sync import DriftPolicy
from tests.fakes.actors import ADMIN, NOBODY, VIEWER, person
from tests.fakes.manifest_world import document
from tests.fakes.operations import make_cluster
from tests.fakes.source_world import SourceWorld, change_of, source_world

CLUSTER = document("Cluster", "eu-1", {"tags": {"env": "prod"}})
OF_FLEET = FieldManager("git source fleet", ("spec.tags.env",), "fleet", reverts=True)


@pytest.fixture
async def world() -> SourceWorld:
    return await source_world()


def managers(world: SourceWorld) -> FieldManagers:
    return FieldManagers(world.manifests.memory.context, world.manifests.manifests)


async def test_a_source_that_heals_drift_reverts_changes(world: SourceWorld) -> None:
    await world.create(drift=DriftPolicy.HEAL)
    await world.push({"a.yaml": CLUSTER})
    assert await managers(world).of(VIEWER, "cluster", "eu-1") == [OF_FLEET]


@pytest.mark.parametrize(
    "settings",
    [
        {"drift": DriftPolicy.REPORT},
        {"drift": DriftPolicy.IGNORE},
        {"suspended": True},
        {"mode": ApplyMode.APPROVAL},
    ],
)
async def test_any_other_source_reverts_nothing_by_itself(
    world: SourceWorld, settings: dict[str, Any]
) -> None:
    source = await world.create(drift=DriftPolicy.HEAL)
    await world.push({"a.yaml": CLUSTER})
    await world.sources.update(ADMIN, source.id, change_of(**settings))
    (found,) = await managers(world).of(VIEWER, "Cluster", "eu-1")
    assert found == replace(OF_FLEET, reverts=False)


async def test_other_managers_have_no_source(world: SourceWorld) -> None:
    await world.manifests.apply(CLUSTER, manager="terraform")
    found = await managers(world).of(VIEWER, "Cluster", "eu-1")
    assert found == [FieldManager("terraform", ("spec.tags.env",))]


async def test_a_resource_without_a_manifest_has_no_manager(world: SourceWorld) -> None:
    await world.manifests.apply(CLUSTER, manager="cli")
    await world.manifests.apply(document("Cluster", "us-1"), manager="cli")
    await world.manifests.memory.given(make_cluster("console"))
    for name in ("us-1", "console"):
        assert await managers(world).of(VIEWER, "Cluster", name) == []


async def test_only_readers_of_the_resource_learn_its_managers(world: SourceWorld) -> None:
    await world.manifests.apply(CLUSTER, manager="terraform")
    stranger = person(BuiltInRole.VIEWER, "eve", Scope("project:other"))
    with pytest.raises(NotFound):
        await managers(world).of(stranger, "Cluster", "eu-1")
    with pytest.raises(Forbidden):
        await managers(world).of(NOBODY, "Cluster", "eu-1")
