"""Measures subscriptions: `python -m bench.subscriptions`; BENCH_SMALL=1 for a tenth of everything.

One process has 10,000 open subscriptions, 100 per connection, on 1,000 services. Services change in
sequence, with ten subscribers each. Measures memory per subscription, and the time until the last
subscriber has its event, including authorization; the baseline is a query for the same service.
"""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.harness.programs import resident_bytes
from bench.report import BenchReport
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.operations.role_bindings import BindingDraft, RoleBindings
from controlplane.access.operations.users import Users
from controlplane.api.schema import schema
from controlplane.authorization import SYSTEM, Scope
from controlplane.clusters.operations.clusters import ClusterChange, Clusters
from controlplane.compose import ControlPlane, OutsidePorts
from controlplane.platform.context import SERVICE
from controlplane.platform.graphql.context import Context
from controlplane.services.operations.services import ServiceChange, Services
from controlplane.services.ports import ServiceStore
from controlplane.settings import ControlPlaneSettings
from core.identity import ServiceId
from core.runtime.clock import SystemClock
from tests.fakes.control_plane import built
from tests.fakes.manifests import FakeManifests

SCALE = 10 if os.environ.get("BENCH_SMALL") else 1
SERVICES, A_SERVICE, A_CONNECTION = 1_000 // SCALE, 10, 100
EVENTS = 200 // SCALE
_FIELDS = "id name status sha digest cluster { handle }"
WATCH = "subscription ($id: ID!) { serviceDeploymentDelta(id: $id) { id payload { %s } } }"
LOOK = "query ($id: ID!) { serviceDeployment(id: $id) { %s } }"


def main() -> None:
    """Runs the measurements, prints and saves them."""
    report = BenchReport("subscriptions")
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_measure(report, Path(folder)))
    report.write()


async def _measure(report: BenchReport, folder: Path) -> None:
    settings = ControlPlaneSettings(data_dir=folder)
    async with built(settings, OutsidePorts(FakeManifests()), SystemClock()) as plane:
        await _measure_plane(report, plane)


async def _measure_plane(report: BenchReport, plane: ControlPlane) -> None:
    services = await _services(plane)
    token = await _token(plane)
    before = resident_bytes(os.getpid())
    crowd = Subscribers(plane, token)
    await crowd.open(services)
    megabytes = (resident_bytes(os.getpid()) - before) / 1e6
    count = len(services) * A_SERVICE
    report.add(f"memory of {count:,} subscriptions", [megabytes], "MB", goal=400 / SCALE)
    latencies = [await crowd.tell(services[n * 7 % len(services)]) for n in range(EVENTS)]
    asked = [await _measure_query(plane, token, services[n]) for n in range(30)]
    p95 = statistics.quantiles(latencies, n=20, method="inclusive")[-1]
    report.add("event to the last of 10 subscribers, p95", [p95], "ms", goal=200)
    report.add("event to the last of 10 subscribers", latencies, "ms", baseline="one query",
               baseline_values=asked)  # fmt: skip
    await crowd.close()


class Subscribers:
    """Subscribers that wait for their next event."""

    def __init__(self, plane: ControlPlane, token: str) -> None:
        self._plane = plane
        self._token = token
        self._watched: dict[str, list[AsyncIterator[Any]]] = {}
        self._waiting: dict[str, list[asyncio.Task[Any]]] = {}

    async def open(self, services: list[str]) -> None:
        """Opens ten subscriptions per service, on ten connections."""
        wanted = [id for _ in range(A_SERVICE) for id in services]
        for start in range(0, len(wanted), A_CONNECTION):
            context = Context(self._plane.api)
            await context.sign_in(self._token)
            for id in wanted[start : start + A_CONNECTION]:
                events = await schema.subscribe(WATCH % _FIELDS, {"id": id}, context_value=context)
                self._watched.setdefault(id, []).append(aiter(events))
        for id in services:
            self._wait(id)
        await _idle()

    async def tell(self, id: str) -> float:
        """Milliseconds until all subscribers of a service received a change."""
        start = time.perf_counter()
        while not all(task.done() for task in self._waiting[id]):
            self._plane.context.bus.publish(SERVICE, id)
            await asyncio.wait(self._waiting[id], timeout=5)
        taken = (time.perf_counter() - start) * 1000
        for task in self._waiting[id]:
            if task.result().errors:
                raise AssertionError(task.result().errors)
        self._wait(id)
        return taken

    async def close(self) -> None:
        """Ends all subscriptions."""
        for tasks in self._waiting.values():
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _wait(self, id: str) -> None:
        self._waiting[id] = [asyncio.ensure_future(anext(stream)) for stream in self._watched[id]]


async def _idle() -> None:
    """Waits until the event loop is idle: a short sleep takes no longer than requested."""
    quiet_rounds = 0
    while quiet_rounds < 5:
        start = time.perf_counter()
        await asyncio.sleep(0.02)
        quiet_rounds = quiet_rounds + 1 if time.perf_counter() - start < 0.03 else 0


async def _services(plane: ControlPlane) -> list[str]:
    """Creates one service through the API's operations, and many copies of it."""
    cluster, _ = await plane.operations[Clusters].create(SYSTEM, ClusterChange(name="dev"))
    first = await plane.operations[Services].create(
        SYSTEM, cluster.id, None, ServiceChange(name="s", namespace="x")
    )
    ids = [plane.context.new_id() for _ in range(SERVICES)]
    async with plane.context.store.write() as tx:
        for number, id in enumerate(ids):
            await tx[ServiceStore].add(replace(first, id=ServiceId(id), name=f"s{number}"))
    return ids


async def _token(plane: ControlPlane) -> str:
    user = await plane.operations[Users].upsert(SYSTEM, "ada@example.org")
    await plane.operations[RoleBindings].create(
        SYSTEM, BindingDraft("viewer", Scope("installation"), user=user.id)
    )
    actor = await plane.operations[CredentialAuthenticator].actor_of(user.id)
    return (await plane.operations[CredentialAuthenticator].create_token(actor, "bench"))[1]


async def _measure_query(plane: ControlPlane, token: str, id: str) -> float:
    start = time.perf_counter()
    context = Context(plane.api)
    await context.sign_in(token)
    result = await schema.execute(LOOK % _FIELDS, {"id": id}, context_value=context)
    if result.errors:
        raise AssertionError(result.errors)
    return (time.perf_counter() - start) * 1000


if __name__ == "__main__":
    main()
