"""Reports of a benchmark as a table and as JSON lines."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class BenchFigure:
    """A measured value.

    `ratio`: value divided by baseline. `goal`: upper limit (lower without `at_most`) of the ratio,
    or of the value without a baseline. `spread`: half the interquartile range relative to the
    median.
    """

    name: str
    value: float
    unit: str
    baseline: str = ""
    baseline_value: float | None = None
    ratio: float | None = None
    goal: float | None = None
    ok: bool | None = None
    runs: int = 1
    spread: float = 0.0


class BenchReport:
    """Collects the figures of a group, and writes them at the end."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._figures: list[BenchFigure] = []

    def add(
        self,
        name: str,
        values: Sequence[float],
        unit: str,
        *,
        baseline: str = "",
        baseline_values: Sequence[float] = (),
        goal: float | None = None,
        at_most: bool = True,
    ) -> None:
        """Adds a figure with the median of its runs."""
        value = statistics.median(values)
        base = statistics.median(baseline_values) if baseline_values else None
        ratio = value / base if base else None
        judged = value if ratio is None else ratio
        ok = None if goal is None else (judged <= goal if at_most else judged >= goal)
        self._figures.append(
            BenchFigure(
                name, value, unit, baseline, base, ratio, goal, ok, len(values), _spread(values)
            )
        )

    def write(self) -> None:
        """Prints the table and writes `bench/results/<group>.jsonl`."""
        RESULTS.mkdir(exist_ok=True)
        lines = [orjson.dumps(asdict(figure)) for figure in self._figures]
        (RESULTS / f"{self._group}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
        table = Table(title=f"bench {self._group}", title_justify="left")
        for column in ("figure", "value", "±", "baseline", "ratio", "goal", "ok"):
            table.add_column(
                column, justify="left" if column in ("figure", "baseline") else "right"
            )
        for figure in self._figures:
            table.add_row(*_row(figure))
        Console(width=140).print(table)


def _spread(values: Sequence[float]) -> float:
    if len(values) < 4:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4)
    return (high - low) / 2


def _row(figure: BenchFigure) -> list[str]:
    base = (
        "" if figure.baseline_value is None else f"{figure.baseline}: {figure.baseline_value:,.3g}"
    )
    verdict = {True: "yes", False: "NO", None: ""}[figure.ok]
    return [
        figure.name,
        f"{figure.value:,.4g} {figure.unit}",
        f"{figure.spread:,.2g}",
        base,
        "" if figure.ratio is None else f"{figure.ratio:.2f}",
        "" if figure.goal is None else f"{figure.goal:g}",
        verdict,
    ]
