"""Many clusters on one control plane, and on several: `python -m bench.scale GROUP…`.

Agents are simulated: the real link, without Kubernetes. Groups: connect, idle, commit, neighbours,
replicas, rolling; without one, all in turn. Each writes `bench/results/scale_<group>.jsonl` and its
plots.
"""

import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from bench.report import Report
from bench.stand.programs import cpu_seconds
from tests.integration.replicas.fleet import Fleet as Replicas
from tests.integration.replicas.fleet import Replica
from tests.servers.postgres import Postgres, find_postgres
from tests.servers.redis import Redis, find_redis
from towline.contexts import Target
from towline.demo.gitserver import GitServer
from towline.demo.processes import ProcessGroup
from towline.simulate import scenarios
from towline.simulate.crowds import Crowd
from towline.simulate.fleet import Fleet
from towline.simulate.gauges import ProcessGauge
from towline.simulate.hub import Hub
from towline.simulate.outcome import Curve, Outcome
from towline.simulate.plots import svg
from towline.simulate.program import stage_for
from towline.simulate.stage import Plan, Stage

IMAGES = Path(__file__).parents[1] / "docs" / "images"
CONNECTED, BESIDE, SHARED, ROLLED = 2000, 200, 120, 500
COMMITTED = (100, 250, 500, 1000)
COMMITS = 2
AWAY_S = 10.0
# As far as an agent's pulses are apart: each is counted once.
PULSES_S = 12.0
LOAD_S = 6.0
USERS = 16
RATE = 200.0
NOTICED_S = 0.3
QUERY = "{ clusters(first: 20) { edges { node { id handle pingedAt } } } }"

Group = Callable[[Report], Coroutine[Any, Any, None]]


def say(text: str) -> None:
    """Progress, for people."""
    print(text, file=sys.stderr, flush=True)


async def connect(report: Report) -> None:
    """2,000 agents that come at once."""
    async with stage_for(Plan(clusters=CONNECTED), 3, None, say) as stage:
        before = stage.hub.gauge.read().cpu
        say("registering")
        took = await stage.grow(CONNECTED)
        used = stage.hub.gauge.read().cpu - before
        report.add(f"connect {CONNECTED:,} agents", [took], "s", goal=10)
        report.add("register and connect, CPU an agent", [1000 * used / CONNECTED], "ms")


async def idle(report: Report) -> None:
    """What an agent costs that does nothing, with more and more of them."""
    async with stage_for(Plan(clusters=CONNECTED, seconds=PULSES_S), 3, None, say) as stage:
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


async def commit(report: Report) -> None:
    """Commits for all of more and more clusters, several times."""
    spreads: dict[int, list[list[float]]] = {}
    used: dict[int, float] = {}
    async with stage_for(Plan(clusters=COMMITTED[-1]), 3, None, say) as stage:
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
    report.add(f"commit to all of {most:,}", [max(one) for one in took], "s", goal=10)
    report.add("the same, p50", [statistics.median(one) for one in took], "s")
    report.add(
        "the same, CPU a cluster",
        [used[most]],
        "ms",
        baseline=f"of {fewest}",
        baseline_values=[used[fewest]],
        goal=1.15,
    )
    _plot("scale-commit", _spread(spreads))
    cpu = Curve("CPU of a commit", "clusters", "ms a cluster", {"measured": list(used.items())})
    _plot("scale-commit-cpu", cpu)


async def neighbours(report: Report) -> None:
    """Agents beside one that never stops talking, and beside ones that hang."""
    async with stage_for(Plan(clusters=BESIDE, seconds=15.0), 3, None, say) as stage:
        await stage.grow(BESIDE)
        for name, scenario in (("hung", scenarios.hung), ("noisy", scenarios.noisy)):
            outcome = await scenario(stage)
            _add(report, outcome)
            _plot(f"scale-{name}", outcome.curves[0])


async def replicas(report: Report) -> None:
    """Three replicas: one is killed, all are killed, and what two of them do at once."""
    async with _replicated() as (fleet, stage):
        await stage.grow(SHARED)
        await stage.deploy()
        await _one_killed(report, fleet, stage)
        await _all_killed(report, fleet, stage)
        await _throughput(report, fleet)


async def rolling(report: Report) -> None:
    """Each replica in turn is drained and started anew, while users ask 200 times a second."""
    async with _replicated() as (fleet, stage):
        await stage.grow(ROLLED)
        users = Users(fleet)
        working = asyncio.ensure_future(users.work())
        began = time.monotonic()
        for one in fleet.replicas:
            say(f"restarting {one.name}")
            await _restart(one)
        took = time.monotonic() - began
        users.over.set()
        await working
        name = f"three replicas restarted in turn, {ROLLED} agents: requests that failed"
        report.add(name, [users.failed], "", goal=0)
        report.add("the same, requests", [users.asked], "")
        report.add("the same, requests a second", [users.asked / took], "1/s")
        report.add("all agents linked after the last restart", [await stage.until_linked()], "s")


async def _restart(one: Replica) -> None:
    """As a load balancer and a supervisor would: no new requests, an end, a start."""
    one.is_up = False
    await asyncio.sleep(NOTICED_S)
    one.drain()
    if code := await asyncio.to_thread(one.wait_ended):
        raise RuntimeError(f"replica {one.name} ended with {code}")
    one.start()
    await asyncio.to_thread(one.wait_ready)


class Users:
    """Ask replicas that are up, `RATE` times a second in sum, until it is over."""

    def __init__(self, fleet: Replicas) -> None:
        self._fleet = fleet
        self.asked = self.failed = 0
        self.over = asyncio.Event()

    async def work(self) -> None:
        """All of them."""
        async with aiohttp.ClientSession() as http:
            await asyncio.gather(*(self._user(http) for _ in range(USERS)))

    async def _user(self, http: aiohttp.ClientSession) -> None:
        while not self.over.is_set():
            began = time.monotonic()
            self.failed += not await self._answered(http, random.choice(self._fleet.up))
            self.asked += 1
            await asyncio.sleep(began + USERS / RATE - time.monotonic())

    async def _answered(self, http: aiohttp.ClientSession, one: Replica) -> bool:
        headers = {"authorization": f"Bearer {one.token}"}
        try:
            url = f"{one.url}/gql"
            async with http.post(url, json={"query": QUERY}, headers=headers) as answer:
                return answer.status == 200 and "errors" not in await answer.json()
        except aiohttp.ClientError:
            return False


async def _one_killed(report: Report, fleet: Replicas, stage: Stage) -> None:
    victim = fleet.replicas[-1]
    before = await _links(stage)
    say("killing one of three replicas")
    victim.kill()
    took = await stage.until_linked()
    moved = await _links(stage) - before
    report.add("one of three replicas killed: agents back", [took], "s", goal=5)
    report.add("of them, had to come again", [moved], "")
    spread = await stage.commit()
    report.add(f"then a commit to all of {SHARED}", [max(spread)], "s", goal=10)
    victim.start()
    await asyncio.to_thread(victim.wait_ready)


async def _all_killed(report: Report, fleet: Replicas, stage: Stage) -> None:
    say("killing all replicas")
    for one in fleet.replicas:
        one.kill()
    await stage.look()
    await asyncio.to_thread(stage.fleet.commit, next(stage.versions))
    await asyncio.sleep(AWAY_S)
    for one in fleet.replicas:
        one.start()
    for one in fleet.replicas:
        await asyncio.to_thread(one.wait_ready)
    began = time.monotonic()
    await asyncio.to_thread(stage.fleet.hint)
    took = await stage.told({one["id"] for one in stage.fleet.clusters}, began, stage.crowds)
    name = f"all replicas away for {AWAY_S:.0f} s: what was committed meanwhile is everywhere"
    report.add(name, [max(took)], "s", goal=30)


async def _throughput(report: Report, fleet: Replicas) -> None:
    """By processor time: on two cores the users' own work is in the way of a second replica's."""
    alone, both = fleet.replicas[:1], fleet.replicas[:2]
    rates: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(2):
        for some in (alone, both):
            rates[len(some)].append(await _asked(some))
    report.add(
        "API queries a second of processor time, two replicas",
        rates[2],
        "1/s",
        baseline="one replica",
        baseline_values=rates[1],
        goal=0.8,
        at_most=False,
    )


async def _asked(some: Sequence[Any]) -> float:
    """Queries for each processor second of these replicas, by users who never rest."""
    pids = [one.pid for one in some]
    before, count, until = cpu_seconds(pids), 0, time.monotonic() + LOAD_S

    async def user(number: int, http: aiohttp.ClientSession) -> None:
        nonlocal count
        replica = some[number % len(some)]
        headers = {"authorization": f"Bearer {replica.token}"}
        while time.monotonic() < until:
            url = f"{replica.url}/gql"
            async with http.post(url, json={"query": QUERY}, headers=headers) as answer:
                assert "errors" not in await answer.json()
            count += 1

    async with aiohttp.ClientSession() as http:
        await asyncio.gather(*(user(number, http) for number in range(USERS)))
    return count / (cpu_seconds(pids) - before)


async def _links(stage: Stage) -> int:
    return sum(one["links"] for one in await stage.look())


@asynccontextmanager
async def _replicated() -> AsyncGenerator[tuple[Replicas, Stage], None]:
    """Three replicas on PostgreSQL and Redis, and agents that know all three."""
    postgres, redis = find_postgres(), find_redis()
    if postgres is None or redis is None:
        raise RuntimeError("PostgreSQL and Redis are needed")
    async with AsyncExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="towline-scale-")))
        database = ends.enter_context(Postgres(postgres))
        bus = ends.enter_context(Redis(redis))
        git = ends.enter_context(GitServer())
        fleet = Replicas(folder, database.new_database(), bus.url)
        ends.callback(fleet.stop)
        fleet.start()
        first = fleet.replicas[0]
        hub = Hub(
            Target(first.url, first.token),
            tuple(f"127.0.0.1:{one.agents}" for one in fleet.replicas),
            (first.data / "tls" / "ca.crt").read_text(),
            ProcessGauge(first.pid),
            git=git,
        )
        group = ends.enter_context(ProcessGroup())
        crowds = [await Crowd.start(group, folder / "crowds.log") for _ in range(2)]
        stage = Stage(hub, Fleet(hub.client(), "shared"), crowds, Plan(clusters=SHARED), say)
        try:
            yield fleet, stage
        finally:
            for crowd in crowds:
                await crowd.stop()


def _add(report: Report, outcome: Outcome) -> None:
    for one in outcome.figures:
        report.add(one.name, [one.value], one.unit, goal=one.goal)


def _spread(spreads: Mapping[int, Sequence[Sequence[float]]]) -> Curve:
    """When half of the clusters had told that a commit is there, and when all had."""
    lines = {
        name: [(size, statistics.median(map(of, took))) for size, took in spreads.items()]
        for name, of in (("all", max), ("half", statistics.median))
    }
    return Curve("A commit to all clusters", "clusters", "seconds until told", lines)


def _slope(line: Sequence[tuple[float, float]]) -> float:
    (x0, y0), (x1, y1) = line[0], line[-1]
    return (y1 - y0) / (x1 - x0)


def _plot(name: str, curve: Curve) -> None:
    (IMAGES / f"{name}.svg").write_text(svg(curve))


GROUPS: Mapping[str, Group] = {
    "connect": connect,
    "idle": idle,
    "commit": commit,
    "neighbours": neighbours,
    "replicas": replicas,
    "rolling": rolling,
}


def main() -> None:
    """Measure the groups that are named."""
    for name in sys.argv[1:] or GROUPS:
        report = Report(f"scale_{name}")
        asyncio.run(GROUPS[name](report))
        report.write()


if __name__ == "__main__":
    main()
