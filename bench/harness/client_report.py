"""Lines of a report that compare runs of the client in Go with those of a baseline."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from bench.harness.compiled_client import ClientResult
from bench.report import BenchReport


@dataclass(frozen=True, slots=True)
class Baseline:
    """Runs of the baseline, and whose they are."""

    name: str
    runs: Sequence[ClientResult]


Figure = Callable[[ClientResult], float]


def add_rates(
    report: BenchReport,
    name: str,
    runs: Sequence[ClientResult],
    baseline: Baseline,
    goal: float | None = None,
) -> None:
    """Adds requests per second, whose ratio is to reach `goal`, and CPU time per request."""
    add = partial(_add, report, runs, baseline)
    add(name, "req/s", lambda run: run.rate, goal)
    add(f"{name}, CPU", "us/req", lambda run: run.cpu_per_request)


def add_throughput(
    report: BenchReport,
    name: str,
    runs: Sequence[ClientResult],
    baseline: Baseline,
    goal: float | None = None,
) -> None:
    """Adds megabytes per second, whose ratio is to reach `goal`."""
    _add(report, runs, baseline, name, "MB/s", lambda run: run.throughput, goal)


def _add(
    report: BenchReport,
    runs: Sequence[ClientResult],
    baseline: Baseline,
    name: str,
    unit: str,
    figure: Figure,
    goal: float | None = None,
) -> None:
    report.add(
        name,
        list(map(figure, runs)),
        unit,
        baseline=baseline.name,
        baseline_values=list(map(figure, baseline.runs)),
        goal=goal,
        at_most=False,
    )
