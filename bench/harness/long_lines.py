"""Measures long lines between hub and agent beside konnectivity: downloads and uploads."""

import random
from collections import defaultdict
from contextlib import ExitStack

from bench.harness.client_report import Baseline, add_throughput
from bench.harness.compiled_client import ClientResult, TlsTarget
from bench.harness.peers import KONNECTIVITY, peers
from bench.harness.programs import running
from bench.harness.tunnel_harness import TunnelHarness
from bench.report import BenchReport
from towline.demo.ports import free_ports

RATE = 62_500_000
ROUND_TRIPS_MS = (0, 20, 100)
STREAMS = (1, 4)
ROUNDS = 2
SECONDS = 2.0
BODY = 16 << 20
# A large object of the API server.
OBJECT = 1 << 20
OURS = "Towline"

Runs = dict[tuple[str, str, int], list[ClientResult]]


async def measure(harness: TunnelHarness, report: BenchReport) -> None:
    """Lines of 500 Mbit/s with several round trips: megabytes per second. `object`: an upload of
    the size of a large object.
    """
    for round_trip in ROUND_TRIPS_MS:
        runs = _runs(harness, round_trip)
        for what in ("download", "upload", "object"):
            for count in STREAMS:
                add_throughput(
                    report,
                    f"500 Mbit/s, {round_trip} ms: {what}{count}",
                    runs[OURS, what, count],
                    Baseline(KONNECTIVITY, runs[KONNECTIVITY, what, count]),
                )


def _runs(harness: TunnelHarness, round_trip: int) -> Runs:
    """Measures systems in random order, each over a line of its own."""
    runs: Runs = defaultdict(list)
    delay, name = round_trip / 2000, f"far-{round_trip}"
    with ExitStack() as lines:

        def line(port: int) -> int:
            (entry,) = free_ports(1)
            lines.enter_context(running("shaper", RATE, delay, f"{entry}={port}"))
            return entry

        agent = lines.enter_context(harness.agents_over_line(name, RATE, delay))
        others = lines.enter_context(peers(harness.backend, [KONNECTIVITY], line))
        prefix, pids = harness.through(name, agent).prefix, (harness.hub_pid, agent.pid)
        authority = harness.stage.authority
        ours = TlsTarget(OURS, harness.https_port, authority, prefix, harness.token, pids)
        # The first request opens the data link.
        ours.measure("/small", 1, SECONDS)
        for _ in range(ROUNDS):
            for system in random.sample([ours, *others], 1 + len(others)):
                _run(system, runs)
    return runs


def _run(system: TlsTarget, runs: Runs) -> None:
    for count in STREAMS:
        download = system.measure(f"/bytes?n={BODY}", count, SECONDS)
        runs[system.name, "download", count].append(download)
        for what, size in (("upload", BODY), ("object", OBJECT)):
            runs[system.name, what, count].append(system.measure("/sink", count, SECONDS, size))
