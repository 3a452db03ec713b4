"""Hostile tenants against the real renderers, a real agent and a real API server.

Each escape is refused by the control plane, which names the file, the object and the rule. With a
control plane that checks nothing and sends no rules, the API server refuses the account of the
fence, in its own audit log, or the agent refuses what is no object of the API.
"""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

import orjson
import pytest

from controlplane.access.model.bindings import Project
from controlplane.authorization import DestinationRule, Fence, SourceRule
from controlplane.configuration.model.contexts import ServiceContext
from controlplane.delivery.operations.render_reconciler import RenderReconciler
from controlplane.services.model.parts import ContextBinding
from controlplane.services.model.service import Service
from controlplane.services.operations.fences import CLUSTER_SCOPED
from controlplane.services.ports import ServiceStore
from core.spec.bundle import KubeObject
from core.spec.source import RepositorySpec
from core.wire.v1 import agent_pb2 as pb
from gitcache.sync.cache import GitCache
from tests.fakes.clock import START
from tests.fakes.hub import FakeHub
from tests.fakes.operations import (
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)
from tests.integration.gitcache.chartserver import archive, chart, serving
from tests.integration.gitcache.hostile import commit_links
from tests.integration.gitcache.stand import Stand, at_commit
from tests.integration.tenants.agents import agent_of
from tests.integration.tenants.conftest import AuditedCluster
from tests.integration.tenants.corpus import (
    ACCOUNT,
    BANK,
    CHARTS,
    SHOP,
    Allowed,
    Escape,
    Second,
    allowed,
    escapes,
    text,
)
from towline.demo.git_server import GitServer

ESCAPES = escapes()
_DENIED = (
    "ResourceQuota",
    "LimitRange",
    "Endpoints",
    "Binding",
    "EndpointSlice.discovery.k8s.io",
    "*.rbac.authorization.k8s.io",
)
_ACCOUNT = f"system:serviceaccount:{SHOP}:{ACCOUNT}"
_FOREIGN = {
    "bank/base/kustomization.yaml": "resources: [a.yaml]\n",
    "bank/base/a.yaml": text({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
    "bank/token": "secret of the bank",
    **{f"bank/chart/{path}": content for path, content in chart().items()},
}


PLACES = {"theirs": BANK, "first": "ba", "second": "nk"}


@dataclass(frozen=True)
class Rendered:
    """What the control plane made of the folder of an escape."""

    error: str
    objects: list[KubeObject]


@pytest.fixture(scope="module")
def rendered(kubernetes: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rendered]:
    """All escapes, rendered in one go by real renderers behind the real fence."""
    with pytest.MonkeyPatch.context() as patch, GitServer() as git:
        patch.setenv("PATH", str(kubernetes), prepend=":")
        folder = tmp_path_factory.mktemp("cache")
        return asyncio.run(_render_all(git, folder))


async def _render_all(git: GitServer, folder: Path) -> dict[str, Rendered]:
    served, stand = git.create_repository("shop"), Stand(folder)
    async with serving() as charts:
        charts.publish("evil", "1.0.0", archive("evil", chart("evil")))
        files = {
            f"cases/{number}/{path}": content.replace(CHARTS, charts.http)
            for number, escape in enumerate(ESCAPES)
            for path, content in escape.files.items()
        }
        served.commit(_FOREIGN | files)
        links = {
            f"cases/{number}/{path}": target
            for number, escape in enumerate(ESCAPES)
            for path, target in escape.links.items()
        }
        sha = commit_links(served, links)
        cache = await stand.start()
        try:
            return await _deliver(cache, served.url, sha)
        finally:
            await stand.close()


async def _deliver(cache: GitCache, url: str, sha: str) -> dict[str, Rendered]:
    fence = Fence(
        sources=(SourceRule(url, folders=("cases/*",), refs=("main",)),),
        destinations=(
            DestinationRule((SHOP, f"{SHOP}-*"), f"{SHOP}:{ACCOUNT}", clusters=("prod",)),
        ),
        denied_kinds=_DENIED,
    )
    cluster, world = make_cluster("prod"), operations_over_memory()
    repository = make_repository("shop", url=url)
    services = [
        replace(
            make_service(
                f"s{number}",
                cluster,
                ref="main",
                folder=f"cases/{number}",
                templated=_is_liquid(escape),
            ),
            namespace=SHOP,
            project_id="shop",
            repository_id=repository.id,
        )
        for number, escape in enumerate(ESCAPES)
    ]
    services = [service.changed(configuration={"place": BANK}) for service in services]
    project = Project("shop", "shop", START, START, fence=fence)
    places = ServiceContext("places", "places", START, START, PLACES, project_id="shop")
    bindings = [
        ContextBinding(f"b-{service.id}", places.id, service.id)
        for service in services
        if service.spec.templated
    ]
    await world.given(cluster, repository, project, *services, places, *bindings)
    cache.follow(RepositorySpec(repository.id, url, frozenset({"main"})))
    await at_commit(cache, sha)
    context = replace(world.context, manifests=cache)
    await RenderReconciler(context).deliver(repository.id)
    after = {service.id: service for service in await world.rows(ServiceStore)}
    return {
        escape.name: Rendered(
            after[service.id].desired.render_error or "",
            list(escape.objects) or await _objects(cache, service, sha),
        )
        for escape, service in zip(ESCAPES, services, strict=True)
    }


def _is_liquid(escape: Escape) -> bool:
    return any(path.endswith(".liquid") for path in escape.files)


async def _objects(cache: GitCache, service: Service, sha: str) -> list[KubeObject]:
    """The objects of a service without any check; none if no renderer makes any."""
    parameters = {"configuration": {"place": BANK}, "contexts": {"places": PLACES}}
    try:
        found = await cache.render(service.render_request(sha, parameters))
    except Exception:
        return []
    return [orjson.loads(line) for line in (await cache.bundle(found.digest)).splitlines()]


@dataclass(frozen=True)
class Sent:
    """What a hostile control plane reached: with the rules of the fence, and without any."""

    ruled: str
    unruled: str


@pytest.fixture(scope="module")
def sent(
    rendered: dict[str, Rendered],
    audited: AuditedCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Sent]:
    """All objects, sent to one agent by a control plane that checks nothing."""
    return asyncio.run(_send_all(rendered, audited, tmp_path_factory.mktemp("agent")))


async def _send_all(
    rendered: dict[str, Rendered], audited: AuditedCluster, folder: Path
) -> dict[str, Sent]:
    objects = {
        escape.name: rendered[escape.name].objects
        for escape in ESCAPES
        if escape.second is not Second.SOURCES
    }
    account = f"{SHOP}:{ACCOUNT}"
    rules = pb.ObjectRules(namespaces=[SHOP], denied=_DENIED)
    ruled = pb.Fence(project="shop", service_account=account, rules=[rules])
    unruled = pb.Fence(project="shop", service_account=account)
    async with FakeHub() as hub, agent_of(hub, audited, folder):
        first = await _send(hub, objects, ruled)
        second = await _send(hub, objects, unruled)
    return {name: Sent(first[name], second[name]) for name in objects}


async def _send(
    hub: FakeHub, objects: dict[str, list[KubeObject]], fence: pb.Fence
) -> dict[str, str]:
    """The problems of each service, all of which end."""
    for number, some in enumerate(objects.values()):
        hub.want(f"s{number}", some, namespace=SHOP, fence=fence)
    found = {}
    for number, name in enumerate(objects):
        status = await hub.until_phase(f"s{number}", pb.PHASE_FAILED, pb.PHASE_HEALTHY)
        found[name] = "; ".join(problem.message for problem in status.problems)
    return found


@pytest.mark.parametrize("escape", ESCAPES, ids=lambda escape: escape.name)
def test_the_control_plane_names_file_object_and_rule(
    escape: Escape, rendered: dict[str, Rendered]
) -> None:
    error = rendered[escape.name].error
    if not escape.first:
        assert escape.note and not error
        return
    assert escape.first in error, error
    paths = [*escape.files, *escape.links]
    assert any(path.split("/")[-1].removesuffix(".liquid") in error for path in paths) or (
        "outside the fence of project 'shop'" in error or "kustomize" in error
    )


@pytest.mark.parametrize(
    "escape",
    [escape for escape in ESCAPES if escape.second is not Second.SOURCES],
    ids=lambda escape: escape.name,
)
def test_a_control_plane_that_checks_nothing_gains_nothing(
    escape: Escape, rendered: dict[str, Rendered], sent: dict[str, Sent], audited: AuditedCluster
) -> None:
    """The last object of a bundle is the one that reaches out."""
    objects, found = rendered[escape.name].objects, sent[escape.name]
    assert found.unruled and (found.ruled or escape.note), found
    if escape.second is Second.AGENT:
        assert _ACCOUNT not in found.unruled, "the agent asks the API server nothing"
        return
    kind, name = objects[-1]["kind"].lower(), objects[-1]["metadata"]["name"]
    refused = audited.forbidden(_ACCOUNT)
    assert any(
        resource.startswith(kind[:-1]) and name == its_name for resource, its_name in refused
    ), found.unruled


@pytest.fixture(scope="module")
def taken(
    sent: dict[str, Sent], audited: AuditedCluster, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """The problems of objects that are no escape."""
    assert sent
    objects = {case.name: [case.object] for case in allowed()}

    async def send() -> dict[str, str]:
        async with FakeHub() as hub, agent_of(hub, audited, tmp_path_factory.mktemp("allowed")):
            rules = pb.ObjectRules(namespaces=[SHOP], denied=_DENIED)
            account = f"{SHOP}:{ACCOUNT}"
            fence = pb.Fence(project="shop", service_account=account, rules=[rules])
            for number, some in enumerate(objects.values()):
                hub.want(f"allowed-{number}", some, namespace=SHOP, fence=fence)
            return {
                name: "; ".join(problem.message for problem in (await _ended(hub, number)).problems)
                for number, name in enumerate(objects)
            }

    return asyncio.run(send())


async def _ended(hub: FakeHub, number: int) -> pb.ServiceStatus:
    applied = (pb.PHASE_APPLIED, pb.PHASE_HEALTHY, pb.PHASE_DEGRADED, pb.PHASE_FAILED)
    return await hub.until_phase(f"allowed-{number}", *applied)


@pytest.mark.parametrize("case", allowed(), ids=lambda case: case.name)
def test_objects_that_kubernetes_allows_in_a_namespace_are_applied(
    case: Allowed, taken: dict[str, str], audited: AuditedCluster
) -> None:
    """No escape by Kubernetes' own model: the page says what limits it instead."""
    kind, name = case.object["kind"], case.object["metadata"]["name"]
    assert "forbidden" not in taken[case.name] and "fence" not in taken[case.name]
    if "ownerReferences" not in case.object["metadata"]:
        audited.cluster.kubectl("-n", SHOP, "get", kind, name)


def test_the_control_plane_knows_every_cluster_scoped_kind_of_the_api_server(
    audited: AuditedCluster,
) -> None:
    """A kind that it took for a namespaced one would pass as an object of the own namespace."""
    listed = audited.cluster.kubectl("api-resources", "--namespaced=false", "--no-headers")
    rows = [line.split() for line in listed.splitlines()]
    kinds = {(row[-3].rpartition("/")[0], row[-1]) for row in rows}
    assert kinds - {("example.org", "Well")} <= CLUSTER_SCOPED
