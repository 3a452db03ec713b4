"""OCI artifacts behind the whole program: from a push to the rendered objects of a service."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.integration.gitcache.manifests import config_map
from tests.integration.gitcache.test_artifacts import push, shop
from tests.integration.serve.conftest import Json, Running
from tests.integration.serve.test_cluster import agent
from tests.integration.serve.waiting import until
from tests.servers.registry import PASSWORD, USER, Registry, find_registry
from towline.demo.clusters.cluster import LocalCluster

REPOSITORY = """
  query ($id: ID!) { ociRepository(id: $id) {
    health error hasCredentials size artifacts { ref revision digest sha } } }
"""
SYNC = "mutation ($id: ID!) { syncOciRepository(id: $id) { id } }"


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    program = find_registry()
    if program is None:
        pytest.skip("no docker-registry on this machine: your system's package manager has it")
    with Registry(program) as running:
        yield running


async def test_a_service_follows_a_tag_of_a_private_registry(
    hub: Running, registry: Registry
) -> None:
    first = push(registry, "team/shop", "latest", shop("1"), revision="main@sha1:1")
    url = f"oci://{registry.host}/team/shop"
    id = await _repository(hub, url)
    cluster = await hub.cluster()
    service = await hub.service(cluster["id"], id, "app", git={"ref": "latest", "folder": "app"})

    async def repository() -> Json:
        return (await hub.ask(REPOSITORY, id=id))["ociRepository"]

    seen = await hub.service_until(service, lambda one: one["revision"])
    state = await repository()
    (artifact,) = state["artifacts"]
    assert (state["health"], state["error"], state["hasCredentials"]) == ("PULLABLE", None, True)
    assert (artifact["ref"], artifact["revision"], artifact["digest"]) == (
        "latest",
        "main@sha1:1",
        first,
    )
    assert seen["sha"] == artifact["sha"]
    assert await _values(hub, service) == {"big-web": "1"}

    second = push(registry, "team/shop", "latest", shop("2"))
    await hub.ask(SYNC, id=id)
    await hub.service_until(service, lambda one: one["sha"] not in (None, artifact["sha"]))
    assert await _values(hub, service) == {"big-web": "2"}
    (artifact,) = (await repository())["artifacts"]
    assert artifact["digest"] == second

    pin = """mutation ($id: ID!, $ref: String!) {
      updateServiceDeployment(id: $id, attributes: {git: {ref: $ref, folder: "app"}}) { id } }"""
    await hub.ask(pin, id=service, ref=first)
    await hub.service_until(service, lambda one: one["sha"] == seen["sha"])
    assert await _values(hub, service) == {"big-web": "1"}


async def test_artifacts_reach_a_real_api_server(
    hub: Running, registry: Registry, cluster: LocalCluster, namespace: str, tmp_path: Path
) -> None:
    """The agent applies the objects of an artifact, changes and prunes them with the next ones."""
    push(registry, "team/live", "latest", shop("1"))
    id = await _repository(hub, f"oci://{registry.host}/team/live")
    made = await hub.cluster()

    async def live() -> dict[str, str]:
        words = ("get", "configmaps", "-n", namespace, "-o", "json")
        found = orjson.loads(await asyncio.to_thread(cluster.kubectl, *words))["items"]
        return {one["metadata"]["name"]: one["data"]["v"] for one in found if "v" in one["data"]}

    async def healthy() -> None:
        await hub.service_until(service, lambda seen: seen["status"] == "HEALTHY", 60)

    async with agent(hub, made["deployToken"], cluster, tmp_path / "agent"):
        git = {"ref": "latest", "folder": "app"}
        service = await hub.service(made["id"], id, "app", namespace=namespace, git=git)
        await healthy()
        assert await live() == {"big-web": "1"}
        push(registry, "team/live", "latest", shop("2"))
        await hub.ask(SYNC, id=id)
        await until(live, lambda found: found == {"big-web": "2"}, 60)
        renamed = {"app/map.yaml": config_map("other", "3")}
        push(registry, "team/live", "latest", renamed)
        await hub.ask(SYNC, id=id)
        await until(live, lambda found: found == {"other": "3"}, 60)
        await healthy()


async def _repository(hub: Running, url: str) -> str:
    """The id of a connected repository of artifacts."""
    made = await hub.ask(
        """mutation ($attributes: OciRepositoryAttributes!) {
          createOciRepository(attributes: $attributes) { id } }""",
        attributes={"url": url, "username": USER, "password": PASSWORD},
    )
    return made["createOciRepository"]["id"]


async def _values(hub: Running, service: str) -> dict[str, str]:
    """The values of the rendered ConfigMaps, by name."""
    document = "query ($id: ID!) { serviceManifests(id: $id) { objects } }"
    objects = (await hub.ask(document, id=service))["serviceManifests"]["objects"]
    listed = [orjson.loads(each) if isinstance(each, str) else each for each in objects]
    return {each["metadata"]["name"]: each["data"]["v"] for each in listed}
