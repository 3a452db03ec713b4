"""Measures requests to an agent of another replica, with two control planes on one store."""

import json
import tempfile
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from bench.harness.load_generator import BenchTarget, download_rate, send_requests
from bench.harness.programs import running
from bench.harness.tunnel_harness import PREFIX, TunnelHarness
from bench.report import BenchReport
from tests.integration.replicas.fleet import Fleet
from tests.servers.postgres import Postgres, find_postgres
from tests.servers.redis import Redis, find_redis

ROUNDS = 4
SECONDS = 1.0
WARM_UP = 0.3
BODY = 30_000_000
GOAL_GET16 = 0.5


async def measure(harness: TunnelHarness, report: BenchReport) -> None:
    """Compares the replica that has the agent with the other one."""
    rates: dict[str, list[float]] = defaultdict(list)
    with _fleet() as fleet, _systems(fleet, harness.backend) as systems:
        for _ in range(ROUNDS):
            for system in systems:
                for connections in (1, 16):
                    await send_requests(system, "/small", connections, WARM_UP)
                    tally = await send_requests(system, "/small", connections, SECONDS)
                    rates[f"{system.name} get{connections}"].append(tally.rate)
                rates[f"{system.name} bulk1"].append(await download_rate(system, BODY) / 1e6)
    for name, unit in (("get1", "req/s"), ("get16", "req/s"), ("bulk1", "MB/s")):
        report.add(
            f"{name} through a second replica",
            rates[f"far {name}"],
            unit,
            baseline="the replica that holds the agent",
            baseline_values=rates[f"near {name}"],
            goal=GOAL_GET16 if name == "get16" else None,
            at_most=False,
        )


@contextmanager
def _fleet() -> Generator[Fleet]:
    postgres, redis = find_postgres(), find_redis()
    if postgres is None or redis is None:
        raise RuntimeError("PostgreSQL and Redis are needed")
    with (
        Postgres(postgres) as database,
        Redis(redis) as bus,
        tempfile.TemporaryDirectory() as folder,
    ):
        fleet = Fleet(Path(folder), database.new_database(), bus.url, "ab")
        try:
            fleet.start()
            yield fleet
        finally:
            fleet.stop()


@contextmanager
def _systems(fleet: Fleet, backend: int) -> Generator[tuple[BenchTarget, BenchTarget]]:
    """Systems for the replica with the agent, and for the other one."""
    near, far = fleet.replicas
    cluster = fleet.cluster()
    config = {
        "hub": f"127.0.0.1:{near.agents}",
        "ca": (near.data / "tls" / "ca.crt").read_text(),
        "tokens": [cluster["deployToken"]],
        "upstream": backend,
        "pipe": None,
    }
    prefix = f"{PREFIX}/{cluster['handle']}"
    with running("agents", stdin=json.dumps(config)):
        yield (
            BenchTarget("near", near.http, prefix, near.token),
            BenchTarget("far", far.http, prefix, far.token),
        )
