"""Ports of notifications."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Protocol

from controlplane.notifications.model.notification import Delivery, NotificationKey, Router, Sink
from controlplane.platform.notification import Notification
from controlplane.platform.ports import AppendOnlyRows, NamedRows, Rows
from controlplane.services.model.ledger import LedgerStage


class ResourceLabels(Protocol):
    """Labels of resources that manifests describe."""

    async def of(self, ids: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """Returns the labels of these resources, by id."""
        ...


class NotificationStore(AppendOnlyRows[Notification], Protocol):
    """Notifications: written together with their cause, routed afterwards."""

    async def by_id(self, id: int) -> Notification | None:
        rows = await self.select(id=id)
        return rows[0] if rows else None

    async def add(self, row: Notification) -> int:
        """Appends a notification; returns its id."""
        ...

    async def waiting(self, limit: int) -> list[Notification]:
        """Returns notifications that are not routed yet, oldest first.

        A writing transaction locks them until it ends.
        """
        ...

    async def mark_routed(self, notifications: Iterable[Notification], now: datetime) -> None:
        """Marks these notifications, with their final content, as routed."""
        ...

    async def drop(self, ids: Collection[int]) -> None:
        """Removes notifications that turned out to be obsolete."""
        ...

    async def forget(self, before: datetime) -> None:
        """Removes older notifications and their deliveries."""
        ...

    async def previous_stages(self, ids: Collection[int]) -> dict[int, LedgerStage | None]:
        """Returns the previous ledger stage of the service of each notification."""
        ...


class DeliveryStore(Rows[Delivery], Protocol):
    """Notifications that wait for delivery; claims are leases, fenced by the number of attempts."""

    async def claim(self, now: datetime, limit: int) -> list[Delivery]:
        """Claims due deliveries; after the lease expires, others may claim them again."""
        ...

    async def settle(self, delivery: Delivery, **columns: object) -> bool:
        """Stores the result of a claimed delivery; False if another worker has claimed it
        meanwhile.
        """
        ...


class NotificationKeyStore(Rows[NotificationKey], Protocol):
    """Conditions that have been notified and still hold."""


class SinkStore(NamedRows[Sink], Protocol):
    """Notification sinks."""

    async def find_leased(self, id: str, until: datetime | None) -> Sink | None:
        return await self.find(id=id, due_at=until)

    async def lease(self, id: str, until: datetime) -> None:
        await self.change(id, due_at=until)


class RouterStore(NamedRows[Router], Protocol):
    """Notification routers."""
