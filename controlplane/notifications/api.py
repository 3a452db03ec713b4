"""Notifications in the API: sinks, routers and deliveries."""

import strawberry

from controlplane.notifications.model.notification import (
    Delivery,
    DeliveryState,
    Router,
    RouterFilter,
    Sink,
)
from controlplane.notifications.operations.notifications import Notifications
from controlplane.notifications.operations.routers import RouterDraft, Routers
from controlplane.notifications.operations.sinks import SinkDraft, Sinks
from controlplane.notifications.sinks import BY_KIND, SINKS
from controlplane.platform.graphql import relay
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Draft, FieldValues, Output, draft, output
from controlplane.platform.graphql.plugin_inputs import (
    enum_of_kinds,
    settings_from,
    with_settings_of,
)
from controlplane.platform.graphql.resource_fields import ResourceFields, each
from controlplane.platform.notification import Notification, Severity

_SinkType = enum_of_kinds("SinkType", SINKS, "Kind of a sink.")
strawberry.enum(Severity, name="NotificationSeverity")
strawberry.enum(DeliveryState, name="NotificationDeliveryState")


@output(Sink, hide={"sealed", "sent", "due_at"}, nullable={"project_id", "repository_id", "error"})
class NotificationSink(Output[Sink]):
    """A target of notifications. Its URL and secrets are never returned."""

    type: str = strawberry.field(graphql_type=_SinkType)
    signing_secret: str | None = None
    """Generated signing secret. Returned only by the mutation that creates it."""


@output(RouterFilter, nullable={"cluster_id", "service_id", "pipeline_id", "regex", "labels"})
class NotificationFilter(Output[RouterFilter]):
    """Filter of a router. A notification must match every given field."""


@output(Router, rename={"sink_ids": "sinks"}, nullable={"project_id"})
class NotificationRouter(Output[Router]):
    """A rule that sends notifications to sinks."""


@output(
    Notification,
    hide={"routed_at"},
    nullable={"project_id", "cluster_id", "service_id", "pipeline_id"},
)
class AppNotification(Output[Notification]):
    """A notification."""

    id: strawberry.ID
    kind: str


@output(Delivery, hide={"project_id"}, nullable={"error"})
class NotificationDelivery(Output[Delivery]):
    """Delivery of a notification to a sink."""

    notification_id: strawberry.ID


@strawberry.input
@with_settings_of(SINKS, "Sink")
class SinkConfigurationAttributes:
    """Target of a sink. Give the field of the sink's type."""


@draft(SinkDraft, hide={"settings"})
class NotificationSinkAttributes(Draft[SinkDraft]):
    """Fields of a notification sink."""

    type: str = strawberry.field(graphql_type=_SinkType)
    """Kind of sink."""
    configuration: SinkConfigurationAttributes
    """Target of the sink."""

    def field_values(self) -> FieldValues:
        settings = settings_from(BY_KIND[self.type], self.configuration, "configuration")
        return {**super().field_values(), "settings": settings}


@draft(RouterFilter)
class RouterFilterAttributes(Draft[RouterFilter]):
    """Filter of a router. A notification must match every given field."""


@strawberry.input
class RouterSinkAttributes:
    """A sink of a router."""

    sink_id: strawberry.ID
    """ID of the sink."""


@draft(RouterDraft, hide={"sinks"})
class NotificationRouterAttributes(Draft[RouterDraft]):
    """Fields of a notification router."""

    events: list[str]
    router_sinks: list[RouterSinkAttributes]
    """Sinks. Limit: 20."""
    severity: Severity = Severity.INFO

    def field_values(self) -> FieldValues:
        sinks = tuple(sink.sink_id for sink in self.router_sinks)
        return {**super().field_values(), "sinks": sinks}


_SINKS = ResourceFields("sink", Sinks, NotificationSink, each(NotificationSink.of))
_ROUTERS = ResourceFields("router", Routers, NotificationRouter, each(NotificationRouter.of))
_DELIVERIES = ResourceFields(
    "delivery",
    Notifications,
    NotificationDelivery,
    each(NotificationDelivery.of),
    is_nullable=False,
)


@strawberry.type
class NotificationQuery:
    notification_sink = _SINKS.get(Sinks.get)
    """A notification sink, by ID or name."""
    notification_sinks = _SINKS.page(Sinks.page)
    """Notification sinks.

    Args:
        q: Text to search for in names and hosts. Limit: 200 characters.
    """
    notification_router = _ROUTERS.get(Routers.get)
    """A notification router, by ID or name."""
    notification_routers = _ROUTERS.page(Routers.page)
    """Notification routers."""

    @strawberry.field
    async def app_notifications(
        self, info: Info, first: int | None = None, after: str | None = None, q: str | None = None
    ) -> relay.Connection[AppNotification]:
        """Notifications, newest first.

        Args:
            q: Text to search for in subjects and texts. Limit: 200 characters.
        """
        query = relay.page_query(first, after, q)
        page = await info.context[Notifications].page(info.context.actor, query)
        return relay.connection_of(page, query, AppNotification.of)

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
        query = relay.page_query(first, after, state=state, sink_id=sink_id)
        page = await info.context[Notifications].deliveries(info.context.actor, query)
        return relay.connection_of(page, query, NotificationDelivery.of)


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
        sinks, actor = info.context[Sinks], info.context.actor
        row, secret = await sinks.upsert(actor, attributes.change())
        return NotificationSink.of(row, signing_secret=secret)

    delete_notification_sink = _SINKS.action(Sinks.delete)
    """Deletes a notification sink."""
    upsert_notification_router = _ROUTERS.create(Routers.upsert, NotificationRouterAttributes)
    """Creates or updates the notification router with this name."""
    delete_notification_router = _ROUTERS.action(Routers.delete)
    """Deletes a notification router."""
    test_notification_sink = _DELIVERIES.action(Notifications.test_sink)
    """Sends a test notification to a sink.

    Args:
        id: ID of the sink.
    """
    resend_notification = _DELIVERIES.action(Notifications.resend)
    """Sends a notification again, whatever its state."""
