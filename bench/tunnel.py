"""Measures the Kubernetes proxy and its tunnel: `python -m bench.tunnel [SECTION…]`.

Runs one control plane as `towline serve` starts it: it authenticates, authorizes and audits each
request. An agent connects to a small backend. The baselines that decide goals are konnectivity and
requests directly to the backend; nginx and a relay of our own are for orientation. Everything
shares this machine. Memory that others have freed is used again: run `agents` and `watches` alone.
"""

import os
import sys
from collections.abc import Awaitable, Callable

import uvloop

from bench.harness import (
    cluster,
    concurrency,
    http_versions,
    long_lines,
    narrow_links,
    peer_comparison,
    second_replica,
    small_requests,
    streams,
)
from bench.harness.tunnel_harness import TunnelHarness
from bench.report import BenchReport

Section = Callable[[TunnelHarness, BenchReport], Awaitable[None]]
SECTIONS: dict[str, Section] = {
    "peers": peer_comparison.measure,
    "versions": http_versions.measure,
    "small": small_requests.measure,
    "websocket": small_requests.measure_websocket,
    "beside": small_requests.measure_beside_the_api,
    "streams": streams.measure,
    "slow": streams.measure_slow_reader,
    "lines": narrow_links.measure,
    "long": long_lines.measure,
    "agents": concurrency.measure_agents,
    "watches": concurrency.measure_watches,
    "churn": concurrency.measure_churn,
    "replicas": second_replica.measure,
    "cluster": cluster.measure,
}
# Limits high enough for 10,000 watches and for churn, all of one user.
LIMITS = {
    "TOWLINE_PROXY__STREAMS__PER_USER": "20000",
    "TOWLINE_PROXY__STREAMS__PER_USER_AND_CLUSTER": "20000",
    "TOWLINE_PROXY__STREAMS__PER_AGENT": "20000",
    "TOWLINE_PROXY__STREAMS__UPGRADES_PER_USER": "1000",
}


def main(names: list[str]) -> None:
    """Runs the measurements, prints and saves them."""
    os.environ.update(LIMITS)
    report = BenchReport("tunnel")
    try:
        with TunnelHarness() as harness:
            for name in names or SECTIONS:
                print(f"tunnel: {name}", file=sys.stderr)
                uvloop.run(_section(SECTIONS[name], harness, report))
    finally:
        report.write()


async def _section(section: Section, harness: TunnelHarness, report: BenchReport) -> None:
    await section(harness, report)


if __name__ == "__main__":
    main(sys.argv[1:])
