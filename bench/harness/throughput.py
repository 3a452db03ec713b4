"""Compares the throughput per CPU second of one and of two replicas.

On two cores, users, agents and PostgreSQL compete with a second replica. If a request costs no more
CPU with two replicas, a second replica on its own cores adds its full capacity.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence

import aiohttp

from bench.harness.programs import cpu_seconds
from bench.harness.replicas_under_load import MAX_WAIT_S, QUERY, fetch_services, send_request
from bench.report import BenchReport
from tests.integration.replicas.fleet import Fleet as Replicas
from tests.integration.replicas.fleet import Replica
from towline.client import GraphQLClient
from towline.simulate.fleet import GROUPS, SimulatedFleet
from towline.simulate.simulation import Simulation
from towline.simulate.usage import ProcessUsage

TURNS = 2
USERS, LOAD_S = 16, 6.0
REPOSITORIES, COMMITS = 8, 5
_POLL_S = 0.2


async def measure(report: BenchReport, replicas: Replicas, stage: Simulation) -> None:
    """Measures API queries, and commits through the git cache."""
    *both, third = replicas.replicas
    third.kill()
    query_rates: dict[int, list[float]] = {1: [], 2: []}
    delivery_rates: dict[int, list[float]] = {1: [], 2: []}
    fleets = await asyncio.to_thread(_create_repositories, stage)
    for _ in range(TURNS):
        for subset in (both, both[:1]):
            if len(subset) == 1:
                both[1].kill()
            stage.say(f"asking {len(subset)} of {len(replicas.replicas)} replicas")
            query_rates[len(subset)].append(await _query_rate(subset))
            delivery_rates[len(subset)].append(
                await asyncio.to_thread(
                    _delivery_rate, subset, fleets, stage.hub.client(), stage.versions
                )
            )
        both[1].start()
        await asyncio.to_thread(both[1].wait_ready)
    for name, rates in (("API queries", query_rates), ("commits rendered", delivery_rates)):
        report.add(
            f"{name} a second of processor time, two replicas",
            rates[2],
            "1/s",
            baseline="one replica",
            baseline_values=rates[1],
            goal=0.8,
            at_most=False,
        )


async def _query_rate(subset: Sequence[Replica]) -> float:
    """API queries per CPU second of these replicas at full load."""
    pids = [replica.pid for replica in subset]
    before, count, deadline = cpu_seconds(pids), 0, time.monotonic() + LOAD_S

    async def user(number: int, http: aiohttp.ClientSession) -> None:
        nonlocal count
        while time.monotonic() < deadline:
            assert await send_request(http, subset[number % len(subset)], {"query": QUERY})
            count += 1

    async with aiohttp.ClientSession() as http:
        await asyncio.gather(*(user(number, http) for number in range(USERS)))
    return count / (cpu_seconds(pids) - before)


def _create_repositories(stage: Simulation) -> list[SimulatedFleet]:
    """Creates repositories, each with services in its own clusters without agents."""
    assert stage.hub.git is not None
    fleets = [SimulatedFleet(stage.hub.client(), f"followed-{n}") for n in range(REPOSITORIES)]
    for fleet in fleets:
        fleet.register(GROUPS)
        fleet.connect(stage.hub.git)
        fleet.deploy(fleet.clusters)
    return fleets


def _delivery_rate(
    subset: Sequence[Replica],
    fleets: Sequence[SimulatedFleet],
    client: GraphQLClient,
    versions: Iterator[int],
) -> float:
    """Commits delivered per CPU second.

    The first round does not count, as replicas take over from killed ones.
    """
    gauges = [ProcessUsage(replica.pid) for replica in subset]
    _deliver(fleets, client, next(versions))
    before = sum(gauge.read().cpu for gauge in gauges)
    for _ in range(COMMITS):
        _deliver(fleets, client, next(versions))
    used = sum(gauge.read().cpu for gauge in gauges) - before
    return COMMITS * len(fleets) / used


def _deliver(fleets: Sequence[SimulatedFleet], client: GraphQLClient, version: int) -> None:
    """Commits to each repository, and waits until each service has its commit.

    Polls one repository at a time, as polling loads the measured replicas.
    """
    commits = {}
    for fleet in fleets:
        commits[fleet.repository_id] = fleet.commit(version)
        fleet.request_poll()
    deadline = time.monotonic() + MAX_WAIT_S
    for id, sha in commits.items():
        while any(service["sha"] != sha for service in fetch_services(client, id)):
            if time.monotonic() > deadline:
                raise RuntimeError(f"repository {id} was not delivered")
            time.sleep(_POLL_S)
