"""Measures large bodies, upgraded connections, watches, and slow readers."""

import asyncio
import random
from collections import defaultdict

from bench.harness.load_generator import (
    BenchTarget,
    ask_often,
    connect,
    echo_bytes,
    echo_round_trips,
    fetch,
    percentile,
    watch,
)
from bench.harness.programs import cpu_seconds, resident
from bench.harness.tunnel_harness import TunnelHarness
from bench.report import BenchReport

ROUNDS = 4
BODY = 30_000_000
ECHO = 64 << 20
WATCHES, EVENTS, WATCH_SECONDS = 50, 100, 2.0
SLOW_BYTES, SLOW_RATE = 1 << 30, 100_000

Runs = dict[tuple[str, str], list[float]]


async def measure(stand: TunnelHarness, report: BenchReport) -> None:
    """Measures 1 and 4 downloads, echo and watches; systems run in random order in each round. A
    first download has a request head of its own, so that nothing is known of it.
    """
    runs: Runs = defaultdict(list)
    systems = [stand.direct, stand.relay, stand.proxy]
    for turn in range(ROUNDS):
        for system in random.sample(systems, len(systems)):
            await _bulk(system, runs, turn)
            await _watches(system, runs)
            if system is not stand.relay:
                await _echo(system, runs)
    for name in ("first bulk1", "bulk1", "bulk4"):
        _against(report, runs, name, "relay", "MB/s")
        _against(report, runs, name, "direct", "MB/s")
    _against(report, runs, "echo round trips", "direct", "1/s")
    _against(report, runs, "echo", "direct", "MB/s")
    _against(report, runs, "watch p99", "relay", "ms")
    _against(report, runs, "watch CPU per 1000 events", "relay", "ms")


def _against(report: BenchReport, runs: Runs, name: str, baseline: str, unit: str) -> None:
    shown = "own relay" if baseline == "relay" else baseline
    report.add(
        f"{name} vs {shown}",
        runs["proxy", name],
        unit,
        baseline=shown,
        baseline_values=runs[baseline, name],
    )


async def _bulk(system: BenchTarget, runs: Runs, turn: int) -> None:
    runs[system.name, "first bulk1"].append(await fetch(system, BODY, turn=turn + 1) / 1e6)
    await fetch(system, BODY)
    runs[system.name, "bulk1"].append(await fetch(system, BODY) / 1e6)
    began = asyncio.get_running_loop().time()
    await asyncio.gather(*(fetch(system, BODY) for _ in range(4)))
    took = asyncio.get_running_loop().time() - began
    runs[system.name, "bulk4"].append(4 * BODY / took / 1e6)


async def _echo(system: BenchTarget, runs: Runs) -> None:
    runs[system.name, "echo round trips"].append(await echo_round_trips(system, 1.0))
    runs[system.name, "echo"].append(await echo_bytes(system, ECHO) / 1e6)


async def _watches(system: BenchTarget, runs: Runs) -> None:
    before = cpu_seconds(system.pids)
    found = await asyncio.gather(*(watch(system, EVENTS, WATCH_SECONDS) for _ in range(WATCHES)))
    used = cpu_seconds(system.pids) - before
    ages = [age for watched in found for age in watched]
    runs[system.name, "watch p99"].append(percentile(ages, 0.99) * 1000)
    runs[system.name, "watch CPU per 1000 events"].append(used / len(ages) * 1e6)


async def measure_slow_reader(stand: TunnelHarness, report: BenchReport) -> None:
    """Small requests of four users, with and without a user who reads 1 GB at 100 KB/s."""
    await ask_often(stand.proxy, "/small", 4, 0.5)
    alone, beside, grown = [], [], []
    for _ in range(ROUNDS):
        alone.append((await ask_often(stand.proxy, "/small", 4, 1.0)).rate)
        held = resident(stand.hub_pid)
        reader = asyncio.ensure_future(_read_slowly(stand.proxy))
        await asyncio.sleep(0.5)
        beside.append((await ask_often(stand.proxy, "/small", 4, 1.0)).rate)
        grown.append((resident(stand.hub_pid) - held) / 1e6)
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
    report.add(
        "get4 with a slow reader",
        beside,
        "req/s",
        baseline="alone",
        baseline_values=alone,
        goal=0.9,
        at_most=False,
    )
    report.add("control plane's memory for a slow reader", grown, "MB", goal=2)


async def _read_slowly(system: BenchTarget) -> None:
    reader, writer = await connect(system)
    try:
        writer.write(system.head(f"/bytes?n={SLOW_BYTES}"))
        while True:
            await reader.read(SLOW_RATE // 10)
            await asyncio.sleep(0.1)
    finally:
        writer.close()
