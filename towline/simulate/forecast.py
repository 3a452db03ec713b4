"""Forecasts whether more clusters fit on a replica, from the measured costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from towline.simulate.results import ScenarioResult, linear_fit

MAX_IDLE_CORES = 0.5
MAX_RECONNECT_S = 60.0
MAX_COMMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class ForecastConstraint:
    """Forecast of one resource: value for all clusters, limit, and maximum number of clusters."""

    need: str
    value: float
    limit: float
    unit: str
    max_clusters: int

    @property
    def fits(self) -> bool:
        """True if the value is within the limit."""
        return self.value <= self.limit


@dataclass(frozen=True, slots=True)
class Forecast:
    """Forecast for a total of `clusters` on one replica, with its reasons."""

    clusters: int
    constraints: Sequence[ForecastConstraint]

    @property
    def fits(self) -> bool:
        """True if all values are within their limits."""
        return all(constraint.fits for constraint in self.constraints)

    @property
    def answer(self) -> str:
        """The forecast as a sentence."""
        if not self.constraints:
            return "no measurement of the cost of a cluster: run the scenario idle"
        tightest = min(self.constraints, key=lambda constraint: constraint.max_clusters)
        verdict = "yes" if self.fits else "no"
        return (
            f"{verdict}: {self.clusters:,} clusters on one replica; the maximum is about "
            f"{tightest.max_clusters:,}, limited by {tightest.need}"
        )


def forecast(outcomes: Sequence[ScenarioResult], clusters: int, memory_limit: float) -> Forecast:
    """Extrapolates the measurements to a number of clusters.

    `memory_limit`: that of a replica in bytes. Its event loop has one core.
    """
    curves = {
        curve.title: curve.lines["measured"]
        for outcome in outcomes
        for curve in outcome.curves
        if "measured" in curve.lines
    }
    figures = {figure.name: figure.value for outcome in outcomes for figure in outcome.figures}
    constraints = []
    if rest := curves.get("CPU of the control plane at rest"):
        line = linear_fit([(x, y / 1000) for x, y in rest])
        constraints.append(_make_constraint("CPU at rest", line, clusters, MAX_IDLE_CORES, "cores"))
    if memory := curves.get("Memory of the control plane"):
        line = linear_fit([(x, y * 1e6) for x, y in memory])
        constraints.append(_make_constraint("memory", line, clusters, memory_limit, "bytes"))
    for need, name, limit in _LINEAR_COSTS:
        if name in figures:
            line = (0.0, figures[name] / 1000)
            constraints.append(_make_constraint(need, line, clusters, limit, "s"))
    return Forecast(clusters, constraints)


_LINEAR_COSTS = (
    (
        "reconnecting all agents",
        "register and connect, control plane's CPU per cluster",
        MAX_RECONNECT_S,
    ),
    ("a commit to all", "commit to all, control plane's CPU per cluster", MAX_COMMIT_S),
)


def _make_constraint(
    need: str, line: tuple[float, float], clusters: int, limit: float, unit: str
) -> ForecastConstraint:
    start, per_cluster = line
    max_clusters = int((limit - start) / per_cluster) if per_cluster > 0 else 10**9
    return ForecastConstraint(
        need, start + per_cluster * clusters, limit, unit, max(0, max_clusters)
    )


def as_json(result: Forecast) -> Mapping[str, object]:
    """Converts a forecast to JSON values."""
    constraints = [
        {
            "need": constraint.need,
            "value": constraint.value,
            "limit": constraint.limit,
            "unit": constraint.unit,
            "most": constraint.max_clusters,
            "fits": constraint.fits,
        }
        for constraint in result.constraints
    ]
    return {
        "clusters": result.clusters,
        "fits": result.fits,
        "answer": result.answer,
        "grounds": constraints,
    }
