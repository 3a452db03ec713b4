"""Services whose files come from several repositories, and what else makes a render stale."""

import asyncio

import pytest

from controlplane.agents.operations.sessions import AgentHello
from controlplane.platform.context import RENDER_SERVICES
from controlplane.repositories.model.repository import Repository
from controlplane.services.model.service import Service
from controlplane.services.model.status_codes import ServiceStatus
from controlplane.services.operations.services import ServiceChange
from controlplane.services.operations.sources import SourceChange
from core.errors import Conflict, Invalid, NotFound
from core.spec.facts import ClusterFacts
from core.spec.reports.report import Report
from tests.fakes.manifests import config_map
from tests.integration.controlplane.conftest import World


@pytest.fixture
async def charts(world: World) -> Repository:
    """A repository beside that of the services."""
    return await world.repository("https://git.example.org/charts.git")


async def service_with_source(world: World, charts: Repository) -> Service:
    """A service of one repository with a folder of another one."""
    cluster, repository = await world.cluster(), await world.repository()
    source = SourceChange(charts.id, "v1", "/web/", "chart")
    service = await world.service(cluster, repository, sources=[source])
    await world.repositories.update_followed_refs(charts.id)
    return service


async def test_a_service_takes_a_chart_from_here_and_values_from_there(
    world: World, charts: Repository
) -> None:
    """It waits for both, is rendered from both, and anew when either has moved."""
    service = await service_with_source(world, charts)
    assert world.manifests.specs[charts.id].refs == {"v1"}
    assert world.manifests.specs[charts.id].folders == {"web"}
    own = service.repository_id or ""
    first = world.manifests.push(own, {"shop": [config_map("a")]})
    await world.delivery.deliver(own)
    failed = await world.get(service)
    assert failed.status is ServiceStatus.FAILED and "'v1'" in (failed.desired.render_error or "")
    there = world.manifests.push(charts.id, {"web": [config_map("chart")]}, "v1")
    await asyncio.gather(world.delivery.deliver(charts.id), hear(world, own, service))
    await world.delivery.deliver(own, {service.id})
    (taken,) = world.manifests.renders[-1].sources
    assert (taken.commit, taken.folder, taken.path) == (there, "web", "chart")
    assert world.manifests.renders[-1].commit == first
    world.manifests.renders.clear()
    await world.delivery.deliver(charts.id)
    await world.delivery.deliver(own)
    assert not world.manifests.renders
    moved = world.manifests.push(charts.id, {"web": [config_map("chart", v="2")]}, "v1")
    await asyncio.gather(world.delivery.deliver(charts.id), hear(world, own, service))
    await world.delivery.deliver(own, {service.id})
    assert world.manifests.renders[-1].sources[0].commit == moved


async def hear(world: World, repository_id: str, service: Service) -> None:
    """Wait until a service is to be delivered."""
    async for _, key in world.deps.bus.subscribe(RENDER_SERVICES):
        if key == f"{repository_id}/{service.id}":
            return


async def test_sources_are_replaced_as_a_whole_and_keep_their_repository(
    world: World, charts: Repository
) -> None:
    service = await service_with_source(world, charts)
    with pytest.raises(Conflict, match="1 service uses this repository"):
        await world.repositories.delete(world.admin, charts.id)
    found = await world.services.related(world.admin, [service], frozenset({"sources"}))
    assert [one.folder for one in found.sources[service.id]] == ["web"]
    await world.services.update(world.admin, service.id, ServiceChange(sources=[]))
    found = await world.services.related(world.admin, [service], frozenset({"sources"}))
    assert found.sources == {}
    await world.repositories.delete(world.admin, charts.id)


async def test_sources_that_cannot_be_are_refused(world: World, charts: Repository) -> None:
    service = await service_with_source(world, charts)
    for source, kind in (
        (SourceChange(charts.id, "main", "../x"), Invalid),
        (SourceChange(charts.id, "main", "x", "../up"), Invalid),
        (SourceChange("nobody", "main", "x"), NotFound),
    ):
        with pytest.raises(kind):
            await world.services.update(world.admin, service.id, ServiceChange(sources=[source]))


async def test_a_new_version_of_a_cluster_renders_its_services_again(world: World) -> None:
    """Charts ask for the version and the APIs; a service that does not is not rolled out anew."""
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    world.manifests.push(repository.id, {"shop": [config_map("a")]})
    await world.delivery.deliver(repository.id)
    world.manifests.renders.clear()
    newer = ClusterFacts("v1.37.0", "GENERIC", 3)
    await world.agents.record_reports(cluster.id, [Report(1, world.clock.now(), newer)])
    await world.delivery.deliver(repository.id)
    assert world.manifests.renders[-1].parameters["cluster"]["currentVersion"] == "v1.37.0"
    assert (await world.get(service)).desired.generation == 1
    world.manifests.renders.clear()
    await world.agents.record_connection(
        cluster.id, AgentHello("i", "0.1.0", newer, sealing_key=world.agent_key.public)
    )
    await world.delivery.deliver(repository.id)
    assert not world.manifests.renders
