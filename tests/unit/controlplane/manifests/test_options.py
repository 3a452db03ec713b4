"""Options of applies, deletions of documents, and owners of fields."""

from typing import Any

import pytest

from controlplane.authorization import ANONYMOUS
from controlplane.clusters.ports import ClusterStore
from controlplane.manifests.model.ownership import AppliedBy, DeclaredResource, source_manager
from core.errors import Invalid, Unauthenticated
from tests.fakes.actors import ADMIN, EDITOR
from tests.fakes.manifest_world import ManifestWorld, document, manifest_world

CLUSTERS = document("Cluster", "eu-1"), document("Cluster", "eu-2")
ROLE = document("Role", "deployer", {"rules": [{"verbs": ["READ"], "kinds": ["CLUSTER"]}]})


@pytest.fixture
def world() -> ManifestWorld:
    return manifest_world()


async def handles(world: ManifestWorld) -> list[str]:
    return sorted(row.handle for row in await world.memory.rows(ClusterStore))


async def test_a_deletion_is_planned_or_refused_as_a_whole(world: ManifestWorld) -> None:
    await world.apply(CLUSTERS[0] + CLUSTERS[1] + ROLE)
    both = [world.source(CLUSTERS[0] + ROLE)]
    plan = await world.manifests.delete(ADMIN, both, dry_run=True)
    assert {item.name for item in plan.items} == {"deployer", "eu-1"}
    assert not plan.applied and await handles(world) == ["eu-1", "eu-2"]
    refused = await world.manifests.delete(EDITOR, both)
    assert [problem.document for problem in refused.problems] == ["Role deployer"]
    assert not refused.applied and await handles(world) == ["eu-1", "eu-2"]
    wrong = [world.source(CLUSTERS[0] + document("Cluster", "eu-2", {"tagz": 1}))]
    malformed = await world.manifests.delete(ADMIN, wrong)
    assert (malformed.items, malformed.applied) == ((), False)
    assert await handles(world) == ["eu-1", "eu-2"]
    assert (await world.manifests.delete(ADMIN, both)).applied
    assert await handles(world) == ["eu-2"]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"manager": ""}, "manager"),
        ({"manager": "x" * 64}, "manager"),
        ({"prune_set": "x" * 64}, "pruneSet"),
        ({"max_deletions": -1}, "maxDeletions"),
        ({"manager": source_manager("fleet")}, "manager"),
        ({"prune_set": source_manager("fleet")}, "pruneSet"),
    ],
)
async def test_wrong_options_of_an_apply_are_refused(
    world: ManifestWorld, options: dict[str, Any], field: str
) -> None:
    """Only configuration sources have the names of configuration sources."""
    with pytest.raises(Invalid) as error:
        await world.apply(CLUSTERS[0], **options)
    assert error.value.field == field
    assert await handles(world) == []


async def test_manifests_need_a_credential(world: ManifestWorld) -> None:
    files = [world.source(CLUSTERS[0])]
    for call in (
        world.apply(CLUSTERS[0], ANONYMOUS),
        world.manifests.delete(ANONYMOUS, files),
        world.manifests.export(ANONYMOUS),
        world.manifests.document(ANONYMOUS, "Cluster", "eu-1"),
        world.manifests.declared(ANONYMOUS, "Cluster", "eu-1"),
    ):
        with pytest.raises(Unauthenticated):
            await call


def test_a_field_belongs_to_the_managers_of_its_parts_and_of_the_object_around_it() -> None:
    managers = {
        "git": AppliedBy(("/helm/chart", "/tags/a")),
        "cli": AppliedBy(("/helm",)),
        "api": AppliedBy(("/paused",)),
    }
    row = DeclaredResource("web", "Service", managers=managers)
    for path, owners in (
        ("/helm/chart", ["cli", "git"]),
        ("/helm", ["cli", "git"]),
        ("/helm/chart/name", ["cli", "git"]),
        ("/helm/charts", ["cli"]),
        ("/tags/b", []),
        ("/tags", ["git"]),
    ):
        assert row.owners(path, "api") == owners, path
    assert row.owners("/helm/chart", "cli") == ["git"]
