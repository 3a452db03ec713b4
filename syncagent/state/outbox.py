"""Reports that the control plane has not acknowledged yet, on disk and in order.
A report gets its number when it is first sent. So an unsent report can neither be taken for
acknowledged after the disk was lost and numbers restarted, nor block a newer one on its topic,
which replaces it. Numbers only grow.
"""

import asyncio

from core.runtime.clock import Clock
from syncagent.ports import Merge, NumberedReport
from syncagent.state.database import Database


class SqliteOutbox:
    """Implements `ports.Outbox`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._db = database
        self._clock = clock
        self._filled = asyncio.Event()
        if database.rows("SELECT 1 FROM report LIMIT 1"):
            self._filled.set()

    def put(self, topic: str, body: bytes, merge: Merge | None = None) -> None:
        now_ms = int(self._clock.now().timestamp() * 1000)
        with self._db.transaction() as db:
            waiting = db.execute(
                # Without this hint, SQLite scans all waiting reports by the index of numbers.
                "SELECT position, body FROM report INDEXED BY report_waiting"
                " WHERE topic = ? AND number IS NULL ORDER BY position DESC LIMIT 1",
                (topic,),
            ).fetchone()
            if waiting is not None:
                merged = merge(waiting[1], body) if merge else body
                if merged is not None:
                    db.execute("DELETE FROM report WHERE position = ?", (waiting[0],))
                    body = merged
            db.execute(
                "INSERT INTO report (topic, at_ms, body) VALUES (?, ?, ?)", (topic, now_ms, body)
            )
        self._filled.set()

    def put_event(self, topic: str, body: bytes) -> None:
        now_ms = int(self._clock.now().timestamp() * 1000)
        with self._db.transaction() as db:
            changed = db.execute(
                "UPDATE report SET body = ? WHERE topic = ? AND number IS NULL", (body, topic)
            )
            if not changed.rowcount:
                db.execute(
                    "INSERT INTO report (topic, at_ms, body) VALUES (?, ?, ?)",
                    (topic, now_ms, body),
                )
        self._filled.set()

    def trim(self, group: str, max_entries: int) -> None:
        with self._db.transaction() as db:
            db.execute(
                "DELETE FROM report WHERE position IN (SELECT position FROM report"
                " INDEXED BY report_waiting WHERE topic > ? AND topic < ? AND number IS NULL"
                " ORDER BY position DESC LIMIT -1 OFFSET ?)",
                (f"{group}/", f"{group}0", max_entries),
            )

    def acknowledge(self, number: int) -> None:
        with self._db.transaction() as db:
            db.execute("DELETE FROM report WHERE number <= ?", (number,))
            db.execute(
                "INSERT INTO counter VALUES ('reports', ?1), ('acknowledged', ?1)"
                " ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)",
                (number,),
            )

    def acknowledged(self) -> int:
        rows = self._db.rows("SELECT value FROM counter WHERE name = 'acknowledged'")
        return rows[0][0] if rows else 0

    def sent(self) -> list[NumberedReport]:
        rows = self._db.rows(
            "SELECT number, at_ms, body FROM report WHERE number IS NOT NULL ORDER BY number"
        )
        return [NumberedReport(*row) for row in rows]

    def take(self, limit: int) -> list[NumberedReport]:
        with self._db.transaction() as db:
            rows = db.execute(
                "SELECT position, at_ms, body FROM report"
                " WHERE number IS NULL ORDER BY position LIMIT ?",
                (limit,),
            ).fetchall()
            (last,) = db.execute("SELECT value FROM counter WHERE name = 'reports'").fetchone()
            numbered = [(last + i, position) for i, (position, *_) in enumerate(rows, 1)]
            db.executemany("UPDATE report SET number = ? WHERE position = ?", numbered)
            db.execute(
                "UPDATE counter SET value = ? WHERE name = 'reports'", (last + len(numbered),)
            )
        if len(rows) < limit:
            self._filled.clear()
        return [
            NumberedReport(number, *row[1:])
            for (number, _), row in zip(numbered, rows, strict=True)
        ]

    def waiting(self) -> int:
        """Returns the number of unacknowledged reports."""
        return self._db.rows("SELECT count(*) FROM report")[0][0]

    async def wait(self) -> None:
        await self._filled.wait()
