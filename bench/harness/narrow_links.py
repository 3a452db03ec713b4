"""Measures a narrow link between hub and agent: small requests during bulk downloads."""

import asyncio

from bench.harness.load_generator import BenchTarget, Downloads, download_rate, send_requests
from bench.harness.tunnel_harness import TunnelHarness
from bench.report import BenchReport

RATE, DELAY = 12_500_000, 0.025
SECONDS, FILL_SECONDS = 5.0, 2.0
BODY = 20_000_000
ROUND_TRIP_MS = DELAY * 2 * 1000


async def measure(harness: TunnelHarness, report: BenchReport) -> None:
    """Link of 100 Mbit/s with 50 ms round trip: small requests during four downloads."""
    with harness.agents_over_line("narrow", RATE, DELAY) as agent:
        system = harness.through("narrow", agent)
        idle = await send_requests(system, "/small", 1, FILL_SECONDS)
        report.add("100 Mbit/s, 50 ms: idle GET p50", [idle.percentile(0.5) * 1000], "ms")
        await _beside_bulk(system, report)
        await _lists(system, report)


async def _beside_bulk(system: BenchTarget, report: BenchReport) -> None:
    downloads = Downloads(system, BODY, 4)
    await asyncio.sleep(FILL_SECONDS)
    before = downloads.received
    tally = await send_requests(system, "/small", 1, SECONDS)
    use = (downloads.received - before) / tally.seconds / RATE
    await downloads.stop()
    name = "100 Mbit/s, 50 ms, 4 bulk"
    p50, worst = tally.percentile(0.5) * 1000, max(tally.latencies) * 1000
    report.add(f"{name}: GET p50", [p50], "ms", goal=ROUND_TRIP_MS + 60)
    report.add(f"{name}: GET worst", [worst], "ms", goal=500)
    report.add(f"{name}: use of the line", [use], "of 1", goal=0.93, at_most=False)


async def _lists(system: BenchTarget, report: BenchReport) -> None:
    """Compares lists of objects, which are compressed, with random bytes, which are not. Each is
    asked for once: the data link, which has repeated reads, compresses nothing.
    """
    lists, plain = [], []
    for turn in range(3):
        plain.append(await download_rate(system, BODY, "bytes", turn) / 1e6)
        lists.append(await download_rate(system, BODY, "list", turn) / 1e6)
    report.add(
        "100 Mbit/s, 50 ms: lists, packed",
        lists,
        "MB/s",
        baseline="random bytes",
        baseline_values=plain,
        goal=2.5,
        at_most=False,
    )
