"""Whether clusters can be added, from what was measured."""

import pytest

from towline.simulate.forecast import forecast
from towline.simulate.results import Curve, Figure, ScenarioResult

CPU = [(100.0, 30.0), (500.0, 110.0)]
MEMORY = [(0.0, 150.0), (500.0, 250.0)]
IDLE = ScenarioResult(
    "idle",
    [],
    [
        Curve("CPU of the control plane at rest", "agents", "mCPU", {"measured": CPU}),
        Curve("Memory of the control plane", "agents", "MB", {"measured": MEMORY}),
    ],
)
COMMIT = ScenarioResult(
    "commit", [Figure("commit to all, control plane's CPU per cluster", 20.0, "ms")]
)


@pytest.mark.parametrize(
    ("clusters", "megabytes", "fits", "tightest"),
    [
        (1000, 2000, True, "CPU at rest"),
        (3000, 2000, False, "CPU at rest"),
        (800, 300, False, "memory"),
    ],
)
def test_the_answer_and_what_it_hangs_on(
    clusters: int, megabytes: int, fits: bool, tightest: str
) -> None:
    """Straight lines are drawn on; the need that ends first is named."""
    after = forecast([IDLE, COMMIT], clusters, megabytes * 1e6)
    assert after.fits is fits
    assert after.answer.startswith("yes" if fits else "no")
    assert after.answer.endswith(tightest)


def test_the_lines_are_those_through_the_points() -> None:
    after = forecast([IDLE, COMMIT], 1000, 2e9)
    found = {one.need: (round(one.value, 6), one.max_clusters) for one in after.constraints}
    assert found == {
        "CPU at rest": (0.21, 2450),
        "memory": (350e6, 9250),
        "a commit to all": (20.0, 3000),
    }


def test_nothing_measured_gives_no_promise() -> None:
    after = forecast([], 10, 1e9)
    assert "run the scenario idle" in after.answer
