"""Service sets: their sources, who may read them, and what an incomplete source changes."""

from dataclasses import replace
from typing import Any

import pytest

from controlplane.generators.model.service_set import (
    MAX_FOLDERS,
    Generator,
    GitFolderGenerator,
    PullRequestGenerator,
    ServiceSet,
)
from controlplane.generators.operations.service_sets import SetChange
from controlplane.generators.ports import ServiceSetStore
from controlplane.services.operations.services import ServiceChange
from controlplane.services.ports import ServiceStore
from core.errors import Forbidden, Invalid, NotFound, Unavailable
from core.spec.edits import OpenMergeRequest
from core.spec.source import RepositoryKind
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER
from tests.fakes.clock import START
from tests.fakes.generators import EDITOR_OF_SHOP, GeneratorWorld, generator_world
from tests.fakes.manifests import config_map
from tests.fakes.operations import make_cluster, make_repository

FOLDERS = GitFolderGenerator("apps", pattern="apps/*")
REQUESTS = PullRequestGenerator("apps", ("preview",), provider="gitlab")
PER_FOLDER = ServiceChange("${folder.name}", "shop")
PREVIEW = OpenMergeRequest(7, "Feat/One", "a" * 40, START, labels=("preview",))


@pytest.fixture
async def world() -> GeneratorWorld:
    """A repository with two folders below `apps`."""
    world = await generator_world()
    push(world, "apps/web", "apps/api", "other/x", "apps/web/deep")
    return world


def push(world: GeneratorWorld, *folders: str) -> None:
    world.memory.manifests.push("apps", {folder: [config_map("x")] for folder in folders})


async def create(world: GeneratorWorld, **fields: Any) -> ServiceSet:
    """A set that is reconciled."""
    change = SetChange("apps", generator=Generator(folders=FOLDERS), template=PER_FOLDER)
    made = await world.sets.create(ADMIN, replace(change, **fields))
    await world.reconcile(made)
    return made


async def names(world: GeneratorWorld, made: ServiceSet) -> set[str]:
    async with world.memory.store.read() as tx:
        return {service.name for service in await tx[ServiceStore].of_owner(made.id)}


async def test_a_folder_without_more_is_the_source_of_its_service(world: GeneratorWorld) -> None:
    made = await create(world)
    async with world.memory.store.read() as tx:
        services = await tx[ServiceStore].of_owner(made.id)
    assert {(one.cluster_id, one.name, one.spec.folder) for one in services} == {
        (cluster, name, f"apps/{name}") for cluster in ("eu", "us") for name in ("web", "api")
    }
    assert {(one.repository_id, one.spec.ref) for one in services} == {("apps", "main")}


async def test_folders_are_those_of_the_ref(world: GeneratorWorld) -> None:
    world.memory.manifests.push("apps", {"apps/next": [config_map("x")]}, ref="next")
    made = await create(world, generator=Generator(folders=replace(FOLDERS, ref="next")))
    assert await names(world, made) == {"next"}


async def test_excluded_folders_have_no_service(world: GeneratorWorld) -> None:
    excluded = replace(FOLDERS, excluded=("apps/a*",))
    made = await create(world, generator=Generator(folders=excluded))
    assert await names(world, made) == {"web"}


async def test_a_folder_that_is_gone_takes_its_services_with_it(world: GeneratorWorld) -> None:
    made = await create(world)
    push(world, "apps/web", "apps/new")
    await world.reconcile(made)
    assert await names(world, made) == {"web", "new"}


async def test_too_many_folders_are_a_problem_and_delete_nothing(world: GeneratorWorld) -> None:
    made = await create(world, budget=100_000)
    push(world, *(f"apps/n{number}" for number in range(MAX_FOLDERS + 1)))
    await world.reconcile(made)
    assert await names(world, made) == {"web", "api"}
    problem = (await world.stored(made)).problem
    assert problem == "1,001 folders match, but at most 1,000 are allowed"


async def test_pull_requests_are_asked_of_the_given_provider(world: GeneratorWorld) -> None:
    world.hosting.requests = [PREVIEW, replace(PREVIEW, number=8, labels=())]
    template = ServiceChange("pr-${request.number}", "pr-${request.slug}", folder="apps/web")
    made = await create(world, generator=Generator(requests=REQUESTS), template=template)
    async with world.memory.store.read() as tx:
        services = await tx[ServiceStore].of_owner(made.id)
    assert {(one.name, one.namespace, one.spec.ref) for one in services} == {
        ("pr-7", "pr-feat-one", "Feat/One")
    }
    assert world.hosting.asked == [("apps", "gitlab")]


async def test_a_source_that_fails_keeps_all_services_and_says_why(world: GeneratorWorld) -> None:
    world.hosting.requests = [PREVIEW]
    template = ServiceChange("${folder.name}-${request.number}", "shop", folder="${folder.path}")
    both = Generator(folders=FOLDERS, requests=REQUESTS)
    made = await create(world, generator=both, template=template)
    before = await names(world, made)
    world.hosting.error = Unavailable("the forge is away")
    await world.reconcile(made)
    assert (await world.stored(made)).problem == "the forge is away"
    world.hosting.error, world.hosting.requests = None, []
    world.memory.manifests.away = NotFound("no such branch")
    await world.reconcile(made)
    assert (await world.stored(made)).problem == "no such branch"
    assert await names(world, made) == before == {"web-7", "api-7"}


async def test_a_process_without_pull_requests_deletes_no_preview(world: GeneratorWorld) -> None:
    world.hosting.requests = [PREVIEW]
    template = ServiceChange("pr-${request.number}", "shop", folder="apps/web")
    made = await create(world, generator=Generator(requests=REQUESTS), template=template)
    elsewhere = type(world.reconciler)(world.memory.context)
    await elsewhere.reconcile(f"set/{made.id}")
    assert await names(world, made) == {"pr-7"}
    assert "cannot list open pull requests" in (await world.stored(made)).problem


async def test_a_name_that_is_no_label_leaves_the_others(world: GeneratorWorld) -> None:
    push(world, "apps/web", "apps/Bad_Name")
    made = await create(world)
    assert await names(world, made) == {"web"}
    problem = (await world.stored(made)).problem
    assert problem.startswith("eu: ") and "us: " in problem


async def test_a_set_without_clusters_generates_nothing(world: GeneratorWorld) -> None:
    made = await create(world, selector={"tags": {"tier": "none"}})
    assert (await names(world, made), (await world.stored(made)).problem) == (set(), "")


async def test_a_template_keeps_its_own_source_beside_folders(world: GeneratorWorld) -> None:
    await world.memory.given(make_repository("charts"))
    template = ServiceChange("${folder.name}", "shop", "charts", "v1", "base")
    made = await create(world, template=template)
    async with world.memory.store.read() as tx:
        services = await tx[ServiceStore].of_owner(made.id)
    assert {(one.repository_id, one.spec.ref, one.spec.folder) for one in services} == {
        ("charts", "v1", "base")
    }


async def test_a_set_needs_a_template(world: GeneratorWorld) -> None:
    with pytest.raises(Invalid) as error:
        await world.sets.create(ADMIN, SetChange("apps", generator=Generator(folders=FOLDERS)))
    assert error.value.field == "template"


@pytest.mark.parametrize("source", [{"folders": FOLDERS}, {"requests": REQUESTS}])
async def test_the_repository_of_a_source_must_be_readable(
    world: GeneratorWorld, source: dict[str, Any]
) -> None:
    """Its folders and its pull requests would tell an outsider about it."""
    await world.memory.given(make_repository("own", project_id="shop"))
    template = ServiceChange("web", "shop", "own", "main", "web")
    change = SetChange("apps", "shop", generator=Generator(**source), template=template)
    with pytest.raises(NotFound):
        await world.sets.create(EDITOR_OF_SHOP, change)
    with pytest.raises(NotFound):
        await world.sets.preview(EDITOR_OF_SHOP, None, change)
    (name, generator), *_ = source.items()
    readable = Generator(**{name: replace(generator, repository_id="own")})
    made = await world.sets.create(EDITOR_OF_SHOP, replace(change, generator=readable))
    with pytest.raises(NotFound):
        await world.sets.update(EDITOR_OF_SHOP, made.id, SetChange(generator=Generator(**source)))
    assert (await world.stored(made)).generator == readable


@pytest.mark.parametrize(
    ("kind", "source", "field"),
    [
        (RepositoryKind.HELM, {"folders": FOLDERS}, "folders.repositoryId"),
        (RepositoryKind.HELM, {"requests": REQUESTS}, "requests.repositoryId"),
        (RepositoryKind.OCI, {"requests": REQUESTS}, "requests.repositoryId"),
        (RepositoryKind.OCI, {"folders": replace(FOLDERS, ref="v*")}, None),
        (RepositoryKind.GIT, {"folders": FOLDERS, "requests": REQUESTS}, None),
    ],
)
async def test_each_source_needs_a_repository_of_its_kind(
    world: GeneratorWorld, kind: RepositoryKind, source: dict[str, Any], field: str | None
) -> None:
    await world.memory.given(make_repository("other", kind=kind))
    generator = Generator(
        **{name: replace(one, repository_id="other") for name, one in source.items()}
    )
    template = ServiceChange("web", "shop", "apps", "main", "web")
    change = SetChange("other", generator=generator, template=template)
    if field is None:
        assert (await world.sets.create(ADMIN, change)).generator == generator
        return
    with pytest.raises(Invalid) as error:
        await world.sets.create(ADMIN, change)
    assert error.value.field == field
    assert await world.memory.rows(ServiceSetStore) == []


async def test_generators_are_replaced_as_a_whole_and_kept_without_a_change(
    world: GeneratorWorld,
) -> None:
    made = await create(world)
    renamed = await world.sets.update(ADMIN, made.id, SetChange("renamed"))
    assert renamed.generator == made.generator and renamed.template == made.template
    items = Generator(items=({"name": "one"},))
    change = SetChange(generator=items, template=ServiceChange("${item.name}", folder="apps/web"))
    changed = await world.sets.update(ADMIN, made.id, change)
    assert (changed.generator, changed.template.namespace) == (items, "shop")
    with pytest.raises(Invalid):
        unknown = Generator(requests=replace(REQUESTS, provider="svn"))
        await world.sets.update(ADMIN, made.id, SetChange(generator=unknown))
    assert await world.stored(made) == changed


async def test_a_preview_shows_the_plan_to_those_who_may_make_the_change(
    world: GeneratorWorld,
) -> None:
    change = SetChange("apps", generator=Generator(folders=FOLDERS), template=PER_FOLDER)
    plan = await world.sets.preview(EDITOR, None, change)
    assert sorted(one.place for one in plan.create) == [
        (cluster, name) for cluster in ("eu", "us") for name in ("api", "web")
    ]
    for actor in (VIEWER, NOBODY):
        with pytest.raises(Forbidden):
            await world.sets.preview(actor, None, change)
    with pytest.raises(Invalid, match="gone"):
        await world.sets.preview(ADMIN, None, replace(change, selector={"groups": ("gone",)}))
    assert await world.memory.rows(ServiceSetStore) == []
    assert await world.memory.rows(ServiceStore) == []


async def test_a_set_of_a_project_uses_its_clusters_alone(world: GeneratorWorld) -> None:
    await world.memory.given(make_cluster("own", project_id="shop"))
    made = await create(world, project_id="shop")
    async with world.memory.store.read() as tx:
        services = await tx[ServiceStore].of_owner(made.id)
    assert {(one.cluster_id, one.project_id) for one in services} == {("own", "shop")}
