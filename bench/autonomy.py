"""Measures an agent that renders its services from Git by itself: `python -m bench.autonomy`.

Figures include all its processes: agent, render worker and git. The hub in this process only
records reports.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import orjson
import yaml

from bench.agent import AgentBench
from bench.harness.programs import child_pids
from bench.report import BenchReport
from core.spec.bundle import KubeObject
from syncagent.autonomy.definition_sources import LABEL
from tests.fakes.hub import FakeHub
from towline.demo.clusters import binaries
from towline.demo.clusters.agent_access import agent_kubeconfig
from towline.demo.clusters.cluster import LocalCluster
from towline.demo.git_server import GitServer, ServedRepository

SERVICES, EACH = 200, 5
PATIENCE_S, SETTLE_S, QUIET_S = 300.0, 20.0, 30.0
COMMITS, COMMIT_EVERY_S = 15, 2.0
_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Runs the measurements, prints and saves them."""
    with (
        LocalCluster("bench", binaries.ensure()) as cluster,
        GitServer() as server,
    ):
        asyncio.run(_measure(cluster, server.create_repository("fleet")))


async def _measure(cluster: LocalCluster, repository: ServedRepository) -> None:
    report = BenchReport("autonomy")
    repository.commit({"fleet/services.json": _definitions()} | _manifests(range(SERVICES), "0"))
    with tempfile.TemporaryDirectory(prefix="towline-bench-") as folder:
        kubeconfig = agent_kubeconfig(cluster.access, Path(folder) / "kubeconfig")
        async with FakeHub() as hub:
            bench = AgentBench(hub, kubeconfig, Path(folder) / "autonomy", cluster)
            own = {
                "TOWLINE_AGENT_AUTONOMY_REPOSITORY": repository.url,
                "TOWLINE_AGENT_AUTONOMY_FOLDER": "fleet",
            }
            async with bench.agent(own) as pid:
                await _profile(bench, pid, repository, report)
    report.write()


async def _profile(
    bench: AgentBench, pid: int, repository: ServedRepository, report: BenchReport
) -> None:
    start = time.perf_counter()
    await wait_for_reports(bench.hub, SERVICES)
    name = f"{SERVICES} services x {EACH} from git"
    report.add(f"{name}: first sync", [time.perf_counter() - start], "s")
    report.add(f"{name}: first sync, CPU", [cpu_seconds(pid)], "s")
    await asyncio.sleep(SETTLE_S)
    used = cpu_seconds(pid)
    await asyncio.sleep(QUIET_S)
    report.add(f"{name}: idle", [(cpu_seconds(pid) - used) / QUIET_S], "cores", goal=0.3)
    used, start = cpu_seconds(pid), time.perf_counter()
    for number in range(COMMITS):
        await asyncio.to_thread(repository.commit, _manifests([number], "1"))
        await asyncio.sleep(COMMIT_EVERY_S)
    took = time.perf_counter() - start
    share = (cpu_seconds(pid) - used) / took
    report.add(f"{name}: a commit every {COMMIT_EVERY_S:.0f} s", [share], "cores", goal=0.3)
    report.add(f"{name}: memory of all processes", [memory_megabytes(pid)], "MB", goal=419)


async def wait_for_reports(hub: FakeHub, services: int) -> None:
    """Waits until the agent reported that many services as healthy."""
    healthy: set[str] = set()

    def are_all_healthy() -> bool:
        healthy.update(
            report.status.service_id for report in hub.reports if report.status.healthy_ms
        )
        return len(healthy) >= services

    await hub.until(are_all_healthy, PATIENCE_S)


def cpu_seconds(pid: int) -> float:
    """User and system CPU time of a process and its descendants."""
    ticks = 0
    for member in _process_tree(pid):
        fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS


def memory_megabytes(pid: int) -> float:
    """Memory of a process and its descendants; shared memory counts once."""
    found = 0
    for member in _process_tree(pid):
        lines = Path(f"/proc/{member}/smaps_rollup").read_text().splitlines()
        found += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return found / 1e3


def _process_tree(pid: int) -> list[int]:
    return [pid, *(below for child in child_pids(pid) for below in _process_tree(child))]


def _definitions() -> str:
    data = {
        _name(number): yaml.safe_dump(
            {"name": _name(number), "namespace": "autonomy", "folder": f"apps/{_name(number)}"}
        )
        for number in range(SERVICES)
    }
    return orjson.dumps(_configmap("services", data) | {"metadata": _meta("services")}).decode()


def _manifests(numbers: Iterable[int], value: str) -> dict[str, str]:
    return {
        f"apps/{_name(number)}/{index}.json": orjson.dumps(
            _configmap(f"{_name(number)}-{index}", {"v": value})
        ).decode()
        for number in numbers
        for index in range(EACH)
    }


def _configmap(name: str, data: dict[str, str]) -> KubeObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def _meta(name: str) -> dict:
    return {"name": name, "labels": {LABEL: ""}}


def _name(number: int) -> str:
    return f"s{number:03}"


if __name__ == "__main__":
    main()
