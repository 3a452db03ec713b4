"""Traces of completed deployments reach the collector once, in spite of failures."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from controlplane.platform.ports import Transaction
from controlplane.reports.loop import MAX_TRIES, TraceExportLoop
from controlplane.reports.model.spans import Span
from controlplane.reports.ports import DeploymentStore
from controlplane.services.model.ledger import LedgerEntry, LedgerPosition, LedgerStage
from controlplane.services.ports import LedgerStore
from core.errors import Unavailable
from tests.fakes.clock import settle
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

EU = make_cluster("eu")
WEB = make_service("web", EU, repository_id="fleet")
API = make_service("api", EU, repository_id="other")
PERIOD = 5


class Collector:
    """A `SpanExporter` that lists what it takes; `is_away`: it does not answer."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.tries = 0
        self.is_away = self.is_closed = False

    async def export(self, spans: Sequence[Span]) -> None:
        self.tries += 1
        if self.is_away:
            raise Unavailable("no collector")
        self.spans += spans

    def close(self) -> None:
        self.is_closed = True

    @property
    def deployments(self) -> list[str]:
        """Names of the exported root spans."""
        return [span.name for span in self.spans if span.parent_id is None]


class Exports:
    """The loop over a store; `edges`: positions that the ledger reports instead of its own."""

    def __init__(self, world: MemoryOperations) -> None:
        self.world = world
        self.collector = Collector()
        self.edges: list[LedgerPosition] = []
        self.repositories = {"fleet", "other"}
        self.loop = TraceExportLoop(
            self, self.collector, lambda id: id in self.repositories, world.clock
        )

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[Any, None]:
        async with self.world.store.read() as tx:
            yield _Reading(tx, self.edges)

    @asynccontextmanager
    async def write(self) -> AsyncGenerator[Transaction, None]:
        raise Unavailable("the loop only reads")
        yield

    async def start(self) -> None:
        await self.loop.start()
        await settle()

    async def deploy(self, *services: Any, sequence: int = 1) -> int:
        """Services become healthy; the last number of the ledger."""
        async with self.world.store.write() as tx:
            for service in services:
                for stage in (LedgerStage.RENDERED, LedgerStage.HEALTHY):
                    entry = LedgerEntry.of(service, stage, self.world.clock.now())
                    await tx[LedgerStore].append([replace(entry, sequence=sequence)])
            return (await tx[DeploymentStore].edge()).last

    async def exported(self) -> list[str]:
        """Deployments that the collector has after the next run."""
        await self.world.clock.advance(PERIOD)
        return self.collector.deployments


class _Reading:
    """A transaction whose ledger is at a given position."""

    def __init__(self, tx: Any, edges: list[LedgerPosition]) -> None:
        self._tx, self._edges = tx, edges

    def __getitem__(self, port: type[Any]) -> Any:
        return self if port is DeploymentStore else self._tx[port]

    async def edge(self) -> LedgerPosition:
        return self._edges[-1] if self._edges else await self._tx[DeploymentStore].edge()

    async def ended(self, after: int, until: int, most: int) -> Any:
        return await self._tx[DeploymentStore].ended(after, until, most)


@pytest.fixture
async def exports() -> AsyncIterator[Exports]:
    world = operations_over_memory()
    await world.given(EU, make_repository("fleet"), make_repository("other"), WEB, API)
    exports = Exports(world)
    yield exports
    await exports.loop.stop()


async def test_deployments_since_the_start_are_exported_once(exports: Exports) -> None:
    await exports.deploy(API)
    await exports.start()
    assert await exports.exported() == []
    await exports.deploy(WEB)
    assert await exports.exported() == ["deploy eu/web"]
    assert await exports.exported() == ["deploy eu/web"]
    await exports.deploy(API, WEB, sequence=2)
    assert await exports.exported() == ["deploy eu/web", "deploy eu/api", "deploy eu/web"]


async def test_each_replica_exports_the_deployments_of_its_repositories(exports: Exports) -> None:
    exports.repositories.remove("other")
    await exports.start()
    await exports.deploy(WEB, API)
    assert await exports.exported() == ["deploy eu/web"]
    exports.repositories.add("other")
    assert await exports.exported() == ["deploy eu/web"]


async def test_the_replica_of_a_service_without_a_repository_exports_its_deployments(
    exports: Exports,
) -> None:
    charts = [make_service(name, EU) for name in ("redis", "nginx")]
    await exports.world.given(*charts)
    exports.repositories.add(charts[0].id)
    await exports.start()
    await exports.deploy(*charts)
    assert await exports.exported() == ["deploy eu/redis"]


async def test_more_than_a_batch_is_exported_at_once(exports: Exports) -> None:
    await exports.start()
    for sequence in range(1, 151):
        await exports.deploy(WEB, sequence=sequence)
    assert len(await exports.exported()) == 150


async def test_deployments_wait_for_a_collector_that_is_away(exports: Exports) -> None:
    exports.collector.is_away = True
    await exports.start()
    await exports.deploy(WEB)
    assert await exports.exported() == []
    await exports.deploy(API)
    exports.collector.is_away = False
    assert await exports.exported() == ["deploy eu/web", "deploy eu/api"]


async def test_spans_that_the_collector_always_rejects_are_dropped(exports: Exports) -> None:
    """They would block all later ones."""
    exports.collector.is_away = True
    await exports.start()
    await exports.deploy(WEB)
    for _ in range(MAX_TRIES):
        assert await exports.exported() == []
    assert exports.collector.tries == MAX_TRIES
    exports.collector.is_away = False
    await exports.deploy(API)
    assert await exports.exported() == ["deploy eu/api"]


async def test_a_deployment_waits_for_transactions_that_may_still_add_an_earlier_row(
    exports: Exports,
) -> None:
    """Else the row with the lower number would never be exported."""
    await exports.start()
    last = await exports.deploy(WEB)
    exports.edges.append(LedgerPosition(last, 10, 12))
    assert await exports.exported() == []
    exports.edges.append(LedgerPosition(last, 11, 20))
    assert await exports.exported() == []
    exports.edges.append(LedgerPosition(last + 2, 12, 20))
    assert await exports.exported() == ["deploy eu/web"]
    await exports.deploy(API)
    assert await exports.exported() == ["deploy eu/web"]
    exports.edges.append(LedgerPosition(last + 2, 21, 21))
    assert await exports.exported() == ["deploy eu/web", "deploy eu/api"]


async def test_stopping_closes_the_exporter(exports: Exports) -> None:
    await exports.start()
    assert not exports.collector.is_closed
    await exports.loop.stop()
    assert exports.collector.is_closed
