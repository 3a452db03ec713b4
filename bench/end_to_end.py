"""Measures control plane and agent on a real cluster: `python -m bench.end_to_end`.

500 services with 5 objects come from one repository. Measures the cost of both programs for the
first sync and at rest, and the traffic between them. `ss` (iproute2) counts the bytes of the
agent's connection, including TLS, keepalives and the tunnel. The naive watcher watches every kind,
and would forward each event.
"""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from statistics import median, quantiles

import aiohttp
import orjson
import uvloop

from bench.agent import bare_loop
from bench.autonomy import cpu_seconds, memory_megabytes
from bench.report import BenchReport
from core.json_object import JsonObject
from core.runtime.clock import SystemClock
from syncagent.kube.access import from_kubeconfig
from towline.demo.environment import DemoEnvironment, wait_until
from towline.demo.ports import free_ports

SERVICES, EACH = 500, 5
NAMESPACE, BARE, FOREIGN = "together", "bare", "foreign"
EDGE, WEB = "edge", "web"
AT_ONCE = 25
SETTLE_S, IDLE_S = 4.0, 20.0
TURNS, BETWEEN_TURNS_S = 12, 0.4
DEPLOYMENTS, REPLICAS, CHURNS = 6, 3, 12
_SERVICES = """query ($after: String) { serviceDeployments(first: 100, after: $after)
  { edges { node { sha } } pageInfo { hasNextPage endCursor } } }"""
_HEALTHY = "{ serviceDeployments(first: 1, status: [HEALTHY]) { totalCount } }"
_PHASE = "query ($id: ID!) { serviceDeployment(id: $id) { status } }"
_MERGE = {"Content-Type": "application/merge-patch+json"}
_BARE = "import bench.end_to_end as it; it.bare()"


@dataclass(frozen=True)
class LinkTraffic:
    """Bytes that the agent sent and received."""

    up: int
    down: int


def main() -> None:
    """Runs the measurements, prints and saves them."""
    report = BenchReport("end_to_end")
    ports = free_ports(3)
    with DemoEnvironment(
        lambda text: print(text, file=sys.stderr), (ports[0], ports[1], ports[2]), ["dev"]
    ) as stage:
        stage.start()
        bench = EndToEndBench(stage, ports[2])
        for scene in (bench.first_sync, bench.idle, bench.health, bench.churn):
            scene(report)
            print(f"{scene.__name__} running", file=sys.stderr)
        report.write()


def bare() -> None:
    """Runs the bare loop in its own process."""
    uvloop.run(bare_loop(sys.argv[1], BARE, str(SERVICES), str(EACH)))


class EndToEndBench:
    """A running demo; `port`: the agent port of its control plane."""

    def __init__(self, stage: DemoEnvironment, port: int) -> None:
        self.stage = stage
        self.port = port
        self.member = stage.members["dev"]
        self.repository_id = ""

    def first_sync(self, report: BenchReport) -> None:
        """Creates and renders services while the agent is paused; then it syncs all of them."""
        self._define_services()
        beside = [self._bare_loop_seconds()]
        used, start = self._cpu_seconds(), time.perf_counter()
        with self._sampled_memory() as peak:
            with self._agent_held():
                self._create_all()
                wait_until("all services are rendered", self._all_rendered, 120)
            made, made_at = self._cpu_seconds() - used, time.perf_counter()
            wait_until("all services are healthy", self._all_healthy, 120)
        wall, cpu = time.perf_counter() - made_at, self._cpu_seconds() - used
        name = f"both, first sync of {SERVICES} services x {EACH}"
        report.add(f"{SERVICES} services made and rendered: time", [made_at - start], "s")
        report.add("the same: CPU per service", [made * 1000 / SERVICES], "ms")
        report.add(f"{name}: CPU per service, made and rendered", [cpu * 1000 / SERVICES], "ms",
                   goal=75)  # fmt: skip
        report.add(
            f"{name}: CPU per service, the sync alone", [(cpu - made) * 1000 / SERVICES], "ms"
        )
        report.add(f"{name}: peak memory", [max(peak)], "MB", goal=400)
        report.add(
            f"{name}: time of the sync",
            [wall],
            "s",
            baseline="bare apply loop",
            baseline_values=beside,
            goal=1.5,
        )

    def idle(self, report: BenchReport) -> None:
        """Measures both programs at rest."""
        time.sleep(SETTLE_S)
        used, before = self._cpu_seconds(), self._read_link_traffic()
        time.sleep(IDLE_S)
        name = f"both, idle with {SERVICES} services"
        used, now = self._cpu_seconds() - used, self._read_link_traffic()
        report.add(f"{name}: CPU per minute", [used * 60 / IDLE_S], "s", goal=0.5)
        report.add(f"{name}: memory", [self._memory_megabytes()], "MB")
        moved = now.up + now.down - before.up - before.down
        report.add(f"{name}: link traffic per hour", [moved * 3600 / IDLE_S / 1000], "kB", goal=200)

    def health(self, report: BenchReport) -> None:
        """Time from a change of an object's status until the control plane shows it."""
        (id,) = self._create([EDGE])
        wait_until("the edge waits for its address", lambda: self._phase(id) == "SYNCED")
        seen = asyncio.run(self._health_report_seconds(id))
        report.add("health visible at the control plane, p50", [median(seen)], "s")
        report.add("health visible, p95", [quantiles(seen, n=20)[-1]], "s", goal=0.5)

    def churn(self, report: BenchReport) -> None:
        """Traffic of the agent and of the naive watcher during rollouts."""
        (id,) = self._create([WEB])
        self.member.kubectl("create", "namespace", FOREIGN)
        workloads = "\n---\n".join(_deployment(number) for number in range(DEPLOYMENTS))
        self.member.kubectl("apply", "-n", FOREIGN, "-f", "-", stdin=workloads)
        wait_until("the workloads are healthy", lambda: self._phase(id) == "HEALTHY", 60)
        time.sleep(SETTLE_S)
        before = self._read_link_traffic().up
        naive = asyncio.run(self._watch_everything(self._restart_deployments))
        report.add(
            "churn: bytes upwards",
            [(self._read_link_traffic().up - before) / 1000],
            "kB",
            baseline="all kinds watched",
            baseline_values=[naive / 1000],
            goal=0.2,
        )

    def _define_services(self) -> None:
        files: dict[str, str | bytes | None] = {
            f"{_name(number)}/{i}.json": _configmap(f"{_name(number)}-{i}")
            for number in range(SERVICES)
            for i in range(EACH)
        }
        files[f"{EDGE}/edge.json"] = _balancer()
        files |= {f"{WEB}/{n}.json": _deployment(n) for n in range(DEPLOYMENTS)}
        self.stage.repository.commit(files, "All services")
        self.repository_id = self.stage.ask(
            "mutation ($url: String!) { createGitRepository(attributes: {url: $url}) { id } }",
            url=self.stage.repository.url,
        )["createGitRepository"]["id"]
        self.member.kubectl("create", "namespace", BARE)
        self.member.kubectl("create", "namespace", NAMESPACE)

    def _bare_loop_seconds(self) -> float:
        """Seconds of the bare loop for the same number of objects."""
        command = [sys.executable, "-c", _BARE, str(self.member.kubeconfig)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return float(done.stdout.split()[0])

    def _create(self, names: list[str]) -> list[str]:
        """Creates services of these folders in one request; returns their ids."""
        verb = "createServiceDeployment(clusterId: $cluster, attributes: $"
        declared = ", ".join(f"${name}: ServiceDeploymentAttributes!" for name in names)
        calls = " ".join(f"{name}: {verb}{name}) {{ id }}" for name in names)
        made = self.stage.ask(
            f"mutation ($cluster: ID!, {declared}) {{ {calls} }}",
            cluster=self.member.id,
            **{name: self._attributes(name) for name in names},
        )
        return [made[name]["id"] for name in names]

    def _create_all(self) -> None:
        names = [_name(number) for number in range(SERVICES)]
        for first in range(0, SERVICES, AT_ONCE):
            self._create(names[first : first + AT_ONCE])

    @contextmanager
    def _agent_held(self) -> Generator[None]:
        """Pauses the agent during the block."""
        os.kill(self.stage.agent_pids["dev"], signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.stage.agent_pids["dev"], signal.SIGCONT)

    def _attributes(self, name: str) -> JsonObject:
        git = {"ref": "main", "folder": name}
        return {
            "name": name,
            "namespace": NAMESPACE,
            "repositoryId": self.repository_id,
            "git": git,
        }

    def _all_healthy(self) -> bool:
        """Polls slowly whether all are healthy, as polling costs the control plane too."""
        time.sleep(0.25)
        return self._healthy() == SERVICES

    def _all_rendered(self) -> bool:
        time.sleep(0.25)
        return sum(service["sha"] is not None for service in self._services()) == SERVICES

    def _healthy(self) -> int:
        return self.stage.ask(_HEALTHY)["serviceDeployments"]["totalCount"]

    def _services(self) -> Iterator[JsonObject]:
        after = None
        while True:
            page = self.stage.ask(_SERVICES, after=after)["serviceDeployments"]
            yield from (edge["node"] for edge in page["edges"])
            if not page["pageInfo"]["hasNextPage"]:
                return
            after = page["pageInfo"]["endCursor"]

    def _phase(self, id: str) -> str:
        return self.stage.ask(_PHASE, id=id)["serviceDeployment"]["status"]

    def _wait_for_phase(self, id: str, phase: str) -> None:
        wait_until(phase, lambda: self._phase(id) == phase)

    async def _health_report_seconds(self, id: str) -> list[float]:
        """Seconds until each health change of the load balancer was reported."""
        path = f"/api/v1/namespaces/{NAMESPACE}/services/{EDGE}/status"
        seen = []
        async with self._session() as (session, server):
            for turn in range(TURNS):
                ingress = [] if turn % 2 else [{"ip": "192.0.2.1"}]
                patch = orjson.dumps({"status": {"loadBalancer": {"ingress": ingress}}})
                start = time.perf_counter()
                async with session.patch(server + path, data=patch, headers=_MERGE) as answer:
                    answer.raise_for_status()
                expected = "SYNCED" if turn % 2 else "HEALTHY"
                await asyncio.to_thread(self._wait_for_phase, id, expected)
                seen.append(time.perf_counter() - start)
                await asyncio.sleep(BETWEEN_TURNS_S)
        return seen

    def _restart_deployments(self) -> None:
        for number in range(CHURNS):
            name = f"deployment/w{number % DEPLOYMENTS}"
            for namespace in (NAMESPACE, FOREIGN):
                self.member.kubectl("rollout", "restart", name, "-n", namespace)
            time.sleep(0.5)
        time.sleep(3.0)

    async def _watch_everything(self, change: Callable[[], None]) -> int:
        """Bytes of watches of all kinds while something happens."""
        count = 0

        async def follow(session: aiohttp.ClientSession, url: str, version: str) -> None:
            nonlocal count
            query = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
            async with session.get(url, params=query) as answer:
                async for part in answer.content.iter_any():
                    count += len(part)

        async with self._session() as (session, server), asyncio.TaskGroup() as watches:
            tasks = [
                watches.create_task(follow(session, url, await _version(session, url)))
                for url in await _kinds(session, server)
            ]
            await asyncio.to_thread(change)
            for task in tasks:
                task.cancel()
        return count

    @asynccontextmanager
    async def _session(self) -> AsyncGenerator[tuple[aiohttp.ClientSession, str]]:
        assert self.member.kubeconfig is not None
        access = from_kubeconfig(self.member.kubeconfig, None, SystemClock())
        headers = await access.headers()
        connector = aiohttp.TCPConnector(ssl=access.tls() if access.tls else False, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            connector=connector, headers=headers, timeout=timeout
        ) as session:
            yield session, access.server

    def _pids(self) -> tuple[int, int]:
        return self.stage.control_plane_pid, self.stage.agent_pids["dev"]

    def _cpu_seconds(self) -> float:
        return sum(cpu_seconds(pid) for pid in self._pids())

    def _memory_megabytes(self) -> float:
        """Memory of both programs and their children."""
        return sum(memory_megabytes(pid) for pid in self._pids())

    @contextmanager
    def _sampled_memory(self) -> Generator[list[float]]:
        """Samples the memory of both every 0.5 s."""
        seen, over = [self._memory_megabytes()], threading.Event()

        def sample() -> None:
            while not over.wait(0.5):
                # A child process may end while it is sampled.
                with suppress(ProcessLookupError, FileNotFoundError):
                    seen.append(self._memory_megabytes())

        thread = threading.Thread(target=sample)
        thread.start()
        try:
            yield seen
        finally:
            over.set()
            thread.join()

    def _read_link_traffic(self) -> LinkTraffic:
        command = ["ss", "-tinHO", "state", "established", f"dport = :{self.port}"]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        words = [word.partition(":") for word in text.split()]
        up = sum(int(value) for name, _, value in words if name == "bytes_sent")
        down = sum(int(value) for name, _, value in words if name == "bytes_received")
        return LinkTraffic(up, down)


async def _kinds(session: aiohttp.ClientSession, server: str) -> list[str]:
    """URLs of all watchable kinds, each in one version."""
    async with session.get(f"{server}/apis") as answer:
        groups = (await answer.json())["groups"]
    roots = [f"apis/{group['preferredVersion']['groupVersion']}" for group in groups]
    found = []
    for root in ["api/v1", *roots]:
        async with session.get(f"{server}/{root}") as answer:
            resources = (await answer.json())["resources"]
        watched = [resource["name"] for resource in resources if "watch" in resource["verbs"]]
        # Events exist in two API groups.
        found += [f"{server}/{root}/{n}" for n in watched if (root, n) != ("api/v1", "events")]
    return found


async def _version(session: aiohttp.ClientSession, url: str) -> str:
    async with session.get(url, params={"limit": "1"}) as answer:
        return (await answer.json())["metadata"]["resourceVersion"]


def _configmap(name: str) -> str:
    return _object("v1", "ConfigMap", name, {"data": {"v": "0"}})


def _balancer() -> str:
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": EDGE}}
    return _object("v1", "Service", EDGE, {"spec": spec})


def _deployment(number: int) -> str:
    name = f"w{number}"
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "web", "image": "registry.example.org/web:1"}]},
    }
    spec = {
        "replicas": REPLICAS,
        "selector": {"matchLabels": {"app": name}},
        "template": template,
    }
    return _object("apps/v1", "Deployment", name, {"spec": spec})


def _object(api: str, kind: str, name: str, fields: JsonObject) -> str:
    metadata = {"name": name}
    return orjson.dumps({"apiVersion": api, "kind": kind, "metadata": metadata} | fields).decode()


def _name(number: int) -> str:
    return f"s{number:03}"


if __name__ == "__main__":
    main()
