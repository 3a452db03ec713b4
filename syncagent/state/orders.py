"""The newest accepted order of each service, so that an older one has no effect."""

from datetime import datetime

from syncagent.ports import AcceptedOrder
from syncagent.state.database import Database


class SqliteOrderLedger:
    """Implements `ports.OrderLedger`."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def newest(self, service_id: str) -> AcceptedOrder | None:
        rows = self._db.rows(
            "SELECT generation, fence FROM accepted_order WHERE service_id = ?", service_id
        )
        return AcceptedOrder(service_id, *rows[0]) if rows else None

    def accept(self, order: AcceptedOrder, forget_at: datetime | None, now: datetime) -> None:
        until = int(forget_at.timestamp()) if forget_at else None
        with self._db.transaction() as db:
            db.execute("DELETE FROM accepted_order WHERE until < ?", (int(now.timestamp()),))
            db.execute(
                "INSERT OR REPLACE INTO accepted_order VALUES (?, ?, ?, ?)",
                (order.service_id, order.generation, order.fence, until),
            )
