"""Do some agents' troubles reach the others? Told by windows of calm and of trouble, in turn.

Each window of trouble is compared to the two calm ones that it lies between: what the machine does
meanwhile is in all three of them. How much calm windows differ among themselves tells how far such
a comparison can be trusted.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from itertools import pairwise

from towline.simulate.outcome import Curve, Figure, Points, percentile, summed_up
from towline.simulate.stage import Stage

_ROUNDS = 10
_RATE = 60.0
_PART = 0.95
_MOST = 1.1

Trouble = Callable[[], AbstractAsyncContextManager[None]]


@dataclass(frozen=True, slots=True)
class Window:
    """Seconds that reports of quiet agents took, and mCPU of the control plane meanwhile."""

    took: Sequence[float]
    cpu: float

    @property
    def p95(self) -> float:
        """What all but a twentieth of the reports took at most."""
        return percentile(self.took, _PART)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Windows in their order: a calm one, then one of trouble and one of calm for each round."""

    calm: list[Window] = field(default_factory=list)
    troubled: list[Window] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """For each round, p95 of the window of trouble to that of the calm ones beside it."""
        around = [(before.p95 + after.p95) / 2 for before, after in pairwise(self.calm)]
        return [window.p95 / calm for window, calm in zip(self.troubled, around, strict=True)]

    @property
    def differences(self) -> list[float]:
        """How many times the p95 of one calm window that of the next is, or the other way round."""
        pairs = pairwise(window.p95 for window in self.calm)
        return [max(pair) / min(pair) for pair in pairs]

    @property
    def cpu(self) -> float:
        """mCPU that the trouble takes of the control plane."""
        calm = statistics.median(window.cpu for window in self.calm)
        return statistics.median(window.cpu for window in self.troubled) - calm

    def figures(self, where: str) -> list[Figure]:
        """What it comes to: medians of all rounds."""
        name = "report to acknowledgement, p95"
        return [
            _median(name, [1000 * window.p95 for window in self.calm], "ms"),
            _median(
                f"the same {where}, p95", [1000 * window.p95 for window in self.troubled], "ms"
            ),
            _median(f"{where}, to calm", self.ratios, "x", _MOST),
            _median("one calm window to the next", self.differences, "x"),
        ]

    def curve(self) -> Curve:
        """How long all reports took."""
        lines = {"calm": _in_ms(self.calm), "disturbed": _in_ms(self.troubled)}
        return Curve("Report to acknowledgement", "milliseconds", "% of reports", lines)


async def compared(stage: Stage, trouble: Trouble) -> Comparison:
    """Windows of trouble, `plan.seconds` of it in all, and calm ones around each."""
    found = Comparison([await _window(stage)])
    for _ in range(_ROUNDS):
        async with trouble():
            found.troubled.append(await _window(stage))
        found.calm.append(await _window(stage))
    return found


async def _window(stage: Stage) -> Window:
    before, began = stage.hub.gauge.read().cpu, time.monotonic()
    took = await stage.probe(stage.plan.seconds / _ROUNDS, _RATE)
    used = stage.hub.gauge.read().cpu - before
    return Window(took, 1000 * used / (time.monotonic() - began))


def _median(name: str, values: Sequence[float], unit: str, goal: float | None = None) -> Figure:
    return Figure(name, statistics.median(values), unit, goal, values)


def _in_ms(windows: Sequence[Window]) -> Points:
    return summed_up([1000 * took for window in windows for took in window.took])
