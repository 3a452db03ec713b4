"""What a scenario has shown: figures, and curves to be plotted."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value; `goal` is the most that it may be, if there is one.

    Where it was measured several times `rounds` are all values, and `value` is their median.
    """

    name: str
    value: float
    unit: str
    goal: float | None = None
    rounds: Sequence[float] = ()

    @property
    def ok(self) -> bool | None:
        """Whether the goal is met; None without one."""
        return None if self.goal is None else self.value <= self.goal


@dataclass(frozen=True, slots=True)
class Curve:
    """Lines over one axis; `x` and `y` name the axes with their units."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Points]


@dataclass(frozen=True, slots=True)
class Outcome:
    """All that one scenario has shown."""

    scenario: str
    figures: Sequence[Figure]
    curves: Sequence[Curve] = field(default=())


def percentile(values: Sequence[float], part: float) -> float:
    """The value that `part` (0 to 1) of all stay at or below; NaN of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else float("nan")


def summed_up(values: Sequence[float]) -> Points:
    """How many of the values, in per cent, had come by which time: a curve from 0 to 100."""
    ordered = sorted(values)
    count = len(ordered)
    step = max(1, count // 200)
    some = [(value, 100 * (at + 1) / count) for at, value in enumerate(ordered)]
    return [(0.0, 0.0), *some[::step], *some[-1:]]


def line_through(points: Points) -> tuple[float, float]:
    """Where the straight line closest to the points begins, and what it rises for each step."""
    if len(points) < 2 or len({x for x, _ in points}) < 2:
        only = points[0][1] if points else 0.0
        return (only, 0.0)
    slope, start = statistics.linear_regression(*zip(*points, strict=True))
    return start, slope
