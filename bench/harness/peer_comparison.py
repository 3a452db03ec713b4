"""Measures requests and downloads beside foreign software; see `bench.harness.peers`."""

import random
from collections import defaultdict

from bench.harness.client_report import Baseline, add_rates, add_throughput
from bench.harness.compiled_client import ClientResult, TlsTarget
from bench.harness.peers import peers
from bench.harness.tunnel_harness import TunnelHarness
from bench.report import BenchReport

ROUNDS = 4
SECONDS = 1.0
CONNECTIONS = (1, 16, 128)
STREAMS = (1, 4)
DOWNLOAD = 10 << 20
GOAL_OF_RATES = 1.5
GOAL_OF_BULK = 4.0
GOAL_OF_CPU_US = 70
OURS = "Towline"

Runs = dict[tuple[str, str, int], list[ClientResult]]


async def measure(stand: TunnelHarness, report: BenchReport) -> None:
    """Requests per second, CPU time per request and downloads; systems run in random order."""
    ours = TlsTarget(
        OURS,
        stand.https_port,
        stand.stage.authority,
        stand.proxy.prefix,
        stand.token,
        stand.proxy.pids,
    )
    runs: Runs = defaultdict(list)
    with peers(stand.backend) as others:
        for _ in range(ROUNDS):
            for system in random.sample([ours, *others], len(others) + 1):
                _run(system, runs)
    for peer in others:
        _report(report, runs, peer.name)
    for count in CONNECTIONS:
        cpu = [run.cpu_per_request for run in runs[OURS, "get", count]]
        goal = GOAL_OF_CPU_US if count == max(CONNECTIONS) else None
        report.add(f"get{count} over TLS, CPU", cpu, "us/req", goal=goal)


def _run(system: TlsTarget, runs: Runs) -> None:
    for count in CONNECTIONS:
        runs[system.name, "get", count].append(system.measure("/small", count, SECONDS))
    for count in STREAMS:
        path = f"/bytes?n={DOWNLOAD}"
        runs[system.name, "bulk", count].append(system.measure(path, count, SECONDS))


def _report(report: BenchReport, runs: Runs, peer: str) -> None:
    """Compares with one peer. Only konnectivity decides goals: nginx is no tunnel."""
    is_goal = peer == "konnectivity"
    for count in CONNECTIONS:
        add_rates(
            report,
            f"get{count} over TLS vs {peer}",
            runs[OURS, "get", count],
            Baseline(peer, runs[peer, "get", count]),
            GOAL_OF_RATES if is_goal else None,
        )
    for count in STREAMS:
        add_throughput(
            report,
            f"bulk{count} over TLS vs {peer}",
            runs[OURS, "bulk", count],
            Baseline(peer, runs[peer, "bulk", count]),
            GOAL_OF_BULK if is_goal else None,
        )
