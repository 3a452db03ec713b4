"""Measures the latency from a pushed commit to a changed object: `python -m bench.commit_latency`.

Control plane, agent, Git server and a real API server run on this machine. 500 services with 5
objects come from one repository, and a webhook follows each push. The baseline is a script for the
same service: git fetch, then kubectl apply --server-side.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import yaml

from bench.git_harness.pushes import (
    connect,
    create_service,
    ledger_stages,
    run,
    seconds,
    send_webhook,
)
from bench.harness.load_generator import percentile
from bench.report import BenchReport
from towline.demo.environment import DemoCluster, DemoEnvironment, wait_until

SERVICES = 500
OBJECTS = 5
RUNS = 30
BASELINE_RUNS = 10
NAMESPACE = "bench"
BY_HAND = "by-hand"
_STATUSES = """query ($after: String) { serviceDeployments(first: 100, after: $after)
  { edges { node { status } } pageInfo { hasNextPage endCursor } } }"""


@dataclass
class ObjectWatcher:
    """Watches the values of all ConfigMaps in a namespace."""

    member: DemoCluster
    namespace: str = NAMESPACE
    arrivals: dict[str, tuple[str, float]] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def start(self) -> subprocess.Popen[str]:
        """Starts watching in a thread."""
        program = self.member.kubectl_program or "kubectl"
        access = self.member.access
        command = [program, f"--kubeconfig={access.kubeconfig}", f"--context={access.context}"]
        command += ["get", "configmaps", "-n", self.namespace, "-w", "--no-headers"]
        command += ["-o", "custom-columns=N:.metadata.name,V:.data.v"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._read, args=(process,), daemon=True).start()
        return process

    def wait(self, name: str, value: str, seconds: float = 30.0) -> float:
        """Returns the time of a value, in seconds of the performance counter."""
        with self.changed:
            arrived = self.changed.wait_for(
                lambda: self.arrivals.get(name, ("", 0.0))[0] == value, seconds
            )
            if not arrived:
                raise TimeoutError(f"{name} never became {value}")
            return self.arrivals[name][1]

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            name, _, value = line.strip().partition(" ")
            with self.changed:
                self.arrivals[name] = (value.strip(), time.perf_counter())
                self.changed.notify_all()


def main() -> None:
    """Runs the measurements, prints and saves them."""
    report = BenchReport("commit_latency")
    with DemoEnvironment(lambda text: print(text, file=sys.stderr), names=["dev"]) as stage:
        stage.start()
        bench = CommitLatencyBench(stage)
        report.add(f"first sync of {SERVICES} services x {OBJECTS}", [bench.define_services()], "s")
        bench.watch()
        ours, stages = bench.measure_commits()
        theirs = bench.measure_baseline(stage.folder / "work-tree")
        report.add(
            f"commit to object, one of {SERVICES} services",
            ours,
            "ms",
            baseline="git fetch + kubectl apply",
            baseline_values=theirs,
        )
        report.add("commit to object p50", ours, "ms", goal=250)
        report.add("commit to object p95", [percentile(ours, 0.95)], "ms", goal=500)
        for name, values in stages.items():
            report.add(f"  stage {name}", values, "ms")
    report.write()


class CommitLatencyBench:
    """500 services in a running demo."""

    def __init__(self, stage: DemoEnvironment) -> None:
        self.stage = stage
        self.member = stage.members["dev"]
        self.ids: list[str] = []
        self.repository_id = ""
        self.watcher = ObjectWatcher(self.member)

    def define_services(self) -> float:
        """Creates repository and services; returns seconds until all are healthy."""
        files: dict[str, str | bytes | None] = {}
        for number in range(SERVICES):
            files |= {f"s{number:03}/{i}.yaml": _object(number, i, "0") for i in range(OBJECTS)}
        self.stage.repository.commit(files, "All services")
        self.repository_id = connect(self.stage)
        start = time.perf_counter()
        self.ids = [self._create(number) for number in range(SERVICES)]
        wait_until("all services are healthy", self._all_healthy, 300)
        return time.perf_counter() - start

    def watch(self) -> None:
        """Watches the objects, and waits until all exist."""
        process = self.watcher.start()
        self.stage.closing.callback(process.kill)
        for number in range(SERVICES):
            self.watcher.wait(_name(number, 0), "0")

    def measure_commits(self) -> tuple[list[float], dict[str, list[float]]]:
        """Milliseconds from commit to object for each run, and for each stage."""
        total: list[float] = []
        stages: dict[str, list[float]] = {}
        for count in range(1, RUNS + 1):
            number = count * 37 % SERVICES
            milliseconds, pushed = self._measure_change(
                number, f"w{count}", self._send_webhook, self.watcher
            )
            total.append(milliseconds)
            for name, value in self._stage_times(self.ids[number], pushed).items():
                stages.setdefault(name, []).append(value)
            time.sleep(0.2)
        return total, stages

    def measure_baseline(self, work_tree: Path) -> list[float]:
        """Baseline: git and kubectl, in an unmanaged namespace."""
        run("git", "clone", "--quiet", "--depth=1", self.stage.repository.url, str(work_tree))
        self.member.kubectl("create", "namespace", BY_HAND)
        watcher = ObjectWatcher(self.member, BY_HAND)
        self.stage.closing.callback(watcher.start().kill)

        def apply(number: int) -> None:
            run("git", "-C", str(work_tree), "fetch", "--quiet", "--depth=1", "origin", "main")
            run("git", "-C", str(work_tree), "reset", "--quiet", "--hard", "FETCH_HEAD")
            folder = str(work_tree / f"s{number:03}")
            self.member.kubectl("apply", "--server-side", "-n", BY_HAND, "-f", folder)

        numbers = [count * 41 % SERVICES for count in range(1, BASELINE_RUNS + 1)]
        for number in numbers:
            apply(number)
        return [
            self._measure_change(number, f"b{count}", apply, watcher)[0]
            for count, number in enumerate(numbers)
        ]

    def _measure_change(
        self, number: int, value: str, notify: Callable[[int], None], watcher: ObjectWatcher
    ) -> tuple[float, float]:
        """Milliseconds from push to object of one change, and the Unix time of the push."""
        path = f"s{number:03}/0.yaml"
        self.stage.repository.commit({path: _object(number, 0, value)}, f"Set {value}")
        pushed, start = datetime.now().timestamp(), time.perf_counter()  # noqa: TID251
        notify(number)
        arrived = watcher.wait(_name(number, 0), value)
        return (arrived - start) * 1000, pushed

    def _send_webhook(self, _: int) -> None:
        send_webhook(self.stage, self.repository_id)

    def _stage_times(self, service_id: str, pushed: float) -> dict[str, float]:
        """Milliseconds from the push to each stage in the ledger."""

        def is_in_ledger() -> bool:
            return {"rendered", "healthy"} <= ledger_stages(self.stage, service_id).keys()

        wait_until("the ledger has the change", is_in_ledger)
        found = ledger_stages(self.stage, service_id)
        applied = found["healthy"]["detail"]
        times = {
            "fetched": found["rendered"]["detail"]["fetched_at"],
            "rendered": found["rendered"]["at"],
            "received": applied["received_at"],
            "bundle fetched": applied["fetched_at"],
            "applied": applied["applied_at"],
        }
        return {name: (seconds(at) - pushed) * 1000 for name, at in times.items()}

    def _create(self, number: int) -> str:
        name = f"s{number:03}"
        return create_service(
            self.stage, self.member, self.repository_id, name, NAMESPACE, folder=name
        )

    def _all_healthy(self) -> bool:
        after, healthy = None, 0
        while True:
            page = self.stage.ask(_STATUSES, after=after)["serviceDeployments"]
            healthy += sum(edge["node"]["status"] == "HEALTHY" for edge in page["edges"])
            if not page["pageInfo"]["hasNextPage"]:
                return healthy == SERVICES
            after = page["pageInfo"]["endCursor"]


def _object(service: int, number: int, value: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": _name(service, number)},
            "data": {"v": value},
        }
    )


def _name(service: int, number: int) -> str:
    return f"s{service:03}-{number}"


if __name__ == "__main__":
    main()
