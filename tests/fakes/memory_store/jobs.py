"""The job table in memory."""

from collections.abc import Collection
from dataclasses import asdict
from datetime import datetime
from typing import Any

from controlplane.platform.jobs import LEASE, Job
from controlplane.platform.store.jobs import jobs
from tests.fakes.memory_store.connection import MemoryConnection
from tests.fakes.memory_store.constraints import Row
from tests.fakes.memory_store.rows import MemoryReading

_UNLEASED: dict[str, Any] = {"lease_until": None, "holder": None}


class MemoryJobs:
    """Implements `JobStore`."""

    def __init__(self, connection: MemoryConnection) -> None:
        self._connection = connection
        self._jobs = MemoryReading(connection, jobs, Job)

    async def enqueue(self, job: Job) -> None:
        known = await self._jobs.find(key=job.key)
        if known is None:
            self._connection.insert(jobs, [asdict(job)])
            return
        anew = {"run_at": job.run_at, "payload": job.payload, "attempts": job.attempts}
        self._write(known.id, fence=known.fence + 1, **anew, **_UNLEASED)

    async def claim(
        self, kinds: Collection[str], holder: str, now: datetime, limit: int
    ) -> list[Job]:
        def is_due(row: Row) -> bool:
            is_free = row["lease_until"] is None or row["lease_until"] < now
            return row["kind"] in kinds and row["run_at"] <= now and is_free

        due = self._connection.where(jobs, is_due)
        due.sort(key=lambda row: (row["run_at"], row["id"]))
        claimed = []
        for row in due[:limit]:
            leased = {"attempts": row["attempts"] + 1, "fence": row["fence"] + 1}
            self._write(row["id"], lease_until=now + LEASE, holder=holder, **leased)
            claimed += await self._jobs.select(id=row["id"])
        return claimed

    async def renew(self, job: Job, now: datetime) -> bool:
        row = self._connection.row(jobs, job.id)
        is_leased = row is not None and row["holder"] is not None
        return is_leased and self._holds(job) and self._write(job.id, lease_until=now + LEASE)

    async def finish(self, job: Job) -> bool:
        return self._holds(job) and self._connection.delete(jobs, [(job.id,)]) == 1

    async def retry(self, job: Job, run_at: datetime, error: str) -> bool:
        return self._holds(job) and self._write(job.id, run_at=run_at, error=error, **_UNLEASED)

    async def next_due(self, kinds: Collection[str]) -> datetime | None:
        rows = self._connection.where(jobs, lambda row: row["kind"] in kinds)
        return min((row["lease_until"] or row["run_at"] for row in rows), default=None)

    def _holds(self, job: Job) -> bool:
        """Returns whether no other worker has claimed the job meanwhile."""
        row = self._connection.row(jobs, job.id)
        return row is not None and row["fence"] == job.fence

    def _write(self, id: str, **columns: Any) -> bool:
        return self._connection.update(jobs, [(id,)], columns) == 1
