"""Measures start time, memory and CPU of an idle installation: `python -m bench.idle`.

One control plane with its embedded store, one agent and one real API server run without work. The
figures have goals for a small installation, but no baseline.
"""

import sys
import time

from bench.harness.programs import child_pids, cpu_seconds, resident_bytes
from bench.report import BenchReport
from towline.demo.environment import DemoEnvironment

STARTS = 5
SETTLE_SECONDS = 5.0
IDLE_SECONDS = 20.0


def main() -> None:
    """Runs the measurements, prints and saves them."""
    report = BenchReport("idle")
    with DemoEnvironment(lambda text: print(text, file=sys.stderr), names=["dev"]) as stage:
        stage.start()
        starts = []
        for _ in range(STARTS):
            stage.kill_control_plane()
            began = time.perf_counter()
            stage.start_control_plane()
            starts.append(time.perf_counter() - began)
        report.add("control plane ready after", starts, "s", goal=3)
        time.sleep(SETTLE_SECONDS)
        programs = {"control plane": stage.control_plane_pid, "agent": stage.agent_pids["dev"]}
        before = {name: cpu_seconds(_with_children(pid)) for name, pid in programs.items()}
        time.sleep(IDLE_SECONDS)
        for (name, pid), goal in zip(programs.items(), (180, 90), strict=True):
            memory = sum(map(resident_bytes, _with_children(pid))) / 1e6
            report.add(f"{name} idle, memory", [memory], "MB", goal=goal)
            used = (cpu_seconds(_with_children(pid)) - before[name]) * 60 / IDLE_SECONDS
            report.add(f"{name} idle, CPU per minute", [used], "s")
    report.write()


def _with_children(pid: int) -> list[int]:
    return [pid, *child_pids(pid)]


if __name__ == "__main__":
    main()
