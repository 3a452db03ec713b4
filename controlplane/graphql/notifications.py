"""Sinks and routers of notifications, what has happened, and what became of deliveries."""

from datetime import datetime

import strawberry

from controlplane.domain.audit import AuditKind
from controlplane.domain.notifications import Delivery as DeliveryRow
from controlplane.domain.notifications import (
    DeliveryState,
    RouterFilter,
    Severity,
    SinkType,
)
from controlplane.domain.notifications import Notification as NotificationRow
from controlplane.domain.notifications import Router as RouterRow
from controlplane.domain.notifications import Sink as SinkRow
from controlplane.graphql import relay
from controlplane.graphql.context import Info
from controlplane.graphql.scalars import Map
from controlplane.usecases.notifications import RouterDraft, SinkDraft
from fleet.errors import Invalid

_MOST_EVENTS = 50
strawberry.enum(SinkType, name="SinkType")
strawberry.enum(Severity, name="NotificationSeverity")
strawberry.enum(DeliveryState, name="NotificationDeliveryState")


@strawberry.type(
    description="Where notifications are sent. Its address and secrets are never shown; "
    "`signingSecret` is given only when one was made."
)
class NotificationSink:
    id: strawberry.ID
    name: str
    type: SinkType
    host: str
    project_id: strawberry.ID | None
    repository_id: strawberry.ID | None
    audit: list[AuditKind]
    failures: int
    error: str | None
    inserted_at: datetime
    updated_at: datetime
    signing_secret: str | None = None

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


@strawberry.type(description="Lets through what fits every field that is given.")
class NotificationFilter:
    cluster_id: strawberry.ID | None
    service_id: strawberry.ID | None
    pipeline_id: strawberry.ID | None
    regex: str | None


@strawberry.type(description="Which notifications go to which sinks.")
class NotificationRouter:
    id: strawberry.ID
    name: str
    project_id: strawberry.ID | None
    events: list[str]
    severity: Severity
    filters: list[NotificationFilter]
    sink_ids: list[strawberry.ID]
    inserted_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, row: RouterRow) -> "NotificationRouter":
        filters = [
            NotificationFilter(
                cluster_id=_id(one.cluster_id),
                service_id=_id(one.service_id),
                pipeline_id=_id(one.pipeline_id),
                regex=one.regex or None,
            )
            for one in row.filters
        ]
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            project_id=_id(row.project_id),
            events=list(row.events),
            severity=row.severity,
            filters=filters,
            sink_ids=[strawberry.ID(one) for one in row.sinks],
            inserted_at=row.inserted_at,
            updated_at=row.updated_at,
        )


@strawberry.type(description="Something that people may want to know.")
class AppNotification:
    id: strawberry.ID
    at: datetime
    kind: str
    severity: Severity
    subject: str
    text: str
    project_id: strawberry.ID | None
    cluster_id: strawberry.ID | None
    service_id: strawberry.ID | None
    pipeline_id: strawberry.ID | None
    detail: Map

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


@strawberry.type(description="A notification on its way to a sink. DEAD ones were given up.")
class NotificationDelivery:
    id: strawberry.ID
    notification_id: strawberry.ID
    sink_id: strawberry.ID
    state: DeliveryState
    attempts: int
    status: int | None
    error: str | None
    due_at: datetime
    inserted_at: datetime
    finished_at: datetime | None

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
class UrlSinkAttributes:
    url: str


@strawberry.input(description="`secret`: whsec_ and base64; without one, it is made.")
class WebhookSinkAttributes:
    url: str | None = None
    secret: str | None = None


@strawberry.input(description="Statuses on the commits of a repository. `token` may write them.")
class CommitStatusSinkAttributes:
    repository_id: strawberry.ID
    token: str | None = None
    api_url: str | None = None


@strawberry.input(description="Give the one that belongs to the type.")
class SinkConfigurationAttributes:
    slack: UrlSinkAttributes | None = None
    teams: UrlSinkAttributes | None = None
    webhook: WebhookSinkAttributes | None = None
    syslog: UrlSinkAttributes | None = None
    commit_status: CommitStatusSinkAttributes | None = None


@strawberry.input(description="Without a project, the sink is the installation's. `audit`: the "
                              "kinds of audit rows to forward.")  # fmt: skip
class NotificationSinkAttributes:
    name: str
    type: SinkType
    configuration: SinkConfigurationAttributes
    project_id: strawberry.ID | None = None
    audit: list[AuditKind] | None = None

    def draft(self) -> SinkDraft:
        """As the use case takes it."""
        given = self.configuration
        hook, commits = given.webhook, given.commit_status
        urls = [one.url for one in (given.slack, given.teams, given.syslog, hook) if one]
        return SinkDraft(
            name=self.name,
            type=self.type,
            project_id=self.project_id,
            url=urls[0] if urls else None,
            secret=hook.secret if hook else None,
            token=commits.token if commits else None,
            api_url=commits.api_url if commits else None,
            repository_id=commits.repository_id if commits else None,
            audit=None if self.audit is None else tuple(dict.fromkeys(self.audit)),
        )


@strawberry.input
class RouterFilterAttributes:
    cluster_id: strawberry.ID | None = None
    service_id: strawberry.ID | None = None
    pipeline_id: strawberry.ID | None = None
    regex: str | None = None


@strawberry.input
class RouterSinkAttributes:
    sink_id: strawberry.ID


@strawberry.input(
    description="`events` are like service.failed, service.* or *. Without a project, those of "
    "all projects and of the installation."
)
class NotificationRouterAttributes:
    name: str
    events: list[str]
    router_sinks: list[RouterSinkAttributes]
    filters: list[RouterFilterAttributes] | None = None
    severity: Severity = Severity.INFO
    project_id: strawberry.ID | None = None

    def draft(self) -> RouterDraft:
        """As the use case takes it. Invalid: too many events."""
        if len(self.events) > _MOST_EVENTS:
            raise Invalid(f"at most {_MOST_EVENTS}", field="events")
        filters = tuple(
            RouterFilter(
                one.cluster_id or "", one.service_id or "", one.pipeline_id or "", one.regex or ""
            )
            for one in self.filters or ()
        )
        return RouterDraft(
            name=self.name,
            events=tuple(self.events),
            severity=self.severity,
            filters=filters,
            sinks=tuple(one.sink_id for one in self.router_sinks),
            project_id=self.project_id,
        )


@strawberry.type
class NotificationQuery:
    @strawberry.field(description="A sink by id or name.")
    async def notification_sink(
        self, info: Info, id: strawberry.ID | None = None, name: str | None = None
    ) -> NotificationSink | None:
        verbs = info.context.verbs.notifying
        return NotificationSink.of(await verbs.sink(info.context.actor, id, name))

    @strawberry.field
    async def notification_sinks(
        self, info: Info, first: int | None = None, after: str | None = None, q: str | None = None
    ) -> relay.Connection[NotificationSink]:
        asked = relay.query(first, after, q)
        page = await info.context.verbs.notifying.sinks(info.context.actor, asked)
        return relay.listed(page, asked, NotificationSink.of)

    @strawberry.field(description="A router by id or name.")
    async def notification_router(
        self, info: Info, id: strawberry.ID | None = None, name: str | None = None
    ) -> NotificationRouter | None:
        verbs = info.context.verbs.notifying
        return NotificationRouter.of(await verbs.router(info.context.actor, id, name))

    @strawberry.field
    async def notification_routers(
        self, info: Info, first: int | None = None, after: str | None = None, q: str | None = None
    ) -> relay.Connection[NotificationRouter]:
        asked = relay.query(first, after, q)
        page = await info.context.verbs.notifying.routers(info.context.actor, asked)
        return relay.listed(page, asked, NotificationRouter.of)

    @strawberry.field(description="What has happened, newest first.")
    async def app_notifications(
        self, info: Info, first: int | None = None, after: str | None = None, q: str | None = None
    ) -> relay.Connection[AppNotification]:
        asked = relay.query(first, after, q)
        page = await info.context.verbs.notifying.notifications(info.context.actor, asked)
        return relay.listed(page, asked, AppNotification.of)

    @strawberry.field(description="Deliveries, newest first; DEAD ones were given up.")
    async def notification_deliveries(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        state: DeliveryState | None = None,
        sink_id: strawberry.ID | None = None,
    ) -> relay.Connection[NotificationDelivery]:
        asked = relay.query(first, after, state=state, sink_id=sink_id)
        page = await info.context.verbs.notifying.deliveries(info.context.actor, asked)
        return relay.listed(page, asked, NotificationDelivery.of)


@strawberry.type
class NotificationMutation:
    @strawberry.mutation(description="Create or change the sink of this name.")
    async def upsert_notification_sink(
        self, info: Info, attributes: NotificationSinkAttributes
    ) -> NotificationSink | None:
        verbs = info.context.verbs.notifying
        row, secret = await verbs.save_sink(info.context.actor, attributes.draft())
        return NotificationSink.of(row, secret)

    @strawberry.mutation
    async def delete_notification_sink(
        self, info: Info, id: strawberry.ID
    ) -> NotificationSink | None:
        verbs = info.context.verbs.notifying
        return NotificationSink.of(await verbs.delete_sink(info.context.actor, id))

    @strawberry.mutation(description="Create or change the router of this name.")
    async def upsert_notification_router(
        self, info: Info, attributes: NotificationRouterAttributes
    ) -> NotificationRouter | None:
        verbs = info.context.verbs.notifying
        row = await verbs.save_router(info.context.actor, attributes.draft())
        return NotificationRouter.of(row)

    @strawberry.mutation
    async def delete_notification_router(
        self, info: Info, id: strawberry.ID
    ) -> NotificationRouter | None:
        verbs = info.context.verbs.notifying
        return NotificationRouter.of(await verbs.delete_router(info.context.actor, id))

    @strawberry.mutation(description="Send a notification to a sink, to see whether it arrives.")
    async def test_notification_sink(self, info: Info, id: strawberry.ID) -> NotificationDelivery:
        verbs = info.context.verbs.notifying
        return NotificationDelivery.of(await verbs.test_sink(info.context.actor, id))

    @strawberry.mutation(description="Try a delivery anew, whatever became of it.")
    async def resend_notification(self, info: Info, id: strawberry.ID) -> NotificationDelivery:
        verbs = info.context.verbs.notifying
        return NotificationDelivery.of(await verbs.resend(info.context.actor, id))


def _id(text: str) -> strawberry.ID | None:
    return strawberry.ID(text) if text else None
