"""Sends notifications and audit entries to sinks, at least once."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import structlog

from controlplane.audit.model.chains import AuditKind
from controlplane.audit.ports import AuditLog
from controlplane.notifications.model.notification import (
    LEASE,
    MAX_ATTEMPTS,
    Delivery,
    DeliveryState,
    Sink,
    delivery_retry_delay,
)
from controlplane.notifications.model.sink_kind import GONE, Sending
from controlplane.notifications.operations.preview_comments import PreviewComments
from controlplane.notifications.operations.sinks import sink_settings
from controlplane.notifications.ports import DeliveryStore, NotificationStore, SinkStore
from controlplane.platform.audit_entry import AuditEntry
from controlplane.platform.context import OperationContext
from controlplane.platform.outbound_ports import GuardedClient
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.ports import RepositoryStore
from core.errors import TowlineError, Unavailable

log = structlog.get_logger(__name__)

_AT_ONCE = 32
_AUDIT_ROWS = 200
_LAST_BATCH = timedelta(seconds=45)
_PAUSE = timedelta(seconds=2)


class NotificationSender:
    """Sends deliveries, and forwards the audit log."""

    def __init__(
        self, context: OperationContext, client: GuardedClient, host: str = "towline"
    ) -> None:
        self._context = context
        self._client = client
        self._host = host
        self._comments = PreviewComments(context, client)

    async def deliver(self) -> int:
        """Sends a batch of due deliveries; returns its size."""
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            claimed = await tx[DeliveryStore].claim(now, _AT_ONCE)
        await asyncio.gather(*(self._attempt(delivery) for delivery in claimed))
        return len(claimed)

    async def forward_audit(self) -> None:
        """Sends new audit entries to each sink that subscribes to them."""
        async with self._context.store.read() as tx:
            sinks = [sink for sink in await tx[SinkStore].all() if sink.audit]
        now = self._context.clock.now()
        due = [sink for sink in sinks if sink.due_at is None or sink.due_at <= now]
        await asyncio.gather(*(self._forward_to_sink(sink) for sink in due))

    async def _attempt(self, delivery: Delivery) -> None:
        now = self._context.clock.now()
        try:
            status = await self._send(delivery)
            error = "" if status < 300 else f"the sink returned {status}"
        except TowlineError as failure:
            status, error = None, failure.message[:1000]
        columns = {"status": status, "error": error, "finished_at": now}
        if not error:
            columns["state"] = DeliveryState.DONE
        elif delivery.attempts >= MAX_ATTEMPTS or status == GONE:
            columns["state"] = DeliveryState.DEAD
            log.warning("delivery given up", delivery=delivery.id, sink=delivery.sink_id)
        else:
            columns |= {
                "due_at": now + delivery_retry_delay(delivery.attempts),
                "finished_at": None,
            }
        async with self._context.store.write() as tx:
            await tx[DeliveryStore].settle(delivery, **columns)

    async def _send(self, delivery: Delivery) -> int:
        async with self._context.store.read() as tx:
            sink = await tx[SinkStore].get(delivery.sink_id)
            notification = await tx[NotificationStore].by_id(delivery.notification_id)
            repository_id = sink.repository_id if sink else ""
            repository = await tx[RepositoryStore].get(repository_id) if repository_id else None
        if sink is None or notification is None:
            return GONE
        sending = self._sending_to(sink, delivery.id, repository)
        return await sink_settings(self._context.sealer, sink).send(sending, notification)

    def _sending_to(self, sink: Sink, id: str, repository: Repository | None = None) -> Sending:
        now, client = self._context.clock.now(), self._client
        return Sending(id, now, sink, client, self._host, self._comments.update, repository)

    async def _forward_to_sink(self, sink: Sink) -> None:
        """Forwards to one sink, unless another replica does."""
        now = self._context.clock.now()
        lease = now + LEASE
        async with self._context.store.write() as tx:
            leased = await tx[SinkStore].find_leased(sink.id, sink.due_at)
            if leased is None:
                return
            await tx[SinkStore].lease(sink.id, lease)
        failures, error, next_at = 0, "", now + _PAUSE
        sent = dict(leased.sent)
        try:
            while self._context.clock.now() < lease - _LAST_BATCH:
                before = dict(sent)
                for kind in leased.audit:
                    last = sent.get(kind.value, 0)
                    sent[kind.value] = await self._forward_kind(leased, kind, last)
                if sent == before:
                    break
        except TowlineError as failure:
            failures, error = leased.failures + 1, failure.message[:1000]
            next_at = now + delivery_retry_delay(failures)
        async with self._context.store.write() as tx:
            if await tx[SinkStore].find_leased(sink.id, lease) is not None:
                columns = {"due_at": next_at, "failures": failures, "error": error, "sent": sent}
                await tx[SinkStore].change(sink.id, **columns)

    async def _forward_kind(self, sink: Sink, kind: AuditKind, last: int) -> int:
        """Sends the next entries of a chain; returns the number of the last entry sent."""
        async with self._context.store.read() as tx:
            rows = await tx[AuditLog].rows_after(kind, last, _AUDIT_ROWS)
        if not rows:
            return last
        await self._send_rows(sink, kind, rows)
        return rows[-1].number

    async def _send_rows(self, sink: Sink, kind: AuditKind, rows: Sequence[AuditEntry]) -> None:
        sending = self._sending_to(sink, f"{sink.id}-{kind.value}-{rows[0].number}")
        status = await sink_settings(self._context.sealer, sink).forward(sending, kind, rows)
        if status >= 300:
            raise Unavailable(f"the sink returned {status}")
