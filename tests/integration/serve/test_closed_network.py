"""An agent in a network into which nothing leads, and out of which one connection does."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import pytest

from tests.integration.serve.conftest import Running
from tests.integration.serve.test_git import config
from tests.integration.serve.waiting import until
from towline.demo.clusters.agent_access import agent_kubeconfig
from towline.demo.clusters.cluster import LocalCluster
from towline.demo.git_server import GitServer

PASSAGE = [sys.executable, str(Path(__file__).with_name("passage.py"))]
AGENT = [sys.executable, "-c", "from towline.cli import main; main()", "agent"]
ESTABLISHED, LISTENING = "01", "0A"
LOOPBACK = "0100007F"


class Closed:
    """A network with nothing but a loopback, of which given ports lead to those of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "closed.log"
        self._log.touch()
        self._running: list[subprocess.Popen[bytes]] = []

    def run(self, ports: tuple[int, ...], *command: str) -> None:
        """A command in there, until it is closed."""
        ways = [word for port in ports for word in (str(self._folder / f"{port}.way"), str(port))]
        self._spawn(*PASSAGE, "out", *ways)
        self._spawn("unshare", "--net", *PASSAGE, "in", *ways, "--", *command)

    def close(self) -> None:
        """Kill what runs; pytest shows what it said if the test fails."""
        for one in self._running:
            os.killpg(one.pid, signal.SIGKILL)
            one.wait()
        print(self._log.read_text()[-8000:])

    def interfaces(self) -> set[str]:
        """All that lead anywhere."""
        return {line.partition(":")[0].strip() for line in self._net("dev")[2:]}

    def connections_to(self, port: int) -> int:
        """Number of connections from in there to a port."""
        return sum(
            remote.endswith(f":{port:04X}")
            for _, remote, state in self._tcp
            if state == ESTABLISHED
        )

    def open_to_others(self) -> set[str]:
        """Addresses, in hex, that would let others in if there were a way."""
        listening = {local for local, _, state in self._tcp if state == LISTENING}
        return {one for one in listening if not one.startswith(LOOPBACK)}

    @property
    def _tcp(self) -> list[tuple[str, str, str]]:
        rows = [line.split() for name in ("tcp", "tcp6") for line in self._net(name)[1:]]
        return [(row[1], row[2], row[3]) for row in rows]

    def _net(self, name: str) -> list[str]:
        return Path(f"/proc/{self._running[-1].pid}/net/{name}").read_text().splitlines()

    def _spawn(self, *words: str) -> None:
        with self._log.open("ab") as log:
            self._running.append(subprocess.Popen(words, stderr=log, start_new_session=True))


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Closed]:
    """A closed network, where this machine lets us make one."""
    try:
        subprocess.run(["unshare", "--net", "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("platform: network namespaces are not permitted here")
    network = Closed(tmp_path)
    yield network
    network.close()


async def test_nothing_leads_in_and_one_connection_out(
    hub: Running,
    cluster: LocalCluster,
    bound_groups: None,
    namespace: str,
    git_server: GitServer,
    closed: Closed,
    tmp_path: Path,
) -> None:
    """Commits arrive, and requests of people: both by the connection that the agent opened."""
    repository = git_server.create_repository("closed")
    repository.commit({"shop/a.yaml": config("shop", n="1")})
    made = await hub.cluster()
    kubeconfig = agent_kubeconfig(cluster.access, tmp_path / "kubeconfig")
    (server,) = orjson.loads(kubeconfig.read_bytes())["clusters"]
    to_hub, to_api = (
        urlsplit(url).port or 0
        for url in (f"//{hub.addresses.agents}", server["cluster"]["server"])
    )
    (tmp_path / "token").write_text(made["deployToken"])
    flags = {
        "--url": hub.addresses.agents,
        "--token-file": tmp_path / "token",
        "--ca-file": hub.data / "tls" / "ca.crt",
        "--kubeconfig": kubeconfig,
        "--data": tmp_path / "agent",
    }
    closed.run((to_hub, to_api), *AGENT, *(str(word) for pair in flags.items() for word in pair))
    id = await hub.repository(repository.url)
    shop = await hub.service(made["id"], id, "shop", namespace=namespace)
    await hub.service_until(shop, lambda seen: seen["status"] == "HEALTHY", 90)
    url = f"{hub.url}/k8s/clusters/{made['handle']}/api/v1/namespaces/{namespace}"

    async def asked() -> int:
        headers = {"authorization": f"Bearer {hub.token}"}
        async with hub.http.get(f"{url}/configmaps/shop", headers=headers) as answer:
            return answer.status

    assert await until(asked, lambda status: status != 503, 60) == 200
    assert await asyncio.to_thread(closed.interfaces) == {"lo"}
    assert await asyncio.to_thread(closed.open_to_others) == set()
    assert await asyncio.to_thread(closed.connections_to, to_hub) == 1
