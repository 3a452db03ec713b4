"""Notification sinks, routers and deliveries."""

from dataclasses import asdict, dataclass, replace
from typing import TypeVar

import orjson

from controlplane.access.operations.scopes import check_not_moved, find_project
from controlplane.audit.model.chains import AuditKind
from controlplane.audit.ports import AuditLog
from controlplane.authorization import Actor, Resource, ResourceKind, Verb, require, require_member
from controlplane.notifications.model.notification import (
    MAX_SINKS,
    Delivery,
    DeliveryState,
    Router,
    RouterFilter,
    Sink,
    scope_of_installation_or_project,
)
from controlplane.notifications.model.sink_kind import CommitSink, SinkKind
from controlplane.notifications.ports import (
    DeliveryStore,
    NotificationStore,
    RouterStore,
    SinkStore,
)
from controlplane.notifications.sinks import BY_KIND, SINKS
from controlplane.platform.context import NOTIFY, Change, ContextOperations
from controlplane.platform.limits import check_count
from controlplane.platform.names import check_text
from controlplane.platform.notification import (
    Notification,
    NotificationKind,
    Severity,
    notification,
)
from controlplane.platform.ports import Page, PageQuery, Transaction
from controlplane.platform.retry import retry_operations
from controlplane.platform.sealing import Sealer
from controlplane.repositories.ports import RepositoryStore
from core.errors import Conflict, Invalid, NotFound

R = TypeVar("R")
S = TypeVar("S", Sink, Router)


@dataclass(frozen=True, slots=True, repr=False)
class SinkDraft:
    """Desired state of a sink. An empty setting and `audit` None leave a value unchanged.

    Not printed, since it contains secrets.
    """

    name: str
    """Unique name. It identifies the sink to update."""
    settings: SinkKind
    project_id: str | None = None
    """ID of the project. Default: the installation."""
    audit: tuple[AuditKind, ...] | None = None
    """Kinds of audit rows to forward. Default: none on creation."""


@dataclass(frozen=True, slots=True)
class RouterDraft:
    """Desired state of a router."""

    name: str
    """Unique name. It identifies the router to update."""
    events: tuple[str, ...] = ("*",)
    """Kinds of notifications, such as `service.failed`, `service.*` or `*`. Limit: 50."""
    severity: Severity = Severity.INFO
    """Lowest severity that matches. Default: `INFO`."""
    filters: tuple[RouterFilter, ...] = ()
    """Filters. One of them must match. Default: everything matches. Limit: 50."""
    sinks: tuple[str, ...] = ()
    """IDs of the sinks."""
    project_id: str | None = None
    """ID of the project whose notifications match. Default: all projects and the installation."""


@retry_operations
class NotificationOperations(ContextOperations):
    """Operations on sinks, routers, notifications and deliveries."""

    async def sinks(self, actor: Actor, query: PageQuery) -> Page[Sink]:
        """The sinks that the actor may see."""
        async with self._context.store.read() as tx:
            return await tx[SinkStore].page(_seen_by(actor, query))

    async def routers(self, actor: Actor, query: PageQuery) -> Page[Router]:
        """The routers that the actor may see."""
        async with self._context.store.read() as tx:
            return await tx[RouterStore].page(_seen_by(actor, query))

    async def notifications(self, actor: Actor, query: PageQuery) -> Page[Notification]:
        """Notifications, newest first."""
        async with self._context.store.read() as tx:
            return await tx[NotificationStore].page(replace(_seen_by(actor, query), newest=True))

    async def deliveries(self, actor: Actor, query: PageQuery) -> Page[Delivery]:
        """Deliveries, newest first."""
        async with self._context.store.read() as tx:
            return await tx[DeliveryStore].page(replace(_seen_by(actor, query), newest=True))

    async def sink(self, actor: Actor, id: str | None, name: str | None = None) -> Sink:
        """Finds a sink by id, or by name without an id. NotFound: it does not exist."""
        async with self._context.read(actor) as tx:
            return _readable(actor, await tx[SinkStore].by_id_or_name(id, name))

    async def router(self, actor: Actor, id: str | None, name: str | None = None) -> Router:
        """Finds a router by id, or by name without an id. NotFound: it does not exist."""
        async with self._context.read(actor) as tx:
            return _readable(actor, await tx[RouterStore].by_id_or_name(id, name))

    def settings_of(self, sink: Sink) -> SinkKind:
        """Returns the settings of a sink, with its secrets: the caller must drop them."""
        return sink_settings(self._context.sealer, sink)

    async def save_sink(self, actor: Actor, draft: SinkDraft) -> tuple[Sink, str | None]:
        """Creates or changes a sink; returns a generated signing secret, shown only once."""
        require_member(actor)
        check_text(draft.name, "name")
        async with self._context.change(actor, "upsertNotificationSink") as tx:
            before = await tx[SinkStore].by_name(draft.name)
            sink = before or await self._new_sink(tx, draft)
            _authorize_write(tx, sink.target, known=before is not None)
            check_not_moved(f"sink {sink.name!r}", sink.project_id, draft.project_id)
            if sink.type != draft.settings.kind:
                raise Conflict(
                    f"sink {draft.name} has the type {sink.type}, which cannot be changed"
                )
            current = sink_settings(self._context.sealer, sink) if before else None
            settings, signing_secret = draft.settings.completed(current)
            sink = await _completed(tx, actor, sink, draft, settings)
            plain = orjson.dumps(asdict(settings))
            sealed = self._context.sealer.seal(plain, _context(sink.id))
            sink = replace(sink, sealed=sealed, updated_at=self._context.clock.now())
            await (tx[SinkStore].put(sink) if before else tx[SinkStore].add(sink))
            tx.audit(sink.name, sink.id)
        return sink, signing_secret

    async def delete_sink(self, actor: Actor, id: str) -> Sink:
        """Deletes a sink. Conflict: a router still uses it."""
        async with self._context.change(actor, "deleteNotificationSink") as tx:
            sink = _found(await tx[SinkStore].get(id))
            tx.authorize(Verb.WRITE, sink.target)
            users = [router.name for router in await tx[RouterStore].all() if id in router.sinks]
            if users:
                raise Conflict(f"routers still use this sink: {', '.join(users[:5])}")
            await tx[SinkStore].remove(id)
            tx.audit(sink.name, id)
        return sink

    async def save_router(self, actor: Actor, draft: RouterDraft) -> Router:
        """Creates or changes a router."""
        require_member(actor)
        check_text(draft.name, "name")
        now = self._context.clock.now()
        async with self._context.change(actor, "upsertNotificationRouter") as tx:
            before = await tx[RouterStore].by_name(draft.name)
            router = before or await self._new_router(tx, draft)
            _authorize_write(tx, router.target, known=before is not None)
            check_not_moved(f"router {router.name!r}", router.project_id, draft.project_id)
            router = replace(
                router,
                updated_at=now,
                events=draft.events or ("*",),
                severity=draft.severity,
                filters=draft.filters,
                sinks=tuple(dict.fromkeys(draft.sinks)),
            )
            router.check()
            await _check_sinks(tx, actor, router)
            await (tx[RouterStore].put(router) if before else tx[RouterStore].add(router))
            tx.audit(router.name, router.id)
        return router

    async def delete_router(self, actor: Actor, id: str) -> Router:
        async with self._context.change(actor, "deleteNotificationRouter") as tx:
            router = _found(await tx[RouterStore].get(id))
            tx.authorize(Verb.WRITE, router.target)
            await tx[RouterStore].remove(id)
            tx.audit(router.name, id)
        return router

    async def test_sink(self, actor: Actor, id: str) -> Delivery:
        """Sends a test notification to one sink."""
        now = self._context.clock.now()
        async with self._context.change(actor, "testNotificationSink") as tx:
            sink = _found(await tx[SinkStore].get(id))
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
            before = _found(await tx[DeliveryStore].get(id))
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

    async def _new_router(self, tx: Transaction, draft: RouterDraft) -> Router:
        now, project = self._context.clock.now(), await _project(tx, draft.project_id)
        return Router(self._context.new_id(), draft.name, now, now, project)

    async def _new_sink(self, tx: Transaction, draft: SinkDraft) -> Sink:
        now, project = self._context.clock.now(), await _project(tx, draft.project_id)
        id, kind, sent = self._context.new_id(), draft.settings.kind, await _ends(tx)
        return Sink(id, draft.name, now, now, kind, project, sent=sent)


def sink_settings(sealer: Sealer, sink: Sink) -> SinkKind:
    """Decrypts the settings of a sink."""
    return BY_KIND[sink.type](**orjson.loads(sealer.open(sink.sealed, _context(sink.id))))


def _context(id: str) -> str:
    return f"sink:{id}"


def _seen_by(actor: Actor, query: PageQuery) -> PageQuery:
    require_member(actor)
    return replace(query, visible=actor.policy.visible(ResourceKind.NOTIFICATION))


def _found(row: R | None) -> R:
    if row is None:
        raise NotFound(kind=ResourceKind.NOTIFICATION)
    return row


def _readable(actor: Actor, row: S | None) -> S:
    row = _found(row)
    require(actor, Verb.READ, row.target)
    return row


def _authorize_write(tx: Change, target: Resource, *, known: bool) -> None:
    """Authorizes the change of a new or known object.

    Names are unique in the installation, so an actor who may not see the other object only learns
    that the name is used.
    """
    if known and not tx.actor.may(Verb.READ, target):
        raise Conflict("this name is already used: choose another one")
    tx.authorize(Verb.WRITE, target if known else replace(target, id=""))


async def _project(tx: Transaction, project_id: str | None) -> str:
    return (await find_project(tx, project_id)).id if project_id else ""


async def _check_sinks(tx: Transaction, actor: Actor, router: Router) -> None:
    check_count(len(router.sinks), "routerSinks", MAX_SINKS)
    found = {sink.id: sink for sink in await tx[SinkStore].by_ids(router.sinks or [""])}
    for id in router.sinks:
        sink = found.get(id)
        if sink is None or not actor.may(Verb.READ, sink.target):
            raise Invalid(f"sink {id[:64]} does not exist", field="routerSinks")
        if BY_KIND[sink.type].of_commits:
            raise Invalid(
                f"sink {sink.name} gets commit statuses without a router: remove it",
                field="routerSinks",
            )


async def _completed(
    tx: Transaction, actor: Actor, sink: Sink, draft: SinkDraft, settings: SinkKind
) -> Sink:
    """The sink with its public fields. Invalid: a field is missing or wrong."""
    if isinstance(settings, CommitSink):
        return await _of_repository(tx, actor, sink, draft, settings)
    sink = replace(sink, host=settings.host(None))
    if draft.audit or (draft.audit is None and sink.audit):
        # The settings of such a sink decide who receives the audit log.
        require(actor, Verb.READ, Resource.whole(ResourceKind.AUDIT))
    if draft.audit is None:
        return sink
    if draft.audit:
        if not settings.takes_audit or sink.project_id:
            kinds = " or ".join(kind.kind for kind in SINKS if kind.takes_audit)
            raise Invalid(f"needs a {kinds} sink without a project", field="audit")
    ends, audit = await _ends(tx), tuple(dict.fromkeys(draft.audit))
    added = {kind.value: ends[kind.value] for kind in audit if kind not in sink.audit}
    return replace(sink, audit=audit, sent={**sink.sent, **added})


async def _ends(tx: Transaction) -> dict[str, int]:
    """Returns the number of the last audit row by kind."""
    return {chain.kind.value: chain.number for chain in await tx[AuditLog].chains()}


async def _of_repository(
    tx: Transaction, actor: Actor, sink: Sink, draft: SinkDraft, settings: CommitSink
) -> Sink:
    repository = await tx[RepositoryStore].get(settings.repository_id)
    if repository is None or not actor.may(Verb.READ, repository.target):
        raise Invalid("must be the id of a repository that you may see", field="repositoryId")
    require(actor, Verb.WRITE, repository.target)
    host = settings.host(repository)
    given = draft.settings
    if sink.host not in ("", host) and not (isinstance(given, CommitSink) and given.token):
        raise Invalid("must be set again for another host", field="token")
    return replace(sink, repository_id=repository.id, host=host)
