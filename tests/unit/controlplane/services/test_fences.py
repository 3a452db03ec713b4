"""Fences of projects over the store in memory: who may deploy what, from where, to where."""

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.access.model.bindings import Project
from controlplane.access.operations.projects import ProjectChange, Projects
from controlplane.access.ports import ProjectStore
from controlplane.agents.model.jobs import JobRequest
from controlplane.agents.operations.desired_state import DesiredStateReader
from controlplane.agents.operations.jobs import ClusterJobs
from controlplane.authorization import (
    DEFAULT_PROJECT,
    UNRESTRICTED,
    DestinationRule,
    Fence,
    FenceCluster,
    FenceSource,
    ResourceKind,
    Scope,
    SourceRule,
)
from controlplane.authorization.roles import BuiltInRole
from controlplane.bridges import SERVICE_PARTS
from controlplane.clusters.model.cluster import Cluster
from controlplane.delivery.operations.render_reconciler import RenderReconciler
from controlplane.generators.model.global_service import GlobalService
from controlplane.generators.model.plan import TargetPlan
from controlplane.generators.operations.generation import AnyGenerator, GeneratorEvaluator
from controlplane.generators.operations.reconciler import GeneratorReconciler
from controlplane.generators.ports import GlobalServiceStore
from controlplane.pipelines.operations.stage_renders import StageRenderer
from controlplane.platform.context import DESIRED_STATE
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.model.service import Revision, Service
from controlplane.services.model.templates import ServiceTemplate
from controlplane.services.operations.fence_reports import FenceReports
from controlplane.services.operations.fence_use import FenceUses
from controlplane.services.operations.fences import (
    ServiceFences,
    check_rendered_objects,
)
from controlplane.services.operations.services import ServiceChange, Services
from controlplane.services.operations.sources import SourceChange
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, Forbidden, Invalid, LimitExceeded, NotFound
from core.spec.bundle import KubeObject
from core.spec.fences import MAX_NAMESPACES, ObjectRules, ServiceFence
from core.spec.source import BaseFolder, RepositorySpec
from core.wire import limits
from core.wire.v1.agent_pb2 import ObjectRules as ObjectRulesMessage
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, person
from tests.fakes.clock import START
from tests.fakes.manifests import config_map
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

REPOSITORY = make_repository("shop", url="https://git.example.org/shop/deploy.git")
FOREIGN = make_repository("bank", url="https://git.example.org/bank/deploy.git")
PROD = make_cluster("prod", tags={"env": "prod"})
DEV = make_cluster("dev", tags={"env": "dev"})
FENCE = Fence(
    sources=(
        SourceRule("https://git.example.org/shop/*", folders=("apps/*",), refs=("main", "v*")),
        SourceRule("https://charts.example.org/*", charts=("redis",)),
    ),
    destinations=(
        DestinationRule(("shop",), "shop-deployer", clusters=("prod",)),
        DestinationRule(("shop-*",), "", tags={"env": "dev"}),
    ),
    cluster_scoped_kinds=("Namespace",),
    denied_kinds=("ResourceQuota",),
    max_services=2,
    max_objects=3,
)
SHOP = Project("shop", "shop", START, START, fence=FENCE)
EVE = person(BuiltInRole.EDITOR, "eve", Scope("project:shop"))
OWNER = person(BuiltInRole.ADMIN, "sue", Scope("project:shop"))
WEB = ServiceChange("web", "shop", "shop", "main", "apps/web", project_id="shop")


@pytest.fixture
async def world() -> MemoryOperations:
    operations = operations_over_memory()
    repositories = (replace(row, project_id="shop") for row in (REPOSITORY, FOREIGN))
    await operations.given(PROD, DEV, *repositories, SHOP)
    return operations


@pytest.fixture
def services(world: MemoryOperations) -> Services:
    return Services(world.context, SERVICE_PARTS)


@pytest.fixture
def projects(world: MemoryOperations) -> Projects:
    return Projects(world.context, ServiceFences())


async def test_a_tenant_deploys_to_a_shared_cluster_within_its_fence(
    world: MemoryOperations, services: Services
) -> None:
    """Without any role on the cluster; the agent gets the rules and the account."""
    service = await services.create(EVE, None, "prod", WEB)
    assert service.project_id == "shop"
    await world.given()
    async with world.store.write() as tx:
        await tx[ServiceStore].change(service.id, generation=1, digest="d")
    state = await DesiredStateReader(world.store).of(PROD.id)
    rules = ObjectRules(("shop",), ("Namespace",), ("ResourceQuota",))
    assert state.fences == {service.id: ServiceFence("shop", "shop:shop-deployer", (rules,), 3)}


@pytest.mark.parametrize(
    ("change", "handle", "reason"),
    [
        ({"namespace": "bank"}, "prod", "no destination rule allows namespace bank"),
        ({"namespace": "shop-1"}, "prod", "no destination rule allows namespace shop-1"),
        ({"namespace": "shop"}, "dev", "no destination rule allows namespace shop of cluster dev"),
        ({"repository_id": "bank"}, "prod", "no source rule allows https://git.example.org/bank"),
        ({"folder": "secrets"}, "prod", "folder secrets at main"),
        ({"ref": "feature"}, "prod", "folder apps/web at feature"),
        (
            {"helm": {"url": "https://charts.example.org/x", "chart": "kafka"}},
            "prod",
            "no source rule allows chart kafka",
        ),
        ({"sources": [SourceChange("bank", "main", "apps", "x")]}, "prod", "bank/deploy.git"),
    ],
)
async def test_requests_outside_the_fence_name_the_rule(
    world: MemoryOperations, services: Services, change: dict[str, Any], handle: str, reason: str
) -> None:
    for actor in (EVE, ADMIN):
        with pytest.raises(Forbidden, match="outside the fence of project 'shop'") as error:
            await services.create(actor, None, handle, replace(WEB, **change))
        assert reason in error.value.message
    assert await world.rows(ServiceStore) == []


async def test_a_service_cannot_be_moved_out_by_an_update(
    world: MemoryOperations, services: Services
) -> None:
    service = await services.create(EVE, None, "prod", WEB)
    for change in (
        ServiceChange(folder="secrets"),
        ServiceChange(ref="feature"),
        ServiceChange(sources=[SourceChange("bank", "main", "apps", "x")]),
    ):
        with pytest.raises(Forbidden, match="outside the fence"):
            await services.update(EVE, service.id, change)
    assert await world.rows(ServiceStore) == [service]
    after = await services.update(EVE, service.id, ServiceChange(folder="apps/other"))
    assert after.spec.folder == "apps/other"


async def test_a_rollback_stays_inside_the_fence(
    world: MemoryOperations, services: Services
) -> None:
    """The fence may have become narrower since the revision was the desired state."""
    service = await services.create(EVE, None, "prod", WEB)
    good = Revision(
        "good", service.id, "a" * 40, "v1", "apps/web", "d", "s", "Ada", "Fix", START, START, ""
    )
    branch = replace(good, id="branch", ref="feature/x")
    folder = replace(good, id="folder", folder="secrets")
    await world.given(good, branch, folder)
    for revision in (branch, folder):
        with pytest.raises(Forbidden, match="outside the fence of project 'shop'"):
            await services.rollback(EVE, service.id, revision.id)
    assert await world.rows(ServiceStore) == [service]
    assert (await services.rollback(EVE, service.id, good.id)).desired.revision_id == good.id


async def test_a_cluster_that_no_rule_names_stays_hidden(
    world: MemoryOperations, services: Services
) -> None:
    await world.given(make_cluster("secret"))
    with pytest.raises(NotFound):
        await services.create(EVE, None, "secret", WEB)


async def test_an_open_fence_does_not_replace_rights_on_the_cluster(
    world: MemoryOperations, services: Services
) -> None:
    async with world.store.write() as tx:
        await tx[ProjectStore].put(replace(SHOP, fence=UNRESTRICTED))
    with pytest.raises(NotFound):
        await services.create(EVE, None, "prod", WEB)
    with pytest.raises(NotFound):
        await services.create(EDITOR, None, "prod", replace(WEB, project_id="nowhere"))
    assert (await services.create(EDITOR, None, "prod", WEB)).project_id == "shop"


async def test_the_number_of_services_is_limited(
    world: MemoryOperations, services: Services
) -> None:
    for name in ("a", "b"):
        await services.create(EVE, None, "prod", replace(WEB, name=name))
    with pytest.raises(Forbidden, match="may have at most 2 services"):
        await services.create(EVE, None, "prod", replace(WEB, name="c"))
    assert len(await world.rows(ServiceStore)) == 2


async def test_services_without_a_project_count_for_the_default_one(
    world: MemoryOperations, services: Services
) -> None:
    async with world.store.write() as tx:
        await tx[ProjectStore].change(DEFAULT_PROJECT, fence=replace(UNRESTRICTED, max_services=2))
    await world.given(
        make_service("a", PROD),
        make_service("b", PROD, project_id=DEFAULT_PROJECT),
        make_service("seen", PROD, mirrored=True),
        make_service("c", PROD, project_id="shop"),
    )
    for project_id in (None, DEFAULT_PROJECT):
        with pytest.raises(Forbidden, match="may have at most 2 services"):
            await services.create(ADMIN, None, "prod", replace(WEB, project_id=project_id))


async def test_a_generator_creates_no_service_above_the_limit_and_reports_the_others(
    world: MemoryOperations, services: Services
) -> None:
    rule = DestinationRule(("shop",), clusters=("prod", "dev", "edge"))
    async with world.store.write() as tx:
        await tx[ProjectStore].put(replace(SHOP, fence=replace(FENCE, destinations=(rule,))))
    template = ServiceTemplate("cache", "shop", REPOSITORY.id)
    definition = GlobalService("g", "g", START, START, project_id="shop", template=template)
    await world.given(make_cluster("edge"), definition)
    await services.create(EVE, None, "prod", WEB)
    reconciler = GeneratorReconciler(world.context)
    assert len(await generated(world, reconciler)) == 1
    stored = await world.row(GlobalServiceStore, "g")
    assert stored is not None
    assert stored.problem == (
        "2 services are not created: project 'shop' may have at most 2 services"
    )
    async with world.store.write() as tx:
        await tx[ProjectStore].put(
            replace(SHOP, fence=replace(FENCE, destinations=(rule,), max_services=9))
        )
    assert len(await generated(world, reconciler)) == 3


class OvertakenReconciler(GeneratorReconciler):
    """Somebody else creates a service after each plan."""

    def __init__(self, world: MemoryOperations) -> None:
        super().__init__(world.context)
        self._world = world

    async def plan(self, definition: AnyGenerator) -> TargetPlan:
        planned = await super().plan(definition)
        await self._world.given(make_service("first", PROD, project_id="shop"))
        return planned


async def test_a_generator_counts_services_that_others_created_since_its_plan(
    world: MemoryOperations,
) -> None:
    rule = DestinationRule(("shop",), clusters=("prod", "dev", "edge"))
    async with world.store.write() as tx:
        await tx[ProjectStore].put(replace(SHOP, fence=replace(FENCE, destinations=(rule,))))
    template = ServiceTemplate("cache", "shop", REPOSITORY.id)
    definition = GlobalService("g", "g", START, START, project_id="shop", template=template)
    await world.given(make_cluster("edge"), definition)
    assert len(await generated(world, OvertakenReconciler(world))) == 1
    assert len(await world.rows(ServiceStore, project_id="shop")) == 2


async def generated(world: MemoryOperations, reconciler: GeneratorReconciler) -> list[Service]:
    """The services of generator `g` after it was reconciled."""
    await reconciler.reconcile("global/g")
    return [one for one in await world.rows(ServiceStore) if one.owner_id == "g"]


async def test_only_who_administers_all_projects_changes_a_fence(
    world: MemoryOperations, projects: Projects
) -> None:
    wide = ProjectChange(fence=UNRESTRICTED)
    for actor in (EVE, OWNER):
        with pytest.raises(Forbidden):
            await projects.update(actor, "shop", wide)
    assert await world.row(ProjectStore, "shop") == SHOP
    assert (await projects.update(ADMIN, "shop", wide)).fence == UNRESTRICTED


async def test_a_new_project_denies_everything(
    world: MemoryOperations, projects: Projects, services: Services
) -> None:
    project = await projects.create(ADMIN, ProjectChange("new"))
    assert project.fence == Fence()
    with pytest.raises(Forbidden, match="outside the fence of project 'new'"):
        await services.create(ADMIN, None, "prod", replace(WEB, project_id=project.id))


async def test_a_new_project_has_the_fence_of_the_installation_unless_it_names_one(
    world: MemoryOperations,
) -> None:
    projects = Projects(world.context, ServiceFences(), UNRESTRICTED)
    assert (await projects.create(ADMIN, ProjectChange("new"))).fence == UNRESTRICTED
    assert (await projects.create(ADMIN, ProjectChange("own", fence=FENCE))).fence == FENCE


@pytest.mark.parametrize(("count", "more"), [(20, ""), (21, " and 1 more"), (23, " and 3 more")])
async def test_of_many_services_outside_a_fence_twenty_are_named(
    world: MemoryOperations, projects: Projects, count: int, more: str
) -> None:
    services = [make_service(f"s{number:02}", PROD, project_id="shop") for number in range(count)]
    await world.given(*services)
    with pytest.raises(Conflict) as error:
        await projects.update(ADMIN, "shop", ProjectChange(fence=Fence()))
    names = ", ".join(f"prod/s{number:02}" for number in range(20))
    assert f"outside: {names}{more}. Nothing" in error.value.message
    await projects.update(ADMIN, "shop", ProjectChange(fence=FENCE))
    await projects.update(ADMIN, "shop", ProjectChange(description="same fence"))
    assert {row.desired.generation for row in await world.rows(ServiceStore)} == {0}


async def test_a_narrower_fence_names_who_stays_outside_and_waits_for_a_confirmation(
    world: MemoryOperations, services: Services, projects: Projects
) -> None:
    """The confirmed one is rendered and sent again."""
    service = await services.create(EVE, None, "prod", WEB)
    async with world.store.write() as tx:
        await tx[ServiceStore].change(service.id, generation=1, digest="d", input_digest="i")
    narrow = replace(FENCE, destinations=FENCE.destinations[1:])
    with pytest.raises(Conflict, match=r"leaves services .* outside: prod/web\. Nothing was"):
        await projects.update(ADMIN, "shop", ProjectChange(fence=narrow))
    assert await world.row(ProjectStore, "shop") == SHOP
    world.bus.published.clear()
    await projects.update(ADMIN, "shop", ProjectChange(fence=narrow, confirm_fence=True))
    after = await world.row(ServiceStore, service.id)
    assert after is not None and after.desired.digest == "d"
    assert (after.desired.generation, after.desired.input_digest) == (2, None)
    assert (DESIRED_STATE, f"prod/{service.id}") in world.published
    state = await DesiredStateReader(world.store).of(PROD.id)
    assert state.fences[service.id].rules == (ObjectRules(),)


@pytest.mark.parametrize(
    ("fence", "field"),
    [
        (Fence(sources=(SourceRule("a b"),)), "fence.sources.url"),
        (Fence(sources=(SourceRule("*", charts=("[a]",)),)), "fence.sources.charts"),
        (Fence(destinations=(DestinationRule((), clusters=("*",)),)), "fence.destinations"),
        (Fence(destinations=(DestinationRule(("*",)),)), "fence.destinations"),
        (
            Fence(destinations=(DestinationRule(("*",), "A", ("*",)),)),
            "fence.destinations.serviceAccount",
        ),
        (Fence(max_services=-1), "fence.maxServices"),
        (Fence(max_renders_per_minute=-1), "fence.maxRendersPerMinute"),
        (Fence(sources=(SourceRule("*"),) * 101), "fence"),
    ],
)
async def test_a_malformed_fence_is_refused(projects: Projects, fence: Fence, field: str) -> None:
    with pytest.raises(Invalid) as error:
        await projects.create(ADMIN, ProjectChange("new", fence=fence))
    assert error.value.field == field


@pytest.mark.parametrize(
    ("folder", "content", "reason"),
    [
        ("secrets", config_map("a"), "no source rule allows"),
        ("apps/web", {**config_map("a"), "kind": "ResourceQuota"}, "ResourceQuota are denied"),
        ("apps/web", config_map("a"), None),
    ],
)
async def test_nothing_outside_is_delivered(
    world: MemoryOperations, folder: str, content: KubeObject, reason: str | None
) -> None:
    """Also for services that a generator made, or that were there before the fence."""
    service = replace(
        make_service("web", PROD, ref="main", folder=folder),
        namespace="shop",
        project_id="shop",
        repository_id=REPOSITORY.id,
    )
    await world.given(service)
    world.manifests.follow(RepositorySpec(REPOSITORY.id, REPOSITORY.url, frozenset({"main"})))
    world.manifests.push(REPOSITORY.id, {folder: [content]})
    await RenderReconciler(world.context).deliver(REPOSITORY.id)
    after = await world.row(ServiceStore, service.id)
    assert after is not None
    assert (after.desired.digest is None) == (reason is not None)
    assert (reason or "") in (after.desired.render_error or "")


async def test_a_stage_of_a_pipeline_renders_inside_the_fence(world: MemoryOperations) -> None:
    """A promotion would otherwise give a service what its own renders refuse."""
    web = make_service("web", PROD, ref="main", folder="apps/web")
    service = replace(web, namespace="shop", project_id="shop", repository_id=REPOSITORY.id)
    await world.given(service)
    world.manifests.follow(RepositorySpec(REPOSITORY.id, REPOSITORY.url, frozenset({"main"})))
    quota = {**config_map("a"), "kind": "ResourceQuota"}
    good, bad = (
        world.manifests.push(REPOSITORY.id, {"apps/web": [obj]}) for obj in (config_map("a"), quota)
    )
    stage = StageRenderer(world.context)
    assert (await stage.render([service], {service.id: good}))[service.id].count == 1
    with pytest.raises(Invalid, match="ResourceQuota are denied"):
        await stage.render([service], {service.id: bad})


async def test_a_generator_uses_the_shared_clusters_of_its_fence_and_no_other_place(
    world: MemoryOperations,
) -> None:
    """Clusters that no destination names are not selected; a foreign namespace is a problem."""
    await world.given(make_cluster("secret"))
    evaluator = GeneratorEvaluator(world.context)

    async def evaluated(namespace: str) -> tuple[list[str], tuple[str, ...]]:
        template = ServiceTemplate("web", namespace, REPOSITORY.id)
        definition = GlobalService("g", "g", START, START, project_id="shop", template=template)
        found = await evaluator.evaluate(definition)
        return [service.cluster_id for service in found.services], found.problems

    places, problems = await evaluated("shop")
    assert places == ["prod"] and "namespace shop of cluster dev" in problems[0]
    places, problems = await evaluated("bank")
    assert places == [] and len(problems) == 2


async def test_a_pipeline_across_projects_promotes_no_commit_of_a_foreign_ref(
    world: MemoryOperations,
) -> None:
    """The first stage follows a branch that the fence of the second does not list."""
    first = make_service("web", DEV, ref="feature", folder="apps/web", repository_id=REPOSITORY.id)
    web = make_service("web", PROD, ref="main", folder="apps/web")
    second = replace(web, namespace="shop", project_id="shop", repository_id=REPOSITORY.id)
    await world.given(first, second)
    stage = StageRenderer(world.context)
    with pytest.raises(Forbidden, match=r"commit 1{12} is outside .* apps/web at feature"):
        await stage.select_commits([second], {first.id: "1" * 40})
    async with world.store.write() as tx:
        await tx[ServiceStore].change(first.id, ref="main")
    assert await stage.select_commits([second], {first.id: "1" * 40}) == {second.id: "1" * 40}


async def test_submodules_come_from_sources_that_are_allowed_as_a_whole(
    world: MemoryOperations, services: Services
) -> None:
    """A submodule can be any commit of a repository of the project."""
    async with world.store.write() as tx:
        await tx[RepositoryStore].change("shop", submodules=True)
    with pytest.raises(Forbidden, match=r"no source rule allows https://git.example.org/bank"):
        await services.create(EVE, None, "prod", WEB)


@pytest.mark.parametrize(
    ("folder", "ref"), [("apps/base", "v2"), ("apps/base", "x"), ("lib", "v1")]
)
async def test_remote_bases_stay_inside(world: MemoryOperations, folder: str, ref: str) -> None:
    """A kustomization names them, so that nobody knows them before the render."""
    service = replace(
        make_service("web", PROD, ref="main", folder="apps/web"),
        namespace="shop",
        project_id="shop",
        repository_id=REPOSITORY.id,
    )
    await world.given(service)
    world.manifests.follow(RepositorySpec(REPOSITORY.id, REPOSITORY.url, frozenset({"main"})))
    world.manifests.bases = (BaseFolder("https://git.example.org/shop/library", folder, ref),)
    world.manifests.push(REPOSITORY.id, {"apps/web": [config_map("a")]})
    await RenderReconciler(world.context).deliver(REPOSITORY.id)
    after = await world.row(ServiceStore, service.id)
    assert after is not None
    refused = "reads what is outside the fence" in (after.desired.render_error or "")
    assert refused == (after.desired.digest is None) == ((folder, ref) != ("apps/base", "v2"))


async def test_a_project_renders_only_so_often(world: MemoryOperations) -> None:
    """The others wait with the reason, and without a failure in their history."""
    async with world.store.write() as tx:
        limited = replace(FENCE, max_services=0, max_renders_per_minute=2)
        await tx[ProjectStore].put(replace(SHOP, fence=limited))
    fields = {"namespace": "shop", "project_id": "shop", "repository_id": REPOSITORY.id}
    made = [make_service(f"s{n}", PROD, ref="main", folder="apps/web") for n in range(3)]
    services = [replace(service, **fields) for service in made]
    await world.given(*services)
    world.manifests.follow(RepositorySpec(REPOSITORY.id, REPOSITORY.url, frozenset({"main"})))
    world.manifests.push(REPOSITORY.id, {"apps/web": [config_map("a")]})
    reconciler = RenderReconciler(world.context)

    async def errors() -> list[str]:
        await reconciler.deliver(REPOSITORY.id)
        found = [service.desired.render_error for service in await world.rows(ServiceStore)]
        return [error for error in found if error]

    (error,) = await errors()
    assert error.startswith("project 'shop' may render at most 2 services a minute")
    stages = [entry.stage for entry in await world.ledger()]
    assert stages == [LedgerStage.RENDERED] * 2
    with pytest.raises(LimitExceeded, match="at most 2 services a minute"):
        await StageRenderer(world.context).count_renders(services)
    await world.clock.advance(30)
    assert await errors() == []
    # A stage may take more than is left at once; others wait for it.
    await world.clock.advance(60)
    await StageRenderer(world.context).count_renders(services)
    with pytest.raises(LimitExceeded):
        await StageRenderer(world.context).count_renders(services[:1])


async def test_a_job_stays_inside_the_fence_of_its_cluster_s_project(
    world: MemoryOperations,
) -> None:
    jobs = ClusterJobs(world.context, None)  # ty: ignore[invalid-argument-type]
    await world.given(replace(make_cluster("own"), project_id="shop"))
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}}
    with pytest.raises(Forbidden, match="no destination rule allows namespace kube-system"):
        await jobs.run(EVE, "own", JobRequest("kube-system", manifest))
    claimed = JobRequest("kube-system", manifest, project_id="default")
    with pytest.raises(Forbidden, match="outside the fence of project 'shop'"):
        await jobs.run(EVE, "own", claimed)


def many_namespaces(count: int) -> list[DestinationRule]:
    """Rules for one account in a cluster, with as many patterns as `count`."""
    patterns = ["shop", *(f"team-{number}" for number in range(count - 1))]
    return [
        DestinationRule(tuple(patterns[start : start + 64]), "shop-deployer", clusters=("prod",))
        for start in range(0, count, 64)
    ]


@pytest.mark.parametrize(
    "others",
    [
        [DestinationRule(("extra",), "shop-deployer", clusters=("prod",))],
        [DestinationRule(("extra",), "shop-deployer", clusters=("*",))],
    ],
)
async def test_a_fence_with_more_patterns_than_an_agent_accepts_is_refused(
    projects: Projects, others: list[DestinationRule]
) -> None:
    fence = replace(FENCE, destinations=tuple(many_namespaces(MAX_NAMESPACES)))
    await projects.update(ADMIN, "shop", ProjectChange(fence=fence))
    with pytest.raises(Invalid, match="256 patterns of namespaces for service account shop-dep"):
        more = replace(fence, destinations=(*fence.destinations, *others))
        await projects.update(ADMIN, "shop", ProjectChange(fence=more))


async def test_a_cluster_whose_rules_together_have_too_many_patterns_gets_no_service(
    world: MemoryOperations, services: Services, projects: Projects
) -> None:
    """Only its tags tell that all these rules are about it; excluded namespaces count as well."""
    rules = many_namespaces(MAX_NAMESPACES)
    for extra in (
        DestinationRule(("extra",), "shop-deployer", tags={"env": "prod"}),
        DestinationRule(("team-*",), "other", tags={"env": "prod"}),
    ):
        fence = replace(FENCE, destinations=(extra, *rules))
        await projects.update(ADMIN, "shop", ProjectChange(fence=fence))
        with pytest.raises(Forbidden, match="256 patterns of namespaces for service account shop"):
            await services.create(EVE, None, "prod", WEB)


def test_agents_accept_as_many_patterns_as_a_fence_may_have() -> None:
    names = [f"team-{number}" for number in range(MAX_NAMESPACES + 1)]
    limits.check(ObjectRulesMessage(namespaces=names[:-1]))
    with pytest.raises(Invalid):
        limits.check(ObjectRulesMessage(namespaces=names))


def _object(api: str, kind: str, namespace: str = "", **rest: Any) -> bytes:
    place = {"namespace": namespace} if namespace else {}
    meta = {"name": "x", **place}
    return orjson.dumps({"apiVersion": api, "kind": kind, "metadata": meta, **rest})


@pytest.mark.parametrize(
    ("bundle", "reason"),
    [
        ([_object("v1", "ConfigMap")], ""),
        ([_object("v1", "Namespace")], "the namespace x is not allowed"),
        ([_object("v1", "ConfigMap", "bank")], "the namespace bank is not allowed"),
        ([_object("v1", "ResourceQuota")], "ResourceQuota are denied"),
        ([_object("rbac.authorization.k8s.io/v1", "ClusterRole", "shop")], "ClusterRole"),
        (
            [
                _object(
                    "apiextensions.k8s.io/v1",
                    "CustomResourceDefinition",
                    spec={"group": "a.b", "scope": "Cluster", "names": {"kind": "Well"}},
                )
            ],
            "CustomResourceDefinition",
        ),
        ([_object("v1", "ConfigMap")] * 4, "has 4 objects, but project shop allows 3"),
    ],
)
def test_rendered_objects_stay_inside(bundle: list[bytes], reason: str) -> None:
    fence = FENCE.of_service("shop", FenceCluster("prod"), "shop")
    if not reason:
        check_rendered_objects(fence, "shop", b"\n".join(bundle), ["web.yaml"].__getitem__)
        return
    with pytest.raises(Invalid) as error:
        check_rendered_objects(fence, "shop", b"\n".join(bundle), ["web.yaml"].__getitem__)
    assert reason in error.value.message
    assert len(bundle) > 1 or error.value.message.startswith("web.yaml: ")


_WORDS = st.sampled_from(["shop", "bank", "prod", "dev"])
_PATTERNS = st.lists(st.sampled_from(["shop", "bank", "prod", "dev", "*"]), max_size=2).map(tuple)
_FENCES = st.builds(
    Fence,
    sources=st.lists(
        st.builds(SourceRule, _WORDS, folders=_PATTERNS, charts=_PATTERNS), max_size=2
    ),
    destinations=st.lists(
        st.builds(DestinationRule, _PATTERNS, st.just(""), clusters=_PATTERNS), max_size=2
    ),
)


@given(_FENCES, _WORDS, _WORDS, st.sampled_from(["", "shop", "bank"]))
def test_a_fence_allows_only_what_one_rule_lists(
    fence: Fence, url: str, other: str, chart: str
) -> None:
    """A reference model in a few lines."""

    def listed(patterns: tuple[str, ...], text: str) -> bool:
        return "*" in patterns or text in patterns

    source = any(
        rule.url == url
        and (listed(rule.charts, chart) if chart else not rule.charts)
        and (bool(chart) or not rule.folders or listed(rule.folders, other))
        for rule in fence.sources
    )
    assert (fence.source_refusal(FenceSource(url, other, "main", chart)) == "") == source
    place = any(
        listed(rule.clusters, url) and listed(rule.namespaces, other) for rule in fence.destinations
    )
    assert (fence.destination_refusal(FenceCluster(url), other) == "") == place
    inside = fence.of_service("p", FenceCluster(url), other)
    assert place or inside.rules == (ObjectRules(),)


async def test_a_report_says_what_the_fence_decides(world: MemoryOperations) -> None:
    outside = replace(
        make_service("web", PROD, ref="main", folder="secrets"),
        namespace="shop",
        project_id="shop",
        repository_id=REPOSITORY.id,
    )
    await world.given(outside)
    reports = FenceReports(world.context)
    report = await reports.of_service(EVE, outside.id)
    assert (report.project.name, report.service_account) == ("shop", "shop:shop-deployer")
    source, place = report.checks
    assert source.refusal == f"no source rule allows {source.subject}"
    assert (place.subject, place.refusal) == ("namespace shop of cluster prod", "")
    for actor, id in ((NOBODY, outside.id), (ADMIN, "none")):
        with pytest.raises(NotFound) as refused:
            await reports.of_service(actor, id)
        assert refused.value.kind == ResourceKind.SERVICE


async def test_the_use_of_a_fence_names_services_rules_and_refusals(
    world: MemoryOperations,
) -> None:
    web = make_service(
        "web", PROD, namespace="shop", project_id="shop", repository_id=REPOSITORY.id
    ).changed(folder="apps/web", ref="main")
    lost = make_service(
        "lost", PROD, namespace="bank", project_id="shop", repository_id=REPOSITORY.id
    ).changed(folder="apps/lost", ref="main")
    await world.given(web, lost)
    use = await FenceUses(world.context).of_project(ADMIN, "shop")
    git, charts = use.sources
    assert (git.services, git.count) == (("prod/lost", "prod/web"), 2)
    assert git.note == "folders apps/*; refs main, v*"
    assert (charts.count, charts.note) == (0, "charts redis")
    prod, dev = use.destinations
    assert (prod.title, prod.services) == ("prod", ("prod/web",))
    assert prod.note == "namespaces shop; as shop-deployer"
    assert (dev.title, dev.count) == ("env=dev", 0)
    (refusal,) = use.refusals
    assert refusal.service == "prod/lost" and "namespace bank" in refusal.reason
    for actor, id in ((NOBODY, "shop"), (ADMIN, "none")):
        with pytest.raises(NotFound) as refused:
            await FenceUses(world.context).of_project(actor, id)
        assert refused.value.kind == ResourceKind.PROJECT


async def test_the_use_of_a_fence_counts_all_services_and_names_a_hundred(
    world: MemoryOperations,
) -> None:
    def service(name: str, namespace: str, cluster: Cluster = PROD, **columns: Any) -> Service:
        own = {"project_id": "shop", "repository_id": REPOSITORY.id, "namespace": namespace}
        placed = make_service(name, cluster, **own)
        return placed.changed(folder="apps/web", ref="main", **columns)

    numbers = range(104, -1, -1)
    chart = {"url": "https://charts.example.org/redis", "chart": "redis"}
    await world.given(
        *(service(f"a{number:03}", "shop") for number in numbers),
        *(service(f"b{number:03}", "bank") for number in numbers),
        service("c", "shop-c", DEV, helm=chart),
    )
    use = await FenceUses(world.context).of_project(ADMIN, "shop")
    git, charts = use.sources
    assert (git.count, len(git.services), git.services[0]) == (211, 100, "dev/c")
    assert charts.services == ("dev/c",)
    prod, dev = use.destinations
    assert (prod.count, prod.services) == (105, tuple(f"prod/a{n:03}" for n in range(100)))
    assert (dev.services, dev.note) == (("dev/c",), "namespaces shop-*; as the agent itself")
    assert [refusal.service for refusal in use.refusals] == [f"prod/b{n:03}" for n in range(100)]
