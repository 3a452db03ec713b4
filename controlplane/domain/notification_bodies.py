"""What sinks are sent: notifications as JSON, for chats, as commit statuses; how it is signed.

Texts come from anywhere and are cut and escaped here. Signatures are those of Standard Webhooks
(standardwebhooks.com, v1): HMAC-SHA256 over `id.timestamp.body`.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote, urlsplit

import orjson

from controlplane.domain.notifications import Notification, Severity, SinkType
from fleet.errors import Invalid

_PREFIX: Final = "whsec_"
_LONGEST_TEXT = 1500
_LONGEST_STATUS = 140
_COLOURS = {Severity.INFO: "#2eb67d", Severity.WARNING: "#ecb22e", Severity.ERROR: "#e01e5a"}
_CARD_COLOURS = {Severity.INFO: "Good", Severity.WARNING: "Warning", Severity.ERROR: "Attention"}
_STATES = {
    "rendered": "pending",
    "healthy": "success",
    "failed": "failure",
    "degraded": "failure",
    "render-failed": "failure",
}


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request to be posted. Address, headers and body may hold secrets: never printed."""

    url: str = field(repr=False)
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def event(one: Notification) -> dict[str, Any]:
    """A notification as programs get it."""
    return {
        "id": one.id,
        "kind": one.kind.value,
        "severity": one.severity.value,
        "subject": one.subject,
        "text": one.text,
        "projectId": one.project_id or None,
        "clusterId": one.cluster_id or None,
        "serviceId": one.service_id or None,
        "pipelineId": one.pipeline_id or None,
        "detail": dict(one.detail),
    }


def webhook(
    secrets: Mapping[str, str], id: str, now: datetime, kind: str, at: datetime, data: Any
) -> Outgoing:
    """A signed request; `id` is the same whenever the same is sent again."""
    body = orjson.dumps({"type": kind, "timestamp": at.isoformat(), "data": data})
    headers = {"content-type": "application/json"}
    if secrets.get("secret"):
        headers |= signature(secrets["secret"], id, now, body)
    return Outgoing(secrets["url"], body, headers)


def signature(secret: str, id: str, now: datetime, body: bytes) -> dict[str, str]:
    """The three headers of Standard Webhooks."""
    stamp = str(int(now.timestamp()))
    signed = b".".join((id.encode(), stamp.encode(), body))
    digest = hmac.new(key_of(secret), signed, hashlib.sha256).digest()
    return {
        "webhook-id": id,
        "webhook-timestamp": stamp,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def key_of(secret: str) -> bytes:
    """The bytes of a secret `whsec_<base64>`. Invalid: it is none, or not of 24 to 64 bytes."""
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not secret.startswith(_PREFIX) or not 24 <= len(key) <= 64:
        raise Invalid("must be whsec_ and base64 of 24 to 64 bytes", field="secret")
    return key


def new_secret(random: bytes) -> str:
    """A signing secret of 32 random bytes."""
    return _PREFIX + base64.b64encode(random).decode()


def slack(secrets: Mapping[str, str], one: Notification) -> Outgoing:
    """A message as incoming webhooks of Slack take it."""
    text = _slack_text(one.text)
    attachment = {"color": _COLOURS[one.severity], "text": text, "footer": one.kind.value}
    body = {"text": _slack_text(one.subject), "attachments": [attachment]}
    return _posted(secrets["url"], body)


def teams(secrets: Mapping[str, str], one: Notification) -> Outgoing:
    """An adaptive card as workflows of Teams take it."""
    colour = _CARD_COLOURS[one.severity]
    title = {
        "type": "TextBlock",
        "text": _card_text(one.subject),
        "weight": "Bolder",
        "color": colour,
        "wrap": True,
    }
    text = {"type": "TextBlock", "text": _card_text(one.text), "wrap": True}
    card = {"type": "AdaptiveCard", "version": "1.4", "body": [title, text]}
    kind = "application/vnd.microsoft.card.adaptive"
    attachments = [{"contentType": kind, "content": card}]
    return _posted(secrets["url"], {"type": "message", "attachments": attachments})


def commit_status(
    type: SinkType, secrets: Mapping[str, str], repository: str, one: Notification
) -> Outgoing | None:
    """How a service stands, on its commit; None: the notification says nothing of a commit."""
    state, sha = _STATES.get(one.detail.get("stage", "")), one.detail.get("sha", "")
    if state is None or not sha:
        return None
    context = f"towline/{one.detail.get('cluster', '')}/{one.detail.get('service', '')}"
    text = one.text[:_LONGEST_STATUS] or one.subject[:_LONGEST_STATUS]
    api, path = secrets.get("api_url") or api_of(type, repository), _path(repository)
    token = secrets["token"]
    if type is SinkType.GITHUB:
        headers = {"authorization": f"Bearer {token}", "accept": "application/vnd.github+json"}
        url = f"{api}/repos/{quote(path)}/statuses/{quote(sha, safe='')}"
        return _posted(url, {"state": state, "context": context, "description": text}, headers)
    state = "failed" if state == "failure" else state
    url = f"{api}/projects/{quote(path, safe='')}/statuses/{quote(sha, safe='')}"
    body = {"state": state, "name": context, "description": text}
    return _posted(url, body, {"private-token": token})


def api_of(type: SinkType, repository: str) -> str:
    """Where the API of a repository's host is, if nothing else is said."""
    host = _parts(repository)[0]
    if type is SinkType.GITLAB:
        return f"https://{host}/api/v4"
    return "https://api.github.com" if host == "github.com" else f"https://{host}/api/v3"


def _path(repository: str) -> str:
    return _parts(repository)[1].strip("/").removesuffix(".git")


def _parts(repository: str) -> tuple[str, str]:
    """Host and path of a repository, also of `git@host:path`."""
    if "://" in repository:
        parts = urlsplit(repository)
        return parts.hostname or "", parts.path
    host, _, path = repository.partition(":")
    return host.rpartition("@")[2], path


def _posted(url: str, body: Any, headers: Mapping[str, str] | None = None) -> Outgoing:
    return Outgoing(
        url, orjson.dumps(body), {"content-type": "application/json", **(headers or {})}
    )


def _slack_text(text: str) -> str:
    cut = text[:_LONGEST_TEXT]
    return cut.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _card_text(text: str) -> str:
    """Without what Markdown would make a link of."""
    return text[:_LONGEST_TEXT].replace("[", "(").replace("]", ")")
