"""Measures requests over HTTP/2 beside the same over HTTP/1.1, both through this proxy."""

import random
from collections import defaultdict
from dataclasses import replace

from bench.harness.compiled_client import ClientResult, TlsTarget
from bench.harness.tunnel_harness import TunnelHarness
from bench.report import BenchReport

ROUNDS = 4
SECONDS = 1.0
AT_A_TIME = (1, 16, 128)
DOWNLOAD = 10 << 20
HTTP1, OWN, ONE = "HTTP/1.1", "HTTP/2", "one HTTP/2 connection"


async def measure(stand: TunnelHarness, report: BenchReport) -> None:
    """Requests per second and CPU time per request with 1, 16 and 128 requests at a time: over as
    many connections of both versions, and over one HTTP/2 connection. Downloads in the same way.
    """
    http1 = TlsTarget(
        HTTP1,
        stand.https_port,
        stand.stage.authority,
        stand.proxy.prefix,
        stand.token,
        stand.proxy.pids,
    )
    runs: dict[tuple[str, int], list[ClientResult]] = defaultdict(list)
    downloads: dict[str, list[ClientResult]] = defaultdict(list)
    for _ in range(ROUNDS):
        for count in AT_A_TIME:
            versions = [http1, replace(http1, name=OWN, http2=count)]
            versions.append(replace(http1, name=ONE, http2=1))
            for version in random.sample(versions, len(versions)):
                runs[version.name, count].append(version.measure("/small", count, SECONDS))
        for version in (http1, replace(http1, name=OWN, http2=1)):
            path = f"/bytes?n={DOWNLOAD}"
            downloads[version.name].append(version.measure(path, 1, SECONDS))
    for count in AT_A_TIME:
        for name in (OWN, ONE):
            _report(report, f"get{count} over {name}", runs[name, count], runs[HTTP1, count])
    report.add(
        f"bulk1 over {OWN}",
        [run.throughput for run in downloads[OWN]],
        "MB/s",
        baseline=HTTP1,
        baseline_values=[run.throughput for run in downloads[HTTP1]],
    )


def _report(
    report: BenchReport, name: str, runs: list[ClientResult], baseline: list[ClientResult]
) -> None:
    report.add(
        name,
        [run.rate for run in runs],
        "req/s",
        baseline=HTTP1,
        baseline_values=[run.rate for run in baseline],
    )
    report.add(
        f"{name}, CPU",
        [run.cpu_per_request for run in runs],
        "us/req",
        baseline=HTTP1,
        baseline_values=[run.cpu_per_request for run in baseline],
    )
