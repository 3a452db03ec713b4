"""Measures `towline ui`: `python -m bench.cockpit`; BENCH_SCALE=33 for 3,000 services.

The cockpit runs in a terminal of its own, against a control plane with one SQLite store.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from bench.api import SERVICES
from bench.console import ServedControlPlane
from bench.harness.programs import resident_bytes
from bench.report import BenchReport
from tests.fakes.pseudo_terminal import pseudo_terminal

RUNS = 3
_PROGRAM = [sys.executable, "-c", "from towline.cli import main; main()", "ui"]
_SIZE = {"TERM": "xterm-256color", "COLUMNS": "140", "LINES": "40"}


def _measure_start(environment: dict[str, str]) -> tuple[float, float, float]:
    """Seconds until all services are listed, megabytes with them, and the milliseconds of a filter
    that matches no service.
    """
    begun = time.perf_counter()
    with pseudo_terminal(_PROGRAM, environment) as terminal:
        terminal.read_until(f"{SERVICES:,} of {SERVICES:,} services")
        read = time.perf_counter() - begun
        time.sleep(3)
        terminal.type("/")
        time.sleep(1)
        memory, begun = resident_bytes(terminal.pid) / (1 << 20), time.perf_counter()
        terminal.type("~")
        terminal.read_until("filter: ~")
        return read, memory, (time.perf_counter() - begun) * 1_000


def main() -> None:
    """Fills the store, serves it, runs the measurements."""
    report = BenchReport("cockpit")
    with tempfile.TemporaryDirectory() as name:
        served = ServedControlPlane(Path(name))
        with served.running():
            pass
        served.fill()
        environment = {
            **os.environ,
            **_SIZE,
            "TOWLINE_URL": served.url,
            "TOWLINE_TOKEN": served.token,
            "TOWLINE_CONFIG": str(Path(name) / "config.toml"),
        }
        with served.running():
            runs = [_measure_start(environment) for _ in range(RUNS)]
    reads, megabytes, filters = zip(*runs, strict=True)
    report.add(f"{SERVICES:,} services listed", reads, "s")
    report.add("memory with them", megabytes, "MB", goal=60)
    report.add("letter of a filter to its result", filters, "ms", goal=100)
    report.write()


if __name__ == "__main__":
    main()
