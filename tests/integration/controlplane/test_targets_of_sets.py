"""Service sets and managed namespaces over a real store: previews, and failures of every source."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import orjson
import pytest

from controlplane.generators.model.definitions import LeavePolicy
from controlplane.generators.model.namespaces import NamespaceSpec
from controlplane.generators.model.service_set import (
    Generator,
    GitFolderGenerator,
    PullRequestGenerator,
    ServiceSet,
)
from controlplane.generators.operations.namespaces import ManagedNamespaces, NamespaceChange
from controlplane.generators.operations.reconciler import GeneratorReconciler
from controlplane.generators.operations.service_sets import ServiceSets, SetChange
from controlplane.generators.ports import ServiceSetStore
from controlplane.platform.parts import given
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.operations import RepositoryChange
from controlplane.services.model.service import Service
from controlplane.services.operations.services import ServiceChange
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, Invalid, NotFound, Unavailable
from core.identity import RepositoryId
from core.spec.edits import OpenMergeRequest
from core.spec.renderers import chart_ref
from core.spec.source import RepositoryKind
from tests.fakes.manifests import Folders, config_map
from tests.integration.controlplane.conftest import World


@dataclass
class FakeHosting:
    """The `Hosting` port: what is open, or why that cannot be known."""

    requests: list[OpenMergeRequest] = field(default_factory=list)
    away: Exception | None = None

    async def open_requests(
        self, repository_id: RepositoryId, provider: str = ""
    ) -> list[OpenMergeRequest]:
        if self.away is not None:
            raise self.away
        return list(self.requests)


@dataclass
class Stand:
    """Two clusters and a repository with some folders."""

    world: World
    hosting: FakeHosting
    targets: GeneratorReconciler
    sets: ServiceSets
    namespaces: ManagedNamespaces
    repository: Repository

    def change(self, generator: Generator, **template: Any) -> SetChange:
        given: dict[str, Any] = {"name": "web", "namespace": "shop", **template}
        return SetChange("apps", generator=generator, template=ServiceChange(**given))

    async def create(self, change: SetChange) -> ServiceSet:
        one = await self.sets.create(self.world.admin, change)
        await self.look(one)
        return one

    async def look(self, one: Any) -> None:
        await self.targets.reconcile(f"{one.kind.value}/{one.id}")

    async def owned(self, one: Any) -> list[Service]:
        async with self.world.deps.store.read() as tx:
            return await tx[ServiceStore].of_owner(one.id)

    def request(self, number: int, branch: str = "feature") -> OpenMergeRequest:
        return OpenMergeRequest(
            number, branch, "a" * 40, self.world.clock.now(), labels=("preview",)
        )

    def push(self, *folders: str) -> None:
        content: Folders = {folder: [config_map("x")] for folder in folders}
        self.world.manifests.push(self.repository.id, content)


@pytest.fixture
async def stand(world: World) -> Stand:
    """Ready."""
    hosting = FakeHosting()
    targets = GeneratorReconciler(world.deps, hosting)
    repository = await world.repository()
    for name in ("eu", "us"):
        await world.cluster(name)
    made = Stand(
        world,
        hosting,
        targets,
        ServiceSets(world.deps, targets),
        ManagedNamespaces(world.deps, targets),
        repository,
    )
    made.push("apps/web", "apps/api", "other/x")
    return made


def folders(stand: Stand, pattern: str = "apps/*") -> Generator:
    return Generator(folders=GitFolderGenerator(stand.repository.id, pattern=pattern))


def previews(stand: Stand, **more: Any) -> Generator:
    return Generator(requests=PullRequestGenerator(stand.repository.id, ("preview",), **more))


async def test_folders_come_and_go_with_their_services(stand: Stand) -> None:
    one = await stand.create(stand.change(folders(stand), name="${folder.name}"))
    owned = await stand.owned(one)
    assert {(s.name, s.spec.folder) for s in owned} == {("web", "apps/web"), ("api", "apps/api")}
    assert len(owned) == 4 and {s.repository_id for s in owned} == {stand.repository.id}
    stand.push("apps/web", "apps/new")
    await stand.look(one)
    assert {s.name for s in await stand.owned(one)} == {"web", "new"}


@pytest.mark.parametrize("error", [Unavailable("git is away"), NotFound("no such branch")])
async def test_a_source_that_fails_deletes_nothing(stand: Stand, error: Exception) -> None:
    sources = Generator(folders(stand).folders, None, previews(stand).requests)
    stand.hosting.requests = [stand.request(1)]
    one = await stand.create(
        stand.change(sources, name="${folder.name}-${request.number}", folder="${folder.path}")
    )
    assert len(await stand.owned(one)) == 4
    stand.hosting.away = error
    await stand.look(one)
    assert len(await stand.owned(one)) == 4
    stand.hosting.away = None
    stand.world.manifests.away = error
    await stand.look(one)
    assert len(await stand.owned(one)) == 4
    found = await stand.sets.get(stand.world.admin, one.id)
    assert found.problem == str(error)


async def test_a_folder_that_all_came_from_is_gone_but_not_its_services(stand: Stand) -> None:
    """More removals at once than the budget wait; the numbers are in the preview."""
    change = stand.change(folders(stand), name="${folder.name}")
    one = await stand.create(replace(change, budget=3))
    stand.push("other/x")
    await stand.look(one)
    assert len(await stand.owned(one)) == 4
    plan = await stand.sets.preview(stand.world.admin, one.id, SetChange())
    assert (len(plan.withheld), plan.remove) == (4, ())
    await stand.sets.sync(stand.world.admin, one.id, confirm=4)
    await stand.look(one)
    assert await stand.owned(one) == []


async def test_versions_of_a_chart_come_from_the_list_of_a_set(stand: Stand) -> None:
    """A URL alone is what is followed; beside folders of git it is where their chart is from."""
    world, url = stand.world, "https://charts.example.org/stable"
    charts = await world.repositories.create(
        world.admin, RepositoryChange(url), RepositoryKind.HELM
    )
    helm = {"chart": "redis", "version": "${item.version}", "url": url}
    items = ({"name": "new", "version": "^20"}, {"name": "old", "version": "19.6.4"})
    one = await stand.create(stand.change(Generator(items=items), name="${item.name}", helm=helm))
    owned = await stand.owned(one)
    assert {(s.repository_id, s.name, s.spec.ref) for s in owned} == {
        (charts.id, "new", chart_ref("redis", "^20")),
        (charts.id, "old", chart_ref("redis", "19.6.4")),
    }
    beside = stand.change(folders(stand, "apps/web"), helm={**helm, "version": "^20"})
    one = await stand.sets.create(world.admin, replace(beside, name="beside"))
    assert (one.template.repository_id, (one.template.spec.helm or {})["url"]) == (None, url)


async def test_previews_come_and_go_with_their_requests(stand: Stand) -> None:
    stand.hosting.requests = [stand.request(7, "Feat/One")]
    one = await stand.create(
        stand.change(
            previews(stand, ttl_hours=24),
            name="web-${request.number}",
            namespace="pr-${request.number}",
            folder="apps/web",
        )
    )
    owned = await stand.owned(one)
    assert {(s.name, s.namespace, s.spec.ref) for s in owned} == {("web-7", "pr-7", "Feat/One")}
    await stand.world.clock.advance(timedelta(hours=23).total_seconds())
    stand.hosting.requests.append(stand.request(9))
    await stand.look(one)
    assert {s.name for s in await stand.owned(one)} == {"web-7", "web-9"}
    await stand.world.clock.advance(timedelta(hours=2).total_seconds())
    await stand.look(one)
    assert {s.name for s in await stand.owned(one)} == {"web-9"}
    stand.hosting.requests.clear()
    await stand.look(one)
    assert await stand.owned(one) == []


async def test_names_that_collide_are_refused_and_nothing_is_overwritten(stand: Stand) -> None:
    one = await stand.create(stand.change(folders(stand), name="same"))
    assert len(await stand.owned(one)) == 2
    found = await stand.sets.get(stand.world.admin, one.id)
    assert "2 clusters already have another service" in found.problem


async def test_a_preview_of_a_set_tells_all_and_saves_nothing(stand: Stand) -> None:
    change = stand.change(folders(stand), name="${folder.name}")
    plan = await stand.sets.preview(stand.world.admin, None, change)
    assert {one.template.name for one in plan.create} == {"web", "api"}
    bad = stand.change(folders(stand), name="${nope.name} ${item.x}")
    plan = await stand.sets.preview(stand.world.admin, None, bad)
    assert plan.create == () and plan.problems
    async with stand.world.deps.store.read() as tx:
        assert await tx[ServiceSetStore].all() == [] and await tx[ServiceStore].all() == []


async def test_a_set_needs_a_template_and_repositories_that_are_there(stand: Stand) -> None:
    admin = stand.world.admin
    with pytest.raises(Invalid):
        await stand.sets.create(admin, SetChange("x", generator=folders(stand)))
    nowhere = Generator(folders=GitFolderGenerator("nope"))
    with pytest.raises(NotFound):
        await stand.sets.create(admin, stand.change(nowhere))


async def test_a_store_that_fails_between_two_steps_leaves_the_rest_for_the_next_look(
    stand: Stand,
) -> None:
    """Whatever transaction fails: nothing is deleted, and the next look comes to the same end."""
    one = await stand.create(stand.change(folders(stand), name="${folder.name}"))
    stand.push("apps/web", "apps/new")
    real, count = stand.world.deps.store, 0

    class Failing:
        def __init__(self, at: int) -> None:
            self.at = at

        def read(self) -> Any:
            return self._next(real.read)

        def write(self) -> Any:
            return self._next(real.write)

        def _next(self, begin: Any) -> Any:
            self.at -= 1
            if self.at < 0:
                raise Unavailable("the database went away")
            return begin()

    for at in range(20):
        object.__setattr__(stand.world.deps, "store", Failing(at))
        try:
            await stand.look(one)
        except Unavailable:
            count += 1
        finally:
            object.__setattr__(stand.world.deps, "store", real)
        names = [s.name for s in await stand.owned(one)]
        assert names.count("web") == 2
    assert count > 5
    assert sorted(s.name for s in await stand.owned(one)) == ["new", "new", "web", "web"]


async def test_a_namespace_is_had_with_labels_and_quota_and_then_otherwise(stand: Stand) -> None:
    world = stand.world
    change = NamespaceChange(
        "team-a", spec=given(NamespaceSpec, labels={"team": "a"}, quota={"pods": "20"})
    )
    one = await stand.namespaces.create(world.admin, change)
    await stand.look(one)
    owned = await stand.owned(one)
    assert {(s.name, s.namespace, s.desired.generation) for s in owned} == {
        ("namespace-team-a", "team-a", 1)
    }
    (digest,) = {s.desired.digest for s in owned}
    lines = world.manifests.bundles[digest or ""].data.splitlines()
    kinds = {orjson.loads(line)["kind"] for line in lines}
    assert kinds == {"Namespace", "ResourceQuota"}
    change = NamespaceChange(spec=given(NamespaceSpec, labels={"team": "b"}))
    await stand.namespaces.update(world.admin, one.id, change)
    await stand.look(one)
    after = await stand.owned(one)
    assert {s.desired.generation for s in after} == {2} and {s.desired.digest for s in after} != {
        digest
    }
    await stand.look(one)
    assert {s.desired.generation for s in await stand.owned(one)} == {2}


async def test_a_namespace_can_hold_a_service_in_every_cluster(stand: Stand) -> None:
    template = ServiceChange(
        name="agent", repository_id=stand.repository.id, ref="main", folder="apps/web"
    )
    change = NamespaceChange("team-a", template=template)
    one = await stand.namespaces.create(stand.world.admin, change)
    await stand.look(one)
    owned = await stand.owned(one)
    assert sorted(s.name for s in owned) == ["agent"] * 2 + ["namespace-team-a"] * 2
    assert {s.namespace for s in owned} == {"team-a"}


async def test_deleting_a_managed_namespace_detaches_by_default(
    stand: Stand,
) -> None:
    one = await stand.namespaces.create(stand.world.admin, NamespaceChange("team-a"))
    assert (one.leave, one.on_delete) == (LeavePolicy.DETACH, LeavePolicy.DETACH)
    for name in ("kube-system", "Bad Name"):
        with pytest.raises(Invalid):
            change = NamespaceChange("x", spec=given(NamespaceSpec, namespace=name))
            await stand.namespaces.create(stand.world.admin, change)
    with pytest.raises(Conflict):
        await stand.namespaces.create(stand.world.admin, NamespaceChange("team-a"))
