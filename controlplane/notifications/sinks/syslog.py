"""Syslog servers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus

from controlplane.audit.model.chains import AuditKind
from controlplane.audit.model.formats import syslog
from controlplane.authorization import SYSTEM
from controlplane.notifications.model.sink_kind import Sending, UrlSink
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict
from controlplane.platform.notification import Notification


@dataclass(frozen=True, slots=True, repr=False)
class SyslogSink(UrlSink):
    """A syslog server."""

    kind = "SYSLOG"
    title = "Syslog"
    key = "syslog"
    takes_audit = True
    schemes = ("syslog+tls", "syslog+tcp", "syslog+udp")

    async def send(self, sending: Sending, notification: Notification) -> int:
        kind, at = notification.kind.value, notification.at
        entry = AuditEntry(at, SYSTEM.name, kind, AuditVerdict.ALLOWED, SYSTEM.id)
        detail = {"text": notification.text, **notification.detail}
        return await self._send(
            sending, [replace(entry, target=notification.subject, detail=detail)]
        )

    async def forward(self, sending: Sending, kind: AuditKind, rows: Sequence[AuditEntry]) -> int:
        return await self._send(sending, rows)

    async def _send(self, sending: Sending, rows: Sequence[AuditEntry]) -> int:
        await sending.outbound.syslog(self.url, [syslog(row, sending.origin) for row in rows])
        return int(HTTPStatus.OK)
