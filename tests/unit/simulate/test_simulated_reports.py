"""Output of the simulator: rows, a page, plots; and its refused orders."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from towline.simulate.forecast import forecast
from towline.simulate.plots import svg
from towline.simulate.program import sort_scenarios, validate_plan
from towline.simulate.report import document, html, rows
from towline.simulate.results import (
    Curve,
    Figure,
    ScenarioResult,
    cumulative_distribution,
    linear_fit,
    percentile,
)
from towline.simulate.simulation import SimulationPlan

NUMBERS = st.floats(0, 1e12, allow_nan=False)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1), st.text(max_size=20))
def test_any_curve_becomes_a_picture(points: list[tuple[float, float]], name: str) -> None:
    """Well-formed, inside of its frame, whatever the values and names are."""
    name = "".join(one for one in name if one.isprintable())
    picture = ElementTree.fromstring(svg(Curve(name, "x", "y", {name: points})))
    (line,) = picture.iter("{http://www.w3.org/2000/svg}polyline")
    for place in line.attrib["points"].split():
        x, y = map(float, place.split(","))
        assert 0 <= x <= 560
        assert 0 <= y <= 320


def test_a_page_escapes_names_and_marks_what_is_missed() -> None:
    outcome = ScenarioResult("idle", [Figure("<script>", 2.0, "s", 1.0)])
    page = html("a & b", [outcome], forecast([], 5, 1.0))
    assert "<script>" not in page
    assert "a &amp; b" in page
    assert "missed" in page
    assert rows([outcome])[0]["value"] == "2 s"
    assert document([outcome], None)["scenarios"][0]["figures"][0]["goal"] == 1.0


def test_percentiles_and_lines() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([], 0.5) != percentile([], 0.5)
    assert linear_fit([(1, 3), (2, 5)]) == (1.0, 2.0)
    assert linear_fit([(4, 7)]) == (7.0, 0.0)
    assert cumulative_distribution([2.0, 1.0])[-1] == (2.0, 100.0)


def test_scenarios_are_played_in_an_order_that_works() -> None:
    assert sort_scenarios(["storm", "commit", "idle"]) == ["idle", "commit", "storm"]
    with pytest.raises(Invalid, match="unknown scenario"):
        sort_scenarios(["earthquake"])


@pytest.mark.parametrize(
    ("plan", "processes"),
    [
        (SimulationPlan(clusters=1), 2),
        (SimulationPlan(clusters=50_000), 2),
        (SimulationPlan(seconds=0), 2),
        (SimulationPlan(noise=1e6), 2),
        (SimulationPlan(), 1),
        (SimulationPlan(), 100),
    ],
)
def test_runs_are_bounded(plan: SimulationPlan, processes: int) -> None:
    with pytest.raises(Invalid):
        validate_plan(plan, processes)
