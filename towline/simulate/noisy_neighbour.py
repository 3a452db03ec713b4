"""Measures the effect of disturbed agents on other agents, with alternating time windows.

Each disturbed window is compared with the two calm windows around it, so that other load of the
machine affects all three. The difference between calm windows shows the noise of the comparison.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from itertools import pairwise

from towline.simulate.results import Curve, Figure, Points, cumulative_distribution, percentile
from towline.simulate.simulation import Simulation

_ROUNDS = 10
_RATE = 60.0
_PERCENTILE = 0.95
_MAX_RATIO = 1.1

Disturbance = Callable[[], AbstractAsyncContextManager[None]]


@dataclass(frozen=True, slots=True)
class MeasurementWindow:
    """Report latencies of quiet agents in seconds, and mCPU of the control plane in a window."""

    took: Sequence[float]
    cpu: float

    @property
    def p95(self) -> float:
        """95th percentile of the latencies in seconds."""
        return percentile(self.took, _PERCENTILE)


@dataclass(frozen=True, slots=True)
class InterferenceResult:
    """Windows in order: a calm one, then a disturbed and a calm one for each round."""

    calm: list[MeasurementWindow] = field(default_factory=list)
    troubled: list[MeasurementWindow] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """For each round, p95 of the disturbed window relative to the calm windows around it."""
        around = [(before.p95 + after.p95) / 2 for before, after in pairwise(self.calm)]
        return [window.p95 / calm for window, calm in zip(self.troubled, around, strict=True)]

    @property
    def differences(self) -> list[float]:
        """Ratios of p95 between consecutive calm windows, always at least 1."""
        pairs = pairwise(window.p95 for window in self.calm)
        return [max(pair) / min(pair) for pair in pairs]

    @property
    def cpu(self) -> float:
        """Additional mCPU of the control plane in disturbed windows."""
        calm = statistics.median(window.cpu for window in self.calm)
        return statistics.median(window.cpu for window in self.troubled) - calm

    def figures(self, label: str) -> list[Figure]:
        """Figures of the comparison: medians of all rounds."""
        name = "report to acknowledgement, p95"
        return [
            _median(name, [1000 * window.p95 for window in self.calm], "ms"),
            _median(f"{name}, {label}", [1000 * window.p95 for window in self.troubled], "ms"),
            _median(f"{label}, relative to calm", self.ratios, "x", _MAX_RATIO),
            _median("consecutive calm windows", self.differences, "x"),
        ]

    def curve(self) -> Curve:
        """Distribution of all report latencies."""
        lines = {"calm": _in_ms(self.calm), "disturbed": _in_ms(self.troubled)}
        return Curve("Report to acknowledgement", "milliseconds", "% of reports", lines)


async def measure_interference(stage: Simulation, disturb: Disturbance) -> InterferenceResult:
    """Measures disturbed windows, `plan.seconds` in total, and calm windows around them."""
    result = InterferenceResult([await _measure_window(stage)])
    for _ in range(_ROUNDS):
        async with disturb():
            result.troubled.append(await _measure_window(stage))
        result.calm.append(await _measure_window(stage))
    return result


async def _measure_window(stage: Simulation) -> MeasurementWindow:
    before, began = stage.hub.gauge.read().cpu, time.monotonic()
    took = await stage.probe(stage.plan.seconds / _ROUNDS, _RATE)
    used = stage.hub.gauge.read().cpu - before
    return MeasurementWindow(took, 1000 * used / (time.monotonic() - began))


def _median(name: str, values: Sequence[float], unit: str, goal: float | None = None) -> Figure:
    return Figure(name, statistics.median(values), unit, goal, values)


def _in_ms(windows: Sequence[MeasurementWindow]) -> Points:
    return cumulative_distribution([1000 * took for window in windows for took in window.took])
