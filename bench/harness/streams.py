"""Measures large bodies, upgraded connections, watches, and slow readers."""

import asyncio
import random
from collections import defaultdict

from bench.harness.load_generator import (
    BenchTarget,
    connect,
    download_rate,
    echo_bytes,
    echo_round_trips,
    percentile,
    send_requests,
    watch,
)
from bench.harness.programs import cpu_seconds, resident_bytes
from bench.harness.tunnel_harness import TunnelHarness
from bench.report import BenchReport

ROUNDS = 4
BODY = 30_000_000
ECHO = 64 << 20
WATCHES, EVENTS, WATCH_SECONDS = 50, 100, 2.0
SLOW_BYTES, SLOW_RATE = 1 << 30, 100_000

Runs = dict[tuple[str, str], list[float]]


async def measure(harness: TunnelHarness, report: BenchReport) -> None:
    """Measures 1 and 4 downloads, echo and watches; systems run in random order in each round. A
    first download has a request head of its own, so that nothing is known of it.
    """
    runs: Runs = defaultdict(list)
    systems = [harness.direct, harness.relay, harness.proxy]
    for turn in range(ROUNDS):
        for system in random.sample(systems, len(systems)):
            await _measure_downloads(system, runs, turn)
            await _measure_watches(system, runs)
            if system is not harness.relay:
                await _measure_echo(system, runs)
    for name in ("first bulk1", "bulk1", "bulk4"):
        _add_comparison(report, runs, name, "relay", "MB/s")
        _add_comparison(report, runs, name, "direct", "MB/s")
    _add_comparison(report, runs, "echo round trips", "direct", "1/s")
    _add_comparison(report, runs, "echo", "direct", "MB/s")
    _add_comparison(report, runs, "watch p99", "relay", "ms")
    _add_comparison(report, runs, "watch CPU per 1000 events", "relay", "ms")


def _add_comparison(report: BenchReport, runs: Runs, name: str, baseline: str, unit: str) -> None:
    label = "own relay" if baseline == "relay" else baseline
    report.add(
        f"{name} vs {label}",
        runs["proxy", name],
        unit,
        baseline=label,
        baseline_values=runs[baseline, name],
    )


async def _measure_downloads(system: BenchTarget, runs: Runs, turn: int) -> None:
    runs[system.name, "first bulk1"].append(await download_rate(system, BODY, turn=turn + 1) / 1e6)
    await download_rate(system, BODY)
    runs[system.name, "bulk1"].append(await download_rate(system, BODY) / 1e6)
    began = asyncio.get_running_loop().time()
    await asyncio.gather(*(download_rate(system, BODY) for _ in range(4)))
    took = asyncio.get_running_loop().time() - began
    runs[system.name, "bulk4"].append(4 * BODY / took / 1e6)


async def _measure_echo(system: BenchTarget, runs: Runs) -> None:
    runs[system.name, "echo round trips"].append(await echo_round_trips(system, 1.0))
    runs[system.name, "echo"].append(await echo_bytes(system, ECHO) / 1e6)


async def _measure_watches(system: BenchTarget, runs: Runs) -> None:
    before = cpu_seconds(system.pids)
    found = await asyncio.gather(*(watch(system, EVENTS, WATCH_SECONDS) for _ in range(WATCHES)))
    used = cpu_seconds(system.pids) - before
    ages = [age for watched in found for age in watched]
    runs[system.name, "watch p99"].append(percentile(ages, 0.99) * 1000)
    runs[system.name, "watch CPU per 1000 events"].append(used / len(ages) * 1e6)


async def measure_slow_reader(harness: TunnelHarness, report: BenchReport) -> None:
    """Small requests of four users, with and without a user who reads 1 GB at 100 KB/s."""
    await send_requests(harness.proxy, "/small", 4, 0.5)
    alone, beside, grown = [], [], []
    for _ in range(ROUNDS):
        alone.append((await send_requests(harness.proxy, "/small", 4, 1.0)).rate)
        held = resident_bytes(harness.hub_pid)
        reader = asyncio.ensure_future(_read_slowly(harness.proxy))
        await asyncio.sleep(0.5)
        beside.append((await send_requests(harness.proxy, "/small", 4, 1.0)).rate)
        grown.append((resident_bytes(harness.hub_pid) - held) / 1e6)
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
