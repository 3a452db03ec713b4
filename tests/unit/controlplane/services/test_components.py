"""Objects of services: owners, live state and events."""

from dataclasses import replace
from typing import Any, cast

import pytest

from controlplane.access.operations.projects import Projects
from controlplane.api.schema import schema
from controlplane.authorization import ANONYMOUS
from controlplane.bridges import SERVICE_PARTS
from controlplane.platform.graphql.context import ApiBackend, Authenticator, Context
from controlplane.services.model.references import ReferenceKind
from controlplane.services.model.service import Component
from controlplane.services.operations.components import ComponentOperations, ObjectRelation
from controlplane.services.operations.fences import ServiceFences
from controlplane.services.operations.services import Services
from controlplane.services.ports import ComponentStore, ServiceStore
from core.errors import Conflict, NotFound, Unauthenticated, Unavailable
from core.spec.bundle import make_bundle
from tests.fakes.actors import NOBODY, VIEWER
from tests.fakes.clock import START
from tests.fakes.live import FakeLive
from tests.fakes.manifests import config_map
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_service,
    operations_over_memory,
)

DEV = make_cluster("dev")
WEB = make_service("web", DEV)
DEPLOYMENT = Component(
    "d", WEB.id, DEV.id, "apps", "v1", "Deployment", "shop", "web", "ud", "", None, "", True, (),
    START,
)  # fmt: skip
REPLICAS = replace(DEPLOYMENT, id="r", kind="ReplicaSet", uid="ur", owner_uid="ud", name="web-1")
POD = replace(DEPLOYMENT, id="p", group="", kind="Pod", uid="up", owner_uid="ur", name="web-1-a")
PENDING = replace(DEPLOYMENT, id="n", name="new", uid="")
LISTED = {"resources": [{"name": "deployments", "kind": "Deployment"}]}
PATH = "/apis/apps/v1/namespaces/shop/deployments/web"


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(DEV, WEB)
    await add(world, DEPLOYMENT, REPLICAS, POD, PENDING)
    return world


@pytest.fixture
def live() -> FakeLive:
    return FakeLive({"/apis/apps/v1": LISTED})


@pytest.fixture
def operations(world: MemoryOperations, live: FakeLive) -> ComponentOperations:
    return ComponentOperations(world.context, live)


async def add(world: MemoryOperations, *components: Component) -> None:
    async with world.store.write() as tx:
        await tx[ComponentStore].upsert(components)


async def test_an_object_has_its_owners_and_children(
    world: MemoryOperations, operations: ComponentOperations
) -> None:
    family = await operations.family(VIEWER, "r")
    assert (family.parents, family.children) == ((DEPLOYMENT,), (POD,))
    assert (await operations.family(VIEWER, "p")).parents == (REPLICAS, DEPLOYMENT)
    lone = await operations.family(VIEWER, "n")
    assert (lone.component, lone.parents, lone.children) == (PENDING, (), ())


async def test_owners_in_a_cycle_are_listed_once(
    world: MemoryOperations, operations: ComponentOperations
) -> None:
    await add(
        world,
        replace(DEPLOYMENT, id="x", name="x", uid="ux", owner_uid="uy"),
        replace(DEPLOYMENT, id="y", name="y", uid="uy", owner_uid="uz"),
        replace(DEPLOYMENT, id="z", name="z", uid="uz", owner_uid="uy"),
        replace(DEPLOYMENT, id="o", name="o", uid="uo", owner_uid="uo"),
    )
    family = await operations.family(VIEWER, "x")
    assert [parent.id for parent in family.parents] == ["y", "z"]
    assert (await operations.family(VIEWER, "o")).parents == ()


async def test_objects_of_hidden_services_do_not_exist(
    world: MemoryOperations, operations: ComponentOperations
) -> None:
    await add(world, replace(DEPLOYMENT, id="stray", name="stray", service_id="none"))
    refusals = ((NOBODY, "d", NotFound), (VIEWER, "none", NotFound), (VIEWER, "stray", NotFound),
                (ANONYMOUS, "d", Unauthenticated))  # fmt: skip
    for actor, id, error in refusals:
        for read in (operations.family, operations.read_live_object, operations.events):
            with pytest.raises(error):
                await read(actor, id)
    for actor, id, error in (
        (NOBODY, WEB.id, NotFound),
        (VIEWER, "none", NotFound),
        (ANONYMOUS, WEB.id, Unauthenticated),
    ):
        with pytest.raises(error):
            await operations.service_events(actor, id)


@pytest.mark.parametrize(("noted", "shown"), [([{"manager": "a"}], [{"manager": "a"}]), ("x", [])])
async def test_a_live_object_is_read_as_the_actor(
    operations: ComponentOperations, live: FakeLive, noted: Any, shown: list[Any]
) -> None:
    metadata = {"uid": "ud", "name": "web"}
    live.answers[PATH] = {
        "kind": "Deployment",
        "metadata": {**metadata, "managedFields": noted},
    }
    found = await operations.read_managed_fields(VIEWER, "d")
    assert found.live.object == {"kind": "Deployment", "metadata": metadata}
    assert (found.live.component, found.live.read_at) == (DEPLOYMENT, START)
    assert (found.cluster, found.resource, found.managed_fields) == ("dev", "deployments", shown)
    assert await operations.read_live_object(VIEWER, "d") == found.live
    assert live.asked[:2] == [("vi", "dev", "/apis/apps/v1"), ("vi", "dev", PATH)]


async def test_a_recreated_object_is_another_one(
    operations: ComponentOperations, live: FakeLive
) -> None:
    live.answers[PATH] = {"metadata": {"uid": "other"}}
    with pytest.raises(Conflict, match="Deployment web was recreated"):
        await operations.read_live_object(VIEWER, "d")
    live.answers[PATH.replace("web", "new")] = {}
    assert (await operations.read_live_object(VIEWER, "n")).object == {"metadata": {}}


async def test_a_kind_without_a_list_of_resources_is_not_served(
    operations: ComponentOperations, live: FakeLive
) -> None:
    live.answers["/apis/apps/v1"] = {"resources": None}
    with pytest.raises(Exception, match="serves no Deployment"):
        await operations.read_live_object(VIEWER, "d")


async def test_events_are_those_of_the_object(
    operations: ComponentOperations, live: FakeLive
) -> None:
    path = "/api/v1/namespaces/shop/events"
    live.answers[path] = {"items": [event("ud", "Created"), event("up", "Pulled")]}
    assert [found.reason for found in await operations.events(VIEWER, "d")] == ["Created"]
    assert "involvedObject.uid%3Dud" in live.asked[0][2]
    live.answers[path] = {"items": None}
    assert await operations.events(VIEWER, "d") == []
    live.asked.clear()
    assert await operations.events(VIEWER, "n") == [] == live.asked


def event(uid: str, reason: str) -> dict[str, Any]:
    return {"involvedObject": {"uid": uid}, "reason": reason}


async def test_objects_without_uid_or_namespace_have_no_events(
    world: MemoryOperations, operations: ComponentOperations, live: FakeLive
) -> None:
    """A query of no namespace would be one of the namespace `default`."""
    await add(world, replace(DEPLOYMENT, id="role", namespace="", kind="ClusterRole", uid="uc"))
    items = [event("", "Stray"), event("ud", "Created")]
    live.answers["/api/v1/namespaces/shop/events"] = {"items": items}
    found = await operations.service_events(VIEWER, WEB.id)
    assert [one.reason for one in found] == ["Created"]
    assert len(live.asked) == 1


async def test_events_of_a_service_are_read_in_at_most_five_namespaces(
    world: MemoryOperations, operations: ComponentOperations, live: FakeLive
) -> None:
    spaces = [f"n{number}" for number in range(6)]
    await add(world, *(
        replace(POD, id=space, name=space, namespace=space, uid=f"u{space}") for space in spaces
    ))  # fmt: skip
    for space in (*spaces, "shop"):
        items = [event(f"u{space}", space), event("of-another-service", space)]
        live.answers[f"/api/v1/namespaces/{space}/events"] = {"items": items}
    found = await operations.service_events(VIEWER, WEB.id)
    assert [one.reason for one in found] == spaces[:5]
    assert len(live.asked) == 5


async def test_a_process_without_clusters_reads_no_live_object(world: MemoryOperations) -> None:
    offline = ComponentOperations(world.context)
    with pytest.raises(Unavailable, match="no connection to clusters"):
        await offline.read_live_object(VIEWER, "d")
    assert (await offline.family(VIEWER, "d")).component == DEPLOYMENT


def deployment(replicas: int, **metadata: str) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", **metadata},
        "spec": {"replicas": replicas},
    }


async def rendered(world: MemoryOperations, *manifests: dict[str, Any]) -> None:
    """Renders the service, whose default namespace is `shop`."""
    bundle = make_bundle(manifests)
    world.manifests.bundles[bundle.digest] = bundle
    async with world.store.write() as tx:
        await tx[ServiceStore].change(WEB.id, namespace="shop", digest=bundle.digest)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(("namespace", "replicas"), [("shop", 1), ("other", 2)])
async def test_an_object_is_compared_with_the_manifest_of_its_namespace(
    world: MemoryOperations,
    operations: ComponentOperations,
    live: FakeLive,
    namespace: str,
    replicas: int,
    is_first: bool,
) -> None:
    """A manifest without a namespace is in that of the service, not in that of a namesake."""
    manifests = [deployment(1), deployment(2, namespace="other")]
    await rendered(world, *(manifests if is_first else reversed(manifests)))
    await add(world, replace(DEPLOYMENT, namespace=namespace))
    path = PATH.replace("shop", namespace)
    live.answers[path] = deployment(9, uid="ud", namespace=namespace) | {"status": {"ready": 1}}
    compared = await operations.compare(VIEWER, "d")
    assert compared.desired is not None and compared.desired["spec"] == {"replicas": replicas}
    assert compared.live is not None and compared.live["spec"] == {"replicas": 9}
    assert "status" not in compared.live, "no manifest has it"


async def test_an_object_without_a_manifest_is_compared_with_nothing(
    world: MemoryOperations, operations: ComponentOperations, live: FakeLive
) -> None:
    """Another kind, group or name is another object. An object that is gone has no live state."""
    live.answers[PATH] = deployment(9, uid="ud")
    assert (await operations.compare(VIEWER, "d")).desired is None, "never rendered"
    others = [
        deployment(1) | {"apiVersion": "extensions/v1"},
        deployment(1) | {"kind": "StatefulSet"},
        deployment(1, name="api"),
        deployment(1, namespace="other"),
    ]
    await rendered(world, *others)
    compared = await operations.compare(VIEWER, "d")
    assert (compared.desired, compared.live) == (None, live.answers[PATH])
    del live.answers[PATH]
    await rendered(world, deployment(1))
    compared = await operations.compare(VIEWER, "d")
    assert (compared.desired, compared.live) == (deployment(1), None)


async def test_values_of_secrets_are_hidden_on_both_sides(
    world: MemoryOperations, operations: ComponentOperations, live: FakeLive
) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "web"},
        "stringData": {"key": "canary-77c1-desired"},
    }
    await rendered(world, secret)
    await add(world, replace(DEPLOYMENT, group="", kind="Secret"))
    live.answers["/api/v1"] = {"resources": [{"name": "secrets", "kind": "Secret"}]}
    live.answers["/api/v1/namespaces/shop/secrets/web"] = {
        **secret,
        "metadata": {"name": "web", "uid": "ud"},
        "stringData": {"key": "canary-77c1-lived"},
    }
    compared = await operations.compare(VIEWER, "d")
    assert compared.desired is not None and "key" in compared.desired["stringData"]
    assert "canary-77c1" not in repr(compared)


async def test_cluster_scoped_objects_have_a_manifest_whatever_namespace_it_names(
    world: MemoryOperations, operations: ComponentOperations
) -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    manifest = role | {"metadata": {"name": "web", "namespace": "shop"}}
    bundle = make_bundle([manifest])
    world.manifests.bundles[bundle.digest] = bundle
    scoped = replace(
        DEPLOYMENT, group="rbac.authorization.k8s.io", kind="ClusterRole", namespace=""
    )
    assert await operations.manifest_of(scoped, "shop", bundle.digest) == manifest


async def test_objects_are_related_by_their_manifests(
    world: MemoryOperations, operations: ComponentOperations
) -> None:
    settings = replace(DEPLOYMENT, id="c", group="", kind="ConfigMap", name="settings", uid="uc")
    template = {"spec": {"volumes": [{"configMap": {"name": name}} for name in ("settings", "no")]}}
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": template},
    }
    bundle = make_bundle([web, config_map("settings")])
    world.manifests.bundles[bundle.digest] = bundle
    await world.given(
        replace(WEB, id="shop", name="shop", namespace="shop").changed(digest=bundle.digest)
    )
    await add(
        world, *(replace(row, id=f"s{row.id}", service_id="shop") for row in (DEPLOYMENT, settings))
    )
    found = await operations.relations(VIEWER, "shop")
    assert found == [ObjectRelation("sd", "sc", ReferenceKind.CONFIGURATION)]


async def test_references_of_absent_and_cluster_scoped_objects(
    world: MemoryOperations, operations: ComponentOperations
) -> None:
    """A component without namespace is that of a manifest without one; absent objects have none."""
    account = {"kind": "ServiceAccount", "name": "web"}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "reads"},
        "roleRef": {"kind": "ClusterRole", "name": "reader"},
        "subjects": [account],
    }
    gone = {**binding, "metadata": {"name": "gone"}}
    bundle = make_bundle([binding, gone])
    world.manifests.bundles[bundle.digest] = bundle
    shop = replace(WEB, id="shop", name="shop", namespace="shop").changed(digest=bundle.digest)
    await world.given(shop, replace(shop, id="mirror", name="mirror", mirrored=True))
    scoped = replace(
        DEPLOYMENT, id="b", service_id="shop", group="rbac.authorization.k8s.io",
        kind="ClusterRoleBinding", namespace="", name="reads",
    )  # fmt: skip
    user = replace(DEPLOYMENT, id="a", service_id="shop", group="", **account)
    copies = [replace(row, id=f"m{row.id}", service_id="mirror") for row in (scoped, user)]
    await add(world, scoped, user, *copies)
    assert await operations.relations(VIEWER, "shop") == [
        ObjectRelation("b", "a", ReferenceKind.PERMISSION)
    ]
    assert await operations.relations(VIEWER, "mirror") == []


async def test_relations_need_a_rendered_service_and_the_right_to_read_it(
    operations: ComponentOperations,
) -> None:
    assert await operations.relations(VIEWER, WEB.id) == []
    for actor, id, error in ((NOBODY, WEB.id, NotFound), (ANONYMOUS, WEB.id, Unauthenticated)):
        with pytest.raises(error):
            await operations.relations(actor, id)


async def test_images_are_returned_also_without_the_objects_that_have_them() -> None:
    world = operations_over_memory()
    await world.given(DEV, WEB)
    await add(world, replace(DEPLOYMENT, images=("nginx:1.25",)))
    operations = {
        Services: Services(world.context, SERVICE_PARTS),
        Projects: Projects(world.context, ServiceFences()),
    }
    context = Context(ApiBackend(operations, cast(Authenticator, None), 0), caller=VIEWER)
    document = "query ($id: ID!) { serviceDeployment(id: $id) { metadata { images } } }"
    result = await schema.execute(document, {"id": WEB.id}, context_value=context)
    assert result.data == {"serviceDeployment": {"metadata": {"images": ["nginx:1.25"]}}}
