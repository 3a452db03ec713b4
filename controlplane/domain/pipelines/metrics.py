"""Evaluation of Prometheus' answers to instant queries (HTTP API v1, `/api/v1/query`)."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.domain.pipelines.checks import CheckAnswer, CheckFinding
from controlplane.domain.pipelines.rules import MetricRule, SeriesPolicy
from core.errors import Invalid

MAX_SERIES = 1_000
MAX_SHOWN = 10
"""Maximum number of series that are kept for display."""


def parse_samples(answer: Mapping[str, Any]) -> list[float]:
    """Returns the value of each series. Raises Invalid for an error,
    a range, or an invalid answer.
    """
    if answer.get("status") == "error":
        raise Invalid(f"the query fails: {str(answer.get('error'))[:500]}")
    data = answer.get("data")
    kind = data.get("resultType") if isinstance(data, Mapping) else None
    result = data.get("result") if isinstance(data, Mapping) else None
    if kind == "matrix":
        raise Invalid("the query returns ranges: use a query that returns one value per series")
    if kind not in ("vector", "scalar") or not isinstance(result, list):
        raise Invalid("the answer is not from the Prometheus API")
    pairs = [result] if kind == "scalar" else [series.get("value") for series in result]
    if len(pairs) > MAX_SERIES:
        raise Invalid(f"the query gives {len(pairs):,} series, maximum {MAX_SERIES:,}")
    try:
        return [float(value) for _, value in pairs]
    except (TypeError, ValueError):
        raise Invalid("the answer is not from the Prometheus API") from None


def evaluate_metric(
    rule: MetricRule, values: Sequence[float], baseline: Sequence[float] | None = None
) -> CheckFinding:
    """Returns whether the values pass; `baseline` are the values of the rule's second query."""
    if not values:
        reason = "the query gives no series"
        return CheckFinding(CheckAnswer.PASSED if rule.empty_passes else CheckAnswer.FAILED, reason)
    if len(values) > 1 and rule.several is SeriesPolicy.ERROR:
        reason = f"the query gives {len(values)} series, expected one"
        return CheckFinding(CheckAnswer.FAILED, reason)
    base = 1.0
    if baseline is not None:
        if len(baseline) != 1 or not math.isfinite(baseline[0]) or baseline[0] == 0:
            reason = f"the baseline gives {_listed(baseline)}: expected one number"
            return CheckFinding(CheckAnswer.FAILED, reason)
        base = baseline[0]
    ratios = [value / base for value in values]
    if any(math.isnan(ratio) for ratio in ratios):
        return CheckFinding(CheckAnswer.FAILED, "the query gives NaN")
    good = [ratio for ratio in ratios if rule.comparison.holds(ratio, rule.threshold)]
    passed = bool(good) if rule.several is SeriesPolicy.ANY else len(good) == len(ratios)
    what = f"{_listed(ratios)}{' of the baseline' if baseline is not None else ''}"
    wanted = f"{rule.comparison.lower().replace('_', ' ')} {rule.threshold:g}"
    shown = tuple(ratio for ratio in ratios[:MAX_SHOWN] if math.isfinite(ratio))
    answer = CheckAnswer.PASSED if passed else CheckAnswer.FAILED
    return CheckFinding(answer, f"{what}, wanted {wanted}", shown)


def _listed(values: Sequence[float]) -> str:
    shown = ", ".join(f"{value:g}" for value in values[:5])
    return f"{shown}, …" if len(values) > 5 else shown or "nothing"
