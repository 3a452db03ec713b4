"""Measures many agents, idle watches, and connection churn."""

import asyncio
import random
import time
from resource import RLIMIT_NOFILE, getrlimit

from bench.harness.load_generator import (
    BenchTarget,
    connect,
    open_idle_watches,
    send_requests,
    upgrade,
)
from bench.harness.programs import cpu_seconds, descriptors, resident_bytes
from bench.harness.tunnel_harness import TunnelHarness
from bench.report import BenchReport

AGENTS = 2_000
DESCRIPTORS_OF_WATCH = 5
"""Upper bound of the descriptors that one watch needs in one process."""
WATCHES = min(10_000, getrlimit(RLIMIT_NOFILE)[1] // DESCRIPTORS_OF_WATCH)
CHURN_SECONDS = 20.0
CHURN_USERS = 40
SETTLE_SECONDS = 2.0
LEAVING_SECONDS = 30.0


async def measure_agents(harness: TunnelHarness, report: BenchReport) -> None:
    """Memory of idle agents, and how fast they connect."""
    tokens = harness.deploy_tokens([f"idle-{number}" for number in range(AGENTS)])
    before = resident_bytes(harness.hub_pid)
    with harness.agents_with(tokens):
        await asyncio.sleep(SETTLE_SECONDS)
        grown = resident_bytes(harness.hub_pid) - before
        report.add(
            "control plane's memory for an idle agent", [grown / AGENTS / 1000], "KB", goal=20
        )
    report.add(f"{AGENTS:,} agents connect for the first time in", [harness.connected_in], "s")
    await _reconnect(harness, report, tokens)


async def _reconnect(harness: TunnelHarness, report: BenchReport, tokens: list[str]) -> None:
    """Reconnects the same agents, as after a restart; measures the CPU time."""
    await asyncio.sleep(SETTLE_SECONDS)
    before = cpu_seconds([harness.hub_pid])
    with harness.agents_with(tokens) as agents:
        hub, others = cpu_seconds([harness.hub_pid]) - before, cpu_seconds([agents.pid])
    report.add(f"{AGENTS:,} agents connect in", [harness.connected_in], "s", goal=4)
    report.add("the same, CPU of the control plane", [hub], "s")
    report.add("the same, CPU of the agents and their start", [others], "s")


async def measure_watches(harness: TunnelHarness, report: BenchReport) -> None:
    """Memory of idle watches, and how fast they end."""
    hub, agent = harness.hub_pid, harness.agent.pid
    await open_idle_watches(harness.proxy, 1)
    before = {pid: resident_bytes(pid) for pid in (hub, agent)}
    began = time.perf_counter()
    writers = await open_idle_watches(harness.proxy, WATCHES)
    report.add(f"{WATCHES:,} watches open in", [time.perf_counter() - began], "s")
    grown = {pid: (resident_bytes(pid) - before[pid]) / WATCHES / 1000 for pid in before}
    report.add("control plane's memory for an idle watch", [grown[hub]], "KB", goal=8)
    report.add("agent's memory for an idle watch", [grown[agent]], "KB", goal=10)
    idle = descriptors(agent) - WATCHES
    for writer in writers:
        writer.close()
    began = time.perf_counter()
    for _ in range(int(LEAVING_SECONDS / 0.1)):
        if descriptors(agent) <= idle:
            break
        await asyncio.sleep(0.1)
    report.add("all watches gone upstream after", [time.perf_counter() - began], "s", goal=2)
    report.add("watches left upstream", [max(0, descriptors(agent) - idle)], "", goal=0)


async def measure_churn(harness: TunnelHarness, report: BenchReport) -> None:
    """Sends all kinds of requests with all kinds of endings; checks for leaks afterwards."""
    pids = harness.proxy.pids
    await _run_churn(harness.proxy, CHURN_SECONDS / 2)
    await asyncio.sleep(SETTLE_SECONDS)
    files = sum(map(descriptors, pids))
    memory = sum(map(resident_bytes, pids))
    count = await _run_churn(harness.proxy, CHURN_SECONDS)
    await asyncio.sleep(SETTLE_SECONDS)
    report.add("churn: requests", [count], "")
    left = sum(map(descriptors, pids)) - files
    report.add("churn: descriptors left", [left], "", goal=4)
    grown = sum(map(resident_bytes, pids))
    report.add(
        "churn: memory after",
        [grown / 1e6],
        "MB",
        baseline="before",
        baseline_values=[memory / 1e6],
        goal=1.05,
    )


async def _run_churn(system: BenchTarget, seconds: float) -> int:
    until = time.perf_counter() + seconds
    counts = await asyncio.gather(*(_user(system, until, seed) for seed in range(CHURN_USERS)))
    return sum(counts)


async def _user(system: BenchTarget, until: float, seed: int) -> int:
    choice, count = random.Random(seed), 0
    while time.perf_counter() < until:
        match choice.randrange(4):
            case 0:
                await send_requests(system, "/small", 1, 0.02)
            case 1:
                await _leave_within(system, f"/bytes?n={choice.randrange(1, 5_000_000)}", choice)
            case 2:
                await _leave_within(system, "/api/v1/watch?watch=1&rate=100", choice)
            case _:
                _, writer = await upgrade(system)
                writer.write(b"e" * choice.randrange(100_000))
                await asyncio.sleep(choice.random() * 0.02)
                writer.close()
        count += 1
    return count


async def _leave_within(system: BenchTarget, path: str, choice: random.Random) -> None:
    reader, writer = await connect(system)
    writer.write(system.head(path))
    await reader.read(choice.randrange(1, 100_000))
    await asyncio.sleep(choice.random() * 0.02)
    writer.transport.abort()
