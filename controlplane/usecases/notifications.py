"""Notification sinks, routers and deliveries."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar
from urllib.parse import urlsplit

import orjson

from controlplane.domain.access import Actor, Resource, ResourceKind, Verb, require, require_member
from controlplane.domain.audit import AuditKind
from controlplane.domain.commit_outcomes import default_api_url
from controlplane.domain.names import check_text
from controlplane.domain.notification_bodies import decode_webhook_secret, new_secret
from controlplane.domain.notifications import (
    COMMIT_STATUS,
    MAX_SINKS,
    TAKES_AUDIT,
    Delivery,
    DeliveryState,
    Notification,
    NotificationKind,
    Router,
    RouterFilter,
    Severity,
    Sink,
    SinkType,
    notification,
    scope_of_installation_or_project,
)
from controlplane.ports import Page, PageQuery, Transaction
from controlplane.secretports import Sealer
from controlplane.usecases.deps import NOTIFY, OperationContext
from controlplane.usecases.retrying import retry_operations
from controlplane.usecases.scopes import find_project
from core.errors import Conflict, Invalid, NotFound

MAX_URL_LENGTH = 2048
S = TypeVar("S", Sink, Router)
_MAX_TOKEN_LENGTH = 4096
_SYSLOG: Final = ("syslog+tls", "syslog+tcp", "syslog+udp")
_WEB: Final = ("https", "http")


@dataclass(frozen=True, slots=True, repr=False)
class SinkDraft:
    """Desired state of a sink.

    None leaves a field unchanged. Not printed, since it contains secrets.
    """

    name: str
    type: SinkType
    project_id: str | None = None
    url: str | None = None
    secret: str | None = None
    token: str | None = None
    api_url: str | None = None
    repository_id: str | None = None
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
            return await tx.sinks.page(_seen_by(actor, query))

    async def routers(self, actor: Actor, query: PageQuery) -> Page[Router]:
        """The routers that the actor may see."""
        async with self._context.store.read() as tx:
            return await tx.routers.page(_seen_by(actor, query))

    async def notifications(self, actor: Actor, query: PageQuery) -> Page[Notification]:
        """Notifications, newest first."""
        async with self._context.store.read() as tx:
            return await tx.notifications.page(replace(_seen_by(actor, query), newest=True))

    async def deliveries(self, actor: Actor, query: PageQuery) -> Page[Delivery]:
        """Deliveries, newest first."""
        async with self._context.store.read() as tx:
            return await tx.deliveries.page(replace(_seen_by(actor, query), newest=True))

    async def sink(self, actor: Actor, id: str | None, name: str | None = None) -> Sink:
        """Finds a sink by id, or by name without an id. NotFound: it does not exist."""
        require_member(actor)
        async with self._context.store.read() as tx:
            found = await (tx.sinks.get(id) if id else tx.sinks.find(name=name or ""))
        return _readable(actor, found)

    async def router(self, actor: Actor, id: str | None, name: str | None = None) -> Router:
        """Finds a router by id, or by name without an id. NotFound: it does not exist."""
        require_member(actor)
        async with self._context.store.read() as tx:
            found = await (tx.routers.get(id) if id else tx.routers.find(name=name or ""))
        return _readable(actor, found)

    async def save_sink(self, actor: Actor, draft: SinkDraft) -> tuple[Sink, str | None]:
        """Creates or changes a sink; returns a generated signing secret, shown only once."""
        require_member(actor)
        check_text(draft.name, "name")
        async with self._context.store.write() as tx:
            before = await tx.sinks.find(name=draft.name)
            sink = before or await self._new_sink(tx, actor, draft)
            _require_write(actor, sink.target, before is not None)
            if before is not None and before.type is not draft.type:
                raise Conflict(
                    f"sink {draft.name} has the type {before.type.value}, which cannot be changed"
                )
            kept = _opened(self._context.sealer, sink)
            given, made = _secrets(draft, kept)
            sink = await _completed(tx, actor, sink, draft, given)
            sealed = self._context.sealer.seal(orjson.dumps(given), _context(sink.id))
            sink = replace(sink, sealed=sealed, updated_at=self._context.clock.now())
            await (tx.sinks.put(sink) if before else tx.sinks.add(sink))
            await self._context.audit(tx, actor, "upsertNotificationSink", sink.name, sink.id)
        return sink, made

    async def delete_sink(self, actor: Actor, id: str) -> Sink:
        """Deletes a sink. Conflict: a router still uses it."""
        require_member(actor)
        async with self._context.store.write() as tx:
            sink = await tx.sinks.get(id)
            if sink is None:
                raise NotFound
            require(actor, Verb.WRITE, sink.target)
            users = [router.name for router in await tx.routers.select() if id in router.sinks]
            if users:
                raise Conflict(f"routers still use this sink: {', '.join(users[:5])}")
            await tx.sinks.remove(id)
            await self._context.audit(tx, actor, "deleteNotificationSink", sink.name, id)
        return sink

    async def save_router(self, actor: Actor, draft: RouterDraft) -> Router:
        """Creates or changes a router."""
        require_member(actor)
        check_text(draft.name, "name")
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            before = await tx.routers.find(name=draft.name)
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
            await (tx.routers.put(router) if before else tx.routers.add(router))
            await self._context.audit(tx, actor, "upsertNotificationRouter", router.name, router.id)
        return router

    async def delete_router(self, actor: Actor, id: str) -> Router:
        require_member(actor)
        async with self._context.store.write() as tx:
            router = await tx.routers.get(id)
            if router is None:
                raise NotFound
            require(actor, Verb.WRITE, router.target)
            await tx.routers.remove(id)
            await self._context.audit(tx, actor, "deleteNotificationRouter", router.name, id)
        return router

    async def test_sink(self, actor: Actor, id: str) -> Delivery:
        """Sends a test notification to one sink."""
        require_member(actor)
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            sink = await tx.sinks.get(id)
            if sink is None:
                raise NotFound
            require(actor, Verb.WRITE, sink.target)
            if sink.type in COMMIT_STATUS:
                raise Invalid("a commit status sink cannot be tested without a commit", field="id")
            said = f"A test of the sink {sink.name}"
            one = notification(NotificationKind.TEST, now, said, project_id=sink.project_id)
            kept = await tx.notifications.add(replace(one, routed_at=now))
            delivery = Delivery(self._context.new_id(), kept, id, sink.project_id, now, now)
            await tx.deliveries.add(delivery)
            await self._context.audit(tx, actor, "testNotificationSink", sink.name, id)
        self._context.bus.publish(NOTIFY)
        return delivery

    async def resend(self, actor: Actor, id: str) -> Delivery:
        """Sends a delivery again, whatever its state. Its webhook-id is unchanged."""
        require_member(actor)
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            found = await tx.deliveries.get(id)
            if found is None:
                raise NotFound
            require(actor, Verb.WRITE, scope_of_installation_or_project(found.project_id, id))
            again = replace(found, state=DeliveryState.WAITING, due_at=now, finished_at=None)
            again = replace(again, attempts=0, error="")
            await tx.deliveries.put(again)
            await self._context.audit(tx, actor, "resendNotification", found.sink_id, id)
        self._context.bus.publish(NOTIFY)
        return again

    async def _new_sink(self, tx: Transaction, actor: Actor, draft: SinkDraft) -> Sink:
        now, project = self._context.clock.now(), await _project(tx, draft.project_id)
        ends = {chain.kind.value: chain.number for chain in await tx.audit.chains()}
        return Sink(self._context.new_id(), draft.name, now, now, draft.type, project, sent=ends)


def opened_sink(sealer: Sealer, sink: Sink) -> Mapping[str, str]:
    """The address and the secrets of a sink."""
    return _opened(sealer, sink)


def _opened(sealer: Sealer, sink: Sink) -> dict[str, str]:
    return orjson.loads(sealer.open(sink.sealed, _context(sink.id))) if sink.sealed else {}


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
    found = {sink.id: sink for sink in await tx.sinks.select(id=router.sinks or [""])}
    for id in router.sinks:
        sink = found.get(id)
        if sink is None or not actor.may(Verb.READ, sink.target):
            raise Invalid(f"sink {id[:64]} does not exist", field="routerSinks")
        if sink.type in COMMIT_STATUS:
            raise Invalid(
                f"sink {sink.name} gets commit statuses without a router: remove it",
                field="routerSinks",
            )


def _secrets(draft: SinkDraft, kept: Mapping[str, str]) -> tuple[dict[str, str], str | None]:
    """The secrets to seal, and a generated signing secret, if any."""
    given = {"url": draft.url, "secret": draft.secret, "token": draft.token}
    given["api_url"] = draft.api_url
    after = {**kept, **{name: text for name, text in given.items() if text}}
    moved = after.get("api_url") != kept.get("api_url") and "token" in kept
    if moved and not draft.token:
        raise Invalid("must be set again for another API", field="token")
    if len(after.get("token", "")) > _MAX_TOKEN_LENGTH:
        raise Invalid(f"must have at most {_MAX_TOKEN_LENGTH} characters", field="token")
    if not after.get("token", "").isprintable():
        raise Invalid("must not contain control characters", field="token")
    if draft.type is not SinkType.WEBHOOK:
        after.pop("secret", None)
        return after, None
    if draft.url and draft.url != kept.get("url") and "secret" in kept and not draft.secret:
        # A new receiver must not get the previous receiver's signing secret.
        del after["secret"]
    if "secret" in after:
        decode_webhook_secret(after["secret"])
        return after, None
    after["secret"] = new_secret(secrets.token_bytes(32))
    return after, after["secret"]


async def _completed(
    tx: Transaction, actor: Actor, sink: Sink, draft: SinkDraft, given: Mapping[str, str]
) -> Sink:
    """The sink with its public fields. Invalid: a field is missing or wrong."""
    if draft.type in COMMIT_STATUS:
        return await _of_repository(tx, actor, sink, draft, given)
    schemes = _SYSLOG if draft.type is SinkType.SYSLOG else _WEB
    sink = replace(sink, host=checked_host(given.get("url", ""), schemes, "url"))
    if draft.audit is None:
        return sink
    if draft.audit:
        require(actor, Verb.READ, Resource.whole(ResourceKind.AUDIT))
        if draft.type not in TAKES_AUDIT or sink.project_id:
            raise Invalid("needs a WEBHOOK or SYSLOG sink without a project", field="audit")
    now = await _ends(tx)
    added = {kind.value: now[kind.value] for kind in draft.audit if kind not in sink.audit}
    return replace(sink, audit=draft.audit, sent={**sink.sent, **added})


async def _ends(tx: Transaction) -> dict[str, int]:
    return {chain.kind.value: chain.number for chain in await tx.audit.chains()}


async def _of_repository(
    tx: Transaction, actor: Actor, sink: Sink, draft: SinkDraft, given: Mapping[str, str]
) -> Sink:
    id = draft.repository_id or sink.repository_id
    repository = await tx.repositories.get(id) if id else None
    if repository is None or not actor.may(Verb.READ, repository.target):
        raise Invalid("must be the id of a repository that you may see", field="repositoryId")
    require(actor, Verb.WRITE, repository.target)
    if not given.get("token"):
        raise Invalid("is required to write commit statuses", field="token")
    api = given.get("api_url") or default_api_url(draft.type, repository.url)
    host = checked_host(api, ("https", "http"), "apiUrl")
    if sink.host not in ("", host) and not draft.token:
        raise Invalid("must be set again for another host", field="token")
    return replace(sink, repository_id=id, host=host)


def checked_host(url: str, schemes: tuple[str, ...], field: str) -> str:
    """The host of a URL. Invalid: wrong scheme, too long, or with credentials."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in schemes and parts.hostname and parts.port != 0
    except ValueError:
        good, parts = False, urlsplit("")
    if (
        not good
        or len(url) > MAX_URL_LENGTH
        or not url.isprintable()
        or " " in url
        or parts.username
    ):
        names = ", ".join(f"{scheme}://" for scheme in schemes)
        raise Invalid(f"must be a URL with {names} and no credentials", field=field)
    return (parts.hostname or "")[:255]
