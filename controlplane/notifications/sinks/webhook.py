"""Webhooks that follow Standard Webhooks (standardwebhooks.com, v1)."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Self

import orjson

from controlplane.audit.model.chains import AuditKind
from controlplane.audit.model.formats import as_object
from controlplane.notifications.model.sink_kind import Sending, UrlSink, filled
from controlplane.platform.audit_entry import AuditEntry
from controlplane.platform.notification import Notification
from controlplane.platform.plugin_settings import Form, Setting
from controlplane.platform.webhook_signatures import decode_webhook_secret, new_secret, signature
from core.json_object import JsonObject


@dataclass(frozen=True, slots=True, repr=False)
class WebhookSink(UrlSink):
    """A signed HTTP request (Standard Webhooks)."""

    kind = "WEBHOOK"
    title = "Webhook"
    key = "webhook"
    takes_audit = True

    secret: Annotated[str, Setting("Signing secret", form=Form.SECRET)] = ""
    """Signing secret: `whsec_` and base64. Default: a generated one."""

    def completed(self, current: Self | None) -> tuple[Self, str | None]:
        settings = filled(self, current)
        if current is not None and self.url not in ("", current.url) and not self.secret:
            # A new receiver must not get the previous receiver's signing secret.
            settings = replace(settings, secret="")
        if settings.secret:
            decode_webhook_secret(settings.secret)
            return settings, None
        generated = new_secret(secrets.token_bytes(32))
        return replace(settings, secret=generated), generated

    async def send(self, sending: Sending, notification: Notification) -> int:
        kind, data = notification.kind.value, notification_json(notification)
        return await self._post(sending, kind, notification.at, data)

    async def forward(self, sending: Sending, kind: AuditKind, rows: Sequence[AuditEntry]) -> int:
        data = [as_object(row) for row in rows]
        return await self._post(sending, f"audit.{kind.value}", rows[-1].at, data)

    async def _post(self, sending: Sending, kind: str, at: datetime, data: object) -> int:
        body = orjson.dumps({"type": kind, "timestamp": at.isoformat(), "data": data})
        headers = {"content-type": "application/json"}
        headers |= signature(self.secret, sending.id, sending.now, body)
        return await sending.outbound.post(self.url, headers, body)


def notification_json(notification: Notification) -> JsonObject:
    """Converts a notification into its JSON form."""
    return {
        "id": notification.id,
        "kind": notification.kind.value,
        "severity": notification.severity.value,
        "subject": notification.subject,
        "text": notification.text,
        "projectId": notification.project_id or None,
        "clusterId": notification.cluster_id or None,
        "serviceId": notification.service_id or None,
        "pipelineId": notification.pipeline_id or None,
        "detail": dict(notification.detail),
    }
