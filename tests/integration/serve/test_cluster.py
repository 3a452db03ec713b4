"""Bad input from a commit to a real API server and back: what is shown, what stays."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from syncagent.compose import build
from syncagent.settings import HubSettings, KubernetesSettings, Settings, StateSettings
from tests.integration.gitcache.chartserver import archive, chart, serving
from tests.integration.serve.conftest import Json, Running
from tests.integration.serve.test_git import config
from tests.integration.serve.waiting import until
from towline.demo.clusters.agent_access import agent_kubeconfig
from towline.demo.clusters.cluster import LocalCluster
from towline.demo.git_server import GitServer, ServedRepository


@dataclass
class Fleet:
    """A control plane, a real cluster with its agent, and a repository of two services."""

    hub: Running
    cluster: LocalCluster
    namespace: str
    repository: ServedRepository
    shop: str
    other: str

    async def live(self, name: str) -> Json:
        """The data of a live ConfigMap; empty if there is none."""
        words = ("get", "configmap", name, "-n", self.namespace, "--ignore-not-found", "-o", "json")
        text = await asyncio.to_thread(self.cluster.kubectl, *words)
        return orjson.loads(text)["data"] if text.strip() else {}

    async def healthy(self, service: str, sha: str | None = None) -> Json:
        """Wait until a service runs (at a commit) and has no errors."""
        return await self.hub.service_until(
            service,
            lambda seen: (
                seen["status"] == "HEALTHY" and not seen["errors"] and sha in (None, seen["sha"])
            ),
            60,
        )


@asynccontextmanager
async def agent(
    hub: Running, token: str, cluster: LocalCluster, state: Path
) -> AsyncGenerator[None]:
    """The cluster's agent in this process."""
    state.mkdir()
    address = f"https://{hub.addresses.agents}"
    settings = Settings(
        HubSettings(address, token, hub.data / "tls" / "ca.crt"),
        KubernetesSettings(agent_kubeconfig(cluster.access, state / "kubeconfig")),
        StateSettings(state),
    )
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(build(settings).run(stop))
        try:
            yield
        finally:
            stop.set()


@pytest.fixture
async def fleet(
    hub: Running, cluster: LocalCluster, namespace: str, git_server: GitServer, tmp_path: Path
) -> AsyncIterator[Fleet]:
    """Both services are healthy."""
    repository = git_server.create_repository("fleet")
    repository.commit(
        {"shop/a.yaml": config("shop", n="1"), "other/a.yaml": config("other", n="1")}
    )
    made = await hub.cluster()
    async with agent(hub, made["deployToken"], cluster, tmp_path / "agent"):
        id = await hub.repository(repository.url)
        shop = await hub.service(made["id"], id, "shop", namespace=namespace)
        other = await hub.service(made["id"], id, "other", namespace=namespace)
        one = Fleet(hub, cluster, namespace, repository, shop, other)
        await one.healthy(shop)
        await one.healthy(other)
        yield one


REJECTED = orjson.dumps(
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"ports": [{"port": 99_999}], "selector": {"app": "web"}},
    }
).decode()
UNKNOWN = orjson.dumps(
    {"apiVersion": "example.org/v1", "kind": "Gadget", "metadata": {"name": "g"}}
).decode()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a: [1", ["shop/b.yaml"]),
        (UNKNOWN, ["Gadget"]),
        (REJECTED, ["Service", "web", "65535"]),
    ],
    ids=["broken", "unknown", "rejected"],
)
async def test_a_broken_manifest_is_named_and_other_services_go_on(
    fleet: Fleet, content: str, words: list[str]
) -> None:
    """File, object and the server's own words; the next commit clears it."""
    fleet.repository.commit({"shop/b.yaml": content, "other/a.yaml": config("other", n="2")})
    seen = await fleet.hub.service_until(fleet.shop, lambda seen: seen["errors"], 60)
    said = " ".join(error["message"] for error in seen["errors"])
    for word in words:
        assert word in said
    await until(lambda: fleet.live("other"), lambda data: data == {"n": "2"}, 60)
    await fleet.healthy(fleet.other)
    assert await fleet.live("shop") == {"n": "1"}
    sha = fleet.repository.commit({"shop/b.yaml": None, "shop/a.yaml": config("shop", n="3")})
    await until(lambda: fleet.live("shop"), lambda data: data == {"n": "3"}, 60)
    await fleet.healthy(fleet.shop, sha)


async def test_a_missing_folder_removes_nothing(fleet: Fleet) -> None:
    """An error is never read as a wish to delete."""
    fleet.repository.commit({"shop/a.yaml": None})
    seen = await fleet.hub.service_until(fleet.shop, lambda seen: seen["errors"], 60)
    assert "shop" in seen["errors"][0]["message"]
    await asyncio.sleep(1)
    assert await fleet.live("shop") == {"n": "1"}
    fleet.repository.commit({"shop/a.yaml": config("shop", n="4")})
    await until(lambda: fleet.live("shop"), lambda data: data == {"n": "4"}, 60)


async def test_an_agent_with_a_revoked_token_is_disconnected(fleet: Fleet) -> None:
    """Its link and its tunnel end; what it applied stays."""
    hub = fleet.hub
    found = await hub.ask("{ clusters { edges { node { id } } } }")
    id = found["clusters"]["edges"][0]["node"]["id"]
    link, kube_proxy = hub.process.plane.agentlink, hub.process.kube_proxy

    async def ends() -> tuple[bool, bool]:
        return id in link.connected(), kube_proxy.tunnels.is_connected(id)

    await until(ends, lambda seen: seen == (True, True))
    await hub.ask("mutation ($id: ID!) { rotateClusterToken(id: $id) { id } }", id=id)
    await until(ends, lambda seen: seen == (False, False), 60)
    assert await fleet.live("shop") == {"n": "1"}


OF_CHART = """mutation ($cluster: ID!, $attributes: ServiceDeploymentAttributes!) {
  createServiceDeployment(clusterId: $cluster, attributes: $attributes) {
    id repository { id url } git { ref } } }"""
SYNC = "mutation ($id: ID!) { syncHelmRepository(id: $id) { id } }"


async def test_a_service_of_a_chart_alone_runs_and_follows_its_versions(fleet: Fleet) -> None:
    """No repository of git: a new version reaches the cluster, and one that is gone stays there."""
    async with serving() as server:
        server.publish("web", "1.0.0", archive("web", chart()))
        helm = {"url": server.http, "chart": "web", "version": "^1", "values": "v: ours"}
        attributes = {"name": "charted", "namespace": fleet.namespace, "helm": helm}
        cluster = await fleet.hub.ask("{ clusters(first: 1) { edges { node { id } } } }")
        id = cluster["clusters"]["edges"][0]["node"]["id"]
        made = await fleet.hub.ask(OF_CHART, cluster=id, attributes=attributes)
        service = made["createServiceDeployment"]
        await fleet.healthy(service["id"])
        assert await fleet.live("charted-web") == {"v": "ours"}
        newer = chart(version="1.1.0", **{"templates/other.yaml": config("newer", m="x")})
        server.publish("web", "1.1.0", archive("web", newer))
        await fleet.hub.ask(SYNC, id=service["repository"]["id"])
        await until(lambda: fleet.live("newer"), lambda data: data == {"m": "x"}, 60)
        del server.archives["web", "1.1.0"], server.archives["web", "1.0.0"]
        await fleet.hub.ask(SYNC, id=service["repository"]["id"])
    fleet.repository.commit({"other/a.yaml": config("other", n="9")})
    await until(lambda: fleet.live("other"), lambda data: data == {"n": "9"}, 60)
    assert await fleet.live("newer") == {"m": "x"}
    assert await fleet.live("charted-web") == {"v": "ours"}


PROMOTED = """mutation ($dev: ID!, $prod: ID!) { savePipeline(name: "charts", attributes: {
  stages: [{name: "dev", services: [{serviceId: $dev}]}
           {name: "prod", services: [{serviceId: $prod}]}]
  edges: [{from: "dev", to: "prod"}]}) { id } }"""


async def test_new_versions_of_a_chart_of_an_http_repository_are_released(fleet: Fleet) -> None:
    """The first stage follows a range; each version that runs there goes on to the next one."""
    async with serving() as server:
        server.publish("web", "1.0.0", archive("web", chart()))
        helm = {"url": server.http, "chart": "web", "version": "^1"}
        cluster = await fleet.hub.ask("{ clusters(first: 1) { edges { node { id } } } }")
        id = cluster["clusters"]["edges"][0]["node"]["id"]
        made: list[Json] = []
        for name in ("dev", "prod"):
            values = helm | {"values": f"v: {name}"}
            attributes = {"name": name, "namespace": fleet.namespace, "helm": values}
            response = await fleet.hub.ask(OF_CHART, cluster=id, attributes=attributes)
            made.append(response["createServiceDeployment"])
            await fleet.healthy(made[-1]["id"])
        await fleet.hub.ask(PROMOTED, dev=made[0]["id"], prod=made[1]["id"])
        newer = chart(version="1.1.0")
        template = newer["templates/map.yaml"]
        newer["templates/map.yaml"] = template.replace("{v:", "{of: {{ .Chart.Version }}, v:")
        server.publish("web", "1.1.0", archive("web", newer))
        await fleet.hub.ask(SYNC, id=made[0]["repository"]["id"])
        for name in ("dev", "prod"):
            await until(lambda of=name: fleet.live(f"{of}-web"), lambda seen: "of" in seen, 60)
            assert await fleet.live(f"{name}-web") == {"of": "1.1.0", "v": name}
