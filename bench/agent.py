"""Measures the agent on a real API server: `python -m bench.agent [SCENE...]`.

The agent runs in its own process, linked to a hub in this process. The baseline is a bare loop in
another process, before and after, which sends the same server-side applies with the same
concurrency. CPU and time are each compared within one run.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

import aiohttp
import orjson

from bench.harness.programs import cpu_seconds, resident_bytes
from bench.report import BenchReport
from core.identity import new_id
from core.runtime.clock import SystemClock
from core.spec.bundle import KubeObject
from core.spec.desired import BundleSpec
from core.wire.v1 import agent_pb2 as pb
from syncagent.domain.ownership import manifest_of
from syncagent.kube.access import from_kubeconfig
from tests.fakes.hub import TOKEN, FakeHub
from towline.cli.operator.agent import FEW_ARENAS
from towline.demo.clusters import binaries
from towline.demo.clusters.agent_access import agent_kubeconfig
from towline.demo.clusters.cluster import LocalCluster

MANY, EACH = 500, 5
LARGE, HUGE = 500, 2000
ROUNDS = 5
CHECKED, CHECKED_EACH = 500, 20
RESYNCED, RESYNCED_EACH = 100, 20
DRIFTS = 40
IMPERSONATED, IMPERSONATED_ROUNDS = 300, 8
CONCURRENCY = 16
PATIENCE_S, SETTLE_S, IDLE_S = 300.0, 2.0, 20.0
_PROGRAM = ("-P", "-m", "towline.agent_process", "info")
_BARE = (
    "import sys, uvloop; from bench.agent import bare_loop; uvloop.run(bare_loop(*sys.argv[1:]))"
)
_NOWHERE = asyncio.subprocess.DEVNULL


def main() -> None:
    """Runs the measurements, prints and saves them."""
    names = sys.argv[1:] or list(SCENES)
    if unknown := sorted(set(names) - SCENES.keys()):
        sys.exit(f"unknown scenes: {', '.join(unknown)}; known: {', '.join(SCENES)}")
    with LocalCluster("bench", binaries.ensure()) as cluster:
        asyncio.run(_measure(cluster, names))


async def _measure(cluster: LocalCluster, names: list[str]) -> None:
    report = BenchReport("agent")
    with tempfile.TemporaryDirectory(prefix="towline-bench-") as folder:
        kubeconfig = agent_kubeconfig(cluster.access, Path(folder) / "kubeconfig")
        for name in names:
            async with FakeHub() as hub:
                bench = AgentBench(hub, kubeconfig, Path(folder) / name, cluster)
                await SCENES[name](bench, report)
    report.write()


async def _measure_large_service(bench: "AgentBench", report: BenchReport) -> None:
    """First sync of one large service; each round uses a new agent."""
    took, bare = [], [await bench.measure_bare_loop(1, LARGE)]
    for number in range(ROUNDS):
        state = bench.state.with_name(f"large-{number}")
        async with FakeHub() as hub:
            fresh = AgentBench(hub, bench.kubeconfig, state, bench.cluster)
            async with fresh.agent() as pid:
                took.append(await fresh.measure_sync(pid, 1, LARGE))
        bare.append(await bench.measure_bare_loop(1, LARGE))
    _add_comparison(report, f"first apply of {LARGE} objects", took, bare, goal=1.4)


async def _measure_impersonation(bench: "AgentBench", report: BenchReport) -> None:
    """Applies of a fenced service, as its account, in turn with those of the agent itself."""
    place = bench.namespace
    bench.cluster.kubectl("-n", place, "create", "serviceaccount", "deployer")
    account, rights = f"--serviceaccount={place}:deployer", ("--verb=*", "--resource=configmaps")
    bench.cluster.kubectl("-n", place, "create", "role", "maps", *rights)
    bench.cluster.kubectl("-n", place, "create", "rolebinding", "d", "--role=maps", account)
    rules = [pb.ObjectRules(namespaces=[place])]
    fence = pb.Fence(project="shop", service_account=f"{place}:deployer", rules=rules)
    took: dict[bool, list[Duration]] = {False: [], True: []}
    async with bench.agent() as pid:
        await bench.measure_sync(pid, 1, 1)
        for number in range(1, 4 * IMPERSONATED_ROUNDS + 1):
            # Both orders, as the second of a pair meets a warmer server.
            fenced = number % 4 in {1, 2}
            took[fenced].append(
                await bench.measure_first_apply(pid, number, fence if fenced else None)
            )
    for what in ("wall", "cpu"):
        report.add(
            f"apply of {IMPERSONATED} objects as a service account: {what}",
            [getattr(measure, what) for measure in took[True]],
            "s",
            baseline="as the agent itself",
            baseline_values=[getattr(measure, what) for measure in took[False]],
            goal=1.1,
        )


async def _measure_many_services(bench: "AgentBench", report: BenchReport) -> None:
    """First sync of many small services, drift, and a restart of the agent."""
    bare = [await bench.measure_bare_loop(MANY, EACH)]
    async with bench.agent() as pid:
        took = await bench.measure_sync(pid, MANY, EACH)
        await asyncio.sleep(SETTLE_S)
        report.add("first sync, CPU per service", [took.cpu * 1000 / MANY], "ms", goal=75)
        reports = len(bench.hub.reports) / MANY
        report.add("first sync, reports per service", [reports], "", goal=2.5)
        report.add("first sync, memory after", [resident_bytes(pid) / 1e6], "MB")
        bare.append(await bench.measure_bare_loop(MANY, EACH))
        _add_comparison(report, f"first sync of {MANY} services x {EACH}", [took], bare, goal=1.5)
        healed = await bench.measure_drifts()
        report.add(f"drift healed with {MANY} services, p50", [median(healed)], "s", goal=0.1)
        report.add("drift healed, p95", [quantiles(healed, n=20)[-1]], "s", goal=0.5)
        # The next agent would send reports that this one left behind.
        await asyncio.sleep(SETTLE_S)
    start = time.perf_counter()
    async with bench.agent() as pid:
        bench.forget_reports()
        await bench.wait_until_healthy(MANY)
        report.add("restart until all services are reported", [time.perf_counter() - start], "s")
        written = sum(report.status.written for report in bench.hub.reports)
        report.add("restart, objects written", [written], "", goal=0)


async def _measure_resyncs(bench: "AgentBench", report: BenchReport) -> None:
    """Repeated syncs, which write nothing, and then an idle agent."""
    bare = [(await bench.measure_bare_loop(RESYNCED, RESYNCED_EACH)).cpu]
    size = f"{RESYNCED} services x {RESYNCED_EACH}"
    async with bench.agent() as pid:
        await bench.measure_sync(pid, RESYNCED, RESYNCED_EACH)
        await asyncio.sleep(SETTLE_S)
        again = await bench.measure_sync(pid, RESYNCED, RESYNCED_EACH)
        _add_seconds(report, f"same again, {size}: CPU", again.cpu, bare, 0.3)
        report.add("repeated sync: objects written", [bench.count_written()], "", goal=0)
        asked = await bench.measure_check(pid, RESYNCED)
        _add_seconds(report, f"sync on request, {size}: CPU", asked.cpu, bare, 0.3)
        report.add("sync on request: objects written", [bench.count_written()], "", goal=0)
        await _measure_idle(report, pid, RESYNCED)
        report.add("idle: memory", [resident_bytes(pid) / 1e6], "MB", goal=80)


async def _measure_huge_service(bench: "AgentBench", report: BenchReport) -> None:
    """Peak memory for a service with very many objects."""
    async with bench.agent() as pid:
        await bench.measure_sync(pid, 1, HUGE)
        name = f"service of {HUGE} objects: peak memory"
        report.add(name, [_peak_mebibytes(pid)], "MiB", goal=128)


async def _measure_full_check(bench: "AgentBench", report: BenchReport) -> None:
    """Very many objects: one full check, then watches."""
    bare = [(await bench.measure_bare_loop(CHECKED, CHECKED_EACH)).wall]
    async with bench.agent() as pid:
        await bench.measure_sync(pid, CHECKED, CHECKED_EACH)
        await asyncio.sleep(SETTLE_S)
        took = await bench.measure_check(pid, CHECKED)
        name = f"full check, {CHECKED} services x {CHECKED_EACH}"
        _add_seconds(report, f"{name}: time", took.wall, bare, 60)
        report.add(f"{name}: CPU of a minute", [took.cpu / 60], "core", goal=0.2)
        await _measure_idle(report, pid, CHECKED)
        report.add("after the check: memory", [resident_bytes(pid) / 1e6], "MB")


async def _measure_idle(report: BenchReport, pid: int, services: int) -> None:
    await asyncio.sleep(SETTLE_S)
    used = cpu_seconds([pid])
    await asyncio.sleep(IDLE_S)
    idle = (cpu_seconds([pid]) - used) / IDLE_S * 1000
    report.add(f"idle with {services} services: CPU", [idle], "m", goal=5)


@dataclass(frozen=True)
class Duration:
    """Wall-clock and CPU seconds."""

    wall: float
    cpu: float


def _add_seconds(
    report: BenchReport, name: str, value: float, bare: list[float], goal: float
) -> None:
    """Reports seconds against a goal, and compares them with applying everything."""
    report.add(name, [value], "s", goal=goal)
    title = f"{name}, compared with applying all"
    report.add(title, [value], "s", baseline="bare apply loop", baseline_values=bare)


def _add_comparison(
    report: BenchReport, name: str, took: list[Duration], bare: list[Duration], goal: float
) -> None:
    for what, values, base in (
        ("time", [measure.wall for measure in took], [measure.wall for measure in bare]),
        ("CPU", [measure.cpu for measure in took], [measure.cpu for measure in bare]),
    ):
        report.add(
            f"{name}: {what}",
            values,
            "s",
            baseline="bare apply loop",
            baseline_values=base,
            goal=goal if what == "time" or goal < 1.5 else None,
        )


async def bare_loop(kubeconfig: str, namespace: str, services: str, each: str) -> None:
    """Applies the same bytes as the agent without bookkeeping, and prints the time."""
    access = from_kubeconfig(Path(kubeconfig), None, SystemClock())
    free_slots = asyncio.Semaphore(CONCURRENCY)
    headers = await access.headers() | {"Content-Type": "application/apply-patch+yaml"}
    connector = aiohttp.TCPConnector(ssl=access.tls() if access.tls else False, limit=0)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def apply(resource: KubeObject) -> None:
            name = resource["metadata"]["name"]
            url = f"{access.server}/api/v1/namespaces/{namespace}/configmaps/{name}"
            query = {"fieldManager": "bench", "force": "true"}
            # With ownership labels of another name, so that no agent adopts the objects.
            data = orjson.dumps(resource).replace(b"towline.dev", b"bench-0.dev")
            async with free_slots, session.patch(url, params=query, data=data) as answer:
                answer.raise_for_status()
                orjson.loads(await answer.read())

        everything = _as_applied(namespace, int(services), int(each))
        start, used = time.perf_counter(), time.process_time()
        await asyncio.gather(*(apply(service) for service in everything))
        print(time.perf_counter() - start, time.process_time() - used)


@dataclass
class AgentBench:
    """A hub with services, and agents that start with the same state."""

    hub: FakeHub
    kubeconfig: Path
    state: Path
    cluster: LocalCluster
    healthy_ids: set[str] = field(default_factory=set)
    handled_reports: int = 0
    loops: int = 0

    def __post_init__(self) -> None:
        self.namespace = self.state.name
        self.cluster.kubectl("create", "namespace", self.namespace)

    async def measure_bare_loop(self, services: int, each: int) -> Duration:
        """Measures the bare loop for the same number of objects."""
        self.loops += 1
        namespace = f"{self.namespace}-bare-{self.loops}"
        self.cluster.kubectl("create", "namespace", namespace)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            _BARE,
            str(self.kubeconfig),
            namespace,
            str(services),
            str(each),
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
        return Duration(*map(float, output.split()))

    async def measure_sync(self, pid: int, services: int, each: int) -> Duration:
        """Requests services; measures the time until all are healthy."""
        self.forget_reports()
        await self.hub.until(lambda: self.hub.hellos, 30)
        await asyncio.sleep(SETTLE_S)
        used, start = cpu_seconds([pid]), time.perf_counter()
        for number in range(services):
            self.hub.want(self._service(number), _objects(number, each), namespace=self.namespace)
        await self.wait_until_healthy(services)
        return Duration(time.perf_counter() - start, cpu_seconds([pid]) - used)

    async def measure_first_apply(self, pid: int, number: int, fence: pb.Fence | None) -> Duration:
        """Measures the first apply of a service."""
        self.forget_reports()
        used, start = cpu_seconds([pid]), time.perf_counter()
        objects = _objects(number, IMPERSONATED)
        service = self._service(number)
        self.hub.want(service, objects, namespace=self.namespace, fence=fence)
        await self.wait_until_healthy(1)
        return Duration(time.perf_counter() - start, cpu_seconds([pid]) - used)

    async def measure_check(self, pid: int, services: int) -> Duration:
        """Requests a check of services; measures the time until the agent reported all."""
        self.forget_reports()
        used, start = cpu_seconds([pid]), time.perf_counter()
        for number in range(services):
            ask = pb.Command(id=new_id(SystemClock().now()))
            ask.sync_now.service_id = self._service(number)
            self.hub.send(pb.HubMessage(command=ask))
        await self.hub.until(lambda: len(self.hub.results()) == services, PATIENCE_S)
        return Duration(time.perf_counter() - start, cpu_seconds([pid]) - used)

    async def measure_drifts(self) -> list[float]:
        """Seconds from a foreign write until the agent healed the object."""
        access = from_kubeconfig(self.kubeconfig, None, SystemClock())
        headers = await access.headers() | {"Content-Type": "application/merge-patch+json"}
        connector = aiohttp.TCPConnector(ssl=access.tls() if access.tls else False)
        root = f"{access.server}/api/v1/namespaces/{self.namespace}/configmaps"
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
            return [
                await _seconds_until_healed(session, f"{root}/{_name(n)}-0") for n in range(DRIFTS)
            ]

    def forget_reports(self) -> None:
        """Ignores all earlier reports."""
        self.hub.reports.clear()
        self.healthy_ids.clear()
        self.handled_reports = 0

    async def wait_until_healthy(self, services: int) -> None:
        """Waits until all services are healthy in their newest generation."""

        def are_all_healthy() -> bool:
            for report in self.hub.reports[self.handled_reports :]:
                status = report.status
                newest = self.hub.desired[status.service_id].sequence if status.service_id else -1
                if status.phase == pb.PHASE_HEALTHY and status.sequence == newest:
                    self.healthy_ids.add(status.service_id)
            self.handled_reports = len(self.hub.reports)
            return len(self.healthy_ids) == services

        await self.hub.until(are_all_healthy, PATIENCE_S)

    def count_written(self) -> int:
        """Number of objects written, by the last report of each service."""
        last = {
            report.status.service_id: report.status
            for report in self.hub.reports
            if report.status.phase
        }
        return sum(status.written for status in last.values())

    def _service(self, number: int) -> str:
        """Id of a service; unique across scenes, as a reused id would own leftover objects."""
        return f"{self.namespace}-{_name(number)}"

    @asynccontextmanager
    async def agent(self, more: Mapping[str, str] | None = None) -> AsyncGenerator[int]:
        """Runs an agent in its own process with `more` settings; yields its pid."""
        environment = {
            **os.environ,
            "TOWLINE_AGENT_HUB_ADDRESS": self.hub.address,
            "TOWLINE_AGENT_HUB_TOKEN": TOKEN,
            "TOWLINE_AGENT_KUBERNETES_KUBECONFIG": str(self.kubeconfig),
            "TOWLINE_AGENT_STATE_DIRECTORY": str(self.state),
            **dict([FEW_ARENAS]),
            **(more or {}),
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, *_PROGRAM, env=environment, stdout=_NOWHERE, stderr=_NOWHERE
        )
        try:
            yield process.pid
        finally:
            process.terminate()
            await process.wait()


async def _seconds_until_healed(session: aiohttp.ClientSession, url: str) -> float:
    start = time.perf_counter()
    async with session.patch(url, data=b'{"data":{"v":"foreign"}}') as answer:
        answer.raise_for_status()
    while True:
        async with session.get(url) as answer:
            if (await answer.json())["data"]["v"] == "0":
                return time.perf_counter() - start
        await asyncio.sleep(0.005)


def _objects(number: int, each: int) -> list[KubeObject]:
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{_name(number)}-{index}"},
            "data": {"v": "0"},
        }
        for index in range(each)
    ]


def _as_applied(namespace: str, services: int, each: int) -> list[KubeObject]:
    """Objects with the ownership labels of an agent."""
    return [
        manifest_of(resource, f"{namespace}-{spec.name}", spec, namespaced=True).body
        for number in range(services)
        for spec in [BundleSpec(_name(number), namespace, "", 0)]
        for resource in _objects(number, each)
    ]


def _name(number: int) -> str:
    return f"s{number:03}"


def _peak_mebibytes(pid: int) -> float:
    """Peak memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


SCENES = {
    "resync": _measure_resyncs,
    "large": _measure_large_service,
    "many": _measure_many_services,
    "huge": _measure_huge_service,
    "check": _measure_full_check,
    "impersonation": _measure_impersonation,
}


if __name__ == "__main__":
    main()
