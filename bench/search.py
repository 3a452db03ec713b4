"""Measures search: `python -m bench.search`; BENCH_SMALL=1 for a tenth of everything.

PostgreSQL has 2 million objects of 1,000 clusters. Figures are 95th percentiles, compared with
reading one row by id.
"""

import asyncio
import sys

from bench.api import SCALE, StoreBench
from bench.report import BenchReport
from tests.servers.postgres import Postgres, find_postgres

OBJECTS = 2_000_000 // SCALE


def main() -> None:
    """Runs the measurements, prints and saves them."""
    programs = find_postgres()
    if programs is None:
        sys.exit("this bench needs PostgreSQL: `make servers` brings one")
    report = BenchReport("search")
    with Postgres(programs) as server:
        bench = StoreBench(report, f"{OBJECTS:,} objects", OBJECTS)
        asyncio.run(bench.run_searches(server.new_database()))
    report.write()


if __name__ == "__main__":
    main()
