"""Whether others feel one's trouble: what the machine does meanwhile does not count."""

import pytest

from towline.simulate.noisy_neighbour import InterferenceResult, MeasurementWindow


def window(p95: float, cpu: float = 100.0) -> MeasurementWindow:
    """Nineteen quick reports and one that decides."""
    return MeasurementWindow([0.001] * 19 + [p95], cpu)


def test_a_machine_that_grows_busier_troubles_nobody() -> None:
    """All become slower, evenly: no round is to blame."""
    calm = [window(p95) for p95 in (0.010, 0.030, 0.050)]
    found = InterferenceResult(calm, [window(0.020), window(0.040)])
    assert found.ratios == pytest.approx([1.0, 1.0])
    assert found.differences == pytest.approx([3.0, 5 / 3])


def test_one_bad_round_decides_nothing() -> None:
    troubled = [window(0.015, 150.0), window(0.500, 900.0), window(0.015, 150.0)]
    found = InterferenceResult([window(0.010)] * 4, troubled)
    figures = {one.name: one for one in found.figures("beside one")}
    ratio = figures["beside one, relative to calm"]
    assert (ratio.value, ratio.ok) == (pytest.approx(1.5), False)
    assert ratio.rounds == pytest.approx([1.5, 50.0, 1.5])
    assert figures["consecutive calm windows"].value == 1.0
    assert found.cpu == 50.0
