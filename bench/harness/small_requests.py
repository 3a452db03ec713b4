"""Measures throughput, CPU cost and latency of small requests."""

import asyncio
import random
from collections import defaultdict

import aiohttp

from bench.harness.load_generator import BenchTarget, RequestTimes, download_rate, send_requests
from bench.harness.programs import cpu_seconds
from bench.harness.tunnel_harness import TunnelHarness
from bench.report import BenchReport

ROUNDS = 4
SECONDS = 1.0
WARM_UP = 0.3
CONNECTIONS = (1, 16, 128)
GOAL_TO_DIRECT = 0.10
BODY = 30_000_000
QUERY = {"query": "{ clusters(first: 50) { edges { node { id name pingedAt } } } }"}


async def measure(harness: TunnelHarness, report: BenchReport) -> None:
    """Requests per second with 1, 16 and 128 connections, and CPU time per request."""
    rates: dict[tuple[str, int], list[float]] = defaultdict(list)
    costs: dict[tuple[str, int], list[float]] = defaultdict(list)
    systems = [harness.direct, harness.relay, harness.proxy]
    for _ in range(ROUNDS):
        for system in random.sample(systems, len(systems)):
            for connections in CONNECTIONS:
                tally, cpu = await _measure(system, connections)
                rates[system.name, connections].append(tally.rate)
                costs[system.name, connections].append(cpu / len(tally.latencies) * 1e6)
    for connections in CONNECTIONS:
        name, ours = f"get{connections}", rates["proxy", connections]
        base = rates["relay", connections]
        report.add(
            f"{name} vs own relay", ours, "req/s", baseline="own relay", baseline_values=base
        )
        report.add(
            f"{name} vs direct",
            ours,
            "req/s",
            baseline="direct",
            baseline_values=rates["direct", connections],
            goal=GOAL_TO_DIRECT if connections == 16 else None,
            at_most=False,
        )
        report.add(
            f"{name} CPU of control plane and agent",
            costs["proxy", connections],
            "us/req",
            baseline="own relay",
            baseline_values=costs["relay", connections],
        )


async def _measure(system: BenchTarget, connections: int) -> tuple[RequestTimes, float]:
    await send_requests(system, "/small", connections, WARM_UP)
    before = cpu_seconds(system.pids)
    tally = await send_requests(system, "/small", connections, SECONDS)
    return tally, cpu_seconds(system.pids) - before


async def measure_websocket(harness: TunnelHarness, report: BenchReport) -> None:
    """The same requests with an agent that connects through a WebSocket."""
    url = f"wss://127.0.0.1:{harness.https_port}"
    with harness.agents(["websocket"], pipe=url) as agent:
        way = harness.through("websocket", agent)
        rates: dict[str, list[float]] = defaultdict(list)
        for _ in range(ROUNDS):
            for name, system in (("websocket", way), ("grpc", harness.proxy)):
                for connections in (1, 16):
                    tally, _ = await _measure(system, connections)
                    rates[f"{name}{connections}"].append(tally.rate)
                rates[name].append(await download_rate(system, BODY) / 1e6)
    for name, unit in (("1", "req/s"), ("16", "req/s"), ("", "MB/s")):
        report.add(
            f"{'get' + name if name else 'bulk1'} by WebSocket",
            rates["websocket" + name],
            unit,
            baseline="grpc",
            baseline_values=rates["grpc" + name],
        )


async def measure_beside_the_api(harness: TunnelHarness, report: BenchReport) -> None:
    """p99 of small requests while the API of the same process is at half and all of its limit."""
    url = harness.stage.http_url + "/gql"
    headers = {"Authorization": f"Bearer {harness.token}"}
    tails: dict[str, list[float]] = defaultdict(list)
    async with aiohttp.ClientSession(headers=headers) as session:
        limit = await _run_queries(session, url, 2.0, None)
        for _ in range(ROUNDS):
            for name, rate in (("half", limit / 2), ("full", None)):
                tails["quiet"].append(await _measure_p99(harness))
                load = asyncio.ensure_future(_run_queries(session, url, 2.5, rate))
                tails[name].append(await _measure_p99(harness))
                await load
    report.add("API queries per second at its limit", [limit], "1/s")
    for name, label, goal in (("half", "half of", 3), ("full", "all of", 2)):
        report.add(
            f"GET p99 with the API at {label} it",
            tails[name],
            "ms",
            baseline="quiet",
            baseline_values=tails["quiet"],
            goal=goal,
        )


async def _measure_p99(harness: TunnelHarness) -> float:
    """p99 of small requests in milliseconds."""
    tally = await send_requests(harness.proxy, "/small", 4, 2.0, pause=0.01)
    return tally.percentile(0.99) * 1000


async def _run_queries(
    session: aiohttp.ClientSession, url: str, seconds: float, rate: float | None
) -> float:
    """Queries the API at a rate, or at the full speed of 4 users; returns queries per second."""
    loop = asyncio.get_running_loop()
    began, count = loop.time(), 0

    async def user(number: int) -> None:
        nonlocal count
        due = began + number / (rate or 1)
        while loop.time() - began < seconds:
            if rate is not None:
                due += 4 / rate
                await asyncio.sleep(due - loop.time())
            async with session.post(url, json=QUERY) as answer:
                answer.raise_for_status()
                await answer.read()
            count += 1

    await asyncio.gather(*(user(number) for number in range(4)))
    return count / (loop.time() - began)
