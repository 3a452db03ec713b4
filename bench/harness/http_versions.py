"""Measures requests over HTTP/2 beside the same over HTTP/1.1, through this proxy and nginx."""

import random
from collections import defaultdict
from dataclasses import replace

from bench.harness.client_report import Baseline, add_rates, add_throughput
from bench.harness.compiled_client import ClientResult, TlsTarget
from bench.harness.peers import NGINX, peers
from bench.harness.tunnel_harness import TunnelHarness
from bench.report import BenchReport

ROUNDS = 4
SECONDS = 1.0
AT_A_TIME = (1, 16, 128)
DOWNLOAD = 10 << 20
HTTP1, OWN, ONE = "HTTP/1.1", "HTTP/2", "one HTTP/2 connection"

Runs = dict[tuple[str, str, int], list[ClientResult]]


async def measure(harness: TunnelHarness, report: BenchReport) -> None:
    """Requests per second and CPU time per request with 1, 16 and 128 requests at a time: over as
    many connections of both versions, and over one HTTP/2 connection. Downloads in the same way.
    """
    ours = TlsTarget(
        "Towline",
        harness.https_port,
        harness.stage.authority,
        harness.proxy.prefix,
        harness.token,
        harness.proxy.pids,
    )
    runs: Runs = defaultdict(list)
    with peers(harness.backend, [NGINX]) as found:
        systems = [ours, *found]
        for _ in range(ROUNDS):
            for system in random.sample(systems, len(systems)):
                _run(system, runs)
    for system in systems:
        _report(report, runs, system.name)


def _run(system: TlsTarget, runs: Runs) -> None:
    for count in AT_A_TIME:
        versions = {HTTP1: 0, OWN: count, ONE: 1}
        for name in random.sample(list(versions), len(versions)):
            version = replace(system, http2=versions[name])
            result = version.measure("/small", count, SECONDS)
            runs[system.name, name, count].append(result)
    for name, http2 in ((HTTP1, 0), (OWN, 1)):
        result = replace(system, http2=http2).measure(f"/bytes?n={DOWNLOAD}", 1, SECONDS)
        runs[system.name, name, 0].append(result)


def _report(report: BenchReport, runs: Runs, system: str) -> None:
    for count in AT_A_TIME:
        baseline = Baseline(HTTP1, runs[system, HTTP1, count])
        for name in (OWN, ONE):
            add_rates(
                report, f"{system}: get{count} over {name}", runs[system, name, count], baseline
            )
    baseline = Baseline(HTTP1, runs[system, HTTP1, 0])
    add_throughput(report, f"{system}: bulk1 over {OWN}", runs[system, OWN, 0], baseline)
