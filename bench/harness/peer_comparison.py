"""Measures requests and downloads beside foreign software; see `bench.harness.peers`."""

import random
from collections import defaultdict

from bench.harness.client_report import Baseline, add_rates, add_throughput
from bench.harness.compiled_client import ClientResult, TlsTarget
from bench.harness.peers import peers
from bench.harness.tunnel_harness import TunnelHarness
from bench.report import BenchReport
from proxy.settings import DataPlane

ROUNDS = 4
SECONDS = 1.0
CONNECTIONS = (1, 16, 128)
STREAMS = (1, 4)
DOWNLOAD = 10 << 20
GOAL_OF_RATES = 1.5
GOAL_OF_BULK = 4.0
GOAL_OF_CPU_US = 70
OURS = "Towline"
PORTABLE = "Towline, portable"
_PORTABLE_PATH = {"TOWLINE_PROXY__DATA_PLANE": DataPlane.PORTABLE.value}

Runs = dict[tuple[str, str, int], list[ClientResult]]


async def measure(harness: TunnelHarness, report: BenchReport) -> None:
    """Requests per second, CPU time per request and downloads; systems run in random order."""
    runs: Runs = defaultdict(list)
    with TunnelHarness(_PORTABLE_PATH) as portable, peers(harness.backend) as others:
        systems = [_target(OURS, harness), _target(PORTABLE, portable), *others]
        for _ in range(ROUNDS):
            for system in random.sample(systems, len(systems)):
                _run(system, runs)
    for ours in (OURS, PORTABLE):
        for peer in others:
            _report(report, runs, ours, peer.name)
        for count in CONNECTIONS:
            cpu = [run.cpu_per_request for run in runs[ours, "get", count]]
            goal = GOAL_OF_CPU_US if ours == OURS and count == max(CONNECTIONS) else None
            report.add(f"{ours}: get{count} over TLS, CPU", cpu, "us/req", goal=goal)


def _target(name: str, harness: TunnelHarness) -> TlsTarget:
    proxy = harness.proxy
    return TlsTarget(
        name, harness.https_port, harness.stage.authority, proxy.prefix, harness.token, proxy.pids
    )


def _run(system: TlsTarget, runs: Runs) -> None:
    for count in CONNECTIONS:
        runs[system.name, "get", count].append(system.measure("/small", count, SECONDS))
    for count in STREAMS:
        path = f"/bytes?n={DOWNLOAD}"
        runs[system.name, "bulk", count].append(system.measure(path, count, SECONDS))


def _report(report: BenchReport, runs: Runs, ours: str, peer: str) -> None:
    """Compares with one peer. Goals are those of the native path beside konnectivity: nginx is no
    tunnel."""
    is_goal = ours == OURS and peer == "konnectivity"
    for count in CONNECTIONS:
        add_rates(
            report,
            f"{ours}: get{count} over TLS vs {peer}",
            runs[ours, "get", count],
            Baseline(peer, runs[peer, "get", count]),
            GOAL_OF_RATES if is_goal else None,
        )
    for count in STREAMS:
        add_throughput(
            report,
            f"{ours}: bulk{count} over TLS vs {peer}",
            runs[ours, "bulk", count],
            Baseline(peer, runs[peer, "bulk", count]),
            GOAL_OF_BULK if is_goal else None,
        )
