"""Repositories that a new service names by URL: added with the service, or not at all."""

from dataclasses import replace

import pytest

from controlplane.authorization import DEFAULT_PROJECT, Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.bridges import SERVICE_PARTS
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.platform.context import RENDER_SERVICES
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.operations.services import ServiceChange, Services
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, Forbidden, Invalid, NotFound
from core.spec.source import RepositoryKind
from tests.fakes.actors import EDITOR, person
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    operations_over_memory,
)

URL = "https://git.example.org/new.git"
DEV, FREE = make_cluster("dev"), make_cluster("free")
FROZEN = ClusterGroup("g", "eu", START, START, cluster_ids=("dev",), frozen=True)
NEW = ServiceChange("web", "shop", ref="main", folder="web")


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(DEV, FREE)
    return world


@pytest.fixture
def services(world: MemoryOperations) -> Services:
    return Services(world.context, SERVICE_PARTS)


@pytest.mark.parametrize(
    ("url", "kind", "action"),
    [
        (URL, RepositoryKind.GIT, "createGitRepository"),
        ("oci://registry.example.org/team/shop", RepositoryKind.OCI, "createOciRepository"),
    ],
)
async def test_an_unknown_url_is_added_in_the_project_of_the_service(
    world: MemoryOperations, services: Services, url: str, kind: RepositoryKind, action: str
) -> None:
    change = NEW if kind is RepositoryKind.GIT else ServiceChange("web", "shop", ref="latest")
    service = await services.create(EDITOR, DEV.id, None, change, repository_url=url)
    (repository,) = await world.rows(RepositoryStore)
    assert (repository.url, repository.kind, repository.project_id) == (url, kind, DEFAULT_PROJECT)
    assert service.repository_id == repository.id
    actions = [entry[1:] for entry in await world.audited()]
    assert actions == [(action, url), ("createServiceDeployment", "dev/web")]
    assert (RENDER_SERVICES, f"{repository.id}/{service.id}") in world.published


async def test_a_known_url_is_used(world: MemoryOperations, services: Services) -> None:
    known = make_repository("fleet")
    await world.given(known)
    service = await services.create(EDITOR, DEV.id, None, NEW, repository_url=known.url)
    assert service.repository_id == known.id
    assert await world.rows(RepositoryStore) == [known]


async def test_a_refused_service_leaves_no_repository(
    world: MemoryOperations, services: Services
) -> None:
    await world.given(FROZEN)
    with pytest.raises(Conflict, match="frozen"):
        await services.create(EDITOR, DEV.id, None, NEW, repository_url=URL)
    wrong = ServiceChange("web", "shop", ref="main", folder="../x")
    with pytest.raises(Invalid):
        await services.create(EDITOR, FREE.id, None, wrong, repository_url=URL)
    assert await world.rows(RepositoryStore) == []
    assert await world.rows(ServiceStore) == []
    assert await world.audited() == [] and world.published == []


async def test_a_wrong_url_is_refused(world: MemoryOperations, services: Services) -> None:
    charts = make_repository("charts", kind=RepositoryKind.HELM, url="https://charts.example.org")
    await world.given(charts)
    for url, message in (
        ("git.example.org/new", "url"),
        ("oci://Registry/x", "url: "),
        (charts.url, "repositoryUrl: .*has charts and no folders: give helm.url"),
    ):
        with pytest.raises(Invalid, match=message):
            await services.create(EDITOR, DEV.id, None, NEW, repository_url=url)
    both = ServiceChange("web", "shop", ref="main", repository_id=charts.id)
    with pytest.raises(Invalid, match="either repositoryId or repositoryUrl"):
        await services.create(EDITOR, DEV.id, None, both, repository_url=URL)


@pytest.mark.parametrize("kind", [RepositoryKind.GIT, RepositoryKind.HELM])
async def test_a_url_does_not_tell_the_kind_of_a_repository_of_others(
    world: MemoryOperations, services: Services, kind: RepositoryKind
) -> None:
    await world.given(make_repository("theirs", url=URL, kind=kind))
    of_dev = person(BuiltInRole.EDITOR, "sue", Scope("cluster:dev"))
    with pytest.raises(NotFound):
        await services.create(of_dev, DEV.id, None, NEW, repository_url=URL)
    assert await world.rows(ServiceStore) == []


@pytest.mark.parametrize(
    ("kind", "ref"),
    [(RepositoryKind.GIT, ">=1.2 <2"), (RepositoryKind.OCI, "feature/x y")],
)
async def test_a_ref_has_the_form_of_its_kind_of_repository(
    world: MemoryOperations, services: Services, kind: RepositoryKind, ref: str
) -> None:
    url = "oci://registry.example.org/shop" if kind is RepositoryKind.OCI else URL
    await world.given(make_repository("own", url=url, kind=kind))
    with pytest.raises(Invalid, match="git.ref"):
        await services.create(EDITOR, DEV.id, None, replace(NEW, ref=ref, repository_id="own"))


async def test_a_user_of_one_cluster_may_not_add_a_repository(
    world: MemoryOperations, services: Services
) -> None:
    of_dev = person(BuiltInRole.EDITOR, "sue", Scope("cluster:dev"))
    with pytest.raises(Forbidden, match="no repository has the URL .* ask an administrator"):
        await services.create(of_dev, DEV.id, None, NEW, repository_url=URL)
    assert await world.rows(RepositoryStore) == []
