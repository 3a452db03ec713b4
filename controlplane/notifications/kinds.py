"""Kinds of manifests: notification sinks and notification rules."""

from collections.abc import Collection, Sequence

from controlplane.authorization import Actor, Verb
from controlplane.notifications.model.notification import Router, Sink
from controlplane.notifications.model.sink_kind import SinkKind
from controlplane.notifications.operations.sinks import (
    NotificationOperations,
    RouterDraft,
    SinkDraft,
)
from controlplane.notifications.ports import RouterStore, SinkStore
from controlplane.notifications.sinks import BY_KIND
from controlplane.platform.kinds import ManifestKind, Placement
from controlplane.platform.parts import Columns, column_values, row_of
from controlplane.platform.ports import Transaction


class NotificationSinkKind(ManifestKind[Sink]):
    """Notification sinks. Their secrets are never returned."""

    name = "NotificationSink"
    change = SinkDraft
    port = SinkStore
    model = Sink
    default_project = None
    hidden = ("name", "project_id")
    plugins = {SinkKind: BY_KIND}
    takes_all = True

    def __init__(self, notifications: NotificationOperations) -> None:
        self._notifications = notifications

    def concealed(self, actor: Actor, row: Sink) -> Collection[str]:
        return () if actor.may(Verb.WRITE, row.target) else ("settings",)

    async def values(self, tx: Transaction, rows: Sequence[Sink]) -> Sequence[Columns]:
        return [
            column_values(row) | {"settings": self._notifications.settings_of(row)} for row in rows
        ]

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        given = self.placed(placement, columns)
        sink, _ = await self._notifications.save_sink(actor, row_of(SinkDraft, given))
        return sink.id

    async def update(self, actor: Actor, row: Sink, columns: Columns) -> None:
        await self._notifications.save_sink(actor, row_of(SinkDraft, columns | {"name": row.name}))

    async def delete(self, actor: Actor, row: Sink) -> None:
        await self._notifications.delete_sink(actor, row.id)


class NotificationRuleKind(ManifestKind[Router]):
    """Notification rules: which notifications each sink receives."""

    name = "NotificationRule"
    change = RouterDraft
    port = RouterStore
    model = Router
    default_project = None
    hidden = ("name", "project_id")
    references = {"RouterDraft.sinks": "NotificationSink"}
    takes_all = True

    def __init__(self, notifications: NotificationOperations) -> None:
        self._notifications = notifications

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        given = self.placed(placement, columns)
        return (await self._notifications.save_router(actor, row_of(RouterDraft, given))).id

    async def update(self, actor: Actor, row: Router, columns: Columns) -> None:
        given = columns | {"name": row.name}
        await self._notifications.save_router(actor, row_of(RouterDraft, given))

    async def delete(self, actor: Actor, row: Router) -> None:
        await self._notifications.delete_router(actor, row.id)
