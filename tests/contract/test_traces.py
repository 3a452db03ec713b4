"""A deployment reaches a collector of traces as it ends, once, from either database.

Rows are exported when no transaction that may add one before them still runs. PostgreSQL counts
those of its other databases and of its own upkeep: any row may take a few turns of the loop.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.ports import Store
from controlplane.reports.loop import MAX_TRIES, TraceExportLoop
from controlplane.reports.ports import DeploymentStore
from controlplane.reports.telemetry import OtlpSpans
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.service import Service
from controlplane.services.ports import LedgerStore, ServiceStore
from core.errors import Unavailable
from core.identity import ClusterId, RepositoryId, ServiceId
from tests.fakes.clock import FakeClock

NOW = datetime(2026, 1, 2, tzinfo=UTC)


class Collector:
    """Takes OTLP over HTTP; `refuses` as one that is overloaded for good."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.headers: list[str] = []
        self.refuses = False
        self.refused = 0

    async def take(self, request: web.Request) -> web.Response:
        """One export."""
        if self.refuses:
            self.refused += 1
            return web.Response(status=400)
        self.headers.append(request.headers.get("Authorization", ""))
        export = ExportTraceServiceRequest.FromString(await request.read())
        for resource in export.resource_spans:
            for scope in resource.scope_spans:
                self.spans += scope.spans
        return web.Response()

    async def holds(self, count: int, clock: FakeClock) -> None:
        """Let turns of the loop go by until so many spans are here."""
        async with asyncio.timeout(60):
            while len(self.spans) < count:
                await turn(clock)


@pytest.fixture
async def collector() -> AsyncIterator[tuple[Collector, str]]:
    """A collector, and its URL."""
    one, app = Collector(), web.Application()
    app.router.add_post("/v1/traces", one.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    yield one, f"http://127.0.0.1:{port}/v1/traces"
    await runner.cleanup()


def at(seconds: int) -> datetime:
    return NOW + timedelta(seconds=seconds)


async def deploy(
    store: Store, service: str, sequence: int, *stages: tuple[LedgerStage, int]
) -> None:
    """Rows of the ledger, each in a transaction of its own as it is in life."""
    detail = {"committed_at": at(-60).isoformat(), "fetched_at": at(-1).isoformat()}
    for stage, second in [(LedgerStage.RENDERED, 0), *stages]:
        entry = LedgerEntry(service, "c1", stage, at(second), sequence, sha="a" * 40, detail=detail)
        async with store.write() as tx:
            await tx[LedgerStore].append([entry])


async def with_services(store: Store) -> None:
    async with store.write() as tx:
        await tx[ClusterStore].add(Cluster(ClusterId("c1"), "prod", "prod", NOW, NOW))
        url = "https://git.example.org/shop.git"
        await tx[RepositoryStore].add(Repository(RepositoryId("r1"), url, NOW, NOW))
        for id in ("s1", "s2"):
            await tx[ServiceStore].add(
                Service(ServiceId(id), ClusterId("c1"), RepositoryId("r1"), id, "web", NOW, NOW)
            )
        await tx[ServiceStore].add(
            Service(ServiceId("own"), ClusterId("c1"), None, "own", "web", NOW, NOW)
        )


async def asleep(clock: FakeClock) -> None:
    """Wait until the loop waits for its next turn."""
    async with asyncio.timeout(60):
        while not clock.sleepers:
            await asyncio.sleep(0.01)


async def turn(clock: FakeClock) -> None:
    """Let the loop have its next turn, from beginning to end."""
    await clock.advance(5)
    await asleep(clock)


async def test_a_finished_deployment_is_exported_once_and_older_ones_never(
    store: Store, collector: tuple[Collector, str]
) -> None:
    taken, url = collector
    await with_services(store)
    await deploy(store, "s1", 1, (LedgerStage.HEALTHY, 1))
    clock, spans = FakeClock(), OtlpSpans(url, {"Authorization": "Bearer x"})
    loop = TraceExportLoop(store, spans, lambda _: True, clock)
    await loop.start()
    try:
        await asleep(clock)
        await deploy(
            store,
            "s1",
            2,
            (LedgerStage.OFFERED, 1),
            (LedgerStage.APPLIED, 2),
            (LedgerStage.HEALTHY, 5),
        )
        await deploy(store, "s2", 1, (LedgerStage.OFFERED, 1), (LedgerStage.FAILED, 3))
        await deploy(store, "s2", 2)
        await taken.holds(8, clock)
        await turn(clock)
    finally:
        await loop.stop()
    roots = {one.name: one for one in taken.spans if not one.parent_span_id}
    assert sorted(roots) == ["deploy prod/s1", "deploy prod/s2"]
    assert len(taken.spans) == 8 and set(taken.headers) == {"Bearer x"}
    assert len({one.trace_id for one in taken.spans}) == 1
    healthy, failed = roots["deploy prod/s1"], roots["deploy prod/s2"]
    assert healthy.end_time_unix_nano - healthy.start_time_unix_nano == 6_000_000_000
    assert (healthy.status.code, failed.status.code) == (1, 2)
    attributes = {one.key: one.value.string_value for one in healthy.attributes}
    assert (
        attributes["vcs.ref.head.revision"] == "a" * 40 and attributes["k8s.cluster.name"] == "prod"
    )


async def test_an_end_is_found_with_what_it_is_called(store: Store) -> None:
    await with_services(store)
    await deploy(store, "s1", 1, (LedgerStage.HEALTHY, 1))
    async with store.read() as tx:
        last, (ended,) = await tx[DeploymentStore].ended(0, 1000, 100)
        assert last == 1000
        edge = await tx[DeploymentStore].edge()
        assert edge.oldest <= edge.newest
        assert (ended.service, ended.cluster, ended.repository_id) == ("s1", "prod", "r1")
        assert await tx[DeploymentStore].ended(edge.last, edge.last, 100) == (edge.last, [])
        assert await tx[DeploymentStore].ended(0, edge.last, 1) == (edge.last - 1, [])


async def test_a_row_that_commits_late_is_exported_too(
    store: Store, collector: tuple[Collector, str]
) -> None:
    """A row with a lower number than what has been seen; where one writes at a time, none is."""
    taken, url = collector
    await with_services(store)
    clock, spans = FakeClock(), OtlpSpans(url, {})
    loop = TraceExportLoop(store, spans, lambda _: True, clock)
    written, let_go = asyncio.Event(), asyncio.Event()

    async def slowly() -> None:
        async with store.write() as tx:
            stages = (LedgerStage.RENDERED, LedgerStage.HEALTHY)
            rows = [LedgerEntry("s1", "c1", stage, at(n), 1) for n, stage in enumerate(stages)]
            await tx[LedgerStore].append(rows)
            written.set()
            await let_go.wait()

    await loop.start()
    try:
        await asleep(clock)
        slow = asyncio.ensure_future(slowly())
        await written.wait()
        quick = asyncio.ensure_future(deploy(store, "s2", 1, (LedgerStage.HEALTHY, 1)))
        await asyncio.wait([quick], timeout=0.5)
        for _ in range(3):
            await turn(clock)
        assert taken.spans == []
        let_go.set()
        await asyncio.gather(slow, quick)
        await taken.holds(4, clock)
    finally:
        await loop.stop()
    roots = {one.name for one in taken.spans if not one.parent_span_id}
    assert roots == {"deploy prod/s1", "deploy prod/s2"}


async def test_deployments_of_another_replica_are_not_exported(
    store: Store, collector: tuple[Collector, str]
) -> None:
    taken, url = collector
    await with_services(store)
    clock, spans = FakeClock(), OtlpSpans(url, {})
    loop = TraceExportLoop(store, spans, lambda repository: repository != "r1", clock)
    await loop.start()
    try:
        await asleep(clock)
        await deploy(store, "s1", 1, (LedgerStage.HEALTHY, 1))
        await deploy(store, "own", 1, (LedgerStage.HEALTHY, 1))
        await taken.holds(2, clock)
        await turn(clock)
    finally:
        await loop.stop()
    assert {one.name for one in taken.spans if not one.parent_span_id} == {"deploy prod/own"}


async def test_a_refused_export_does_not_block_later_ones(
    store: Store, collector: tuple[Collector, str]
) -> None:
    taken, url = collector
    await with_services(store)
    clock, spans = FakeClock(), OtlpSpans(url, {})
    loop = TraceExportLoop(store, spans, lambda _: True, clock)
    await loop.start()
    try:
        await asleep(clock)
        await deploy(store, "s1", 1, (LedgerStage.HEALTHY, 1))
        taken.refuses = True
        while taken.refused < MAX_TRIES:
            await turn(clock)
        taken.refuses = False
        await deploy(store, "s2", 1, (LedgerStage.HEALTHY, 1))
        await taken.holds(2, clock)
    finally:
        await loop.stop()
    assert {one.name for one in taken.spans if not one.parent_span_id} == {"deploy prod/s2"}


async def test_a_collector_that_refuses_is_named(collector: tuple[Collector, str]) -> None:
    taken, url = collector
    taken.refuses = True
    spans = OtlpSpans(url, {})
    with pytest.raises(Unavailable, match="did not accept the spans"):
        await spans.export([])
    spans.close()
