"""Notifications: events that people may want to hear of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """Severity of a notification, lowest first."""

    INFO = "info"
    """For information only."""
    WARNING = "warning"
    """A condition that needs attention soon."""
    ERROR = "error"
    """Something failed."""

    @property
    def rank(self) -> int:
        """Returns a number for comparison."""
        return list(Severity).index(self)


class NotificationKind(StrEnum):
    """Kind of event. Routers match the part before the dot as `service.*`."""

    SERVICE_UPDATE = "service.update"
    SERVICE_FAILED = "service.failed"
    SERVICE_RECOVERED = "service.recovered"
    SERVICE_DRIFTED = "service.drifted"
    CLUSTER_AWAY = "cluster.away"
    CLUSTER_BACK = "cluster.back"
    GATE_WAITING = "pipeline.gate"
    PROMOTION_DONE = "pipeline.promoted"
    PROMOTION_FAILED = "pipeline.failed"
    ROLLOUT_SILENT = "pipeline.silent"
    ROLLOUT_CAUGHT_UP = "pipeline.caught-up"
    REPOSITORY_BROKEN = "repository.broken"
    REPOSITORY_MENDED = "repository.mended"
    LOGIN_NEW_PLACE = "login.new-place"
    TOKEN_EXPIRING = "token.expiring"
    TEST = "test"


_SEVERITIES = {
    NotificationKind.SERVICE_FAILED: Severity.ERROR,
    NotificationKind.CLUSTER_AWAY: Severity.ERROR,
    NotificationKind.PROMOTION_FAILED: Severity.ERROR,
    NotificationKind.REPOSITORY_BROKEN: Severity.ERROR,
    NotificationKind.SERVICE_DRIFTED: Severity.WARNING,
    NotificationKind.GATE_WAITING: Severity.WARNING,
    NotificationKind.ROLLOUT_SILENT: Severity.WARNING,
    NotificationKind.LOGIN_NEW_PLACE: Severity.WARNING,
    NotificationKind.TOKEN_EXPIRING: Severity.WARNING,
}


@dataclass(frozen=True, slots=True)
class Notification:
    """An event that users may want to know."""

    at: datetime
    """Time of the event."""
    kind: NotificationKind
    """Kind of notification, such as `service.failed`."""
    severity: Severity
    """Severity."""
    subject: str
    """Short text. Limit: 320 characters."""
    text: str = ""
    """Long text. Limit: 2,000 characters."""
    project_id: str = ""
    """ID of the project. Empty for the installation."""
    cluster_id: str = ""
    """ID of the cluster. Empty if none is concerned."""
    service_id: str = ""
    """ID of the service. Empty if none is concerned."""
    pipeline_id: str = ""
    """ID of the pipeline. Empty if none is concerned."""
    detail: Mapping[str, str] = field(default_factory=dict)
    """Further facts."""
    routed_at: datetime | None = None
    id: int | None = None


def notification(
    kind: NotificationKind, at: datetime, subject: str, text: str = "", **where: Any
) -> Notification:
    """Creates a notification with the severity of its kind and with truncated texts."""
    severity = _SEVERITIES.get(kind, Severity.INFO)
    return Notification(at, kind, severity, subject[:320], text[:2000], **where)
