"""Scenarios of the simulator. Each one continues with the stage of the previous one."""

import asyncio
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from itertools import cycle

from core.errors import Invalid
from core.runtime.tasks import Tasks
from towline.simulate.noisy_neighbour import measure_interference
from towline.simulate.results import (
    Curve,
    Figure,
    ScenarioResult,
    cumulative_distribution,
    linear_fit,
    percentile,
)
from towline.simulate.simulation import Simulation

_SETTLE_S = 3.0
_STEPS = (0.05, 0.25, 0.5, 1.0)
_FLAP_SHARE, _CUT_EVERY_S = 0.05, 1.0
_LINKED = "% of agents"
_SLOW_DUTY = (0.45, 0.05)
_HOUR = 3600.0


async def onboard(stage: Simulation) -> ScenarioResult:
    """Registers and connects all clusters at once."""
    figures = await _connect_clusters(stage, stage.plan.clusters)
    if not figures:
        raise Invalid("onboard must run before scenarios that need agents")
    return ScenarioResult("onboard", figures)


async def idle(stage: Simulation) -> ScenarioResult:
    """Measures 5 %, 25 %, 50 % and 100 % of the clusters without any changes.

    The last half connects at once.
    """
    sizes = sorted({max(1, round(stage.plan.clusters * part)) for part in _STEPS})
    start = stage.hub.gauge.read()
    cpu, memory, hourly = [], [(0.0, start.memory / 1e6)], 0.0
    joined: list[Figure] = []
    for size in sizes:
        if size < stage.size:
            continue
        joined = await _connect_clusters(stage, size) or joined
        await asyncio.sleep(_SETTLE_S)
        stage.say(f"watching {size} idle agents for {stage.plan.seconds:.0f} s")
        used, sent, received = await _measure_idle(stage)
        hourly = (sent + received) / size / stage.plan.seconds * _HOUR
        cpu.append((float(size), 1000 * used / stage.plan.seconds))
        memory.append((float(size), stage.hub.gauge.read().memory / 1e6))
    each = [(size, mcpu / size) for size, mcpu in cpu]
    figures = [
        Figure("idle agent, control plane's CPU", each[-1][1], "mCPU", 1.0),
        Figure("idle agent, control plane's memory", 1000 * linear_fit(memory)[1], "kB", 250.0),
        Figure("idle agent, bytes per hour", hourly / 1000, "kB", 200.0),
        *joined,
    ]
    curves = [
        Curve("CPU of the control plane at rest", "agents", "mCPU", {"measured": cpu}),
        Curve("Memory of the control plane", "agents", "MB", {"measured": memory}),
    ]
    return ScenarioResult("idle", figures, curves)


async def commit(stage: Simulation) -> ScenarioResult:
    """Changes a service in every cluster with one commit."""
    first = await stage.deploy()
    before = stage.hub.gauge.read().cpu
    stage.say(f"committing to {stage.size} clusters")
    took = await stage.commit()
    used = stage.hub.gauge.read().cpu - before
    figures = [
        *([Figure("a first service in each cluster", first, "s")] if first else []),
        Figure(f"commit to all of {stage.size}, acknowledged", max(took), "s", 10.0),
        Figure("commit to all, p50", percentile(took, 0.5), "s"),
        Figure("commit to all, p95", percentile(took, 0.95), "s"),
        Figure("commit to all, control plane's CPU per cluster", 1000 * used / stage.size, "ms"),
    ]
    lines = {"acknowledged": cumulative_distribution(took)}
    return ScenarioResult(
        "commit", figures, [Curve("Commit to all", "seconds", "% of clusters", lines)]
    )


async def noisy(stage: Simulation) -> ScenarioResult:
    """Measures report latencies while one agent reports drift continuously.

    Each round uses another, fresh agent, so that its first burst counts too.
    """
    loud = stage.workers[0]
    names = cycle(loud.names)
    stage.say(f"one agent reports {stage.plan.noise:.0f} changes per second, with pauses")

    @asynccontextmanager
    async def make_noise() -> AsyncGenerator[None]:
        name = next(names)
        await loud.send_command("noise", agents=[name], rate=stage.plan.noise)
        try:
            yield
        finally:
            await loud.send_command("noise", agents=[], rate=0.0)
            await loud.send_command("renew", agents=[name])
        await stage.wait_linked()

    result = await measure_interference(stage, make_noise)
    figures = [
        *result.figures("with a noisy agent"),
        Figure("control plane's CPU for the noisy agent", result.cpu, "mCPU"),
    ]
    return ScenarioResult("noisy", figures, [result.curve()])


async def churn(stage: Simulation) -> ScenarioResult:
    """Measures costs and report latencies while all agents replay a recording."""
    if stage.plan.churn is None:
        raise Invalid("scenario churn needs a recording: set --churn", field="churn")
    await stage.deploy()
    stage.say(f"all clusters replay {stage.plan.churn}, with pauses")
    reported, took = 0, 0.0

    @asynccontextmanager
    async def replay_recording() -> AsyncGenerator[None]:
        nonlocal reported, took
        before, began = await stage.churn(stage.plan.churn), time.monotonic()
        try:
            yield
        finally:
            reported += await stage.churn(None) - before
            took += time.monotonic() - began

    result = await measure_interference(stage, replay_recording)
    figures = [
        Figure("churn, changes reported per second", reported / took, ""),
        Figure("churn, control plane's CPU per agent", result.cpu / stage.size, "mCPU"),
        *result.figures("during churn"),
    ]
    return ScenarioResult("churn", figures, [result.curve()])


async def hung(stage: Simulation) -> ScenarioResult:
    """Measures report latencies while 30 % of the agents accept data but never respond."""

    async def stand_still() -> None:
        stage.workers[0].hang()
        await asyncio.Event().wait()

    return await _measure_disturbed(
        stage, "hung", f"{len(stage.workers[0].names)} agents hang", stand_still
    )


async def slow(stage: Simulation) -> ScenarioResult:
    """Measures report latencies while 30 % of the agents read 10 % of the time."""
    rest, awake = _SLOW_DUTY

    async def stop_and_go() -> None:
        while True:
            stage.workers[0].hang()
            await asyncio.sleep(rest)
            stage.workers[0].go_on()
            await asyncio.sleep(awake)

    return await _measure_disturbed(
        stage, "slow", f"{len(stage.workers[0].names)} read slowly", stop_and_go
    )


async def flapping(stage: Simulation) -> ScenarioResult:
    """Closes 5 % of all connections every second, then waits until all agents are back."""
    before = stage.hub.gauge.read().cpu
    stage.say(f"cutting {_FLAP_SHARE:.0%} of all connections every second")
    began, cuts, linked = time.monotonic(), 0, []
    while (at := time.monotonic() - began) < stage.plan.seconds:
        linked.append((at, await stage.linked()))
        cuts += await stage.close_connections(_FLAP_SHARE)
        await asyncio.sleep(_CUT_EVERY_S)
    reconnection = await stage.wait_linked()
    used = stage.hub.gauge.read().cpu - before
    figures = [
        Figure("connections cut", float(cuts), ""),
        Figure("all linked again after the last cut", reconnection, "s"),
        Figure("flapping, control plane's CPU per cut", 1000 * used / max(cuts, 1), "ms"),
    ]
    curve = Curve("Linked while connections are cut", "seconds", _LINKED, {"linked": linked})
    return ScenarioResult("flapping", figures, [curve])


async def storm(stage: Simulation) -> ScenarioResult:
    """Kills and restarts the control plane; an existing one only loses all connections."""
    if stage.own is not None:
        stage.say("killing the control plane")
        await asyncio.to_thread(stage.own.stop, signal.SIGKILL)
        await asyncio.to_thread(stage.own.start)
        stage.hub = stage.own.hub
    else:
        stage.say("cutting all connections")
        await stage.close_connections(1.0)
    reconnection = await stage.record_reconnection()
    curve = Curve("Back after the storm", "seconds", _LINKED, {"linked": reconnection})
    return ScenarioResult(
        "storm", [Figure(f"all {stage.size} agents back", reconnection[-1][0], "s", 20.0)], [curve]
    )


Scenario = Callable[[Simulation], Awaitable[ScenarioResult]]
SCENARIOS: Mapping[str, Scenario] = {
    "idle": idle,
    "onboard": onboard,
    "commit": commit,
    "churn": churn,
    "hung": hung,
    "slow": slow,
    "noisy": noisy,
    "flapping": flapping,
    "storm": storm,
}


async def _connect_clusters(stage: Simulation, size: int) -> list[Figure]:
    """Registers and connects clusters up to `size`; returns no figures if none were missing."""
    before, missing = stage.hub.gauge.read(), size - stage.size
    if missing <= 0:
        return []
    took = await stage.grow(size)
    used = stage.hub.gauge.read().cpu - before.cpu
    return [
        Figure(f"connect {missing} agents", took, "s", 10.0),
        Figure(
            "register and connect, control plane's CPU per cluster", 1000 * used / missing, "ms"
        ),
    ]


async def _measure_idle(stage: Simulation) -> tuple[float, int, int]:
    """Measures CPU seconds, bytes sent and bytes received for the plan's duration."""
    before, (sent, received) = stage.hub.gauge.read(), await stage.traffic()
    await asyncio.sleep(stage.plan.seconds)
    after, (now_sent, now_received) = stage.hub.gauge.read(), await stage.traffic()
    return after.cpu - before.cpu, now_sent - sent, now_received - received


async def _measure_disturbed(
    stage: Simulation, name: str, text: str, disturb: Callable[[], Coroutine[None, None, None]]
) -> ScenarioResult:
    """Compares report latencies of quiet agents with and without disturbed agents."""
    backs: list[float] = []
    stage.say(f"{text}, with pauses")

    @asynccontextmanager
    async def run_disturbance() -> AsyncGenerator[None]:
        tasks = Tasks(name)
        tasks.spawn("disturb", disturb())
        try:
            yield
        finally:
            await tasks.stop()
            stage.workers[0].go_on()
        backs.append(await stage.wait_linked())

    result = await measure_interference(stage, run_disturbance)
    figures = result.figures(f"with {name} agents")
    figures.append(Figure(f"{name} agents reconnected after", max(backs), "s"))
    return ScenarioResult(name, figures, [result.curve()])
