"""Microsoft Teams."""

from dataclasses import dataclass

from controlplane.notifications.model.sink_kind import Sending, UrlSink
from controlplane.platform.notification import Notification, Severity

_MAX_TEXT_LENGTH = 1500
_COLOURS = {Severity.INFO: "Good", Severity.WARNING: "Warning", Severity.ERROR: "Attention"}
_CARD = "application/vnd.microsoft.card.adaptive"


@dataclass(frozen=True, slots=True, repr=False)
class TeamsSink(UrlSink):
    """A Microsoft Teams workflow."""

    kind = "TEAMS"
    title = "Microsoft Teams"
    key = "teams"

    async def send(self, sending: Sending, notification: Notification) -> int:
        title = {
            "type": "TextBlock",
            "text": _escape(notification.subject),
            "weight": "Bolder",
            "color": _COLOURS[notification.severity],
            "wrap": True,
        }
        text = {"type": "TextBlock", "text": _escape(notification.text), "wrap": True}
        card = {"type": "AdaptiveCard", "version": "1.4", "body": [title, text]}
        attachments = [{"contentType": _CARD, "content": card}]
        return await sending.post(self.url, {"type": "message", "attachments": attachments})


def _escape(text: str) -> str:
    """Escapes the characters from which Markdown makes a link."""
    return text[:_MAX_TEXT_LENGTH].replace("[", "(").replace("]", ")")
