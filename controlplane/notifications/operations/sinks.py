"""Notification sinks, routers and deliveries."""

from dataclasses import asdict, dataclass, field, replace
from typing import TypeVar

import orjson

from controlplane.access.operations.scopes import find_project
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
from controlplane.platform.context import NOTIFY, OperationContext
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

S = TypeVar("S", Sink, Router)


@dataclass(frozen=True, slots=True, repr=False)
class SinkDraft:
    """Desired state of a sink. An empty setting and `audit` None leave a value unchanged.

    Not printed, since it contains secrets.
    """

    name: str
    settings: SinkKind
    project_id: str | None = None
    audit: tuple[AuditKind, ...] | None = None


@dataclass(frozen=True, slots=True)
class RouterDraft:
    """Desired state of a router; `sinks` contains ids."""

    name: str
    events: tuple[str, ...] = ("*",)
    severity: Severity = Severity.INFO
    filters: tuple[RouterFilter, ...] = ()
    sinks: tuple[str, ...] = ()
    project_id: str | None = field(default=None)


@retry_operations
class NotificationOperations:
    """Operations on sinks, routers, notifications and deliveries."""

    def __init__(self, deps: OperationContext) -> None:
        self._context = deps

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
        require_member(actor)
        async with self._context.store.read() as tx:
            found = await (tx[SinkStore].get(id) if id else tx[SinkStore].find(name=name or ""))
        return _readable(actor, found)

    async def router(self, actor: Actor, id: str | None, name: str | None = None) -> Router:
        """Finds a router by id, or by name without an id. NotFound: it does not exist."""
        require_member(actor)
        async with self._context.store.read() as tx:
            found = await (tx[RouterStore].get(id) if id else tx[RouterStore].find(name=name or ""))
        return _readable(actor, found)

    async def save_sink(self, actor: Actor, draft: SinkDraft) -> tuple[Sink, str | None]:
        """Creates or changes a sink; returns a generated signing secret, shown only once."""
        require_member(actor)
        check_text(draft.name, "name")
        async with self._context.store.write() as tx:
            before = await tx[SinkStore].find(name=draft.name)
            sink = before or await self._new_sink(tx, actor, draft)
            _require_write(actor, sink.target, before is not None)
            if sink.type != draft.settings.kind:
                raise Conflict(
                    f"sink {draft.name} has the type {sink.type}, which cannot be changed"
                )
            kept = sink_settings(self._context.sealer, sink) if before else None
            settings, made = draft.settings.completed(kept)
            sink = await _completed(tx, actor, sink, draft, settings)
            plain = orjson.dumps(asdict(settings))
            sealed = self._context.sealer.seal(plain, _context(sink.id))
            sink = replace(sink, sealed=sealed, updated_at=self._context.clock.now())
            await (tx[SinkStore].put(sink) if before else tx[SinkStore].add(sink))
            await self._context.audit(tx, actor, "upsertNotificationSink", sink.name, sink.id)
        return sink, made

    async def delete_sink(self, actor: Actor, id: str) -> Sink:
        """Deletes a sink. Conflict: a router still uses it."""
        require_member(actor)
        async with self._context.store.write() as tx:
            sink = await tx[SinkStore].get(id)
            if sink is None:
                raise NotFound
            require(actor, Verb.WRITE, sink.target)
            users = [router.name for router in await tx[RouterStore].select() if id in router.sinks]
            if users:
                raise Conflict(f"routers still use this sink: {', '.join(users[:5])}")
            await tx[SinkStore].remove(id)
            await self._context.audit(tx, actor, "deleteNotificationSink", sink.name, id)
        return sink

    async def save_router(self, actor: Actor, draft: RouterDraft) -> Router:
        """Creates or changes a router."""
        require_member(actor)
        check_text(draft.name, "name")
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            before = await tx[RouterStore].find(name=draft.name)
            project = await _project(tx, draft.project_id)
            blank = Router(self._context.new_id(), draft.name, now, now, project)
            router = before or blank
            _require_write(actor, router.target, before is not None)
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
            await self._context.audit(tx, actor, "upsertNotificationRouter", router.name, router.id)
        return router

    async def delete_router(self, actor: Actor, id: str) -> Router:
        require_member(actor)
        async with self._context.store.write() as tx:
            router = await tx[RouterStore].get(id)
            if router is None:
                raise NotFound
            require(actor, Verb.WRITE, router.target)
            await tx[RouterStore].remove(id)
            await self._context.audit(tx, actor, "deleteNotificationRouter", router.name, id)
        return router

    async def test_sink(self, actor: Actor, id: str) -> Delivery:
        """Sends a test notification to one sink."""
        require_member(actor)
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            sink = await tx[SinkStore].get(id)
            if sink is None:
                raise NotFound
            require(actor, Verb.WRITE, sink.target)
            if BY_KIND[sink.type].of_commits:
                raise Invalid("a commit status sink cannot be tested without a commit", field="id")
            said = f"A test of the sink {sink.name}"
            one = notification(NotificationKind.TEST, now, said, project_id=sink.project_id)
            kept = await tx[NotificationStore].add(replace(one, routed_at=now))
            delivery = Delivery(self._context.new_id(), kept, id, sink.project_id, now, now)
            await tx[DeliveryStore].add(delivery)
            await self._context.audit(tx, actor, "testNotificationSink", sink.name, id)
        self._context.bus.publish(NOTIFY)
        return delivery

    async def resend(self, actor: Actor, id: str) -> Delivery:
        """Sends a delivery again, whatever its state. Its webhook-id is unchanged."""
        require_member(actor)
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            found = await tx[DeliveryStore].get(id)
            if found is None:
                raise NotFound
            require(actor, Verb.WRITE, scope_of_installation_or_project(found.project_id, id))
            again = replace(found, state=DeliveryState.WAITING, due_at=now, finished_at=None)
            again = replace(again, attempts=0, error="")
            await tx[DeliveryStore].put(again)
            await self._context.audit(tx, actor, "resendNotification", found.sink_id, id)
        self._context.bus.publish(NOTIFY)
        return again

    async def _new_sink(self, tx: Transaction, actor: Actor, draft: SinkDraft) -> Sink:
        now, project = self._context.clock.now(), await _project(tx, draft.project_id)
        ends = {chain.kind.value: chain.number for chain in await tx[AuditLog].chains()}
        return Sink(
            self._context.new_id(), draft.name, now, now, draft.settings.kind, project, sent=ends
        )


def sink_settings(sealer: Sealer, sink: Sink) -> SinkKind:
    """Decrypts the settings of a sink."""
    return BY_KIND[sink.type](**orjson.loads(sealer.open(sink.sealed, _context(sink.id))))


def _context(id: str) -> str:
    return f"sink:{id}"


def _seen_by(actor: Actor, query: PageQuery) -> PageQuery:
    require_member(actor)
    return replace(query, visible=actor.policy.visible(ResourceKind.NOTIFICATION))


def _readable(actor: Actor, found: S | None) -> S:
    if found is None:
        raise NotFound
    require(actor, Verb.READ, found.target)
    return found


def _require_write(actor: Actor, target: Resource, known: bool) -> None:
    """Requires write access.

    Names are unique in the installation, so an actor who may not see the other object only learns
    that the name is used.
    """
    if known and not actor.may(Verb.READ, target):
        raise Conflict("this name is already used: choose another one")
    require(actor, Verb.WRITE, target if known else replace(target, id=""))


async def _project(tx: Transaction, project_id: str | None) -> str:
    return (await find_project(tx, project_id)).id if project_id else ""


async def _check_sinks(tx: Transaction, actor: Actor, router: Router) -> None:
    if len(router.sinks) > MAX_SINKS:
        raise Invalid(f"must have at most {MAX_SINKS} sinks", field="routerSinks")
    found = {sink.id: sink for sink in await tx[SinkStore].select(id=router.sinks or [""])}
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
    if draft.audit is None:
        return sink
    if draft.audit:
        require(actor, Verb.READ, Resource.whole(ResourceKind.AUDIT))
        if not settings.takes_audit or sink.project_id:
            kinds = " or ".join(each.kind for each in SINKS if each.takes_audit)
            raise Invalid(f"needs a {kinds} sink without a project", field="audit")
    now = await _ends(tx)
    added = {kind.value: now[kind.value] for kind in draft.audit if kind not in sink.audit}
    return replace(sink, audit=draft.audit, sent={**sink.sent, **added})


async def _ends(tx: Transaction) -> dict[str, int]:
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
