"""Checks of one service against the fence of its project: sources, renders, objects and room."""

from collections.abc import Collection
from dataclasses import replace

import orjson
import pytest

from controlplane.access.model.bindings import Project
from controlplane.authorization import (
    SYSTEM,
    UNRESTRICTED,
    DestinationRule,
    Fence,
    FenceCluster,
    FenceSource,
    SourceRule,
)
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.context import DESIRED_STATE, RENDER_SERVICES
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.model.service import Service, ServiceSource
from controlplane.services.operations.fences import (
    CLUSTER_SCOPED,
    FencedService,
    ServiceFences,
    check_rendered_objects,
    fenced_services,
    is_restricted,
    render_within_fence,
    reserve_room,
    room_for_services,
    service_fences,
)
from controlplane.services.ports import ServiceSourceStore, ServiceStore
from core.errors import Forbidden, Invalid
from core.identity import RepositoryId
from core.json_object import JsonObject
from core.spec.fences import ObjectRules, ServiceFence
from core.spec.source import BaseFolder, FetchedChart, RenderedBundle, RepositoryKind
from core.spec.source_signatures import SignerSet
from tests.fakes.clock import START
from tests.fakes.manifests import config_map
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

GIT = make_repository("git", url="https://git.example.org/shop.git", project_id="shop")
OCI = make_repository(
    "oci", url="oci://registry.example.org/shop", kind=RepositoryKind.OCI, project_id="shop"
)
CHARTS = make_repository(
    "charts", url="https://charts.example.org", kind=RepositoryKind.HELM, project_id="shop"
)
FENCE = Fence(
    sources=(
        SourceRule(GIT.url, folders=("apps/*",), refs=("main", "v*")),
        SourceRule(OCI.url, folders=("apps/*",)),
        SourceRule("https://charts.example.org", charts=("redis",)),
    ),
    destinations=(DestinationRule(("shop",), "deployer", ("prod",)),),
)
SHOP = Project("shop", "shop", START, START, fence=FENCE)
PROD = make_cluster("prod")
WEB = make_service(
    "web", PROD, namespace="shop", project_id="shop", ref="main", folder="apps/web"
)  # fmt: skip
RENDERED = RenderedBundle("in", "sha256:a", 1, 1, cached=False)


def fenced(repository: Repository | None = GIT, fence: Fence = FENCE) -> FencedService:
    project = replace(SHOP, fence=fence)
    return FencedService(WEB, project, FenceCluster("prod"), (), repository)


@pytest.mark.parametrize(
    ("repository", "rendered", "refused"),
    [
        (GIT, RENDERED, ""),
        (GIT, replace(RENDERED, reads=("apps/web", "apps/base")), ""),
        (GIT, replace(RENDERED, reads=("apps/web", "lib")), "folder lib at main"),
        (OCI, replace(RENDERED, reads=("lib",)), "folder lib at main"),
        (CHARTS, replace(RENDERED, reads=("lib",)), ""),
        (None, replace(RENDERED, reads=("lib",)), ""),
        (GIT, replace(RENDERED, charts=(FetchedChart(CHARTS.url, "redis"),)), ""),
        (GIT, replace(RENDERED, charts=(FetchedChart(CHARTS.url, "etcd"),)), "chart etcd of"),
        (None, replace(RENDERED, charts=(FetchedChart("https://evil", "redis"),)), "https://evil"),
        (GIT, replace(RENDERED, bases=(BaseFolder(GIT.url, "apps/base", "v1"),)), ""),
        (GIT, replace(RENDERED, bases=(BaseFolder(GIT.url, "apps/base", "x"),)), "at x"),
        (GIT, replace(RENDERED, bases=(BaseFolder("https://evil", "", "v1"),)), "https://evil"),
    ],
)
def test_everything_that_a_render_read_is_inside(
    repository: Repository | None, rendered: RenderedBundle, refused: str
) -> None:
    """Files, fetched charts and remote bases: nobody knows them before the render."""
    fenced(repository, UNRESTRICTED).check_inputs(rendered)
    if not refused:
        fenced(repository).check_inputs(rendered)
        return
    with pytest.raises(Forbidden, match="service 'web' reads what is outside the fence") as error:
        fenced(repository).check_inputs(rendered)
    assert refused in error.value.message


@pytest.mark.parametrize(
    ("repository", "refs", "is_allowed"),
    [
        (GIT, {"main"}, True),
        (GIT, {"feature", "v1"}, True),
        (GIT, {"feature", "fix"}, False),
        (GIT, set(), False),
        (OCI, {"any"}, True),
        (CHARTS, set(), True),
        (None, set(), True),
    ],
)
def test_a_commit_comes_from_at_least_one_allowed_ref(
    repository: Repository | None, refs: Collection[str], is_allowed: bool
) -> None:
    """A commit of unknown refs comes from none. Charts have versions instead of commits."""
    if is_allowed:
        fenced(repository).check_origin("c" * 40, refs)
        return
    reason = "apps/web at feature" if refs else "its ref is unknown"
    with pytest.raises(Forbidden, match=f"commit c{{12}} is outside .*{reason}"):
        fenced(repository).check_origin("c" * 40, refs)


def test_checks_name_each_source_and_the_destination() -> None:
    """The first refusal is the reason; without one the service is inside."""
    sources = (FenceSource(GIT.url, "apps/web", "main"), FenceSource("https://evil", "x", "main"))
    service = replace(fenced(), sources=sources, submodules=(OCI.url,))
    found = [(check.rule, check.refusal) for check in service.checks()]
    assert found == [
        (f"source rule {GIT.url}", ""),
        ("", "no source rule allows https://evil, folder x at main"),
        ("", f"no source rule allows {OCI.url}, folder / at "),
        ("destination rule prod", ""),
    ]
    assert [check.subject for check in service.checks()][-1] == "namespace shop of cluster prod"
    assert service.refusal() == found[1][1] and service.title == "prod/web"
    inside = replace(service, sources=sources[:1], submodules=())
    assert inside.refusal() == ""
    inside.check()
    elsewhere = replace(inside, cluster=FenceCluster("dev"))
    with pytest.raises(Forbidden, match="'web' is outside the fence of project 'shop': no destin"):
        elsewhere.check()


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(SHOP, PROD, GIT, OCI, CHARTS)
    return world


async def sources(world: MemoryOperations, service: Service) -> list[str]:
    async with world.store.read() as tx:
        (found,) = await fenced_services(tx, [service])
    return [check.subject for check in found.checks()[:-1]]


@pytest.mark.parametrize(
    ("repository", "columns", "expected"),
    [
        (None, {}, []),
        (GIT, {}, [f"{GIT.url}, folder apps/web at main"]),
        (OCI, {"ref": "1.0"}, [f"{OCI.url}, folder apps/web at 1.0"]),
        (CHARTS, {"ref": "redis/19.6.4"}, [f"chart redis of {CHARTS.url}"]),
        (
            CHARTS,
            {"ref": "redis/19.6.4", "helm": {"chart": "etcd"}},
            [f"chart redis of {CHARTS.url}"],
        ),
        (CHARTS, {"ref": "main", "helm": {"chart": "etcd"}}, [f"chart etcd of {CHARTS.url}"]),
        (
            GIT,
            {"helm": {"url": "https://evil", "chart": "miner"}},
            [f"{GIT.url}, folder apps/web at main", "chart miner of https://evil"],
        ),
        (None, {"helm": {"url": "https://evil"}}, ["https://evil, folder / at "]),
    ],
)
async def test_the_sources_of_a_service_are_its_repository_and_its_chart(
    world: MemoryOperations,
    repository: Repository | None,
    columns: dict[str, object],
    expected: list[str],
) -> None:
    id = repository.id if repository else None
    assert await sources(world, replace(WEB, repository_id=id).changed(**columns)) == expected


async def test_further_sources_and_submodules_count_as_well(world: MemoryOperations) -> None:
    """Submodules may come from each other repository of the project, and only from those."""
    foreign = make_repository("foreign", project_id="default")
    await world.given(foreign)
    service = replace(WEB, repository_id=GIT.id)
    await world.given(service)
    async with world.store.write() as tx:
        await tx[RepositoryStore].change(GIT.id, submodules=True)
        await tx[ServiceSourceStore].add(ServiceSource("s", WEB.id, OCI.id, 0, "2.0", "lib", "x"))
    found = await sources(world, service)
    assert found[1] == f"{OCI.url}, folder lib at 2.0"
    assert found[0] == f"{GIT.url}, folder apps/web at main"
    assert sorted(found[-2:]) == [f"{CHARTS.url}, folder / at ", f"{OCI.url}, folder / at "]


async def test_sources_whose_repository_is_gone_are_left_out(world: MemoryOperations) -> None:
    """Such a service is not rendered, and one of them hides no refusal of others."""
    service = replace(WEB, repository_id=GIT.id)
    lost = replace(make_service("lost", PROD, project_id="shop"), repository_id=RepositoryId("x"))
    async with world.store.read() as tx:
        found = await fenced_services(tx, [lost, service])
    assert [each.service.name for each in found] == ["lost", "web"]
    assert (found[0].sources, found[0].submodules) == ((), ())
    assert [str(source) for source in found[1].sources] == [f"{GIT.url}, folder apps/web at main"]


def test_the_render_tier_gets_the_signature_rules_of_the_sources() -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB2cbi5fHroMtyFnzWJUc7AcM5yP+/yRtAQppHPcyK3I"
    signers = SignerSet("keys", f"ada@example.org {key}")
    fence = replace(FENCE, sources=(SourceRule("*", signed_by=("keys",)),), signers=(signers,))
    signed = replace(fenced(GIT, fence), sources=(FenceSource(GIT.url, "apps/web", "main"),))
    assert signed.signatures == fence.signature_rules(signed.sources)
    assert len(signed.signatures.sources) == 1


async def test_services_of_deleted_clusters_have_no_part_of_a_fence(
    world: MemoryOperations,
) -> None:
    """They must not be sent: an agent would apply them with its own permissions."""
    lost = make_service("lost", PROD, project_id="gone")
    async with world.store.read() as tx:
        parts = await service_fences(tx, [WEB, lost])
        assert parts.keys() == {WEB.id}
        assert parts[WEB.id].service_account == "shop:deployer"
    async with world.store.write() as tx:
        await tx[ClusterStore].change(PROD.id, deleted_at=START)
    async with world.store.read() as tx:
        assert await service_fences(tx, [WEB]) == {}
        assert await fenced_services(tx, [WEB]) == []


def manifest(api: str, kind: str, **rest: object) -> JsonObject:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "x"}, **rest}


def definition(scope: str, **names: str) -> JsonObject:
    spec = {"group": "a.b", "scope": scope, "names": names}
    return manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", spec=spec)


CRD = "CustomResourceDefinition.apiextensions.k8s.io"
IN_SHOP = ObjectRules(("shop",), (CRD,))


def refusal(fence: ServiceFence, *objects: object, files: tuple[str, ...] = ()) -> str:
    """The reason why a bundle is refused; empty if it is allowed."""
    bundle = b"\n".join(map(orjson.dumps, objects))
    files += ("",) * len(objects)
    try:
        check_rendered_objects(fence, "shop", bundle, files.__getitem__)
    except Invalid as error:
        return error.message
    return ""


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([definition("Cluster", kind="Well"), manifest("a.b/v1", "Well")], "Well.a.b"),
        ([manifest("a.b/v1", "Well"), definition("Cluster", kind="Well")], "Well.a.b"),
        ([definition("Namespaced", kind="Well"), manifest("a.b/v1", "Well")], ""),
        ([definition("Cluster", kind="Well"), manifest("a.b/v1", "Bucket")], ""),
        ([definition("Cluster", kind="Well"), manifest("c.d/v1", "Well")], ""),
        ([manifest("a.b/v1", "Well")], ""),
        ([definition("Cluster") | {"spec": {"names": 3}}, manifest("v1", "Pod")], ""),
        ([definition("Cluster") | {"spec": None}], ""),
        ([definition("Cluster", kind="Pod") | {"kind": "Well"}, manifest("a.b/v1", "Pod")], ""),
        ([{"apiVersion": "v1", "kind": "Pod", "metadata": None}], ""),
        ([{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "bank"}}], "bank"),
        ([{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": ""}}], ""),
    ],
)  # fmt: skip
def test_a_bundle_that_defines_a_cluster_scoped_kind_has_no_object_of_it(
    objects: list[object], reason: str
) -> None:
    """Otherwise an object of that kind counts as one in the namespace of its service."""
    found = refusal(ServiceFence("shop", "shop:d", (IN_SHOP,)), *objects)
    assert reason in found and bool(found) is bool(reason)


def test_no_namespace_makes_a_cluster_scoped_object_of_kubernetes_namespaced() -> None:
    only_shop, everything = ObjectRules(("shop",)), ObjectRules(("*",), ("*",))
    for group, kind in CLUSTER_SCOPED:
        placed = manifest(f"{group}/v1" if group else "v1", kind)
        placed["metadata"] = {"name": "x", "namespace": "shop"}
        assert refusal(ServiceFence("shop", "shop:d", (only_shop,)), placed) != "", kind
        assert refusal(ServiceFence("shop", "shop:d", (everything,)), placed) == "", kind


@pytest.mark.parametrize(
    ("count", "limit", "is_allowed"), [(3, 3, True), (4, 3, False), (4, 0, True)]
)
def test_a_service_has_at_most_as_many_objects_as_its_fence_allows(
    count: int, limit: int, is_allowed: bool
) -> None:
    found = refusal(ServiceFence("shop", max_objects=limit), *[config_map("a")] * count)
    assert found == ("" if is_allowed else "the service has 4 objects, but project shop allows 3")


def test_a_refused_object_is_named_with_its_file_if_that_is_known() -> None:
    fence = ServiceFence("shop", "shop:d", (ObjectRules(("shop",)),))
    objects = [config_map("a"), manifest("v1", "Namespace")]
    assert refusal(fence, *objects, files=("a.yaml", "b.yaml")).startswith("b.yaml: ")
    assert refusal(fence, *objects, files=("a.yaml",)).startswith("Namespace x")


@pytest.mark.parametrize(
    ("fence", "expected"),
    [
        (ServiceFence("shop"), False),
        (ServiceFence("shop", rules=(ObjectRules(),)), True),
        (ServiceFence("shop", max_objects=1), True),
    ],
)
def test_a_fence_with_rules_or_a_limit_can_refuse_objects(
    fence: ServiceFence, expected: bool
) -> None:
    assert is_restricted(fence) is expected


async def test_a_service_outside_is_not_rendered_at_all(world: MemoryOperations) -> None:
    """The inputs and objects of one inside are checked after the render."""
    sha = world.manifests.push(GIT.id, {"apps/web": [config_map("a")]})
    service = replace(WEB, repository_id=GIT.id)
    outside = replace(fenced(), service=service, sources=(FenceSource("https://evil"),))
    request = service.render_request(sha, {}, ())
    with pytest.raises(Forbidden):
        await render_within_fence(world.context, outside, request)
    assert world.manifests.renders == []
    inside = replace(outside, sources=())
    assert (await render_within_fence(world.context, inside, request)).count == 1
    world.manifests.bases = (BaseFolder("https://evil", "", "main"),)
    with pytest.raises(Forbidden, match="https://evil"):
        await render_within_fence(world.context, inside, request)
    world.manifests.bases = ()
    world.manifests.commits[sha] = {"apps/web": [manifest("v1", "Namespace")]}
    with pytest.raises(Invalid, match="Namespace x is outside the fence"):
        await render_within_fence(world.context, inside, request)
    free = replace(inside, project=replace(SHOP, fence=UNRESTRICTED))
    assert (await render_within_fence(world.context, free, request)).count == 1


async def test_a_changed_fence_renders_and_sends_the_services_of_its_project(
    world: MemoryOperations,
) -> None:
    """Not those that clusters define, which have no fence. One without a bundle is not sent."""
    delivered = replace(WEB, repository_id=GIT.id).changed(
        generation=3, digest="sha256:a", input_digest="in"
    )
    new = make_service("new", PROD, namespace="bank", project_id="shop", input_digest="in")
    mirror = make_service("mirror", PROD, project_id="shop", mirrored=True, generation=2)
    other = make_service("other", PROD, generation=5, digest="sha256:a", input_digest="in")
    await world.given(delivered, new, mirror, other)
    fences = ServiceFences()
    async with world.store.read() as tx:
        assert await fences.refused_services(tx, SHOP) == ["prod/new"]
    async with world.context.change(SYSTEM, "updateProject") as tx:
        tx.authorized_by("the test")
        tx.audit("shop", "shop")
        await fences.apply(tx, SHOP)
    rows = {row.name: row.desired for row in await world.rows(ServiceStore)}
    assert {name: row.generation for name, row in rows.items()} == {
        "web": 4,
        "new": 0,
        "mirror": 2,
        "other": 5,
    }
    assert {name for name, row in rows.items() if row.input_digest} == {"other"}
    wakes = {(DESIRED_STATE, f"prod/{WEB.id}"), (RENDER_SERVICES, f"git/{WEB.id}")}
    assert wakes <= set(world.published)


@pytest.mark.parametrize(("limit", "room"), [(0, None), (1, -1), (2, 0), (5, 3)])
async def test_room_is_the_limit_without_the_present_services(
    world: MemoryOperations, limit: int, room: int | None
) -> None:
    """Services that a cluster defines need none."""
    await world.given(
        WEB,
        make_service("api", PROD, project_id="shop"),
        make_service("mirror", PROD, project_id="shop", mirrored=True),
        make_service("other", PROD),
    )
    project = replace(SHOP, fence=replace(FENCE, max_services=limit))
    async with world.store.write() as tx:
        assert await room_for_services(tx, project) == room
        assert await reserve_room(tx, project) == room
