"""Measures start time, memory and CPU of an idle installation: `python -m bench.idle`.

One control plane with its embedded store, one agent and one real API server run without work. The
figures have goals for a small installation, but no baseline.
"""

import os
import sys
import time
from pathlib import Path

from bench.report import BenchReport
from towline.demo.environment import DemoEnvironment

STARTS = 5
SETTLE_SECONDS = 5.0
IDLE_SECONDS = 20.0
_TICKS = os.sysconf("SC_CLK_TCK")


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
        before = {name: _cpu_seconds(pid) for name, pid in programs.items()}
        time.sleep(IDLE_SECONDS)
        for (name, pid), goal in zip(programs.items(), (180, 90), strict=True):
            report.add(f"{name} idle, memory", [_resident_megabytes(pid)], "MB", goal=goal)
            used = (_cpu_seconds(pid) - before[name]) * 60 / IDLE_SECONDS
            report.add(f"{name} idle, CPU per minute", [used], "s")
    report.write()


def _resident_megabytes(pid: int) -> float:
    """Resident set of a process and its children, from proc(5)."""
    pages = sum(
        int(Path(f"/proc/{process}/statm").read_text().split()[1])
        for process in (pid, *_children(pid))
    )
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _cpu_seconds(pid: int) -> float:
    """User and system CPU time of a process and its children."""
    total = 0
    for process in (pid, *_children(pid)):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / _TICKS


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


if __name__ == "__main__":
    main()
