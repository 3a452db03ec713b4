"""A busy process that is stopped or killed at any moment, and its next start."""

import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from core.errors import Code, TowlineError
from tests.integration.serve.conftest import Json
from tests.integration.serve.test_git import config
from tests.integration.serve.waiting import until
from tests.migrated import put_sqlite
from towline.client import GraphQLClient
from towline.contexts import ControlPlaneTarget
from towline.demo.git_server import GitServer, ServedRepository
from towline.demo.ports import free_ports

PROGRAM = [sys.executable, "-c", "from towline.cli import main; main()", "serve"]
DRAIN = 2.0
REGISTER = "mutation ($name: String!) { createCluster(attributes: {name: $name}) { id } }"
CLUSTERS = "query ($q: String) { clusters(q: $q, first: 100) { edges { node { id handle } } } }"
SERVICE = "query ($id: ID!) { serviceDeployment(id: $id) { sha errors { message } } }"
LEDGER = """query ($id: ID!) { ledger(serviceId: $id, first: 100) {
  edges { node { stage sequence } } } }"""
MAKE = """mutation ($cluster: ID!, $attributes: ServiceDeploymentAttributes!) {
  createServiceDeployment(clusterId: $cluster, attributes: $attributes) { id } }"""
FOLDERS = ("a", "b", "c")


class Server:
    """`towline serve` as a process of its own, on the same data each time."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.log = folder / "serve.log"
        self._ports = free_ports(2)
        self._settings = folder / "serve.toml"
        self._settings.write_text(f"drain_seconds = {DRAIN}\n[git.poll]\nseconds = 0.1\n")
        self.process: asyncio.subprocess.Process
        put_sqlite(self.data)

    @property
    def client(self) -> GraphQLClient:
        authority = (self.data / "tls" / "ca.crt").read_text()
        token = (self.data / "admin.token").read_text()
        return GraphQLClient(
            ControlPlaneTarget(f"https://127.0.0.1:{self._ports[0]}", token, authority)
        )

    async def start(self) -> None:
        """Start, and wait until it says that it is ready."""
        flags = ["--config", str(self._settings), "--data", str(self.data)]
        flags += ["--listen", f"127.0.0.1:{self._ports[0]}", "--listen-http", "off"]
        flags += ["--listen-agents", f"127.0.0.1:{self._ports[1]}", "--listen-metrics", "off"]
        with self.log.open("wb") as log:
            self.process = await asyncio.create_subprocess_exec(
                *PROGRAM, *flags, stderr=log, env=dict(os.environ)
            )
        await until(self._read_log, lambda text: "serve.ready" in text, 60)

    async def _read_log(self) -> str:
        assert self.process.returncode is None, self.log.read_text()
        return self.log.read_text()

    async def ask(self, document: str, **variables: object) -> Json:
        return await asyncio.to_thread(lambda: self.client.ask(document, **variables))

    async def end(self, number: signal.Signals) -> tuple[int, float]:
        """Exit code and how many seconds it took."""
        start = time.monotonic()
        self.process.send_signal(number)
        code = await asyncio.wait_for(self.process.wait(), 60)
        return code, time.monotonic() - start


def commit(repository: ServedRepository, number: int) -> str:
    """Change every folder."""
    return repository.commit({f"{name}/a.yaml": config(name, n=str(number)) for name in FOLDERS})


async def set_up(server: Server, repository: ServedRepository) -> list[str]:
    """A service of each folder; their ids."""
    commit(repository, -1)
    cluster = (await server.ask(REGISTER, name="dev"))["createCluster"]["id"]
    document = "mutation ($url: String!) { createGitRepository(attributes: {url: $url}) { id } }"
    made = await server.ask(document, url=repository.url)
    services = []
    for folder in FOLDERS:
        attributes = {
            "name": folder,
            "namespace": "shop",
            "repositoryId": made["createGitRepository"]["id"],
            "git": {"ref": "main", "folder": folder},
        }
        answer = await server.ask(MAKE, cluster=cluster, attributes=attributes)
        services.append(answer["createServiceDeployment"]["id"])
    return services


async def keep_busy(server: Server, repository: ServedRepository, acknowledged: list[str]) -> None:
    """Commit and register without a pause, until there is no answer any more."""
    number = 0
    try:
        while True:
            number += 1
            await asyncio.to_thread(commit, repository, number)
            name = f"c{len(acknowledged)}-{number}-{random.randrange(1 << 30)}"
            await server.ask(REGISTER, name=name)
            acknowledged.append(name)
    except TowlineError as error:
        assert error.code is Code.UNAVAILABLE, error


async def check_nothing_lost(
    server: Server, services: list[str], acknowledged: list[str], sha: str
) -> None:
    """Acknowledged once means there once; each desired state was written once, and the newest
    commit is reached."""
    for name in acknowledged:
        found = await server.ask(CLUSTERS, q=name)
        assert len(found["clusters"]["edges"]) == 1, name
    for service in services:
        await until(partial(server.ask, SERVICE, id=service), partial(is_at, sha), 40)
        entries = (await server.ask(LEDGER, id=service))["ledger"]["edges"]
        rendered = Counter(
            entry["node"]["sequence"]
            for entry in entries
            if entry["node"]["stage"].upper() == "RENDERED"
        )
        assert set(rendered.values()) == {1}, rendered
        newest = max(rendered)
        assert sorted(rendered) == list(range(min(rendered), newest + 1))


def is_at(sha: str, answer: Json) -> bool:
    return answer["serviceDeployment"]["sha"] == sha


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("number", "seed"), [(signal.SIGTERM, 1), (signal.SIGKILL, 3)])
async def test_nothing_is_lost_or_doubled_whenever_it_ends(
    tmp_path: Path, git_server: GitServer, number: signal.Signals, seed: int
) -> None:
    """Two ends of a busy process at random moments; SIGTERM within the drain time."""
    chance = random.Random(seed)
    repository = git_server.create_repository("busy")
    server = Server(tmp_path)
    acknowledged: list[str] = []
    await server.start()
    services = await set_up(server, repository)
    for _ in range(2):
        busy = asyncio.ensure_future(keep_busy(server, repository, acknowledged))
        await asyncio.sleep(chance.uniform(0.05, 1.5))
        code, seconds = await server.end(number)
        await busy
        if number is signal.SIGTERM:
            assert code == 0, server.log.read_text()
            assert seconds < DRAIN + 8, seconds
            assert "Traceback" not in server.log.read_text(), server.log.read_text()
            assert leftovers(server.data) == []
        await server.start()
        sha = await asyncio.to_thread(commit, repository, 10_000 + len(acknowledged))
        await check_nothing_lost(server, services, acknowledged, sha)
        if number is signal.SIGKILL:
            assert [one for one in leftovers(server.data) if one.endswith(".tmp")] == []
    assert await server.end(signal.SIGTERM) == (0, pytest.approx(0, abs=DRAIN + 8))
    assert leftovers(server.data) == []


def leftovers(data: Path) -> list[str]:
    """Files that were begun and not ended."""
    scratch = [str(path) for path in (data / "git" / "scratch").glob("*")]
    return scratch + [str(path) for path in data.rglob("*.tmp")]
