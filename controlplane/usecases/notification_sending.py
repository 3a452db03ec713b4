"""Sends notifications and audit entries to sinks, at least once."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit

import structlog

from controlplane.domain.access import SYSTEM
from controlplane.domain.audit import AuditKind
from controlplane.domain.audit_formats import as_object, syslog
from controlplane.domain.commit_outcomes import RepositoryApi, commit_status
from controlplane.domain.ledger import AuditEntry, AuditVerdict
from controlplane.domain.notification_bodies import (
    OutgoingRequest,
    notification_json,
    slack_request,
    teams_request,
    webhook_request,
)
from controlplane.domain.notifications import (
    COMMIT_STATUS,
    MAX_ATTEMPTS,
    Delivery,
    DeliveryState,
    Notification,
    Sink,
    SinkType,
    delivery_retry_delay,
)
from controlplane.ports import GuardedClient
from controlplane.usecases.deps import OperationContext
from controlplane.usecases.notifications import opened_sink
from controlplane.usecases.preview_comments import PreviewComments
from core.errors import TowlineError, Unavailable

log = structlog.get_logger(__name__)

_AT_ONCE = 32
_AUDIT_ROWS = 200
_GONE = 410
_LEASE = timedelta(seconds=60)
_LAST_BATCH = timedelta(seconds=45)
_PAUSE = timedelta(seconds=2)
_CHATS = {SinkType.SLACK: slack_request, SinkType.TEAMS: teams_request}


class NotificationSender:
    """Sends deliveries, and forwards the audit log."""

    def __init__(
        self, deps: OperationContext, outward: GuardedClient, host: str = "towline"
    ) -> None:
        self._context = deps
        self._outward = outward
        self._host = host
        self._comments = PreviewComments(deps, outward)

    async def deliver(self) -> int:
        """Sends a batch of due deliveries; returns its size."""
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            claimed = await tx.deliveries.claim(now, _AT_ONCE)
        await asyncio.gather(*(self._try(delivery) for delivery in claimed))
        return len(claimed)

    async def forward_audit(self) -> None:
        """Sends new audit entries to each sink that subscribes to them."""
        async with self._context.store.read() as tx:
            sinks = [sink for sink in await tx.sinks.select() if sink.audit]
        now = self._context.clock.now()
        due = [sink for sink in sinks if sink.due_at is None or sink.due_at <= now]
        await asyncio.gather(*(self._forward(sink) for sink in due))

    async def _try(self, delivery: Delivery) -> None:
        now = self._context.clock.now()
        try:
            status = await self._send(delivery)
            error = "" if status < 300 else f"the sink returned {status}"
        except TowlineError as failure:
            status, error = None, failure.message[:1000]
        columns = {"status": status, "error": error, "finished_at": now}
        if not error:
            columns["state"] = DeliveryState.DONE
        elif delivery.attempts >= MAX_ATTEMPTS or status == _GONE:
            columns["state"] = DeliveryState.DEAD
            log.warning("delivery given up", delivery=delivery.id, sink=delivery.sink_id)
        else:
            columns |= {
                "due_at": now + delivery_retry_delay(delivery.attempts),
                "finished_at": None,
            }
        async with self._context.store.write() as tx:
            await tx.deliveries.settle(delivery, **columns)

    async def _send(self, delivery: Delivery) -> int:
        async with self._context.store.read() as tx:
            sink = await tx.sinks.get(delivery.sink_id)
            found = await tx.notifications.select(id=delivery.notification_id)
            wanted = sink.repository_id if sink else ""
            repository = await tx.repositories.get(wanted) if wanted else None
        if sink is None or not found:
            return _GONE
        secrets = opened_sink(self._context.sealer, sink)
        if sink.type is SinkType.SYSLOG:
            await self._outward.syslog(secrets["url"], [self._line(found[0])])
            return 200
        if repository is not None:
            host = RepositoryApi.of(sink.type, secrets, repository.url)
            if urlsplit(host.base).hostname != sink.host:
                raise Unavailable("the repository moved to another host: set the token again")
            return await self._set_commit_status(host, sink.repository_id, found[0])
        if sink.type in COMMIT_STATUS:
            return _GONE
        request = self._request(sink, secrets, delivery, found[0])
        return await self._outward.post(request.url, request.headers, request.body)

    async def _set_commit_status(
        self, host: RepositoryApi, repository_id: str, news: Notification
    ) -> int:
        """Sets a commit status and comments on its pull requests; returns the HTTP status."""
        commit_outcome = commit_status(news, repository_id)
        if commit_outcome is None:
            return 200
        request = host.status(commit_outcome)
        status = await self._outward.post(request.url, request.headers, request.body)
        if status < 300 and commit_outcome.is_final and news.service_id:
            await self._comments.tell(host, news.service_id, repository_id, commit_outcome.sha)
        return status

    def _request(
        self, sink: Sink, secrets: Mapping[str, str], delivery: Delivery, news: Notification
    ) -> OutgoingRequest:
        if sink.type in _CHATS:
            return _CHATS[sink.type](secrets, news)
        now = self._context.clock.now()
        return webhook_request(
            secrets, delivery.id, now, news.kind.value, news.at, notification_json(news)
        )

    def _line(self, news: Notification) -> bytes:
        """A notification in the format of an audit entry, as syslog expects it."""
        detail = {"text": news.text, **news.detail}
        entry = AuditEntry(news.at, SYSTEM.name, news.kind.value, AuditVerdict.ALLOWED, SYSTEM.id)
        return syslog(replace(entry, target=news.subject, detail=detail), self._host)

    async def _forward(self, sink: Sink) -> None:
        """Forwards to one sink, unless another replica does."""
        now = self._context.clock.now()
        lease = now + _LEASE
        async with self._context.store.write() as tx:
            mine = await tx.sinks.find(id=sink.id, due_at=sink.due_at)
            if mine is None:
                return
            await tx.sinks.change(sink.id, due_at=lease)
        failures, error, due = 0, "", now + _PAUSE
        sent = dict(mine.sent)
        try:
            while self._context.clock.now() < lease - _LAST_BATCH:
                before = dict(sent)
                for kind in mine.audit:
                    last = sent.get(kind.value, 0)
                    sent[kind.value] = await self._forward_kind(mine, kind, last)
                if sent == before:
                    break
        except TowlineError as failure:
            failures, error = mine.failures + 1, failure.message[:1000]
            due = now + delivery_retry_delay(failures)
        async with self._context.store.write() as tx:
            if await tx.sinks.find(id=sink.id, due_at=lease) is not None:
                columns = {"due_at": due, "failures": failures, "error": error, "sent": sent}
                await tx.sinks.change(sink.id, **columns)

    async def _forward_kind(self, sink: Sink, kind: AuditKind, last: int) -> int:
        """Sends the next entries of a chain; returns the number of the last entry sent."""
        async with self._context.store.read() as tx:
            rows = await tx.audit.behind(kind, last, _AUDIT_ROWS)
        if not rows:
            return last
        await self._send_rows(sink, kind, rows)
        return rows[-1].number

    async def _send_rows(self, sink: Sink, kind: AuditKind, rows: Sequence[AuditEntry]) -> None:
        secrets, now = opened_sink(self._context.sealer, sink), self._context.clock.now()
        if sink.type is SinkType.SYSLOG:
            await self._outward.syslog(secrets["url"], [syslog(row, self._host) for row in rows])
            return
        id, data = f"{sink.id}-{kind.value}-{rows[0].number}", [as_object(row) for row in rows]
        request = webhook_request(secrets, id, now, f"audit.{kind.value}", rows[-1].at, data)
        status = await self._outward.post(request.url, request.headers, request.body)
        if status >= 300:
            raise Unavailable(f"the sink returned {status}")
