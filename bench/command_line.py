"""Measures the command line: `python -m bench.command_line`; BENCH_SCALE=33 for 3,000 services.

Each run is a process of its own, as a user starts it. The control plane has one SQLite store.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.api import SERVICES
from bench.console import ServedControlPlane
from bench.report import BenchReport

RUNS = 15
_PROGRAM = [sys.executable, "-c", "from towline.cli import main; main()"]


def _measure_runs(arguments: list[str], environment: dict[str, str]) -> list[float]:
    """Milliseconds of each run. The first one is not counted: it fills the caches of files."""
    times = []
    for _ in range(RUNS + 1):
        begun = time.perf_counter()
        subprocess.run([*_PROGRAM, *arguments], env=environment, check=True, capture_output=True)
        times.append((time.perf_counter() - begun) * 1_000)
    return times[1:]


def measure(served: ServedControlPlane, folder: Path, report: BenchReport) -> None:
    """Measures help, a list and completion."""
    environment = {
        **os.environ,
        "TOWLINE_URL": served.url,
        "TOWLINE_TOKEN": served.token,
        "TOWLINE_CONFIG": str(folder / "config.toml"),
    }
    report.add("towline --help", _measure_runs(["--help"], environment), "ms", goal=120)
    listed = _measure_runs(["services", "list"], environment)
    report.add(f"services list of {SERVICES:,}", listed, "ms", goal=500)
    commands = _measure_runs(["__complete", "clusters", "ro"], environment)
    report.add("completion of a command", commands, "ms", goal=150)
    names = _measure_runs(["__complete", "services", "get", "payments-8"], environment)
    report.add("completion of a name", names, "ms", goal=150)


def main() -> None:
    """Fills the store, serves it, runs the measurements."""
    report = BenchReport("command_line")
    with tempfile.TemporaryDirectory() as name:
        served = ServedControlPlane(Path(name))
        with served.running():
            pass
        served.fill()
        with served.running():
            measure(served, Path(name), report)
    report.write()


if __name__ == "__main__":
    main()
