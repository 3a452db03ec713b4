"""Services as manifests: their source, their secrets, and fields that cannot be changed."""

from dataclasses import replace
from typing import Any

import pytest

from controlplane.clusters.ports import ClusterStore
from controlplane.generators.ports import GlobalServiceStore
from controlplane.manifests.model.plan import ManifestAction, ManifestPlan
from controlplane.services.model.service import OwnerKind
from controlplane.services.ports import SecretUseStore, ServiceStore
from core.errors import NotFound
from core.identity import ServiceId
from tests.fakes.actors import ADMIN
from tests.fakes.manifest_world import ManifestWorld, document, manifest_world
from tests.fakes.operations import make_service

GIT, CHARTS = "https://git.example.org/fleet.git", "https://charts.example.org/stable"
BASE = (
    document("User", "ada@example.org")
    + document("Cluster", "eu")
    + document("GitRepository", GIT)
    + document("HelmRepository", CHARTS)
    + document("Context", "common", {"values": {"domain": "example.org"}})
    + document("Secret", "db", {"generate": {"length": 48, "alphabet": "HEX"}})
)
WEB = {"namespace": "shop", "repository": GIT, "folder": "web"}


@pytest.fixture
async def world() -> ManifestWorld:
    world = manifest_world()
    assert (await world.apply(BASE)).problems == ()
    return world


async def applied(world: ManifestWorld, spec: dict[str, Any]) -> ManifestPlan:
    return await world.apply(document("Service", "web", spec, cluster="eu"))


async def spec_of(world: ManifestWorld) -> dict[str, Any]:
    return (await world.manifests.document(ADMIN, "Service", "eu/web", with_defaults=False))["spec"]


async def test_a_service_of_a_repository_follows_main_by_default(world: ManifestWorld) -> None:
    assert (await applied(world, WEB)).problems == ()
    (service,) = await world.memory.rows(ServiceStore)
    assert (service.spec.ref, await spec_of(world)) == ("main", WEB)


@pytest.mark.parametrize("values", [{}, {"values": "replicas: 2\n"}])
async def test_a_chart_stands_with_its_repository_in_the_settings(
    world: ManifestWorld, values: dict[str, str]
) -> None:
    chart = {"repository": CHARTS, "chart": "redis", "version": "^1", **values}
    spec = {"namespace": "shop", "helm": chart}
    assert (await applied(world, spec)).problems == ()
    assert await spec_of(world) == spec
    (item,) = (await applied(world, spec)).items
    assert item.action is ManifestAction.UNCHANGED


async def test_a_service_without_a_repository_has_no_source(world: ManifestWorld) -> None:
    assert (await applied(world, {"namespace": "shop"})).problems == ()
    assert await spec_of(world) == {"namespace": "shop"}


async def test_a_service_has_one_repository(world: ManifestWorld) -> None:
    (problem,) = (await applied(world, {**WEB, "helm": {"repository": CHARTS}})).problems
    assert "specify one repository" in problem.message and problem.field == "spec.helm"


async def test_secrets_of_a_service_are_replaced_alone(world: ManifestWorld) -> None:
    """A pinned version stays in the manifest, and a followed one does not."""
    pinned = {**WEB, "secrets": {"DB": {"secret": "db", "version": 1}, "KEY": {"secret": "db"}}}
    assert (await applied(world, pinned)).problems == ()
    assert await spec_of(world) == pinned
    before = (await world.memory.rows(ServiceStore))[0].updated_at
    await world.memory.clock.advance(1)
    followed = {**WEB, "secrets": {"DB": {"secret": "db"}}}
    (item,) = (await applied(world, followed)).items
    assert {change.path for change in item.changes} == {
        "spec.secrets.DB.version",
        "spec.secrets.KEY.secret",
    }
    assert await spec_of(world) == followed
    (use,) = await world.memory.rows(SecretUseStore)
    assert (use.name, use.pinned, use.version) == ("DB", False, 1)
    assert (await world.memory.rows(ServiceStore))[0].updated_at == before


async def test_other_fields_and_secrets_change_together(world: ManifestWorld) -> None:
    assert (await applied(world, {**WEB, "secrets": {"DB": {"secret": "db"}}})).problems == ()
    after = {**WEB, "folder": "api", "secrets": {"KEY": {"secret": "db"}}}
    assert (await applied(world, after)).problems == ()
    assert await spec_of(world) == after


_METRIC = {"address": "https://prometheus.example.org", "query": "up", "threshold": 1.0}
_CHECKED = {"soakSeconds": 60, "metric": _METRIC}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"verification": {"soakSeconds": 60}}, {}),
        ({"verification": _CHECKED}, {}),
        ({"verification": _CHECKED}, {"verification": {"soakSeconds": 60}}),
        ({"secrets": {"DB": {"secret": "db"}}}, {}),
        ({"secrets": {"A": {"secret": "db"}, "B": {"secret": "db"}}},
         {"secrets": {"B": {"secret": "db"}}}),
        ({"helm": {"release": "x", "values": "a: 1\n"}}, {"helm": {"release": "x"}}),
        ({"configuration": {"a": "1"}, "rendering": {"include": ["a"]}}, {}),
        ({"bindings": {"viewer": {"users": ["ada@example.org"]}}}, {}),
        ({"contexts": ["common"]}, {}),
        ({"sources": [{"repository": GIT, "ref": "main", "folder": "base", "path": "base"}]}, {}),
    ],
)  # fmt: skip
async def test_a_field_that_leaves_the_manifest_is_removed(
    world: ManifestWorld, before: dict[str, Any], after: dict[str, Any]
) -> None:
    """Objects go with their last field: a part of one would lack required fields."""
    assert (await applied(world, {**WEB, **before})).problems == ()
    assert (await applied(world, {**WEB, **after})).problems == ()
    shown = await spec_of(world)
    shown.get("verification", {}).pop("maxRestarts", None)
    assert shown == {**WEB, **after}
    (item,) = (await applied(world, {**WEB, **after})).items
    assert item.action is ManifestAction.UNCHANGED


async def test_a_verification_that_leaves_a_template_is_removed(world: ManifestWorld) -> None:
    async def apply(**more: Any) -> ManifestPlan:
        template = {"name": "web", **WEB, "ref": "main", **more}
        return await world.apply(document("GlobalService", "web", {"template": template}))

    assert (await apply(verification=_CHECKED)).problems == ()
    assert (await apply()).problems == ()
    (definition,) = await world.memory.rows(GlobalServiceStore)
    assert definition.template is not None and definition.template.spec.verification is None


@pytest.mark.parametrize(
    ("field", "value"), [("namespace", "other"), ("repository", CHARTS), ("promoted", True)]
)
async def test_fields_of_a_creation_stay(world: ManifestWorld, field: str, value: object) -> None:
    await applied(world, WEB)
    (problem,) = (await applied(world, {**WEB, field: value})).problems
    assert f"spec.{field} of a service cannot be changed" in problem.message
    assert await spec_of(world) == WEB


@pytest.mark.parametrize(
    "columns", [{"mirrored": True}, {"owner_kind": OwnerKind.SET, "owner_id": "g"}]
)
async def test_services_of_a_generator_or_of_their_cluster_have_no_manifest(
    world: ManifestWorld, columns: dict[str, Any]
) -> None:
    (cluster,) = await world.memory.rows(ClusterStore)
    await world.memory.given(replace(make_service("web", cluster), id=ServiceId("s"), **columns))
    with pytest.raises(NotFound):
        await spec_of(world)
    assert "kind: Service\n" not in await world.export()
    (problem,) = (await applied(world, WEB)).problems
    assert "already exists" in problem.message
