"""Notification payloads as JSON and for chats, and their signatures.

Texts come from untrusted sources and are truncated and escaped here. Signatures follow Standard
Webhooks (standardwebhooks.com, v1): HMAC-SHA256 over `id.timestamp.body`.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import orjson

from controlplane.domain.notifications import Notification, Severity
from core.errors import Invalid

_PREFIX: Final = "whsec_"
_MAX_TEXT_LENGTH = 1500
_COLOURS = {Severity.INFO: "#2eb67d", Severity.WARNING: "#ecb22e", Severity.ERROR: "#e01e5a"}
_CARD_COLOURS = {Severity.INFO: "Good", Severity.WARNING: "Warning", Severity.ERROR: "Attention"}


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """An HTTP POST. Address, headers and body may hold secrets: never print them."""

    url: str = field(repr=False)
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def notification_json(notification: Notification) -> dict[str, Any]:
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


def webhook_request(
    secrets: Mapping[str, str], id: str, now: datetime, kind: str, at: datetime, data: Any
) -> OutgoingRequest:
    """Builds a signed request; a retry has the same `id`."""
    body = orjson.dumps({"type": kind, "timestamp": at.isoformat(), "data": data})
    headers = {"content-type": "application/json"}
    if secrets.get("secret"):
        headers |= signature(secrets["secret"], id, now, body)
    return OutgoingRequest(secrets["url"], body, headers)


def signature(secret: str, id: str, now: datetime, body: bytes) -> dict[str, str]:
    """Returns the three headers of Standard Webhooks."""
    stamp = str(int(now.timestamp()))
    signed = b".".join((id.encode(), stamp.encode(), body))
    digest = hmac.new(decode_webhook_secret(secret), signed, hashlib.sha256).digest()
    return {
        "webhook-id": id,
        "webhook-timestamp": stamp,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def decode_webhook_secret(secret: str) -> bytes:
    """Decodes a secret `whsec_<base64>`. Raises Invalid unless it has 24 to 64 bytes."""
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not secret.startswith(_PREFIX) or not 24 <= len(key) <= 64:
        raise Invalid("must be whsec_ and base64 of 24 to 64 bytes", field="secret")
    return key


def new_secret(random: bytes) -> str:
    """Creates a signing secret of 32 random bytes."""
    return _PREFIX + base64.b64encode(random).decode()


def slack_request(secrets: Mapping[str, str], notification: Notification) -> OutgoingRequest:
    """Builds a request for a Slack incoming webhook."""
    text = _slack_text(notification.text)
    attachment = {
        "color": _COLOURS[notification.severity],
        "text": text,
        "footer": notification.kind.value,
    }
    body = {"text": _slack_text(notification.subject), "attachments": [attachment]}
    return _posted(secrets["url"], body)


def teams_request(secrets: Mapping[str, str], notification: Notification) -> OutgoingRequest:
    """Builds an adaptive card for a Teams workflow."""
    colour = _CARD_COLOURS[notification.severity]
    title = {
        "type": "TextBlock",
        "text": _card_text(notification.subject),
        "weight": "Bolder",
        "color": colour,
        "wrap": True,
    }
    text = {"type": "TextBlock", "text": _card_text(notification.text), "wrap": True}
    card = {"type": "AdaptiveCard", "version": "1.4", "body": [title, text]}
    kind = "application/vnd.microsoft.card.adaptive"
    attachments = [{"contentType": kind, "content": card}]
    return _posted(secrets["url"], {"type": "message", "attachments": attachments})


def _posted(url: str, body: Any) -> OutgoingRequest:
    return OutgoingRequest(url, orjson.dumps(body), {"content-type": "application/json"})


def _slack_text(text: str) -> str:
    cut = text[:_MAX_TEXT_LENGTH]
    return cut.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _card_text(text: str) -> str:
    """Escapes the characters from which Markdown makes a link."""
    return text[:_MAX_TEXT_LENGTH].replace("[", "(").replace("]", ")")
