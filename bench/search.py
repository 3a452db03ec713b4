"""Search over 2 million objects of 1,000 clusters: `python -m bench.search`; BENCH_SMALL=1 for a
tenth of everything.

On PostgreSQL; of each question the 95th percentile of its runs, beside a read of one row by its id.
"""

import asyncio
import sys

from bench.api import SCALE, StoreBench
from bench.report import Report
from tests.servers.postgres import Postgres, find_postgres

OBJECTS = 2_000_000 // SCALE


def main() -> None:
    """Measure, print, write."""
    programs = find_postgres()
    if programs is None:
        sys.exit("this bench needs PostgreSQL: `make servers` brings one")
    report = Report("search")
    with Postgres(programs) as server:
        bench = StoreBench(report, f"{OBJECTS:,} objects", OBJECTS)
        asyncio.run(bench.run_searches(server.new_database()))
    report.write()


if __name__ == "__main__":
    main()
