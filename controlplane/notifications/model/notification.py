"""Notifications, the routers that select them, and the state of their delivery."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from controlplane.audit.model.chains import AuditKind
from controlplane.authorization import Resource, ResourceKind
from controlplane.platform.labels import parse_selector
from controlplane.platform.limits import check_count, check_length
from controlplane.platform.notification import (
    Notification,
    NotificationKind,
    Severity,
    notification,
)
from controlplane.platform.parts import NamedRow, part
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from core import patterns
from core.errors import Invalid

MAX_ATTEMPTS = 12
LEASE = timedelta(seconds=60)
_FIRST_WAIT = timedelta(seconds=5)
_MAX_RETRY_DELAY = timedelta(hours=1)
MAX_EVENTS = 50
MAX_FILTERS = 50
MAX_SINKS = 20
_MAX_REGEX_LENGTH = 200
_MAX_ID_LENGTH = 64


_KIND_OF_STAGE = {
    LedgerStage.RENDERED: NotificationKind.SERVICE_UPDATE,
    LedgerStage.HEALTHY: NotificationKind.SERVICE_RECOVERED,
    LedgerStage.RENDER_FAILED: NotificationKind.SERVICE_FAILED,
    LedgerStage.FAILED: NotificationKind.SERVICE_FAILED,
    LedgerStage.DEGRADED: NotificationKind.SERVICE_FAILED,
    LedgerStage.HELD: NotificationKind.SERVICE_FAILED,
    LedgerStage.DRIFTED: NotificationKind.SERVICE_DRIFTED,
}
HEALTHY_STAGES = frozenset({LedgerStage.HEALTHY})
UNHEALTHY_STAGES = frozenset(
    {LedgerStage.RENDER_FAILED, LedgerStage.FAILED, LedgerStage.DEGRADED, LedgerStage.HELD}
)


def notification_for(entry: LedgerEntry) -> Notification | None:
    """Returns the notification of a ledger row, or None.

    Routing fills in subject and location. Only then is it known whether a healthy service has
    recovered.
    """
    kind = _KIND_OF_STAGE.get(entry.stage)
    if kind is None:
        return None
    detail = {"stage": entry.stage.value, "sha": entry.sha or ""}
    return notification(
        kind,
        entry.at,
        "",
        entry.message,
        cluster_id=entry.cluster_id,
        service_id=entry.service_id,
        detail=detail,
    )


@dataclass(frozen=True, slots=True)
class NotificationKey:
    """A state that users were notified of, so that they are notified once; `id` is like
    `cluster:<id>`.
    """

    id: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Sink(NamedRow):
    """A destination of notifications, commit statuses or audit rows."""

    type: str
    """Kind of sink."""
    project_id: str = ""
    """ID of the project. Empty for a sink of the installation."""
    host: str = ""
    """Host of the sink."""
    sealed: bytes = field(default=b"", repr=False)
    """Encrypted settings."""
    repository_id: str = ""
    """ID of the repository that receives commit statuses. Empty for other sinks."""
    audit: tuple[AuditKind, ...] = ()
    """Kinds of audit rows that the sink receives."""
    sent: Mapping[str, int] = field(default_factory=dict)
    """Number of the last forwarded audit row, by kind."""
    due_at: datetime | None = None
    """Time at which audit rows are forwarded next."""
    failures: int = 0
    """Number of consecutive failed deliveries."""
    error: str = ""
    """Error of the last delivery. Empty if it succeeded."""

    @property
    def target(self) -> Resource:
        """Returns the sink's location for authorization."""
        return scope_of_installation_or_project(self.project_id, self.id, self.name)


@dataclass(frozen=True, slots=True)
class RouterFilter:
    """Matches a notification if every non-empty field matches."""

    cluster_id: str = ""
    """ID of the cluster."""
    service_id: str = ""
    """ID of the service."""
    pipeline_id: str = ""
    """ID of the pipeline."""
    regex: str = ""
    """Regular expression to search for in the subject. Limit: 200 characters."""
    labels: str = ""
    """Labels of the service, the pipeline or the cluster, as a label selector of Kubernetes:
    `env in (a,b),tier!=web`. Services have the tags of their cluster as well. Limit: 10 labels."""

    def matches(self, notification: Notification, *labels: Mapping[str, str]) -> bool:
        """Returns whether the notification of a resource with these labels matches."""
        return (
            all(label.matches(*labels) for label in parse_selector(self.labels))
            and self.cluster_id in ("", notification.cluster_id)
            and self.service_id in ("", notification.service_id)
            and self.pipeline_id in ("", notification.pipeline_id)
            and (not self.regex or _subject_matches(self.regex, notification.subject))
        )


@dataclass(frozen=True, slots=True)
class RouterRule:
    """The notifications that a router selects, and the sinks that receive them."""

    events: tuple[str, ...] = ("*",)
    """Kinds of notifications, such as `service.failed`, `service.*` or `*`. Limit: 50."""
    severity: Severity = Severity.INFO
    """Lowest severity that matches. Default: `INFO`."""
    filters: tuple[RouterFilter, ...] = ()
    """Filters. One of them must match. Default: everything matches. Limit: 50."""
    sinks: tuple[str, ...] = ()
    """IDs of the sinks."""

    def matches(self, notification: Notification, *labels: Mapping[str, str]) -> bool:
        """Returns whether the rule selects the notification of a resource with these labels."""
        return (
            notification.severity.rank >= self.severity.rank
            and any(event_matches(notification.kind, pattern) for pattern in self.events)
            and (
                not self.filters
                or any(rule.matches(notification, *labels) for rule in self.filters)
            )
        )

    def checked(self) -> "RouterRule":
        """Returns the rule, with each sink once. Raises Invalid for an unknown event, an invalid
        filter, or too many of them.
        """
        check_count(len(self.events), "events", MAX_EVENTS)
        events = {kind.value for kind in NotificationKind}
        events |= {"*", *(f"{kind.partition('.')[0]}.*" for kind in events)}
        for event in self.events:
            if event not in events:
                names = ", ".join(sorted(events))
                raise Invalid(f"{event[:80]!r} is not one of {names}", field="events")
        check_count(len(self.filters), "filters", MAX_FILTERS)
        for filter_ in self.filters:
            check_length(filter_.cluster_id, "filters.clusterId", _MAX_ID_LENGTH)
            check_length(filter_.service_id, "filters.serviceId", _MAX_ID_LENGTH)
            check_length(filter_.pipeline_id, "filters.pipelineId", _MAX_ID_LENGTH)
            _check_regex(filter_.regex)
            parse_selector(filter_.labels, "filters.labels")
        sinks = tuple(dict.fromkeys(self.sinks))
        check_count(len(sinks), "routerSinks", MAX_SINKS)
        return replace(self, events=self.events or ("*",), sinks=sinks)


@dataclass(frozen=True, slots=True)
class Router(NamedRow):
    """Selects notifications of its project, or of all projects, and sends them to sinks."""

    project_id: str = ""
    """ID of the project whose notifications match. Empty: all projects and the installation."""
    rule: RouterRule = part(RouterRule)

    @property
    def target(self) -> Resource:
        """Returns the router's location for authorization."""
        return scope_of_installation_or_project(self.project_id, self.id, self.name)

    def matches(self, notification: Notification, *labels: Mapping[str, str]) -> bool:
        """Returns whether the router forwards the notification of a resource with these labels."""
        is_in_project = self.project_id in ("", notification.project_id)
        return is_in_project and self.rule.matches(notification, *labels)


def scope_of_installation_or_project(project_id: str, id: str = "", name: str = "") -> Resource:
    """Returns the location of a sink or router of a project, or of the installation without one."""
    if not project_id:
        return Resource.whole(ResourceKind.NOTIFICATION, id, name)
    return Resource.project(project_id).below(ResourceKind.NOTIFICATION, id, name)


def event_matches(kind: NotificationKind, pattern: str) -> bool:
    """Returns whether a kind matches a router's event pattern."""
    return pattern in ("*", kind.value, f"{kind.value.partition('.')[0]}.*")


def _check_regex(regex: str) -> None:
    check_length(regex, "filters.regex", _MAX_REGEX_LENGTH)
    try:
        patterns.validate_pattern(regex)
    except Invalid as error:
        raise Invalid(error.message, field="filters.regex") from None


def _subject_matches(regex: str, subject: str) -> bool:
    try:
        return patterns.search_pattern(regex, subject)
    except Invalid:
        # Stored when lookaround was still accepted: a superfluous notification is better than a
        # lost one.
        return True


class DeliveryState(StrEnum):
    """State of the delivery of one notification to one sink."""

    WAITING = "waiting"
    """Not delivered yet. The next attempt is at `dueAt`."""
    DONE = "done"
    """Delivered."""
    DEAD = "dead"
    """Failed after 12 attempts, or the server responded with 410. Towline does not retry it."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The delivery of one notification to one sink. During an attempt, `due_at` is when other
    workers may take over.
    """

    id: str
    notification_id: int
    """ID of the notification."""
    sink_id: str
    """ID of the sink."""
    project_id: str
    due_at: datetime
    """Time of the next attempt."""
    inserted_at: datetime
    state: DeliveryState = DeliveryState.WAITING
    """State of the delivery."""
    attempts: int = 0
    """Number of attempts. Limit: 12."""
    finished_at: datetime | None = None
    """Time of the delivery or of the last attempt. None while the delivery is waiting."""
    status: int | None = None
    """HTTP status of the last response. None without one."""
    error: str = ""
    """Error of the last attempt. Empty if it succeeded."""


def delivery_retry_delay(attempts: int) -> timedelta:
    """Returns the delay after a number of failures: 5 s, doubling up to one hour."""
    return min(_MAX_RETRY_DELAY, _FIRST_WAIT * 2 ** min(attempts - 1, 20))
