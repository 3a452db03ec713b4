"""The job table: one statement claims, and only the newest fence may finish.

PostgreSQL skips rows that others hold; SQLite ignores FOR UPDATE, and BEGIN IMMEDIATE serializes
its writers.
"""

from collections.abc import Collection
from datetime import datetime
from functools import cache

from sqlalchemy import Column, Executable, String, delete, func, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from controlplane.platform.jobs import LEASE, Job
from controlplane.platform.store.columns import UtcColumn
from controlplane.platform.store.connection import StoreConnection
from controlplane.platform.store.row_tables import row_table

_COLUMNS = ("id", "kind", "key", "run_at", "payload", "attempts", "fence", "error")


class SqlJobs:
    """Implements `JobStore` on a connection."""

    def __init__(self, connection: StoreConnection) -> None:
        self._connection = connection

    async def enqueue(self, job: Job) -> None:
        row = {name: getattr(job, name) for name in _COLUMNS}
        await self._connection.execute(_enqueue_statement(self._connection.dialect), row)

    async def claim(
        self, kinds: Collection[str], holder: str, now: datetime, limit: int
    ) -> list[Job]:
        is_free = or_(jobs.c.lease_until.is_(None), jobs.c.lease_until < now)
        due = (
            select(jobs.c.id)
            .where(jobs.c.kind.in_(kinds), jobs.c.run_at <= now, is_free)
            .order_by(jobs.c.run_at, jobs.c.id)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        statement = (
            update(jobs)
            .where(jobs.c.id.in_(due))
            .values(
                lease_until=now + LEASE,
                holder=holder,
                attempts=jobs.c.attempts + 1,
                fence=jobs.c.fence + 1,
            )
            .returning(*(jobs.c[name] for name in _COLUMNS))
        )
        rows = await self._connection.execute(statement)
        return [Job(**dict(zip(_COLUMNS, row, strict=True))) for row in rows]

    async def renew(self, job: Job, now: datetime) -> bool:
        result = await self._connection.execute(
            update(jobs)
            .where(jobs.c.id == job.id, jobs.c.fence == job.fence, jobs.c.holder.is_not(None))
            .values(lease_until=now + LEASE)
        )
        return result.rowcount == 1

    async def finish(self, job: Job) -> bool:
        result = await self._connection.execute(
            delete(jobs).where(jobs.c.id == job.id, jobs.c.fence == job.fence)
        )
        return result.rowcount == 1

    async def retry(self, job: Job, run_at: datetime, error: str) -> bool:
        result = await self._connection.execute(
            update(jobs)
            .where(jobs.c.id == job.id, jobs.c.fence == job.fence)
            .values(run_at=run_at, error=error, lease_until=None, holder=None)
        )
        return result.rowcount == 1

    async def next_due(self, kinds: Collection[str]) -> datetime | None:
        due = func.coalesce(jobs.c.lease_until, jobs.c.run_at, type_=jobs.c.run_at.type)
        earliest = select(func.min(due)).where(jobs.c.kind.in_(kinds))
        return (await self._connection.execute(earliest)).scalar()


jobs = row_table(
    "jobs",
    Job,
    Column("holder", String(64)),
    Column("lease_until", UtcColumn),
    lengths={"kind": 64, "key": 255},
    indexed={"run_at"},
    unique={"key"},
)


@cache
def _enqueue_statement(dialect: str) -> Executable:
    """Returns the cached statement that adds a job, or replaces the one with its key.

    A new fence and no lease: the current worker cannot finish the newer request. The attempts
    start again, or work that reschedules itself would stop for good.
    """
    statement = (postgresql.insert if dialect == "postgresql" else sqlite.insert)(jobs)
    new_values = {
        "run_at": statement.excluded.run_at,
        "payload": statement.excluded.payload,
        "attempts": statement.excluded.attempts,
        "fence": jobs.c.fence + 1,
        "lease_until": None,
        "holder": None,
    }
    return statement.on_conflict_do_update(index_elements=["key"], set_=new_values)
