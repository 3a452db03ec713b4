"""Notifications in the API: sinks, routers and deliveries."""

from datetime import datetime

import strawberry

from controlplane.audit.model.chains import AuditKind
from controlplane.notifications.model.notification import Delivery as DeliveryRow
from controlplane.notifications.model.notification import DeliveryState, RouterFilter
from controlplane.notifications.model.notification import Router as RouterRow
from controlplane.notifications.model.notification import Sink as SinkRow
from controlplane.notifications.operations.sinks import (
    NotificationOperations,
    RouterDraft,
    SinkDraft,
)
from controlplane.notifications.sinks import BY_KIND, SINKS
from controlplane.platform.graphql import relay
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.plugin_inputs import (
    enum_of_kinds,
    settings_from,
    with_settings_of,
)
from controlplane.platform.graphql.scalars import Map
from controlplane.platform.notification import Notification as NotificationRow
from controlplane.platform.notification import Severity
from core.errors import Invalid

_MAX_EVENTS = 50
_SinkType = enum_of_kinds("SinkType", SINKS, "Kind of a sink.")
strawberry.enum(Severity, name="NotificationSeverity")
strawberry.enum(DeliveryState, name="NotificationDeliveryState")


@strawberry.type
class NotificationSink:
    """A target of notifications. Its URL and secrets are never returned."""

    id: strawberry.ID
    name: str
    """Unique name."""
    type: str = strawberry.field(graphql_type=_SinkType)
    """Kind of sink."""
    host: str
    """Host of the sink."""
    project_id: strawberry.ID | None
    """ID of the project. Null for a sink of the installation."""
    repository_id: strawberry.ID | None
    """ID of the repository that receives commit statuses. Null for other sinks."""
    audit: list[AuditKind]
    """Kinds of audit rows that the sink receives."""
    failures: int
    """Number of consecutive failed deliveries."""
    error: str | None
    """Error of the last delivery. Null if it succeeded."""
    inserted_at: datetime
    updated_at: datetime
    signing_secret: str | None = None
    """Generated signing secret. Returned only by the mutation that creates it."""

    @classmethod
    def of(cls, row: SinkRow, secret: str | None = None) -> "NotificationSink":
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            type=row.type,
            host=row.host,
            project_id=_id(row.project_id),
            repository_id=_id(row.repository_id),
            audit=list(row.audit),
            failures=row.failures,
            error=row.error or None,
            inserted_at=row.inserted_at,
            updated_at=row.updated_at,
            signing_secret=secret,
        )


@strawberry.type
class NotificationFilter:
    """Filter of a router. A notification must match every given field."""

    cluster_id: strawberry.ID | None
    """ID of the cluster."""
    service_id: strawberry.ID | None
    """ID of the service."""
    pipeline_id: strawberry.ID | None
    """ID of the pipeline."""
    regex: str | None
    """Regular expression that the subject or text must match."""


@strawberry.type
class NotificationRouter:
    """A rule that sends notifications to sinks."""

    id: strawberry.ID
    name: str
    """Unique name."""
    project_id: strawberry.ID | None
    """ID of the project whose notifications match. Null: all projects and the installation."""
    events: list[str]
    """Kinds of notifications, such as `service.failed`, `service.*` or `*`."""
    severity: Severity
    """Lowest severity that matches."""
    filters: list[NotificationFilter]
    """Filters. One of them must match; no filter matches everything."""
    sink_ids: list[strawberry.ID]
    """IDs of the sinks."""
    inserted_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, row: RouterRow) -> "NotificationRouter":
        filters = [
            NotificationFilter(
                cluster_id=_id(rule.cluster_id),
                service_id=_id(rule.service_id),
                pipeline_id=_id(rule.pipeline_id),
                regex=rule.regex or None,
            )
            for rule in row.filters
        ]
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            project_id=_id(row.project_id),
            events=list(row.events),
            severity=row.severity,
            filters=filters,
            sink_ids=[strawberry.ID(sink_id) for sink_id in row.sinks],
            inserted_at=row.inserted_at,
            updated_at=row.updated_at,
        )


@strawberry.type
class AppNotification:
    """A notification."""

    id: strawberry.ID
    at: datetime
    """Time of the event."""
    kind: str
    """Kind of notification, such as `service.failed`."""
    severity: Severity
    """Severity."""
    subject: str
    """Short text. Limit: 320 characters."""
    text: str
    """Long text. Limit: 2,000 characters."""
    project_id: strawberry.ID | None
    """ID of the project. Null for the installation."""
    cluster_id: strawberry.ID | None
    """ID of the cluster. Null if none is concerned."""
    service_id: strawberry.ID | None
    """ID of the service. Null if none is concerned."""
    pipeline_id: strawberry.ID | None
    """ID of the pipeline. Null if none is concerned."""
    detail: Map
    """Further facts."""

    @classmethod
    def of(cls, row: NotificationRow) -> "AppNotification":
        return cls(
            id=strawberry.ID(str(row.id)),
            at=row.at,
            kind=row.kind.value,
            severity=row.severity,
            subject=row.subject,
            text=row.text,
            project_id=_id(row.project_id),
            cluster_id=_id(row.cluster_id),
            service_id=_id(row.service_id),
            pipeline_id=_id(row.pipeline_id),
            detail=Map(dict(row.detail)),
        )


@strawberry.type
class NotificationDelivery:
    """Delivery of a notification to a sink."""

    id: strawberry.ID
    notification_id: strawberry.ID
    """ID of the notification."""
    sink_id: strawberry.ID
    """ID of the sink."""
    state: DeliveryState
    """State of the delivery."""
    attempts: int
    """Number of attempts. Limit: 12."""
    status: int | None
    """HTTP status of the last response. Null without one."""
    error: str | None
    """Error of the last attempt. Null if it succeeded."""
    due_at: datetime
    """Time of the next attempt."""
    inserted_at: datetime
    finished_at: datetime | None
    """Time of the delivery or of the last attempt. Null while the delivery is waiting."""

    @classmethod
    def of(cls, row: DeliveryRow) -> "NotificationDelivery":
        return cls(
            id=strawberry.ID(row.id),
            notification_id=strawberry.ID(str(row.notification_id)),
            sink_id=strawberry.ID(row.sink_id),
            state=row.state,
            attempts=row.attempts,
            status=row.status,
            error=row.error or None,
            due_at=row.due_at,
            inserted_at=row.inserted_at,
            finished_at=row.finished_at,
        )


@strawberry.input
@with_settings_of(SINKS, "Sink")
class SinkConfigurationAttributes:
    """Target of a sink. Give the field of the sink's type."""


@strawberry.input
class NotificationSinkAttributes:
    """Fields of a notification sink."""

    name: str
    """Unique name. It identifies the sink to update."""
    type: str = strawberry.field(graphql_type=_SinkType)
    """Kind of sink."""
    configuration: SinkConfigurationAttributes
    """Target of the sink."""
    project_id: strawberry.ID | None = None
    """ID of the project. Default: the installation."""
    audit: list[AuditKind] | None = None
    """Kinds of audit rows to forward. Default: none on creation."""

    def draft(self) -> SinkDraft:
        """Returns the draft for the operation."""
        return SinkDraft(
            name=self.name,
            settings=settings_from(BY_KIND[self.type], self.configuration, "configuration"),
            project_id=self.project_id,
            audit=None if self.audit is None else tuple(dict.fromkeys(self.audit)),
        )


@strawberry.input
class RouterFilterAttributes:
    """Filter of a router. A notification must match every given field."""

    cluster_id: strawberry.ID | None = None
    """ID of the cluster."""
    service_id: strawberry.ID | None = None
    """ID of the service."""
    pipeline_id: strawberry.ID | None = None
    """ID of the pipeline."""
    regex: str | None = None
    """Regular expression that the subject or text must match. Limit: 200 characters."""


@strawberry.input
class RouterSinkAttributes:
    """A sink of a router."""

    sink_id: strawberry.ID
    """ID of the sink."""


@strawberry.input
class NotificationRouterAttributes:
    """Fields of a notification router."""

    name: str
    """Unique name. It identifies the router to update."""
    events: list[str]
    """Kinds of notifications, such as `service.failed`, `service.*` or `*`. Limit: 50."""
    router_sinks: list[RouterSinkAttributes]
    """Sinks. Limit: 20."""
    filters: list[RouterFilterAttributes] | None = None
    """Filters. One of them must match. Default: everything matches. Limit: 50."""
    severity: Severity = Severity.INFO
    """Lowest severity that matches. Default: `INFO`."""
    project_id: strawberry.ID | None = None
    """ID of the project whose notifications match. Default: all projects and the installation."""

    def draft(self) -> RouterDraft:
        """Returns the draft for the operation. Invalid: too many events."""
        if len(self.events) > _MAX_EVENTS:
            raise Invalid(f"{len(self.events)} events, {_MAX_EVENTS} at most", field="events")
        filters = tuple(
            RouterFilter(
                rule.cluster_id or "",
                rule.service_id or "",
                rule.pipeline_id or "",
                rule.regex or "",
            )
            for rule in self.filters or ()
        )
        return RouterDraft(
            name=self.name,
            events=tuple(self.events),
            severity=self.severity,
            filters=filters,
            sinks=tuple(sink.sink_id for sink in self.router_sinks),
            project_id=self.project_id,
        )


@strawberry.type
class NotificationQuery:
    @strawberry.field
    async def notification_sink(
        self, info: Info, id: strawberry.ID | None = None, name: str | None = None
    ) -> NotificationSink | None:
        """A notification sink, by ID or name.

        Args:
            id: ID of the sink.
        """
        verbs = info.context[NotificationOperations]
        return NotificationSink.of(await verbs.sink(info.context.actor, id, name))

    @strawberry.field
    async def notification_sinks(
        self, info: Info, first: int | None = None, after: str | None = None, q: str | None = None
    ) -> relay.Connection[NotificationSink]:
        """Notification sinks.

        Args:
            q: Text to search for in names and hosts. Limit: 200 characters.
        """
        asked = relay.page_query(first, after, q)
        page = await info.context[NotificationOperations].sinks(info.context.actor, asked)
        return relay.connection_of(page, asked, NotificationSink.of)

    @strawberry.field
    async def notification_router(
        self, info: Info, id: strawberry.ID | None = None, name: str | None = None
    ) -> NotificationRouter | None:
        """A notification router, by ID or name.

        Args:
            id: ID of the router.
        """
        verbs = info.context[NotificationOperations]
        return NotificationRouter.of(await verbs.router(info.context.actor, id, name))

    @strawberry.field
    async def notification_routers(
        self, info: Info, first: int | None = None, after: str | None = None, q: str | None = None
    ) -> relay.Connection[NotificationRouter]:
        """Notification routers."""
        asked = relay.page_query(first, after, q)
        page = await info.context[NotificationOperations].routers(info.context.actor, asked)
        return relay.connection_of(page, asked, NotificationRouter.of)

    @strawberry.field
    async def app_notifications(
        self, info: Info, first: int | None = None, after: str | None = None, q: str | None = None
    ) -> relay.Connection[AppNotification]:
        """Notifications, newest first.

        Args:
            q: Text to search for in subjects and texts. Limit: 200 characters.
        """
        asked = relay.page_query(first, after, q)
        page = await info.context[NotificationOperations].notifications(info.context.actor, asked)
        return relay.connection_of(page, asked, AppNotification.of)

    @strawberry.field
    async def notification_deliveries(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        state: DeliveryState | None = None,
        sink_id: strawberry.ID | None = None,
    ) -> relay.Connection[NotificationDelivery]:
        """Deliveries of notifications, newest first.

        Args:
            state: Only deliveries in this state.
            sink_id: Only deliveries to this sink.
        """
        asked = relay.page_query(first, after, state=state, sink_id=sink_id)
        page = await info.context[NotificationOperations].deliveries(info.context.actor, asked)
        return relay.connection_of(page, asked, NotificationDelivery.of)


@strawberry.type
class NotificationMutation:
    @strawberry.mutation
    async def upsert_notification_sink(
        self, info: Info, attributes: NotificationSinkAttributes
    ) -> NotificationSink | None:
        """Creates or updates the notification sink with this name.

        Args:
            attributes: Fields of the sink.
        """
        verbs = info.context[NotificationOperations]
        row, secret = await verbs.save_sink(info.context.actor, attributes.draft())
        return NotificationSink.of(row, secret)

    @strawberry.mutation
    async def delete_notification_sink(
        self, info: Info, id: strawberry.ID
    ) -> NotificationSink | None:
        """Deletes a notification sink.

        Args:
            id: ID of the sink.
        """
        verbs = info.context[NotificationOperations]
        return NotificationSink.of(await verbs.delete_sink(info.context.actor, id))

    @strawberry.mutation
    async def upsert_notification_router(
        self, info: Info, attributes: NotificationRouterAttributes
    ) -> NotificationRouter | None:
        """Creates or updates the notification router with this name.

        Args:
            attributes: Fields of the router.
        """
        verbs = info.context[NotificationOperations]
        row = await verbs.save_router(info.context.actor, attributes.draft())
        return NotificationRouter.of(row)

    @strawberry.mutation
    async def delete_notification_router(
        self, info: Info, id: strawberry.ID
    ) -> NotificationRouter | None:
        """Deletes a notification router.

        Args:
            id: ID of the router.
        """
        verbs = info.context[NotificationOperations]
        return NotificationRouter.of(await verbs.delete_router(info.context.actor, id))

    @strawberry.mutation
    async def test_notification_sink(self, info: Info, id: strawberry.ID) -> NotificationDelivery:
        """Sends a test notification to a sink.

        Args:
            id: ID of the sink.
        """
        verbs = info.context[NotificationOperations]
        return NotificationDelivery.of(await verbs.test_sink(info.context.actor, id))

    @strawberry.mutation
    async def resend_notification(self, info: Info, id: strawberry.ID) -> NotificationDelivery:
        """Sends a notification again, whatever its state.

        Args:
            id: ID of the delivery.
        """
        verbs = info.context[NotificationOperations]
        return NotificationDelivery.of(await verbs.resend(info.context.actor, id))


def _id(text: str) -> strawberry.ID | None:
    return strawberry.ID(text) if text else None
