"""Notifications, and their deliveries to sinks."""

from dataclasses import replace

from controlplane.authorization import Actor, ResourceKind, Verb
from controlplane.notifications.model.notification import (
    Delivery,
    DeliveryState,
    scope_of_installation_or_project,
)
from controlplane.notifications.ports import DeliveryStore, NotificationStore, SinkStore
from controlplane.notifications.sinks import BY_KIND
from controlplane.platform.context import NOTIFY, ContextOperations
from controlplane.platform.notification import Notification, NotificationKind, notification
from controlplane.platform.ports import Page, PageQuery
from controlplane.platform.references import found
from controlplane.platform.retry import retry_operations
from core.errors import Invalid


@retry_operations
class Notifications(ContextOperations):
    """Operations on notifications and deliveries."""

    async def page(self, actor: Actor, query: PageQuery) -> Page[Notification]:
        """Notifications, newest first."""
        async with self._context.read(actor) as tx:
            return await tx[NotificationStore].page(_newest_visible(actor, query))

    async def deliveries(self, actor: Actor, query: PageQuery) -> Page[Delivery]:
        """Deliveries, newest first."""
        async with self._context.read(actor) as tx:
            return await tx[DeliveryStore].page(_newest_visible(actor, query))

    async def test_sink(self, actor: Actor, id: str) -> Delivery:
        """Sends a test notification to one sink."""
        now = self._context.clock.now()
        async with self._context.change(actor, "testNotificationSink") as tx:
            sink = found(await tx[SinkStore].get(id), ResourceKind.NOTIFICATION)
            tx.authorize(Verb.WRITE, sink.target)
            if BY_KIND[sink.type].of_commits:
                raise Invalid("a commit status sink cannot be tested without a commit", field="id")
            subject = f"A test of the sink {sink.name}"
            test = notification(NotificationKind.TEST, now, subject, project_id=sink.project_id)
            test_id = await tx[NotificationStore].add(replace(test, routed_at=now))
            delivery = Delivery(self._context.new_id(), test_id, id, sink.project_id, now, now)
            await tx[DeliveryStore].add(delivery)
            tx.audit(sink.name, id)
            tx.publish(NOTIFY)
        return delivery

    async def resend(self, actor: Actor, id: str) -> Delivery:
        """Sends a delivery again, whatever its state. Its webhook-id is unchanged."""
        async with self._context.change(actor, "resendNotification") as tx:
            before = found(await tx[DeliveryStore].get(id), ResourceKind.NOTIFICATION)
            tx.authorize(Verb.WRITE, scope_of_installation_or_project(before.project_id, id))
            delivery = replace(
                before,
                state=DeliveryState.WAITING,
                due_at=self._context.clock.now(),
                finished_at=None,
                attempts=0,
                error="",
            )
            await tx[DeliveryStore].put(delivery)
            tx.audit(before.sink_id, id)
            tx.publish(NOTIFY)
        return delivery


def _newest_visible(actor: Actor, query: PageQuery) -> PageQuery:
    visible = actor.policy.visible(ResourceKind.NOTIFICATION)
    return replace(query, visible=visible, newest=True)
