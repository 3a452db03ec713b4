"""Services whose charts come from a place of charts, with and without a repository of git."""

import pytest

from controlplane.platform.ports import PageQuery
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.operations import RepositoryChange
from controlplane.services.operations.services import ServiceChange
from core.errors import Conflict, Invalid, NotFound
from core.spec.renderers import chart_of_ref, chart_ref
from core.spec.source import GitCredentials, RepositoryKind
from tests.fakes.manifests import config_map
from tests.integration.controlplane.conftest import World

URL = "https://charts.example.org/stable"
HELM = RepositoryKind.HELM


async def place(world: World, url: str = URL) -> Repository:
    change = RepositoryChange(url, GitCredentials(username="bot", password="canary-4b1d-place"))
    return await world.repositories.create(world.admin, change, HELM)


def of_chart(name: str = "web", **helm: str) -> ServiceChange:
    return ServiceChange(name=name, namespace="x", helm={"chart": "nginx", **helm})


async def test_a_chart_by_its_place_is_followed_and_delivered(world: World) -> None:
    cluster, charts = await world.cluster(), await place(world)
    change = of_chart(repository_id=charts.id, version="~1.2")
    service = await world.services.create(world.admin, cluster.id, None, change)
    assert service.repository_id == charts.id and service.spec.helm == {
        "chart": "nginx",
        "version": "~1.2",
    }
    await world.repositories.ensure_followed(charts.id, service.id)
    followed = world.manifests.specs[charts.id]
    assert followed.kind is HELM and followed.refs == {chart_ref("nginx", "~1.2")}
    assert followed.credentials is not None and followed.credentials.password == "canary-4b1d-place"
    sha = world.manifests.push(charts.id, {"": [config_map("a")]}, chart_ref("nginx", "~1.2"))
    assert await world.delivery.deliver(charts.id) == 1
    assert (await world.get(service)).desired.commit_sha == sha


async def test_another_version_is_another_ref(world: World) -> None:
    cluster, charts = await world.cluster(), await place(world)
    change = of_chart(repository_id=charts.id, version="^1")
    service = await world.services.create(world.admin, cluster.id, None, change)
    newer = ServiceChange(helm={"chart": "nginx", "version": ">=2 <3", "values": "a: 1"})
    after = await world.services.update(world.admin, service.id, newer)
    assert (
        chart_of_ref(after.spec.ref) == ("nginx", ">=2 <3") and after.desired.input_digest is None
    )
    renamed = await world.services.update(world.admin, service.id, ServiceChange(version="2.0.0"))
    assert renamed.spec.ref == after.spec.ref
    elsewhere = ServiceChange(helm={"chart": "nginx", "url": "https://other.example.org"})
    with pytest.raises(Invalid, match="create another service"):
        await world.services.update(world.admin, service.id, elsewhere)
    with pytest.raises(Invalid, match="agents render only folders, no charts"):
        by_agent = ServiceChange(rendered_by=cluster.id)
        await world.services.update(world.admin, service.id, by_agent)
    with pytest.raises(Invalid, match="remove folder"):
        await world.services.update(world.admin, service.id, ServiceChange(folder="x"))


async def test_a_url_alone_stands_for_the_place_that_is_connected_by_it(world: World) -> None:
    cluster = await world.cluster()
    first = await world.services.create(world.admin, cluster.id, None, of_chart(url=URL))
    second = await world.services.create(world.admin, cluster.id, None, of_chart("two", url=URL))
    assert first.repository_id == second.repository_id is not None
    page = await world.repositories.page(world.admin, PageQuery(10), HELM)
    assert [one.url for one in page.items] == [URL]
    with pytest.raises(Conflict, match="2 services use this"):
        await world.repositories.delete(world.admin, page.items[0].id, HELM)


async def test_with_a_repository_of_git_the_chart_is_added_to_what_lies_there(world: World) -> None:
    """Values in git, chart elsewhere: commits are followed, and the chart by its place's URL."""
    cluster, git, charts = await world.cluster(), await world.repository(), await place(world)
    change = ServiceChange(
        name="web",
        namespace="x",
        repository_id=git.id,
        ref="main",
        folder="x",
        helm={"chart": "nginx", "repository_id": charts.id},
    )
    service = await world.services.create(world.admin, cluster.id, None, change)
    assert (service.repository_id, service.spec.ref) == (git.id, "main")
    assert service.spec.helm == {"chart": "nginx", "url": URL}


async def test_each_kind_has_verbs_of_its_own(world: World) -> None:
    git, charts = await world.repository(), await place(world)
    for kind, id in ((HELM, git.id), (RepositoryKind.GIT, charts.id)):
        with pytest.raises(NotFound):
            await world.repositories.get(world.admin, id, kind=kind)
        with pytest.raises(NotFound):
            await world.repositories.delete(world.admin, id, kind)
    page = await world.repositories.page(world.admin, PageQuery(10))
    assert [one.id for one in page.items] == [git.id]


@pytest.mark.parametrize("url", ["git@charts.example.org:x", "file:///etc", "oci:///x", "ext::sh"])
async def test_a_place_of_charts_has_a_url_of_https_or_oci(world: World, url: str) -> None:
    with pytest.raises(Invalid):
        await place(world, url)


async def test_credentials_are_not_shown_to_another_server(world: World) -> None:
    charts = await place(world)
    moved = RepositoryChange("oci://elsewhere.example.org/charts")
    after = await world.repositories.update(world.admin, charts.id, moved, HELM)
    assert after.sealed is None


async def test_a_chart_must_be_named(world: World) -> None:
    cluster, charts = await world.cluster(), await place(world)
    change = ServiceChange(name="web", namespace="x", helm={"repository_id": charts.id})
    with pytest.raises(Invalid, match="name the chart"):
        await world.services.create(world.admin, cluster.id, None, change)


async def test_a_missing_version_is_reported_with_chart_and_range(world: World) -> None:
    cluster, charts = await world.cluster(), await place(world)
    change = of_chart(repository_id=charts.id, version="^9")
    service = await world.services.create(world.admin, cluster.id, None, change)
    await world.repositories.ensure_followed(charts.id, service.id)
    world.manifests.push(charts.id, {"": [config_map("a")]}, chart_ref("other", ""))
    await world.delivery.deliver(charts.id)
    assert "no version of chart 'nginx' that matches '^9'" in (
        (await world.get(service)).desired.render_error or ""
    )
