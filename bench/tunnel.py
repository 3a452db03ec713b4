"""The door and its tunnel: `python -m bench.tunnel`, or with names of sections behind it.

One control plane as `towline serve` starts it, with its store: each request is authenticated,
authorized and audited. An agent leads to a small backend; the baselines are the same requests
sent straight to it, and through a relay of the usual libraries. Users, backend and all systems
share this machine. Figures of memory and of a real API server come last.
"""

import os
import sys
from collections.abc import Awaitable, Callable

import uvloop

from bench.report import Report
from bench.stand import cluster, crowd, lines, replicas, small, streams
from bench.stand.stand import Stand

Section = Callable[[Stand, Report], Awaitable[None]]
SECTIONS: dict[str, Section] = {
    "small": small.measure,
    "websocket": small.measure_websocket,
    "beside": small.measure_beside_the_api,
    "streams": streams.measure,
    "slow": streams.measure_slow_reader,
    "lines": lines.measure,
    "crowd": crowd.measure,
    "churn": crowd.measure_churn,
    "replicas": replicas.measure,
    "cluster": cluster.measure,
}
# Room for ten thousand watches and for churn, all of one user.
LIMITS = {
    "TOWLINE_PROXY__STREAMS__PER_USER": "20000",
    "TOWLINE_PROXY__STREAMS__PER_USER_AND_CLUSTER": "20000",
    "TOWLINE_PROXY__STREAMS__PER_AGENT": "20000",
    "TOWLINE_PROXY__STREAMS__UPGRADES_PER_USER": "1000",
}


def main(names: list[str]) -> None:
    """Measure, print, write."""
    os.environ.update(LIMITS)
    report = Report("tunnel")
    try:
        with Stand() as stand:
            for name in names or SECTIONS:
                print(f"tunnel: {name}", file=sys.stderr)
                uvloop.run(_section(SECTIONS[name], stand, report))
    finally:
        report.write()


async def _section(section: Section, stand: Stand, report: Report) -> None:
    await section(stand, report)


if __name__ == "__main__":
    main(sys.argv[1:])
