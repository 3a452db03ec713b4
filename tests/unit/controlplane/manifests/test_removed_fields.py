"""Fields that leave a document: they get their defaults, stay, or are named as required."""

from typing import Any

import pytest

from controlplane.manifests.model.plan import ManifestAction
from tests.fakes.actors import ADMIN
from tests.fakes.manifest_world import ManifestWorld, document, manifest_world

REPOSITORY = "https://git.example.org/fleet.git"
_PIPELINE = {"stages": [{"name": "dev", "services": ["eu-1/web"]}]}
_BINDING = {"role": "viewer", "subject": {"group": "devs"}}
_ENVIRONMENT = {"source": {"kind": "ENVIRONMENT", "key": "TOWLINE_SECRET_DB"}}


@pytest.fixture
def world() -> ManifestWorld:
    return manifest_world()


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [("Pipeline", _PIPELINE, "stages"), ("RoleBinding", _BINDING, "role")],
)
async def test_a_required_field_that_leaves_a_document_is_named(
    world: ManifestWorld, kind: str, spec: dict[str, Any], field: str
) -> None:
    """The operation replaces the whole resource, and so it needs the field."""
    web = document("Service", "web", {"namespace": "shop"}, cluster="eu-1")
    others = document("Group", "devs") + document("Cluster", "eu-1") + web
    assert (await world.apply(others)).problems == ()
    assert (await world.apply(document(kind, "x", spec))).problems == ()
    left = {name: value for name, value in spec.items() if name != field}
    (problem,) = (await world.apply(document(kind, "x", left))).problems
    assert (problem.message, problem.field) == (f"needs the field {field}", "spec")


async def test_a_source_that_leaves_the_document_of_a_secret_stays(world: ManifestWorld) -> None:
    """It has no default."""
    assert (await world.apply(document("Secret", "db", _ENVIRONMENT))).problems == ()
    (item,) = (await world.apply(document("Secret", "db"))).items
    assert item.action is ManifestAction.UNCHANGED
    shown = await world.manifests.document(ADMIN, "Secret", "db", with_defaults=False)
    assert shown["spec"] == _ENVIRONMENT


async def test_overrides_that_leave_the_document_of_a_context_go(world: ManifestWorld) -> None:
    assert (await world.apply(document("Cluster", "dev"))).problems == ()
    values = {"values": {"replicas": 3}}
    overrides = [{"cluster": "dev", "values": {"replicas": 5}}]
    for more in ({"overrides": overrides}, {}):
        assert (await world.apply(document("Context", "common", values | more))).problems == ()
    shown = await world.manifests.document(ADMIN, "Context", "common", with_defaults=False)
    assert shown["spec"] == values


@pytest.mark.parametrize(
    ("kind", "name", "field", "value"),
    [
        ("Group", "devs", "description", "Developers"),
        ("Project", "shop", "description", "The shop"),
        ("Role", "reader", "description", "Reads"),
        ("GitRepository", REPOSITORY, "viaCluster", "eu-1"),
        ("GitRepository", REPOSITORY, "urlFormat", "https://git.example.org/{sha}"),
        ("HelmRepository", "https://charts.example.org", "viaCluster", "eu-1"),
        ("OCIRepository", "oci://registry.example.org/x", "httpsPath", "https://git.example.org/x"),
        ("Service", "web", "docsPath", "docs"),
        ("Service", "web", "renderedBy", "eu-1"),
    ],
)
async def test_a_text_that_leaves_a_document_is_cleared(
    world: ManifestWorld, kind: str, name: str, field: str, value: str
) -> None:
    assert (await world.apply(document("Cluster", "eu-1"))).problems == ()
    place = {"cluster": "eu-1"} if kind == "Service" else {}
    rest: dict[str, Any] = {"namespace": "shop"} if kind == "Service" else {}
    rest |= {"rules": [{"verbs": ["READ"], "kinds": ["SERVICE"]}]} if kind == "Role" else {}
    for spec in ({**rest, field: value}, rest, rest):
        plan = await world.apply(document(kind, name, spec, **place))
        assert plan.problems == ()
    assert [item.action for item in plan.items] == [ManifestAction.UNCHANGED]
    key = "/".join((*place.values(), name))
    shown = await world.manifests.document(ADMIN, kind, key, with_defaults=False)
    assert field not in shown.get("spec", {})
