"""Can so many clusters be added? What they will cost, and what is there for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from towline.simulate.outcome import Outcome, line_through

MOST_REST = 0.5
MOST_RECONNECT_S = 60.0
MOST_COMMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What one replica may use: bytes of memory. Its one event loop has one core."""

    memory: float


@dataclass(frozen=True, slots=True)
class Ground:
    """One need: what it comes to with all clusters, and how much may be; `most` in clusters."""

    need: str
    value: float
    limit: float
    unit: str
    most: int

    @property
    def fits(self) -> bool:
        """Whether there is enough."""
        return self.value <= self.limit


@dataclass(frozen=True, slots=True)
class Forecast:
    """The answer, for `clusters` in all on one replica, and its grounds."""

    clusters: int
    grounds: Sequence[Ground]

    @property
    def fits(self) -> bool:
        """Whether all needs are met."""
        return all(ground.fits for ground in self.grounds)

    @property
    def answer(self) -> str:
        """A sentence for people."""
        if not self.grounds:
            return "nothing was measured that says what a cluster costs: play idle"
        tightest = min(self.grounds, key=lambda one: one.most)
        word = "yes" if self.fits else "no"
        return (
            f"{word}: {self.clusters:,} clusters on one replica; about {tightest.most:,} is the "
            f"most, by {tightest.need}"
        )


def forecast(outcomes: Sequence[Outcome], clusters: int, limits: Limits) -> Forecast:
    """What was measured, drawn on to so many clusters."""
    curves = {
        curve.title: curve.lines["measured"]
        for outcome in outcomes
        for curve in outcome.curves
              if "measured" in curve.lines}  # fmt: skip
    figures = {figure.name: figure.value for outcome in outcomes for figure in outcome.figures}
    grounds = []
    if rest := curves.get("CPU of the control plane at rest"):
        line = line_through([(x, y / 1000) for x, y in rest])
        grounds.append(_ground("CPU at rest", line, clusters, MOST_REST, "cores"))
    if memory := curves.get("Memory of the control plane"):
        line = line_through([(x, y * 1e6) for x, y in memory])
        grounds.append(_ground("memory", line, clusters, limits.memory, "bytes"))
    for need, name, limit in _LINEAR:
        if name in figures:
            line = (0.0, figures[name] / 1000)
            grounds.append(_ground(need, line, clusters, limit, "s"))
    return Forecast(clusters, grounds)


_LINEAR = (
    (
        "all connecting anew",
        "register and connect, control plane's CPU a cluster",
        MOST_RECONNECT_S,
    ),
    ("a commit to all", "commit to all, control plane's CPU a cluster", MOST_COMMIT_S),
)


def _ground(need: str, line: tuple[float, float], clusters: int, limit: float, unit: str) -> Ground:
    start, each = line
    most = int((limit - start) / each) if each > 0 else 10**9
    return Ground(need, start + each * clusters, limit, unit, max(0, most))


def as_json(one: Forecast) -> Mapping[str, object]:
    """For programs."""
    grounds = [
        {
            "need": ground.need,
            "value": ground.value,
            "limit": ground.limit,
            "unit": ground.unit,
            "most": ground.most,
            "fits": ground.fits,
        }
        for ground in one.grounds
    ]
    return {"clusters": one.clusters, "fits": one.fits, "answer": one.answer, "grounds": grounds}
