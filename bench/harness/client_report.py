"""Lines of a report that compare runs of the client in Go with those of a baseline."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.harness.compiled_client import ClientResult
from bench.report import BenchReport


@dataclass(frozen=True, slots=True)
class Baseline:
    """Runs of the baseline, and whose they are."""

    name: str
    runs: Sequence[ClientResult]


def add_rates(
    report: BenchReport,
    name: str,
    runs: Sequence[ClientResult],
    baseline: Baseline,
    goal: float | None = None,
) -> None:
    """Adds requests per second, whose ratio is to reach `goal`, and CPU time per request."""
    report.add(
        name,
        [run.rate for run in runs],
        "req/s",
        baseline=baseline.name,
        baseline_values=[run.rate for run in baseline.runs],
        goal=goal,
        at_most=False,
    )
    report.add(
        f"{name}, CPU",
        [run.cpu_per_request for run in runs],
        "us/req",
        baseline=baseline.name,
        baseline_values=[run.cpu_per_request for run in baseline.runs],
    )


def add_throughput(
    report: BenchReport,
    name: str,
    runs: Sequence[ClientResult],
    baseline: Baseline,
    goal: float | None = None,
) -> None:
    """Adds megabytes per second, whose ratio is to reach `goal`."""
    report.add(
        name,
        [run.throughput for run in runs],
        "MB/s",
        baseline=baseline.name,
        baseline_values=[run.throughput for run in baseline.runs],
        goal=goal,
        at_most=False,
    )
