"""The whole program in this process, on free ports, spoken to over real sockets."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
import pytest_asyncio

from proxy.settings import DataPlane, ProxySettings
from tests import migrated
from tests.integration.serve.waiting import until
from tests.planes import choose_plane, chosen_plane, run_over_planes
from towline.serve.process import ControlPlaneProcess, ListenerAddresses
from towline.settings import ServeSettings

ANY_PORT = "127.0.0.1:0"
# The modules that run over each data plane; the others run over the default one.
BOTH_PLANES = {
    "test_cluster_hosts", "test_proxy_protocol", "test_streams", "test_trusted_proxies",
    "test_ways_in", "test_websocket_agent",
}  # fmt: skip
Json = dict[str, Any]

SERVICE = """query ($id: ID!) { serviceDeployment(id: $id)
  { id name status sha revision { id } errors { source message } } }"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs the tests of some modules once for each data plane."""
    run_over_planes(metafunc, BOTH_PLANES)


@pytest.fixture(autouse=True)
def plane(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the data plane of a test's control plane."""
    choose_plane(request, monkeypatch)


@dataclass
class Running:
    """A control plane that runs, and a client of it."""

    process: ControlPlaneProcess
    addresses: ListenerAddresses
    data: Path
    http: aiohttp.ClientSession = field(repr=False)

    @property
    def url(self) -> str:
        return f"http://{self.addresses.http}"

    @property
    def token(self) -> str:
        """The first administrator's."""
        return (self.data / "admin.token").read_text()

    async def post(
        self, document: str, variables: Json | None = None, token: str | None = None
    ) -> Json:
        """The whole answer to a GraphQL request."""
        headers = {"authorization": f"Bearer {self.token if token is None else token}"}
        body = {"query": document, "variables": variables or {}}
        async with self.http.post(f"{self.url}/gql", json=body, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            return orjson.loads(await answer.read())

    async def ask(self, document: str, /, **variables: Any) -> Json:
        """The data of an answer without errors."""
        answer = await self.post(document, variables)
        assert "errors" not in answer, answer
        return answer["data"]

    async def refusal(self, document: str, /, **variables: Any) -> Json:
        """The one error of an answer."""
        answer = await self.post(document, variables)
        (error,) = answer["errors"]
        return error

    async def cluster(self, name: str = "dev") -> Json:
        """A registered cluster, with its deploy token."""
        document = """mutation ($name: String!) {
          createCluster(attributes: {name: $name}) { id handle deployToken } }"""
        return (await self.ask(document, name=name))["createCluster"]

    async def repository(self, url: str, **more: str) -> str:
        """The id of a connected repository."""
        document = """mutation ($attributes: GitAttributes!) {
          createGitRepository(attributes: $attributes) { id } }"""
        made = await self.ask(document, attributes={"url": url, **more})
        return made["createGitRepository"]["id"]

    async def service(
        self,
        cluster: str,
        repository: str,
        folder: str,
        name: str = "",
        namespace: str = "shop",
        **more: object,
    ) -> str:
        """The id of a service of this folder of branch main."""
        document = """mutation ($cluster: ID!, $attributes: ServiceDeploymentAttributes!) {
          createServiceDeployment(clusterId: $cluster, attributes: $attributes) { id } }"""
        attributes = {
            "name": name or folder,
            "namespace": namespace,
            "repositoryId": repository,
            "git": {"ref": "main", "folder": folder},
            **more,
        }
        made = await self.ask(document, cluster=cluster, attributes=attributes)
        return made["createServiceDeployment"]["id"]

    async def get(self, service: str) -> Json:
        return (await self.ask(SERVICE, id=service))["serviceDeployment"]

    async def service_until(
        self, service: str, right: Callable[[Json], object], seconds: float = 60
    ) -> Json:
        """Wait until a service is as it should be."""

        async def look() -> Json:
            return await self.get(service)

        return await until(look, right, seconds)


def settings(data: Path, **more: Any) -> ServeSettings:
    """Free ports, quick polls, a short drain."""
    given: Json = {
        "data": data,
        "listen": ANY_PORT,
        "listen_http": ANY_PORT,
        "listen_agents": ANY_PORT,
        "listen_metrics": "off",
        "drain_seconds": 1.0,
        "git": {"poll": {"seconds": 0.2, "seconds_with_webhook": 0.2}},
        "proxy": ProxySettings(data_plane=chosen_plane(DataPlane.AUTO)),
    }
    return ServeSettings(**{**given, **more})


@asynccontextmanager
async def running(data: Path, *, first: bool = False, **more: Any) -> AsyncGenerator[Running, None]:
    """A control plane for as long as the block lasts; `first`: it makes its store itself."""
    if not (first or "database" in more or (data / "towline.db").exists()):
        migrated.put_sqlite(data)
    process = ControlPlaneProcess(settings(data, **more))
    addresses = await process.start()
    try:
        async with aiohttp.ClientSession() as http:
            yield Running(process, addresses, data, http)
    finally:
        await process.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub_of_module(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """One for all tests of a module that leave nothing behind which others would meet."""
    async with running(tmp_path_factory.mktemp("hub") / "data") as one:
        yield one


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Running]:
    """A control plane of the test's own."""
    async with running(tmp_path / "data") as one:
        yield one
