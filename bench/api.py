"""Measures the API: `python -m bench.api`; BENCH_SMALL=1 for a tenth of everything,
BENCH_SCALE=33 for a 33rd.

Execution: one query for 100 services with 3 components, compared with strawberry's own execution
of the same schema. Stores: 1,000 clusters with 100,000 services, an inventory and a ledger, bulk
inserted into SQLite and PostgreSQL; measures lists, filters, the map, search, reports and writes.
Figures are 95th percentiles, compared with reading one row by id from the same store.
`python -m bench.api writes` measures only the writes.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import strawberry
from sqlalchemy import Table, insert
from sqlalchemy.ext.asyncio import AsyncEngine
from strawberry.extensions import ParserCache, ValidationCache
from strawberry.schema.config import StrawberryConfig
from strawberry.schema.schema import StrawberryGraphQLCoreExecutionContext

from bench.report import BenchReport
from controlplane.authorization import DEFAULT_PROJECT, SYSTEM
from controlplane.bridges import SERVICE_PARTS
from controlplane.clusters.api.clusters import ClusterType
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.operations.clusters import Clusters
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.bus.memory import MemoryBus
from controlplane.platform.context import OperationContext
from controlplane.platform.graphql.execution import FastExecution
from controlplane.platform.graphql.scalars import SCALARS
from controlplane.platform.ports import ANY, PageQuery
from controlplane.platform.store.engine import make_engine, sqlite_url
from controlplane.platform.store.transaction import SqlStore
from controlplane.reports.model.dora import ReportPeriod
from controlplane.reports.operations import LedgerReports
from controlplane.reports.ports import ReportFilter
from controlplane.search.operations import SearchOperations
from controlplane.secrets.backends.envelope import EnvelopeSealer
from controlplane.services.api.types import ServiceDeployment
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.model.service import Component, ComponentState, Service
from controlplane.services.operations.services import ServiceChange, Services
from controlplane.services.ports import ComponentStore, ServiceStore
from controlplane.services.store import tables as services_store
from controlplane.store.migrate import migrate
from controlplane.store.repositories import REPOSITORIES
from core.identity import ClusterId, ServiceId
from core.json_object import JsonObject
from core.runtime.clock import SystemClock
from core.spec.status import Phase
from tests.fakes.manifests import FakeManifests
from tests.servers.postgres import Postgres, find_postgres

SCALE = int(os.environ.get("BENCH_SCALE", 10 if os.environ.get("BENCH_SMALL") else 1))
CLUSTERS, A_CLUSTER = 1_000 // SCALE, 100
SERVICES = CLUSTERS * A_CLUSTER
OBJECTS = 300_000 // SCALE
DEPLOYMENTS = 200_000 // SCALE
RUNS, WRITES = 15, 100
PARTS = ("execution", "lists", "searches", "history", "writes")
NOW = datetime(2026, 6, 1, tzinfo=UTC)
CONFIG = StrawberryConfig(scalar_map=SCALARS)
QUERY = """{ services { id name namespace status updatedAt insertedAt sha digest paused
  cluster { id name handle currentVersion }
  components { id kind name namespace state synced } } }"""
_WORD = """CASE n % 8 WHEN 0 THEN 'payments' WHEN 1 THEN 'shop' WHEN 2 THEN 'search'
  WHEN 3 THEN 'login' WHEN 4 THEN 'mail' WHEN 5 THEN 'ledger' WHEN 6 THEN 'stock'
  ELSE 'price' END"""
_SERVICE = {
    "id": "'s' || CAST(1000000 + n AS VARCHAR)",
    "cluster_id": f"'c' || CAST(1000000 + n % {CLUSTERS} AS VARCHAR)",
    "name": f"{_WORD} || '-' || CAST(n AS VARCHAR)",
    "status_code": "CASE WHEN n % 50 = 0 THEN 'F' WHEN n % 17 = 0 THEN 'P' ELSE 'H' END",
}
_OBJECT = {
    "id": "'o' || CAST(1000000 + n AS VARCHAR)",
    "service_id": f"'s' || CAST(1000000 + n % {SERVICES} AS VARCHAR)",
    "cluster_id": f"'c' || CAST(1000000 + n % {CLUSTERS} AS VARCHAR)",
    "name": f"{_WORD} || '-' || CAST(n AS VARCHAR)",
    "kind": "CASE n % 4 WHEN 0 THEN 'Deployment' WHEN 1 THEN 'Service' ELSE 'Pod' END",
    "images": "CAST(CASE WHEN n % 100 = 0 THEN '[\"apache/log4j:2.' || CAST(n / 100 % 30 AS "
    "VARCHAR) || '\"]' ELSE '[\"nginx:1.25\"]' END AS {json})",
    "labels": "CAST('{{\"app\": \"a' || CAST(n % 5000 AS VARCHAR) || '\"}}' AS {json})",
}
_SERIES = """WITH RECURSIVE series(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM series
  WHERE n + 1 < {count}) INSERT INTO {table} ({columns})
  SELECT {values} FROM series, {table} AS model WHERE model.id = 'model'"""


def main() -> None:
    """Runs the measurements, prints and saves them."""
    parts = sys.argv[1:] or PARTS
    if wrong := set(parts) - set(PARTS):
        sys.exit(f"no such part: {', '.join(sorted(wrong))}; there are {', '.join(PARTS)}")
    report = BenchReport("_".join(["api", *sys.argv[1:]]))
    if "execution" in parts:
        measure_execution(report)
    if set(parts) - {"execution"}:
        measure_stores(report, parts)
    report.write()


def measure_stores(report: BenchReport, parts: Collection[str]) -> None:
    """Measures some parts on a store of each database."""
    with _stores() as stores:
        for name, url in stores:
            print(f"filling {name}", file=sys.stderr)
            objects = OBJECTS if "searches" in parts else 1
            asyncio.run(StoreBench(report, name, objects).run(url, parts))


def measure_execution(report: BenchReport) -> None:
    """Compares our execution of a query with strawberry's."""
    rows = [_make_deployment(number) for number in range(100)]

    @strawberry.type
    class Query:
        @strawberry.field
        async def services(self) -> list[ServiceDeployment]:
            return rows

    core, ours = StrawberryGraphQLCoreExecutionContext, FastExecution
    caches = [lambda: ParserCache(maxsize=100), lambda: ValidationCache(maxsize=100)]
    plain = strawberry.Schema(Query, config=CONFIG, execution_context_class=core)
    fast = strawberry.Schema(Query, config=CONFIG, execution_context_class=ours, extensions=caches)
    slow, quick = asyncio.run(_taken_in_turns(plain, fast))
    report.add("100 services x 3 objects, one query", quick, "/s", baseline="strawberry",
               baseline_values=slow, goal=4, at_most=False)  # fmt: skip


async def _taken_in_turns(*schemas: strawberry.Schema) -> list[list[float]]:
    """Queries per CPU second, alternating, so that other load does not matter."""
    rates: list[list[float]] = [[] for _ in schemas]
    for _ in range(2 * RUNS):
        answers = set()
        for rate, schema in zip(rates, schemas, strict=True):
            start = time.process_time()
            result = await schema.execute(QUERY)
            rate.append(1 / (time.process_time() - start))
            answers.add(orjson.dumps(result.data))
        if len(answers) != 1:
            raise AssertionError("the responses differ")
    return [rate[3:] for rate in rates]


def _make_deployment(number: int) -> ServiceDeployment:
    cluster = ClusterType.of(_cluster(f"c{number % 10}"))
    objects = [_object(f"{number}-{i}") for i in range(3)]
    return ServiceDeployment.of(_service(f"s{number}"), cluster=cluster, components=objects)


def _cluster(id: str) -> Cluster:
    return Cluster(ClusterId(id), id, id, NOW, NOW, pinged_at=NOW, tags={"env": "prod"})


def _service(id: str) -> Service:
    service, cluster = ServiceId(id), ClusterId("model")
    return Service(service, cluster, None, id, "shop", NOW, NOW).changed(
        commit_sha="a" * 40,
        digest="sha256:1",
        generation=1,
        observed_generation=1,
        phase=Phase.HEALTHY,
    )


def _object(id: str) -> Component:
    return Component(id, ServiceId("s"), ClusterId("c"), "apps", "v1", "Deployment", "shop", id,
                     "", "", ComponentState.RUNNING, "", True, (), NOW)  # fmt: skip


@contextmanager
def _stores() -> Generator[list[tuple[str, str]], None, None]:
    with tempfile.TemporaryDirectory() as folder:
        stores = [("SQLite", sqlite_url(Path(folder)))]
        programs = find_postgres()
        if programs is None:
            yield stores
            return
        with Postgres(programs) as server:
            yield [*stores, ("PostgreSQL", server.new_database())]


class StoreBench:
    """Runs all queries against one database with an inventory of `objects` objects."""

    def __init__(self, report: BenchReport, name: str, objects: int = OBJECTS) -> None:
        self._report = report
        self._name = name
        self._objects = objects
        self._most = 0.1 if name == "PostgreSQL" else 0.2
        self._baseline: list[float] = []

    async def run(self, url: str, parts: Collection[str] = PARTS) -> None:
        """Fills the store, then measures the queries."""
        engine = make_engine(url)
        await migrate(engine)
        await fill(engine, self._objects, DEPLOYMENTS if "history" in parts else 0)
        self._open(engine)
        self._baseline = await _measure_times(self._one_row)
        asked = {
            "lists": self._measure_lists,
            "searches": self._measure_searches,
            "history": self._measure_history,
            "writes": self._measure_writes,
        }
        for part, run_query in asked.items():
            if part in parts:
                await run_query()
        await self._store.close()

    async def run_searches(self, url: str) -> None:
        """Fills PostgreSQL without a history, then measures searches."""
        engine = make_engine(url)
        await migrate(engine)
        async with _without_indexes(engine, services_store.components):
            await fill(engine, self._objects, deployments=0)
        await _update_statistics(engine)
        self._open(engine)
        self._baseline = await _measure_times(self._one_row)
        await self._measure_searches()
        await self._store.close()

    def _open(self, engine: AsyncEngine) -> None:
        self._store = SqlStore(engine, REPOSITORIES)
        sealer = EnvelopeSealer(b"k" * 32)
        deps = OperationContext(self._store, MemoryBus(), SystemClock(), FakeManifests(), sealer)
        self._services, self._clusters = Services(deps, SERVICE_PARTS), Clusters(deps)
        self._search, self._reports = SearchOperations(deps), LedgerReports(deps)

    async def _measure_query(
        self,
        what: str,
        max_seconds: float | None,
        run_query: Callable[[], Awaitable[Any]],
        runs: int = RUNS,
    ) -> None:
        times = await _measure_times(run_query, runs)
        label = f"{self._name}: {what}"
        self._report.add(
            f"{label}, p95", [_p95(times) * 1000], "ms", goal=max_seconds and max_seconds * 1000
        )
        self._report.add(label, [took * 1000 for took in times], "ms", baseline="one row by id",
                         baseline_values=[took * 1000 for took in self._baseline])  # fmt: skip

    async def _one_row(self) -> None:
        async with self._store.read() as tx:
            await tx[ServiceStore].get(f"s{1_000_000 + SERVICES // 2}")

    async def _measure_lists(self) -> None:
        deep = f"s{1_000_000 + SERVICES - 200}"
        pages = {
            "first page of services": PageQuery(),
            "a page at the very end": PageQuery(after=deep),
            "a page backwards from there": PageQuery(after=deep, backwards=True),
            "a page by name, from the middle": PageQuery(after=deep, order="name"),
            "failed services by name": PageQuery(equals={"status_code": ("F",)}, order="name"),
            "failed services": PageQuery(equals={"status_code": ("F",)}),
            "services of a cluster": PageQuery(equals={"cluster_id": "c1000007"}),
            "services of clusters with a tag, counted": PageQuery(
                tags=[("env", "prod")], counting=True
            ),
            "services by a rare part of their names": PageQuery(text=f"ck-{SERVICES - 10}"),
            "services by a frequent part, counted": PageQuery(text="pay", counting=True),
        }
        for what, query in pages.items():
            await self._measure_query(
                what, self._most, lambda q=query: self._services.page(SYSTEM, q)
            )
        clusters = PageQuery(seen_since=NOW - timedelta(days=1), counting=True)
        await self._measure_query("connected clusters", self._most,
                        lambda: self._clusters.page(SYSTEM, clusters))  # fmt: skip
        whole = PageQuery(equals={"deleted_at": ANY})
        await self._measure_query(
            "map of the fleet", 0.3, lambda: self._search.fleet_map(SYSTEM, whole)
        )

    async def _measure_searches(self) -> None:
        max_seconds = None if self._name == "SQLite" else 0.3
        rare = f"mail-{self._objects - 4}"
        for text in ("kind:Deployment image:log4j<2.17", "label:app=a77", rare, "kind:Pod pay",
                     "cluster:c1000007 kind:Service"):  # fmt: skip
            await self._measure_query(f"search {text}", max_seconds,
                            lambda q=text: self._search.objects(SYSTEM, q, 50, None))  # fmt: skip
        await self._measure_query("things by a part of their names", 0.1,
                        lambda: self._search.places(SYSTEM, f"stock-{SERVICES - 2}"))  # fmt: skip

    async def _measure_history(self) -> None:
        since = NOW - timedelta(days=396)
        await self._measure_query("figures over 13 months", 0.5, lambda: self._reports.figures(
            SYSTEM, since, NOW, ReportFilter(), ReportPeriod.WEEK))  # fmt: skip
        await self._measure_query("the fleet at a moment", 0.5, lambda: self._reports.at(
            SYSTEM, NOW - timedelta(days=100), ReportFilter()))  # fmt: skip
        await self._measure_query(
            "a commit's walk", None, lambda: self._reports.trace(SYSTEM, f"{7:040x}")
        )

    async def _measure_writes(self) -> None:
        numbers = iter(range(10_000))

        async def create() -> None:
            change = ServiceChange(name=f"new-{next(numbers)}", namespace="shop")
            await self._services.create(SYSTEM, "c1000001", None, change)

        await self._measure_query("a service made, with audit and ledger", 0.015, create, WRITES)


async def _measure_times(run_query: Callable[[], Awaitable[Any]], runs: int = RUNS) -> list[float]:
    times = []
    for _ in range(runs + 2):
        start = time.perf_counter()
        await run_query()
        times.append(time.perf_counter() - start)
    return times[2:]


def _p95(times: list[float]) -> float:
    return statistics.quantiles(times, n=20, method="inclusive")[-1]


async def fill(engine: AsyncEngine, objects: int = OBJECTS, deployments: int = DEPLOYMENTS) -> None:
    """Creates one row of each kind through the store, and copies it in the database."""
    store = SqlStore(engine, REPOSITORIES)
    async with store.write() as tx:
        for cluster in [_cluster("model"), *map(_cluster, _cluster_ids())]:
            await tx[ClusterStore].add(cluster)
        await tx[ServiceStore].add(_service("model"))
        images = [f"apache/log4j:2.{n}" for n in range(30)]
        model = replace(_object("model"), images=(*images, "nginx:1.25"))
        await tx[ComponentStore].upsert([model])
    json = "JSONB" if engine.dialect.name == "postgresql" else "TEXT"
    async with engine.begin() as connection:
        for table, own, count in ((services_store.services, _SERVICE, SERVICES),
                                  (services_store.components, _OBJECT, objects)):  # fmt: skip
            changed = {name: value.format(json=json) for name, value in own.items()}
            values = {f'"{c.name}"': changed.get(c.name, f'model."{c.name}"') for c in table.c}
            statement = _SERIES.format(count=count, table=table.name, columns=", ".join(values),
                                       values=", ".join(values.values()))  # fmt: skip
            await connection.exec_driver_sql(statement)
        for start in range(0, deployments, 5_000):
            rows = [_deployment(number) for number in range(start, start + 5_000)]
            await connection.execute(insert(services_store.deployments), rows)
    await _update_statistics(engine)


async def _update_statistics(engine: AsyncEngine) -> None:
    how = "VACUUM ANALYZE" if engine.dialect.name == "postgresql" else "ANALYZE"
    async with engine.connect() as connection:
        connection = await connection.execution_options(isolation_level="AUTOCOMMIT")
        await connection.exec_driver_sql(how)


@asynccontextmanager
async def _without_indexes(engine: AsyncEngine, table: Table) -> AsyncGenerator[None, None]:
    """Drops the indexes of a table during a bulk insert, and recreates them afterwards."""
    asked = f"""SELECT indexname, indexdef FROM pg_indexes
        WHERE tablename = '{table.name}' AND indexname ~ '^ix_'"""
    async with engine.begin() as connection:
        found: list[Any] = list(await connection.exec_driver_sql(asked))
        for row in found:
            await connection.exec_driver_sql(f'DROP INDEX "{row.indexname}"')
    yield
    async with engine.begin() as connection:
        await connection.exec_driver_sql("SET LOCAL maintenance_work_mem = '1GB'")
        for row in found:
            await connection.exec_driver_sql(row.indexdef)


def _cluster_ids() -> list[str]:
    return [f"c{1_000_000 + number}" for number in range(CLUSTERS)]


def _deployment(number: int) -> JsonObject:
    """The n-th deployment of 10,000 services within 13 months."""
    at = NOW - timedelta(days=396) + timedelta(days=396) * (number / DEPLOYMENTS)
    services = 10_000 // SCALE
    following = number + services
    later = at + timedelta(days=396) * (services / DEPLOYMENTS)
    failed = at + timedelta(minutes=2) if number % 11 == 0 else None
    return {
        "service_id": f"s{1_000_000 + number % services}",
        "sequence": number // services + 1,
        "cluster_id": f"c{1_000_000 + number % CLUSTERS}",
        "project_id": DEFAULT_PROJECT,
        "stage": LedgerStage.RENDERED,
        "sha": f"{number // 50:040x}",
        "actor": "ada@example.org",
        "committed_at": at - timedelta(seconds=30 + number % 977),
        "desired_at": at,
        "offered_at": at + timedelta(seconds=1),
        "applied_at": at + timedelta(seconds=3),
        "healthy_at": at + timedelta(seconds=20 + number % 613),
        "failed_at": failed,
        "restored_at": failed + timedelta(minutes=number % 97) if failed else None,
        "lead_s": 50.0 + number % 977 + number % 613,
        "restore_s": number % 97 * 60.0 if failed else None,
        "replaced_at": later if following < DEPLOYMENTS else None,
    }


if __name__ == "__main__":
    main()
