"""Measures many clusters on one control plane and on replicas: `python -m bench.scale GROUP…`.

Agents are simulated: they use the real protocol, without Kubernetes. Groups: connect, idle, commit,
hung, noisy, replicas, rolling (default: all). Each writes `bench/results/scale_<group>.jsonl` and
plots.
"""

import argparse
import asyncio
import signal
import statistics
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.harness import throughput
from bench.harness.replicas_under_load import kill_all, kill_one, replicated, roll
from bench.report import BenchReport
from towline.simulate import scenarios
from towline.simulate.plots import svg
from towline.simulate.program import start_simulation
from towline.simulate.results import Curve, ScenarioResult
from towline.simulate.simulation import SimulationPlan

IMAGES = Path(__file__).parents[1] / "docs" / "images"
CONNECTED, BESIDE, SHARED, ROLLED = 2000, 200, 120, 500
COMMITTED = (100, 250, 500, 1000)
COMMITS = 2
BESIDE_S = 30.0
AWAY_S = 10.0
# The interval of an agent's keepalives, so that each is counted once.
PULSES_S = 12.0

Group = Callable[[BenchReport], Coroutine[Any, Any, None]]


def say(text: str) -> None:
    """Prints progress."""
    print(text, file=sys.stderr, flush=True)


async def connect(report: BenchReport) -> None:
    """Connects 2,000 agents at once."""
    async with start_simulation(SimulationPlan(clusters=CONNECTED), 3, None, say) as stage:
        before = stage.hub.gauge.read().cpu
        say("registering")
        took = await stage.grow(CONNECTED)
        used = stage.hub.gauge.read().cpu - before
        report.add(f"connect {CONNECTED:,} agents", [took], "s", goal=10)
        report.add("register and connect, CPU per agent", [1000 * used / CONNECTED], "ms")


async def idle(report: BenchReport) -> None:
    """Cost of an idle agent, with a growing number of agents."""
    async with start_simulation(
        SimulationPlan(clusters=CONNECTED, seconds=PULSES_S), 3, None, say
    ) as stage:
        outcome = await scenarios.idle(stage)
    _add(report, outcome)
    for curve, name in zip(outcome.curves, ("CPU", "memory"), strict=True):
        line = curve.lines["measured"]
        report.add(
            f"{name} of one more agent, in the upper half",
            [_slope(line[-2:])],
            curve.y,
            baseline="from the first to the last",
            baseline_values=[_slope((line[0], line[-1]))],
            goal=1.15,
        )
    _plot("scale-idle-cpu", outcome.curves[0])
    _plot("scale-idle-memory", outcome.curves[1])


async def commit(report: BenchReport) -> None:
    """Commits to all clusters, with a growing number of clusters."""
    spreads: dict[int, list[list[float]]] = {}
    used: dict[int, float] = {}
    async with start_simulation(SimulationPlan(clusters=COMMITTED[-1]), 3, None, say) as stage:
        first = 0.0
        for size in COMMITTED:
            await stage.grow(size)
            first += await stage.deploy()
            before = stage.hub.gauge.read().cpu
            spreads[size] = [await stage.commit() for _ in range(COMMITS)]
            used[size] = 1000 * (stage.hub.gauge.read().cpu - before) / COMMITS / size
    fewest, most = COMMITTED[0], COMMITTED[-1]
    took = spreads[most]
    report.add(f"a first service in each of {most:,}", [first], "s")
    report.add(f"commit to all of {most:,}", [max(run) for run in took], "s", goal=10)
    report.add("the same, p50", [statistics.median(run) for run in took], "s")
    report.add(
        "the same, CPU per cluster",
        [used[most]],
        "ms",
        baseline=f"of {fewest}",
        baseline_values=[used[fewest]],
        goal=1.15,
    )
    _plot("scale-commit", _spread_curve(spreads))
    cpu = Curve("CPU of a commit", "clusters", "ms a cluster", {"measured": list(used.items())})
    _plot("scale-commit-cpu", cpu)


async def noisy_neighbours(report: BenchReport, name: str) -> None:
    """Effect of disturbed agents on the others."""
    async with start_simulation(
        SimulationPlan(clusters=BESIDE, seconds=BESIDE_S), 3, None, say
    ) as stage:
        await stage.grow(BESIDE)
        await stage.deploy()
        outcome = await scenarios.SCENARIOS[name](stage)
    _add(report, outcome)
    _plot(f"scale-{name}", outcome.curves[0])


async def replicas(report: BenchReport, away: float) -> None:
    """Three replicas: kills one, kills all, and measures the throughput of two."""
    async with replicated(say) as (fleet, stage):
        await stage.grow(SHARED)
        await stage.deploy()
        await kill_one(report, fleet, stage)
        await kill_all(report, fleet, stage, away)
        await throughput.measure(report, fleet, stage)


async def rolling(report: BenchReport, agents: int) -> None:
    """Restarts each replica in turn while users send 200 requests per second."""
    async with replicated(say) as (fleet, stage):
        await stage.grow(agents)
        await stage.deploy()
        await roll(report, fleet, stage)


def _add(report: BenchReport, outcome: ScenarioResult) -> None:
    for figure in outcome.figures:
        report.add(figure.name, figure.rounds or [figure.value], figure.unit, goal=figure.goal)


def _spread_curve(spreads: Mapping[int, Sequence[Sequence[float]]]) -> Curve:
    """Curves of the time until half of the clusters, and all, reported a commit."""
    lines = {
        name: [(size, statistics.median(map(of, took))) for size, took in spreads.items()]
        for name, of in (("all", max), ("half", statistics.median))
    }
    return Curve("A commit to all clusters", "clusters", "seconds until reported", lines)


def _slope(line: Sequence[tuple[float, float]]) -> float:
    (x0, y0), (x1, y1) = line[0], line[-1]
    return (y1 - y0) / (x1 - x0)


def _plot(name: str, curve: Curve) -> None:
    (IMAGES / f"{name}.svg").write_text(svg(curve))


def _groups(away: float, agents: int) -> Mapping[str, Group]:
    return {
        "connect": connect,
        "idle": idle,
        "commit": commit,
        "hung": partial(noisy_neighbours, name="hung"),
        "noisy": partial(noisy_neighbours, name="noisy"),
        "replicas": partial(replicas, away=away),
        "rolling": partial(rolling, agents=agents),
    }


def main() -> None:
    """Measures the given groups."""
    parser = argparse.ArgumentParser(description="Many clusters on one control plane, and several.")
    parser.add_argument("groups", nargs="*", help="all without")
    parser.add_argument("--away", type=float, default=AWAY_S, help="seconds, of all replicas")
    parser.add_argument("--agents", type=int, default=ROLLED, help="how many a rolling restart has")
    given = parser.parse_args()
    # Started processes end with this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    groups = _groups(given.away, given.agents)
    for name in given.groups or groups:
        report = BenchReport(f"scale_{name}")
        asyncio.run(groups[name](report))
        report.write()


if __name__ == "__main__":
    main()
