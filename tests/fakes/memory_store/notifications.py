"""Notifications and their deliveries in memory."""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from controlplane.notifications.model.notification import (
    HEALTHY_STAGES,
    LEASE,
    UNHEALTHY_STAGES,
    Delivery,
    DeliveryState,
)
from controlplane.notifications.ports import DeliveryStore, NotificationStore
from controlplane.notifications.store.tables import deliveries, notifications
from controlplane.platform.notification import Notification
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.store.tables import ledger
from tests.fakes.memory_store.connection import MemoryConnection
from tests.fakes.memory_store.constraints import Row
from tests.fakes.memory_store.rows import MemoryLog, MemoryReading, MemoryRows

_FOUND_OUT = ("kind", "severity", "subject", "project_id", "detail")


class MemoryNotifications(MemoryLog[Notification], NotificationStore):
    """Implements `NotificationStore`."""

    def __init__(self, connection: MemoryConnection) -> None:
        super().__init__(connection, notifications, Notification, ("subject", "text"))
        self._ledger = MemoryReading(connection, ledger, LedgerEntry)

    async def add(self, row: Notification) -> int:
        await self.append([row])
        return max(row["id"] for row in self._connection.rows(self._table))

    async def waiting(self, limit: int) -> list[Notification]:
        return self._select(lambda row: row["routed_at"] is None)[:limit]

    async def mark_routed(self, notifications: Iterable[Notification], now: datetime) -> None:
        for notification in notifications:
            columns: dict[str, Any] = {name: getattr(notification, name) for name in _FOUND_OUT}
            columns["routed_at"] = now
            self._connection.update(self._table, [(notification.id,)], columns)

    async def drop(self, ids: Collection[int]) -> None:
        self._connection.delete(self._table, [(id,) for id in ids])

    async def forget(self, before: datetime) -> None:
        rows = self._connection.where(self._table, lambda row: row["at"] <= before)
        old = {row["id"] for row in rows}
        found = self._connection.keys(deliveries, lambda row: row["notification_id"] in old)
        self._connection.delete(deliveries, found)
        await self.drop(old)

    async def previous_stages(self, ids: Collection[int]) -> dict[int, LedgerStage | None]:
        rows = self._connection.where(self._table, lambda row: row["id"] in ids)
        return {row["id"]: await self._stage_before(row) for row in rows}

    async def _stage_before(self, row: Row) -> LedgerStage | None:
        stages = [*HEALTHY_STAGES, *UNHEALTHY_STAGES]
        entries = await self._ledger.select(service_id=row["service_id"], stage=stages)
        earlier = [entry.stage for entry in entries if entry.at < row["at"]]
        return earlier[-1] if earlier else None


class MemoryDeliveries(MemoryRows[Delivery], DeliveryStore):
    """Implements `DeliveryStore`."""

    def __init__(self, connection: MemoryConnection) -> None:
        super().__init__(connection, deliveries, Delivery)

    async def claim(self, now: datetime, limit: int) -> list[Delivery]:
        due = [d for d in await self.select(state=DeliveryState.WAITING) if d.due_at <= now]
        claimed = []
        for delivery in sorted(due, key=lambda delivery: delivery.due_at)[:limit]:
            await self.settle(delivery, attempts=delivery.attempts + 1, due_at=now + LEASE)
            claimed += await self.select(id=delivery.id)
        return claimed

    async def settle(self, delivery: Delivery, **columns: Any) -> bool:
        row = self._connection.row(self._table, delivery.id)
        if row is None or row["attempts"] != delivery.attempts:
            return False
        return self._connection.update(self._table, [(delivery.id,)], columns) == 1
