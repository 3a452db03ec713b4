"""Global services from one definition into many clusters, over a real store."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from controlplane.access.operations.projects import ProjectChange
from controlplane.authorization import UNRESTRICTED, Scope
from controlplane.authorization.roles import BuiltInRole as Role
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.operations.clusters import ClusterChange
from controlplane.clusters.operations.groups import ClusterGroupChange, ClusterGroups
from controlplane.clusters.ports import ClusterGroupStore
from controlplane.generators.model.definitions import LeavePolicy
from controlplane.generators.model.global_service import GlobalService
from controlplane.generators.operations.global_services import GlobalChange, GlobalServices
from controlplane.generators.operations.reconciler import (
    MAX_CHANGES_PER_TRANSACTION,
    GeneratorReconciler,
)
from controlplane.generators.ports import GlobalServiceStore
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.operations import RepositoryChange
from controlplane.services.model.service import OwnerKind, Service
from controlplane.services.operations.services import ServiceChange
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, Forbidden, Invalid, NotFound
from core.spec.renderers import chart_ref
from core.spec.source import RepositoryKind
from core.spec.sync import Removal
from tests.fakes.manifests import config_map
from tests.integration.controlplane.conftest import World, person


@dataclass
class Fleet:
    """A world with some clusters, a repository, and the verbs under test."""

    world: World
    targets: GeneratorReconciler
    globals: GlobalServices
    groups: ClusterGroups
    repository: Repository

    async def clusters(self, *names: str, **tags: str) -> list[Cluster]:
        made = []
        for name in names:
            cluster = await self.world.cluster(name)
            if tags:
                await self.world.clusters.update(
                    self.world.admin, cluster.id, ClusterChange(tags=tags)
                )
            made.append(cluster)
        return made

    def change(self, name: str = "agents", **common: Any) -> GlobalChange:
        template = ServiceChange(
            name="web",
            namespace="shop",
            repository_id=self.repository.id,
            ref="main",
            folder="web",
            configuration={"replicas": "2"},
        )
        return GlobalChange(name=name, **common, template=template)

    async def create(self, **common: Any) -> GlobalService:
        one = await self.globals.create(self.world.admin, self.change(**common))
        await self.look(one)
        return one

    async def look(self, one: GlobalService) -> None:
        await self.targets.reconcile(f"{OwnerKind.GLOBAL.value}/{one.id}")

    async def now(self, one: GlobalService) -> GlobalService:
        return await self.globals.get(self.world.admin, one.id)

    async def owned(self, one: GlobalService) -> list[Service]:
        async with self.world.deps.store.read() as tx:
            return await tx[ServiceStore].of_owner(one.id)


@pytest.fixture
async def fleet(world: World) -> Fleet:
    """No cluster yet."""
    targets = GeneratorReconciler(world.deps)
    globals = GlobalServices(world.deps, targets)
    repository = await world.repository()
    return Fleet(world, targets, globals, ClusterGroups(world.deps), repository)


def change_of(**fields: Any) -> GlobalChange:
    return GlobalChange(**fields)


async def test_one_definition_reaches_all_that_fit_and_is_delivered(fleet: Fleet) -> None:
    world = fleet.world
    prod = await fleet.clusters("eu", "us", tier="prod")
    await fleet.clusters("dev", tier="dev")
    one = await fleet.create(selector={"tags": {"tier": "prod"}})
    owned = await fleet.owned(one)
    assert {service.cluster_id for service in owned} == {cluster.id for cluster in prod}
    await world.repositories.update_followed_refs(fleet.repository.id)
    world.manifests.push(fleet.repository.id, {"web": [config_map("web")]})
    assert await world.delivery.deliver(fleet.repository.id) == 2
    assert {service.desired.generation for service in await fleet.owned(one)} == {1}


async def test_a_changed_template_reaches_all_of_them_in_bounded_steps(fleet: Fleet) -> None:
    count = MAX_CHANGES_PER_TRANSACTION + 5
    await fleet.clusters(*(f"c{n}" for n in range(count)))
    one = await fleet.create()
    assert len(await fleet.owned(one)) == count
    change = GlobalChange(template=ServiceChange(ref="next"))
    await fleet.globals.update(fleet.world.admin, one.id, change)
    await fleet.look(one)
    owned = await fleet.owned(one)
    assert {(service.spec.ref, service.spec.folder) for service in owned} == {("next", "web")}
    assert all(service.desired.input_digest is None for service in owned)


async def test_a_cluster_has_otherwise_what_its_patch_says_and_follows_in_the_rest(
    fleet: Fleet,
) -> None:
    eu, us = await fleet.clusters("eu", "us")
    one = await fleet.create()
    patch = ServiceChange(configuration={"replicas": "5"})
    view = await fleet.globals.override(fleet.world.admin, one.id, eu.id, patch)
    assert [(d.field, d.inherited, d.effective) for d in view.delta] == [
        ("configuration.replicas", "2", "5")
    ]
    await fleet.globals.update(
        fleet.world.admin, one.id, GlobalChange(template=ServiceChange(ref="v2"))
    )
    await fleet.look(one)
    by_cluster = {service.cluster_id: service for service in await fleet.owned(one)}
    assert by_cluster[eu.id].spec.configuration == {"replicas": "5"}
    assert by_cluster[us.id].spec.configuration == {"replicas": "2"}
    assert {service.spec.ref for service in by_cluster.values()} == {"v2"}
    views = await fleet.globals.clusters(fleet.world.admin, one.id)
    assert [(view.cluster.handle, len(view.delta)) for view in views] == [("eu", 1), ("us", 0)]
    await fleet.globals.override(fleet.world.admin, one.id, eu.id, ServiceChange())
    await fleet.look(one)
    assert {str(s.spec.configuration) for s in await fleet.owned(one)} == {"{'replicas': '2'}"}


async def test_a_chart_is_named_by_its_place_and_one_cluster_follows_another_version(
    fleet: Fleet,
) -> None:
    """The URL stands for the place that is connected by it; none is connected on the way."""
    world, url = fleet.world, "https://charts.example.org/stable"
    east, west = await fleet.clusters("east", "west")
    template = ServiceChange(
        name="cache", namespace="cache", helm={"chart": "redis", "version": "^20", "url": url}
    )
    change = GlobalChange(name="cache", template=template)
    with pytest.raises(Invalid, match="create it first"):
        await fleet.globals.create(world.admin, change)
    charts = await world.repositories.create(
        world.admin, RepositoryChange(url), RepositoryKind.HELM
    )
    one = await fleet.globals.create(world.admin, change)
    older = ServiceChange(helm={"version": "19.6.4"})
    await fleet.globals.override(world.admin, one.id, west.id, older)
    with pytest.raises(Invalid, match="uses a chart, not a git folder"):
        await fleet.globals.override(world.admin, one.id, west.id, ServiceChange(ref="main"))
    await fleet.look(one)
    refs = {service.cluster_id: service.spec.ref for service in await fleet.owned(one)}
    assert refs == {east.id: chart_ref("redis", "^20"), west.id: chart_ref("redis", "19.6.4")}
    for service in await fleet.owned(one):
        await world.repositories.ensure_followed(charts.id, service.id)
    assert world.manifests.specs[charts.id].refs == set(refs.values())


async def test_inherited_fields_refuse_direct_edits_and_say_where_to_go(fleet: Fleet) -> None:
    await fleet.clusters("eu")
    one = await fleet.create()
    (service,) = await fleet.owned(one)
    world = fleet.world
    with pytest.raises(Conflict, match="ref of service 'web' comes from global service 'agents'"):
        await world.services.update(world.admin, service.id, ServiceChange(ref="other"))
    with pytest.raises(Conflict, match="would be recreated"):
        await world.services.delete(world.admin, service.id)
    await world.services.update(world.admin, service.id, ServiceChange(paused=True))
    await fleet.look(one)
    (service,) = await fleet.owned(one)
    assert service.spec.paused


@pytest.mark.parametrize("leave", [LeavePolicy.DETACH, LeavePolicy.DELETE])
async def test_a_cluster_that_leaves_is_treated_as_the_policy_says(
    fleet: Fleet, leave: LeavePolicy
) -> None:
    (eu,) = await fleet.clusters("eu", tier="prod")
    one = await fleet.create(selector={"tags": {"tier": "prod"}}, leave=leave)
    (service,) = await fleet.owned(one)
    async with fleet.world.deps.store.write() as tx:
        await tx[ServiceStore].set_generation(service.id, 3)
    await fleet.world.clusters.update(fleet.world.admin, eu.id, ClusterChange(tags={}))
    await fleet.look(one)
    async with fleet.world.deps.store.read() as tx:
        left = await tx[ServiceStore].get(service.id, deleted=True)
    assert left is not None and left.deleted_at is not None
    assert left.removal is (Removal.CASCADE if leave is LeavePolicy.DELETE else Removal.ORPHAN)


async def test_a_deleted_definition_goes_after_its_services(fleet: Fleet) -> None:
    await fleet.clusters("eu", "us")
    one = await fleet.create(on_delete=LeavePolicy.DELETE, budget=0)
    await fleet.globals.delete(fleet.world.admin, one.id)
    await fleet.look(one)
    assert await fleet.owned(one) == []
    with pytest.raises(NotFound):
        await fleet.now(one)


async def test_a_protected_service_stays_and_is_nobodys(fleet: Fleet) -> None:
    await fleet.clusters("eu")
    change = fleet.change(on_delete=LeavePolicy.DELETE)
    template = ServiceChange(
        name="web", namespace="shop", repository_id=fleet.repository.id, ref="main", protect=True
    )
    one = await fleet.globals.create(fleet.world.admin, replace(change, template=template))
    await fleet.look(one)
    (service,) = await fleet.owned(one)
    await fleet.globals.delete(fleet.world.admin, one.id)
    await fleet.look(one)
    assert (await fleet.world.get(service)).owner_id is None


async def test_more_removals_than_the_budget_wait_for_a_person(fleet: Fleet) -> None:
    clusters = await fleet.clusters("a", "b", "c", tier="prod")
    one = await fleet.create(selector={"tags": {"tier": "prod"}}, budget=1)
    for cluster in clusters[:2]:
        await fleet.world.clusters.update(fleet.world.admin, cluster.id, ClusterChange(tags={}))
    await fleet.look(one)
    assert len(await fleet.owned(one)) == 3
    waits = await fleet.now(one)
    assert waits.waiting == 2 and "deletion budget" in waits.problem
    await fleet.globals.sync(fleet.world.admin, one.id, confirm=2)
    await fleet.look(one)
    after = await fleet.now(one)
    assert len(await fleet.owned(one)) == 1
    assert (after.waiting, after.problem, after.confirmed) == (0, "", 0)


async def test_missing_template_sources_delete_no_service(fleet: Fleet) -> None:
    """The template's service, its repository, a group: each gone, and all services stay."""
    world = fleet.world
    (home, eu) = await fleet.clusters("home", "eu")
    source = await world.service(home, fleet.repository)
    group = await fleet.groups.create(
        world.admin, ClusterGroupChange(name="canary", cluster_ids=[eu.id])
    )
    change = GlobalChange(name="x", selector={"groups": (group.id,)}, leave=LeavePolicy.DELETE)
    one = await fleet.globals.create(world.admin, replace(change, source_id=source.id))
    await fleet.look(one)
    assert len(await fleet.owned(one)) == 1
    async with world.deps.store.read() as tx:
        kept = await tx[ServiceStore].get(source.id)
    assert kept is not None

    async def stays() -> None:
        await fleet.look(one)
        assert len(await fleet.owned(one)) == 1
        assert (await fleet.now(one)).problem

    async with world.deps.store.write() as tx:
        await tx[ServiceStore].remove(source.id)
    await stays()
    async with world.deps.store.write() as tx:
        await tx[ServiceStore].add(replace(kept, repository_id=None))
    await stays()
    async with world.deps.store.write() as tx:
        await tx[ServiceStore].put(kept)
        await tx[ClusterGroupStore].remove(group.id)
    await stays()
    async with world.deps.store.write() as tx:
        await tx[ClusterGroupStore].add(group)
    await fleet.look(one)
    assert (await fleet.now(one)).problem == ""


async def test_a_service_is_had_elsewhere_as_it_is_at_home(fleet: Fleet) -> None:
    world = fleet.world
    home, *_ = await fleet.clusters("home", "eu", "us")
    source = await world.service(home, fleet.repository)
    one = await fleet.globals.create(world.admin, GlobalChange(name="x", source_id=source.id))
    await fleet.look(one)
    owned = await fleet.owned(one)
    assert len(owned) == 2 and home.id not in {service.cluster_id for service in owned}
    assert source.id in await fleet.targets.sources()
    await world.services.update(world.admin, source.id, ServiceChange(ref="v9"))
    await fleet.look(one)
    assert {service.spec.ref for service in await fleet.owned(one)} == {"v9"}
    with pytest.raises(Conflict, match="is the source of global service"):
        await world.services.delete(world.admin, source.id)
    local = person(Role.EDITOR, "ed", Scope(f"service:{source.id}"))
    with pytest.raises(Forbidden):
        await world.services.update(local, source.id, ServiceChange(ref="evil"))


async def test_a_place_that_another_service_has_is_left_to_it(fleet: Fleet) -> None:
    eu, _ = await fleet.clusters("eu", "us")
    there = await fleet.world.service(eu, fleet.repository, "web")
    one = await fleet.create()
    assert len(await fleet.owned(one)) == 1
    assert "1 clusters already have another service of that name" in (await fleet.now(one)).problem
    assert (await fleet.world.get(there)).owner_id is None


async def test_a_global_service_of_a_project_targets_only_its_clusters(fleet: Fleet) -> None:
    world = fleet.world
    shop = await world.projects.create(world.admin, ProjectChange("shop", fence=UNRESTRICTED))
    await fleet.clusters("other")
    own, _ = await world.clusters.create(world.admin, ClusterChange(name="own", project_id=shop.id))
    editor = person(Role.EDITOR, "ed", Scope(f"project:{shop.id}"))
    change = fleet.change(project_id=shop.id)
    with pytest.raises(NotFound):
        await fleet.globals.create(editor, change)
    one = await fleet.globals.create(world.admin, change)
    await fleet.look(one)
    assert [service.cluster_id for service in await fleet.owned(one)] == [own.id]
    with pytest.raises(Forbidden):
        await fleet.globals.create(editor, fleet.change("everywhere"))
    stranger = person(Role.ADMIN, "eve", Scope("project:elsewhere"))
    with pytest.raises(NotFound):
        await fleet.globals.get(stranger, one.id)


async def test_a_frozen_group_holds_its_clusters_still_and_no_others(fleet: Fleet) -> None:
    world = fleet.world
    eu, us = await fleet.clusters("eu", "us")
    one = await fleet.create()
    group = await fleet.groups.create(
        world.admin, ClusterGroupChange(name="g", cluster_ids=[eu.id])
    )
    await fleet.groups.freeze(world.admin, group.id, "audit")
    await fleet.globals.update(
        world.admin, one.id, GlobalChange(template=ServiceChange(ref="next"))
    )
    await fleet.look(one)
    refs = {service.cluster_id: service.spec.ref for service in await fleet.owned(one)}
    assert refs == {eu.id: "main", us.id: "next"}
    assert "wait for frozen" in (await fleet.now(one)).problem
    with pytest.raises(Conflict, match="frozen through cluster group 'g' by root@.*: audit"):
        await world.service(eu, fleet.repository, "new")
    await world.service(us, fleet.repository, "new")
    await world.repositories.update_followed_refs(fleet.repository.id)
    world.manifests.push(fleet.repository.id, {"web": [config_map("w")], "new": []}, ref="main")
    await world.delivery.deliver(fleet.repository.id)
    held = next(s for s in await fleet.owned(one) if s.cluster_id == eu.id)
    assert held.desired.digest is None
    with pytest.raises(Conflict, match="unfreeze"):
        await fleet.groups.delete(world.admin, group.id)
    await fleet.groups.unfreeze(world.admin, group.id)
    await fleet.look(one)
    assert {service.spec.ref for service in await fleet.owned(one)} == {"next"}


async def test_a_preview_tells_and_changes_nothing(fleet: Fleet) -> None:
    await fleet.clusters("eu", "us")
    plan = await fleet.globals.preview(fleet.world.admin, None, fleet.change())
    assert (len(plan.create), plan.size) == (2, 2)
    async with fleet.world.deps.store.read() as tx:
        assert await tx[ServiceStore].all() == [] and await tx[GlobalServiceStore].all() == []


@pytest.mark.parametrize(
    "change",
    [
        change_of(),
        change_of(name="x"),
        change_of(name="x", budget=-1),
        GlobalChange(name="x", source_id="id", template=ServiceChange(name="a", namespace="b")),
        GlobalChange(name="x", template=ServiceChange(name="BAD", namespace="b")),
    ],
)
async def test_invalid_global_services_are_refused(fleet: Fleet, change: GlobalChange) -> None:
    with pytest.raises(Invalid):
        await fleet.globals.create(fleet.world.admin, change)


async def test_a_patch_of_what_is_the_same_everywhere_is_refused(fleet: Fleet) -> None:
    (eu,) = await fleet.clusters("eu")
    one = await fleet.create()
    with pytest.raises(Invalid, match="cannot be overridden"):
        await fleet.globals.override(
            fleet.world.admin, one.id, eu.id, ServiceChange(namespace="other")
        )


async def test_a_name_is_had_once_and_what_is_being_deleted_stays_as_it_is(fleet: Fleet) -> None:
    """Without any service it is gone at once."""
    empty = await fleet.create()
    with pytest.raises(Conflict, match="already exists"):
        await fleet.create()
    await fleet.globals.delete(fleet.world.admin, empty.id)
    with pytest.raises(NotFound):
        await fleet.globals.get(fleet.world.admin, empty.id)
    await fleet.clusters("eu")
    one = await fleet.create()
    await fleet.globals.delete(fleet.world.admin, one.id)
    with pytest.raises(Conflict, match="being deleted"):
        await fleet.globals.update(fleet.world.admin, one.id, change_of(name="y"))
