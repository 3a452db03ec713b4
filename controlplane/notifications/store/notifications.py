"""Notifications, written together with ledger rows, and their deliveries."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime

from sqlalchemy import bindparam, delete, insert, select, update

from controlplane.notifications.model.notification import (
    HEALTHY_STAGES,
    LEASE,
    UNHEALTHY_STAGES,
    Delivery,
    DeliveryState,
    notification_for,
)
from controlplane.notifications.ports import DeliveryStore, NotificationStore
from controlplane.notifications.store import tables as notifications_tables
from controlplane.platform.notification import Notification
from controlplane.platform.store.connection import StoreConnection
from controlplane.platform.store.rows import SqlLog, SqlRows
from controlplane.platform.store.transaction import Repositories
from controlplane.reports.store.deployments import LedgerWithDeployments
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.ports import LedgerStore
from controlplane.services.store import tables as services_store

_T = notifications_tables.notifications.c
_ROUTING_COLUMNS = ("kind", "severity", "subject", "project_id", "detail", "routed_at")
_ROUTED = (
    update(notifications_tables.notifications)
    .where(_T.id == bindparam("row"))
    .values({name: bindparam(f"to_{name}", type_=_T[name].type) for name in _ROUTING_COLUMNS})
)


class SqlNotifications(SqlLog[Notification], NotificationStore):
    """Implements `NotificationStore` on a connection."""

    def __init__(self, connection: StoreConnection) -> None:
        super().__init__(
            connection, notifications_tables.notifications, Notification, ("subject", "text")
        )

    async def add(self, row: Notification) -> int:
        values = {name: getattr(row, name) for name in self._names if name != "id"}
        statement = insert(self._table).values(**values).returning(self._table.c.id)
        return (await self._connection.execute(statement)).scalar_one()

    async def waiting(self, limit: int) -> list[Notification]:
        table = self._table.c
        waiting = self._rows.where(table.routed_at.is_(None)).order_by(table.id).limit(limit)
        if not self._connection.read_only:
            waiting = waiting.with_for_update(skip_locked=True)
        return await self._fetch(waiting)

    async def mark_routed(self, notifications: Iterable[Notification], now: datetime) -> None:
        rows = [
            {"row": row.id, **{f"to_{name}": getattr(row, name) for name in _ROUTING_COLUMNS}}
            for row in (replace(entry, routed_at=now) for entry in notifications)
        ]
        if rows:
            await self._connection.execute(_ROUTED, rows)

    async def drop(self, ids: Collection[int]) -> None:
        if ids:
            await self._connection.execute(delete(self._table).where(self._table.c.id.in_(ids)))

    async def forget(self, before: datetime) -> None:
        old = select(self._table.c.id).where(self._table.c.at <= before)
        deliveries = notifications_tables.deliveries
        await self._connection.execute(
            delete(deliveries).where(deliveries.c.notification_id.in_(old))
        )
        await self._connection.execute(delete(self._table).where(self._table.c.at <= before))

    async def previous_stages(self, ids: Collection[int]) -> dict[int, LedgerStage | None]:
        table, ledger = self._table.c, services_store.ledger.c
        previous = (
            select(ledger.stage)
            .where(ledger.service_id == table.service_id, ledger.at < table.at)
            .where(ledger.stage.in_([*HEALTHY_STAGES, *UNHEALTHY_STAGES]))
            .order_by(ledger.id.desc())
            .limit(1)
            .scalar_subquery()
        )
        rows = await self._connection.execute(select(table.id, previous).where(table.id.in_(ids)))
        return dict(map(tuple, rows))


class SqlLedger(LedgerWithDeployments, LedgerStore):
    """The ledger; an append also stores the resulting notifications in the same transaction."""

    def __init__(self, connection: StoreConnection, notifications: NotificationStore) -> None:
        super().__init__(connection, services_store.ledger, LedgerEntry, ("message",))
        self._notifications = notifications

    async def append(self, entries: Iterable[LedgerEntry]) -> None:
        rows = list(entries)
        await super().append(rows)
        notifications = [found for row in rows if (found := notification_for(row)) is not None]
        await self._notifications.append(notifications)


class SqlDeliveries(SqlRows[Delivery], DeliveryStore):
    """Implements `DeliveryStore` on a connection."""

    def __init__(self, connection: StoreConnection) -> None:
        super().__init__(connection, notifications_tables.deliveries, Delivery)

    async def claim(self, now: datetime, limit: int) -> list[Delivery]:
        table = self._table.c
        due = self._rows.where(table.state == DeliveryState.WAITING, table.due_at <= now)
        claimed: list[Delivery] = []
        for delivery in await self._fetch(due.order_by(table.due_at).limit(limit)):
            columns = {"attempts": delivery.attempts + 1, "due_at": now + LEASE}
            if await self.settle(delivery, **columns):
                claimed.append(replace(delivery, **columns))
        return claimed

    async def settle(self, delivery: Delivery, **columns: object) -> bool:
        table = self._table.c
        is_still_claimed = (table.id == delivery.id, table.attempts == delivery.attempts)
        statement = update(self._table).where(*is_still_claimed).values(**columns)
        return (await self._connection.execute(statement)).rowcount == 1


REPOSITORIES: Repositories = {
    LedgerStore: lambda tx: SqlLedger(tx.connection, tx[NotificationStore]),
    NotificationStore: lambda tx: SqlNotifications(tx.connection),
    DeliveryStore: lambda tx: SqlDeliveries(tx.connection),
}
