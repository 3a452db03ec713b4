"""Measures the audit log: `python -m bench.audit`; BENCH_SMALL=1 for a tenth of everything.

Writes rows in batches as the Kubernetes proxy does, and one at a time as mutations do. Our own
baseline inserts the same rows into a table with an index for each filter, without a hash chain.
Queries of a long log are compared with reading one row by id. Runs on SQLite and PostgreSQL.
"""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import Column, Integer, MetaData, String, Table, insert, select

from bench.report import BenchReport
from controlplane.audit.model.chains import AuditFilter
from controlplane.audit.operations.audit_log import check_chains
from controlplane.audit.ports import AuditLog
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict
from controlplane.platform.ports import PageQuery
from controlplane.platform.store.columns import JsonColumn, UtcColumn
from controlplane.platform.store.engine import make_engine, sqlite_url
from controlplane.platform.store.schema import SerialNumber
from controlplane.platform.store.transaction import SqlStore
from controlplane.store.migrate import migrate
from controlplane.store.repositories import REPOSITORIES
from core.json_object import JsonObject
from tests.servers.postgres import Postgres, find_postgres

SCALE = 10 if os.environ.get("BENCH_SMALL") else 1
BATCH, BATCHES, SINGLES, QUESTIONS = 5_000, 20 // min(SCALE, 5), 200 // SCALE, 30
NOW = datetime(2026, 6, 1, tzinfo=UTC)
_METADATA = MetaData()
INDEXED = ("actor", "action", "verdict", "target", "target_id", "cluster_id", "project_id")
PLAIN = Table(
    "plain_audit",
    _METADATA,
    Column("id", SerialNumber, primary_key=True),
    Column("at", UtcColumn, index=True),
    *(Column(name, String, index=True) for name in INDEXED),
    *(Column(name, String) for name in ("actor_id", "token_id", "source", "request_id")),
    Column("status", Integer),
    Column("detail", JsonColumn(JsonObject)),
)


def entries(count: int, first: int = 0) -> list[AuditEntry]:
    """Rows as the Kubernetes proxy writes them."""
    detail = {"user_agent": "kubectl/v1.36", "bytes_out": 1234, "seconds": 0.0123, "rule": "viewer"}
    return [
        AuditEntry(
            at=NOW + timedelta(seconds=first + number),
            actor=f"user{number % 50}@example.org",
            action=f"kubernetes.{('get', 'list', 'watch')[number % 3]}",
            verdict=AuditVerdict.REFUSED if number % 100 == 0 else AuditVerdict.ALLOWED,
            target=f"c{number % 20}: pods",
            target_id=f"cluster-{number % 20}",
            detail=detail,
        )
        for number in range(count)
    ]


async def seconds(work: Callable[[], Awaitable[object]]) -> float:
    begun = time.perf_counter()
    await work()
    return time.perf_counter() - begun


async def plainly(store: SqlStore, rows: list[AuditEntry]) -> None:
    """Inserts the same rows without a hash chain."""
    names = [column.name for column in PLAIN.c if column.name != "id"]
    values = [{name: getattr(row, name) for name in names} for row in rows]
    async with store.write() as tx:
        await tx.connection.execute(insert(PLAIN), values)


async def chained(store: SqlStore, rows: list[AuditEntry]) -> None:
    async with store.write() as tx:
        await tx[AuditLog].append(rows)


async def measure(dialect: str, url: str, report: BenchReport) -> None:
    """Measures all figures of one database."""
    engine = make_engine(url)
    await migrate(engine)
    async with engine.begin() as connection:
        await connection.run_sync(_METADATA.create_all)
    store = SqlStore(engine, REPOSITORIES)
    try:
        await _measure_writes(dialect, store, report)
        await _measure_queries(dialect, store, report)
    finally:
        await store.close()


async def _measure_writes(dialect: str, store: SqlStore, report: BenchReport) -> None:
    plain, with_chain, plain_cpu, chain_cpu = [], [], [], []
    for number in range(BATCHES):
        rows = entries(BATCH, number * BATCH)
        begun = time.process_time()
        plain.append(BATCH / await seconds(lambda rows=rows: plainly(store, rows)))
        between = time.process_time()
        with_chain.append(BATCH / await seconds(lambda rows=rows: chained(store, rows)))
        plain_cpu.append((between - begun) / BATCH * 1e6)
        chain_cpu.append((time.process_time() - between) / BATCH * 1e6)
    report.add(
        f"{dialect}: CPU of a row in batches of {BATCH:,}", chain_cpu, "µs",
        baseline="without a chain", baseline_values=plain_cpu,
    )  # fmt: skip
    report.add(
        f"{dialect}: rows in batches of {BATCH:,}", with_chain, "rows/s",
        baseline="without a chain", baseline_values=plain, goal=0.4, at_most=False,
    )  # fmt: skip
    report.add(
        f"{dialect}: rows in batches, as such", with_chain, "rows/s", goal=5_000, at_most=False
    )
    single = entries(1)
    alone = [1000 * await seconds(lambda: plainly(store, single)) for _ in range(SINGLES)]
    linked = [1000 * await seconds(lambda: chained(store, single)) for _ in range(SINGLES)]
    report.add(
        f"{dialect}: one row and its commit, p95", [_p95(linked)], "ms",
        baseline="without a chain", baseline_values=[_p95(alone)], goal=5.0,
    )  # fmt: skip


async def _measure_queries(dialect: str, store: SqlStore, report: BenchReport) -> None:
    async def by_id() -> None:
        async with store.read() as tx:
            (await tx.connection.execute(select(PLAIN).where(PLAIN.c.id == BATCH))).one()

    base = _p95([1000 * await seconds(by_id) for _ in range(QUESTIONS)])
    deep = str(BATCH)
    for name, audit_filter, query in (
        ("newest of an actor", AuditFilter(actor="user7@example.org"), PageQuery(newest=True)),
        ("refused", AuditFilter(verdict=AuditVerdict.REFUSED), PageQuery(newest=True)),
        ("a page far back", AuditFilter(), PageQuery(newest=True, after=deep)),
        (
            "an hour of long ago",
            AuditFilter(since=NOW, until=NOW + timedelta(hours=1)),
            PageQuery(newest=True),
        ),
    ):

        async def ask(audit_filter: AuditFilter = audit_filter, query: PageQuery = query) -> None:
            async with store.read() as tx:
                await tx[AuditLog].search(audit_filter, query)

        took = _p95([1000 * await seconds(ask) for _ in range(QUESTIONS)])
        report.add(
            f"{dialect}: {name}, p95", [took], "ms",
            baseline="a row by its id", baseline_values=[base], goal=30.0,
        )  # fmt: skip
    begun = time.perf_counter()
    rows, broken = await check_chains(store)
    assert not broken
    report.add(f"{dialect}: verified", [rows / (time.perf_counter() - begun)], "rows/s")


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


async def main() -> None:
    """Measures SQLite, and PostgreSQL if it is available."""
    report = BenchReport("audit")
    with tempfile.TemporaryDirectory() as place:
        await measure("SQLite", sqlite_url(Path(place)), report)
    programs = find_postgres()
    if programs is not None:
        with Postgres(programs) as server:
            await measure("PostgreSQL", server.new_database(), report)
    report.write()


if __name__ == "__main__":
    asyncio.run(main())
