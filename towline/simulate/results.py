"""Results of a scenario: figures, and curves for plots."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value; `goal` is its upper limit, or None.

    After several measurements, `rounds` has all values and `value` their median.
    """

    name: str
    value: float
    unit: str
    goal: float | None = None
    rounds: Sequence[float] = ()

    @property
    def ok(self) -> bool | None:
        """True if the goal is met; None without a goal."""
        return None if self.goal is None else self.value <= self.goal


@dataclass(frozen=True, slots=True)
class Curve:
    """Lines of a plot; `x` and `y` are the labels of the axes, with units."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Points]


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """All results of one scenario."""

    scenario: str
    figures: Sequence[Figure]
    curves: Sequence[Curve] = field(default=())


def percentile(values: Sequence[float], fraction: float) -> float:
    """Percentile of values for `fraction` (0 to 1); NaN without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * fraction))] if ordered else float("nan")


def cumulative_distribution(values: Sequence[float]) -> Points:
    """Cumulative distribution of values, in per cent from 0 to 100."""
    ordered = sorted(values)
    count = len(ordered)
    step = max(1, count // 200)
    sample = [(value, 100 * (index + 1) / count) for index, value in enumerate(ordered)]
    return [(0.0, 0.0), *sample[::step], *sample[-1:]]


def linear_fit(points: Points) -> tuple[float, float]:
    """Linear regression: returns intercept and slope."""
    if len(points) < 2 or len({x for x, _ in points}) < 2:
        only = points[0][1] if points else 0.0
        return (only, 0.0)
    slope, start = statistics.linear_regression(*zip(*points, strict=True))
    return start, slope
