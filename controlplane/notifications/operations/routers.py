"""Notification routers: which notifications each sink receives."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from controlplane.access.operations.scopes import check_not_moved
from controlplane.authorization import Actor, ResourceKind, Verb, require_member
from controlplane.notifications.model.notification import Router, RouterRule
from controlplane.notifications.operations.sinks import authorize_write, project_of
from controlplane.notifications.ports import RouterStore, SinkStore
from controlplane.notifications.sinks import BY_KIND
from controlplane.platform.context import NamedOperations
from controlplane.platform.names import check_text
from controlplane.platform.parts import part
from controlplane.platform.ports import Transaction
from controlplane.platform.retry import retry_operations
from core.errors import Invalid


@dataclass(frozen=True, slots=True)
class RouterDraft:
    """Desired state of a router."""

    name: str
    """Unique name. It identifies the router to update."""
    rule: RouterRule = part(RouterRule)
    project_id: str | None = None
    """ID of the project whose notifications match. Default: all projects and the installation."""


@retry_operations
class Routers(NamedOperations[Router]):
    """Operations on routers."""

    kind = ResourceKind.NOTIFICATION
    noun = "router"
    port = RouterStore

    async def upsert(self, actor: Actor, draft: RouterDraft) -> Router:
        """Creates or changes a router."""
        require_member(actor)
        check_text(draft.name, "name")
        now = self._context.clock.now()
        async with self._context.change(actor, "upsertNotificationRouter") as tx:
            before = await tx[RouterStore].by_name(draft.name)
            router = before or await self._new_router(tx, draft)
            authorize_write(tx, router.target, is_known=before is not None)
            check_not_moved(f"router {router.name!r}", router.project_id, draft.project_id)
            router = replace(router, updated_at=now, rule=draft.rule.checked())
            await _check_sinks(tx, actor, router.rule.sinks)
            await (tx[RouterStore].put(router) if before else tx[RouterStore].add(router))
            tx.audit(router.name, router.id)
        return router

    async def delete(self, actor: Actor, id: str) -> Router:
        async with self._context.change(actor, "deleteNotificationRouter") as tx:
            router = await self._find(tx, id)
            tx.authorize(Verb.WRITE, router.target)
            await tx[RouterStore].remove(id)
            tx.audit(router.name, id)
        return router

    async def _new_router(self, tx: Transaction, draft: RouterDraft) -> Router:
        now, project = self._context.clock.now(), await project_of(tx, draft.project_id)
        return Router(self._context.new_id(), draft.name, now, now, project)


async def _check_sinks(tx: Transaction, actor: Actor, ids: Collection[str]) -> None:
    sinks = {sink.id: sink for sink in await tx[SinkStore].by_ids(ids)}
    for id in ids:
        sink = sinks.get(id)
        if sink is None or not actor.may(Verb.READ, sink.target):
            raise Invalid(f"sink {id[:64]} does not exist", field="routerSinks")
        if BY_KIND[sink.type].of_commits:
            raise Invalid(
                f"sink {sink.name} gets commit statuses without a router: remove it",
                field="routerSinks",
            )
