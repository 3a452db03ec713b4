"""The agent on a real API server: `python -m bench.agent`.

500 services of 5 ConfigMaps are applied for the first time by an agent in a process of its own,
linked to a hub in this one. The baseline is a bare loop of server-side applies of as many
objects at the same concurrency, before and after. Then the agent is started anew.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import orjson

from bench.report import Report
from fleet.bundle import KubeObject
from fleet.runtime.clock import SystemClock
from fleet.wire.v1 import agent_pb2 as pb
from syncagent.kube.access import from_kubeconfig
from tests.fakes.hub import TOKEN, FakeHub
from towline.demo.clusters import binaries
from towline.demo.clusters.access import agent_kubeconfig
from towline.demo.clusters.cluster import Cluster

SERVICES = 500
OBJECTS = 5
CONCURRENCY = 16
PATIENCE_S, SETTLE_S = 300.0, 2.0
NAMESPACE, BARE = "bench", ("bare-before", "bare-after")
_PROGRAM = """
import asyncio, os
from fleet.runtime.logs import configure
from towline.agent import run
configure(json=True)
asyncio.run(run(os.environ))
"""
_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure, print, write."""
    with Cluster("bench", binaries.ensure(binaries.PrintedProgress())) as cluster:
        asyncio.run(_measure(cluster))


async def _measure(cluster: Cluster) -> None:
    report = Report("agent")
    with tempfile.TemporaryDirectory(prefix="towline-bench-") as folder:
        kubeconfig = agent_kubeconfig(cluster.access, Path(folder) / "kubeconfig")
        for namespace in (NAMESPACE, *BARE):
            cluster.kubectl("create", "namespace", namespace)
        bare = [await _bare_loop(kubeconfig, BARE[0])]
        async with FakeHub() as hub:
            bench = AgentBench(hub, kubeconfig, Path(folder) / "state")
            took = await bench.first_sync(report)
            bare.append(await _bare_loop(kubeconfig, BARE[1]))
            report.add(
                f"first sync of {SERVICES} services x {OBJECTS}",
                [took],
                "s",
                baseline="bare apply loop",
                baseline_values=bare,
                goal=1.5,
            )
            await bench.restart(report)
    report.write()


async def _bare_loop(kubeconfig: Path, namespace: str) -> float:
    """Seconds that the same objects take without any bookkeeping."""
    access = from_kubeconfig(kubeconfig, None, SystemClock())
    turn = asyncio.Semaphore(CONCURRENCY)
    headers = await access.headers() | {"Content-Type": "application/apply-patch+yaml"}
    connector = aiohttp.TCPConnector(ssl=access.tls or False, limit=0)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def apply(one: KubeObject) -> None:
            name = one["metadata"]["name"]
            url = f"{access.server}/api/v1/namespaces/{namespace}/configmaps/{name}"
            query = {"fieldManager": "bench", "force": "true"}
            async with turn, session.patch(url, params=query, data=orjson.dumps(one)) as answer:
                answer.raise_for_status()
                orjson.loads(await answer.read())

        start = time.perf_counter()
        everything = [one for number in range(SERVICES) for one in _objects(number)]
        await asyncio.gather(*(apply(one) for one in everything))
        return time.perf_counter() - start


@dataclass
class AgentBench:
    """A hub with services, and an agent that is started anew on the same state."""

    hub: FakeHub
    kubeconfig: Path
    state: Path
    healthy: set[str] = field(default_factory=set)
    looked_at: int = 0

    async def first_sync(self, report: Report) -> float:
        """Seconds from nothing to all healthy."""
        async with self._agent() as pid:
            await self.hub.until(lambda: self.hub.hellos, 30)
            used, start = _cpu_seconds(pid), time.perf_counter()
            for number in range(SERVICES):
                self.hub.want(_name(number), _objects(number), namespace=NAMESPACE)
            await self.hub.until(self._all_healthy, PATIENCE_S)
            took = time.perf_counter() - start
            used = _cpu_seconds(pid) - used
            await asyncio.sleep(SETTLE_S)
            report.add("first sync, CPU a service", [used * 1000 / SERVICES], "ms")
            told = len(self.hub.reports) / SERVICES
            report.add("first sync, reports a service", [told], "", goal=2.5)
            report.add("first sync, memory after", [_resident_megabytes(pid)], "MB")
        return took

    async def restart(self, report: Report) -> None:
        """From the state on disk to all healthy again; nothing is written."""
        self._forget()
        start = time.perf_counter()
        async with self._agent() as pid:
            await self.hub.until(self._all_healthy, PATIENCE_S)
            report.add("restart until all are reported", [time.perf_counter() - start], "s")
            written = sum(report.status.written for report in self.hub.reports)
            report.add("restart, objects written", [written], "", goal=0)
            report.add("restart, memory after", [_resident_megabytes(pid)], "MB")

    def _forget(self) -> None:
        self.hub.reports.clear()
        self.healthy.clear()
        self.looked_at = 0

    def _all_healthy(self) -> bool:
        """Whether all are, by the reports that came since the last look."""
        for report in self.hub.reports[self.looked_at :]:
            if report.status.phase == pb.PHASE_HEALTHY:
                self.healthy.add(report.status.service_id)
        self.looked_at = len(self.hub.reports)
        return len(self.healthy) == SERVICES

    @asynccontextmanager
    async def _agent(self) -> AsyncGenerator[int]:
        """An agent in a process of its own; its pid."""
        environment = {
            **os.environ,
            "TOWLINE_AGENT_HUB_ADDRESS": self.hub.address,
            "TOWLINE_AGENT_HUB_TOKEN": TOKEN,
            "TOWLINE_AGENT_KUBERNETES_KUBECONFIG": str(self.kubeconfig),
            "TOWLINE_AGENT_STATE_DIRECTORY": str(self.state),
        }
        nowhere = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _PROGRAM, env=environment, stdout=nowhere, stderr=nowhere
        )
        try:
            yield process.pid
        finally:
            process.terminate()
            await process.wait()


def _objects(number: int) -> list[KubeObject]:
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{_name(number)}-{one}"},
            "data": {"v": "0"},
        }
        for one in range(OBJECTS)
    ]


def _name(number: int) -> str:
    return f"s{number:03}"


def _cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _resident_megabytes(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main()
