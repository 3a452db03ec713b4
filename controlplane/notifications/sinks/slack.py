"""Slack."""

from dataclasses import dataclass

from controlplane.notifications.model.sink_kind import Sending, UrlSink
from controlplane.platform.notification import Notification, Severity

_MAX_TEXT_LENGTH = 1500
_COLOURS = {Severity.INFO: "#2eb67d", Severity.WARNING: "#ecb22e", Severity.ERROR: "#e01e5a"}


@dataclass(frozen=True, slots=True, repr=False)
class SlackSink(UrlSink):
    """A Slack incoming webhook."""

    kind = "SLACK"
    title = "Slack"
    key = "slack"

    async def send(self, sending: Sending, notification: Notification) -> int:
        attachment = {
            "color": _COLOURS[notification.severity],
            "text": _escape(notification.text),
            "footer": notification.kind.value,
        }
        body = {"text": _escape(notification.subject), "attachments": [attachment]}
        return await sending.post(self.url, body)


def _escape(text: str) -> str:
    shortened = text[:_MAX_TEXT_LENGTH]
    return shortened.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
