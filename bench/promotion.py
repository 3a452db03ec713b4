"""Measures a promotion from dev through a job gate to prod: `python -m bench.promotion`.

Control plane, two agents, Git server and two API servers run on this machine; a webhook follows
each push. Overhead is the total time without the job and the applies. The baseline is a script: git
fetch, kubectl apply in dev, run a job, kubectl apply in prod.
"""

import json
import sys
import time
from datetime import datetime
from pathlib import Path

import yaml

from bench.commit_latency import ObjectWatcher
from bench.git_harness.pushes import (
    connect,
    create_service,
    ledger_stages,
    run,
    seconds,
    send_webhook,
)
from bench.report import BenchReport
from core.json_object import JsonObject
from towline.demo.environment import DemoCluster, DemoEnvironment, wait_until

RUNS = 10
BASELINE_RUNS = 4
NAMESPACE = "bench"
BY_HAND = "by-hand"
NAME = "shop"
JOB_SECONDS = 1.0
_PIPELINE = """{ pipeline(name: "shop") { history { at releaseId text }
  stages { name release { id } } } }"""
_SAVE = """mutation ($attributes: PipelineAttributes!) {
  savePipeline(name: "shop", attributes: $attributes) { id } }"""
_JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "check"},
    "spec": {
        "template": {
            "metadata": {"annotations": {"demo.towline.dev/duration": f"{JOB_SECONDS:g}s"}},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "check:1"}],
            },
        }
    },
}


def main() -> None:
    """Runs the measurements, prints and saves them."""
    report = BenchReport("promotion")
    with DemoEnvironment(lambda text: print(text, file=sys.stderr)) as stage:
        stage.start()
        bench = PromotionBench(stage)
        bench.define()
        runs = [bench.measure_promotion(number) for number in range(1, RUNS + 1)]
        theirs = bench.measure_baseline()
    own = [run.pop("own") for run in runs]
    report.add("commit to prod, our own time", own, "ms", goal=4_000)
    report.add(
        "commit to prod, the job included",
        [run["object in prod"] for run in runs],
        "ms",
        baseline="git, kubectl apply, a job, kubectl apply",
        baseline_values=theirs,
    )
    for name in runs[0]:
        report.add(f"  until {name}", [run[name] for run in runs], "ms")
    report.write()


class PromotionBench:
    """Services in two clusters with a pipeline."""

    def __init__(self, stage: DemoEnvironment) -> None:
        self.stage = stage
        self.members = [stage.members["dev"], stage.members["prod"]]
        self.services: dict[str, str] = {}
        self.repository_id = ""
        self.watcher = ObjectWatcher(self.members[1], NAMESPACE)

    def define(self) -> None:
        """Creates repository, services and pipeline; waits until the first release is in prod."""
        self._commit("0")
        self.repository_id = connect(self.stage)
        self.services = {member.name: self._service(member) for member in self.members}
        gate = {"name": "check", "type": "JOB"}
        job = {"namespace": NAMESPACE, "manifest": json.dumps(_JOB)}
        stages = [{"name": k, "services": [{"serviceId": v}]} for k, v in self.services.items()]
        edge = {"from": "dev", "to": "prod", "gates": [{**gate, "job": job}]}
        self.stage.ask(_SAVE, attributes={"stages": stages, "edges": [edge]})
        self.members[1].kubectl("create", "namespace", NAMESPACE)
        self.stage.closing.callback(self.watcher.start().kill)
        self.watcher.wait(NAME, "0", 60)

    def measure_promotion(self, number: int) -> dict[str, float]:
        """Milliseconds from the push to each event, and `own` overhead."""
        value = f"w{number}"
        self._commit(value)
        pushed, begun = datetime.now().timestamp(), time.perf_counter()  # noqa: TID251
        send_webhook(self.stage, self.repository_id)
        total = (self.watcher.wait(NAME, value) - begun) * 1_000
        dev, prod = self._healthy_stages("dev"), self._healthy_stages("prod")
        ends = {
            "rendered for dev": dev["rendered"]["at"],
            "healthy in dev": dev["healthy"]["at"],
            "the job had passed": self._gate_passed_at(),
            "promoted": prod["promoted"]["at"],
        }
        milliseconds = {name: (seconds(at) - pushed) * 1_000 for name, at in ends.items()}
        applies = sum(_apply_milliseconds(stage["healthy"]["detail"]) for stage in (dev, prod))
        own = total - JOB_SECONDS * 1_000 - applies
        return {**milliseconds, "object in prod": total, "own": own}

    def measure_baseline(self) -> list[float]:
        """Milliseconds of the baseline script, in unmanaged namespaces."""
        tree = self.stage.folder / "work-tree"
        run("git", "clone", "--quiet", "--depth=1", self.stage.repository.url, str(tree))
        for member in self.members:
            member.kubectl("create", "namespace", BY_HAND)
        return [self._run_script(tree, number) for number in range(BASELINE_RUNS)]

    def _run_script(self, tree: Path, number: int) -> float:
        self._commit(f"b{number}")
        dev, prod = self.members
        job = json.dumps({**_JOB, "metadata": {"name": f"check-{number}"}})
        begun = time.perf_counter()
        run("git", "-C", str(tree), "fetch", "--quiet", "--depth=1", "origin", "main")
        run("git", "-C", str(tree), "reset", "--quiet", "--hard", "FETCH_HEAD")
        dev.kubectl("apply", "--server-side", "-n", BY_HAND, "-f", str(tree / "dev"))
        prod.kubectl("create", "-n", BY_HAND, "-f", "-", stdin=job)
        condition = ("wait", "--for=condition=complete", "--timeout=60s")
        prod.kubectl(*condition, "-n", BY_HAND, f"job/check-{number}")
        prod.kubectl("apply", "--server-side", "-n", BY_HAND, "-f", str(tree / "prod"))
        return (time.perf_counter() - begun) * 1_000

    def _commit(self, value: str) -> None:
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}}
        text = yaml.safe_dump({**config_map, "data": {"v": value}})
        files: dict[str, str | bytes | None] = {
            f"{member.name}/0.yaml": text for member in self.members
        }
        self.stage.repository.commit(files, f"Set {value}")

    def _service(self, member: DemoCluster) -> str:
        return create_service(
            self.stage, member, self.repository_id, NAME, NAMESPACE, folder=member.name
        )

    def _healthy_stages(self, name: str) -> JsonObject:
        """Ledger rows of the newest desired state by stage, after it is healthy."""
        service_id = self.services[name]
        wait_until(
            f"the ledger has {name}", lambda: "healthy" in ledger_stages(self.stage, service_id)
        )
        return ledger_stages(self.stage, service_id)

    def _gate_passed_at(self) -> str:
        """Time when the gate passed the current release of prod."""
        pipeline = self.stage.ask(_PIPELINE)["pipeline"]
        release_id = next(
            stage["release"]["id"] for stage in pipeline["stages"] if stage["name"] == "prod"
        )
        events = [event for event in pipeline["history"] if event["releaseId"] == release_id]
        return next(
            event["at"] for event in events if event["text"].startswith("gate check opened")
        )


def _apply_milliseconds(detail: JsonObject) -> float:
    """Milliseconds that an agent spent applying."""
    return (seconds(detail["applied_at"]) - seconds(detail["fetched_at"])) * 1_000


if __name__ == "__main__":
    main()
