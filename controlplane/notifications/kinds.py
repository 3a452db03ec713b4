"""Kinds of manifests: notification sinks and notification rules."""

from collections.abc import Collection, Sequence

from controlplane.authorization import Actor, Verb
from controlplane.notifications.model.notification import Router, Sink
from controlplane.notifications.model.sink_kind import SinkKind
from controlplane.notifications.operations.routers import RouterDraft, Routers
from controlplane.notifications.operations.sinks import SinkDraft, Sinks
from controlplane.notifications.ports import RouterStore, SinkStore
from controlplane.notifications.sinks import BY_KIND
from controlplane.platform.kinds import KindWithOperations, Placement
from controlplane.platform.parts import Columns, column_values, row_of
from controlplane.platform.ports import Transaction


class NotificationSinkKind(KindWithOperations[Sink, Sinks]):
    """Notification sinks. Their secrets are never returned."""

    name = "NotificationSink"
    change = SinkDraft
    port = SinkStore
    model = Sink
    default_project = None
    hidden = ("name", "project_id")
    plugins = {SinkKind: BY_KIND}
    takes_all = True

    def hidden_fields(self, actor: Actor, row: Sink) -> Collection[str]:
        return () if actor.may(Verb.WRITE, row.target) else ("settings",)

    async def values(self, tx: Transaction, rows: Sequence[Sink]) -> Sequence[Columns]:
        return [
            column_values(row) | {"settings": self._operations.settings_of(row)} for row in rows
        ]

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        sink, _ = await self._operations.upsert(
            actor, row_of(SinkDraft, self.with_placement(placement, columns))
        )
        return sink.id

    async def update(self, actor: Actor, row: Sink, columns: Columns) -> None:
        await self._operations.upsert(actor, row_of(SinkDraft, columns | {"name": row.name}))


class NotificationRuleKind(KindWithOperations[Router, Routers]):
    """Notification rules: which notifications each sink receives."""

    name = "NotificationRule"
    change = RouterDraft
    port = RouterStore
    model = Router
    default_project = None
    hidden = ("name", "project_id")
    references = {"RouterRule.sinks": "NotificationSink"}
    takes_all = True

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        draft = row_of(RouterDraft, self.with_placement(placement, columns))
        return (await self._operations.upsert(actor, draft)).id

    async def update(self, actor: Actor, row: Router, columns: Columns) -> None:
        await self._operations.upsert(actor, row_of(RouterDraft, columns | {"name": row.name}))
