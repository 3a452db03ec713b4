"""Notification sinks."""

from dataclasses import asdict, dataclass, replace

import orjson

from controlplane.access.operations.scopes import check_not_moved, find_project
from controlplane.audit.model.chains import AuditKind
from controlplane.audit.ports import AuditLog
from controlplane.authorization import Actor, Resource, ResourceKind, Verb, require, require_member
from controlplane.notifications.model.notification import Sink
from controlplane.notifications.model.sink_kind import CommitSink, SinkKind
from controlplane.notifications.ports import RouterStore, SinkStore
from controlplane.notifications.sinks import BY_KIND, SINKS
from controlplane.platform.context import Change, NamedOperations
from controlplane.platform.names import check_text
from controlplane.platform.ports import Transaction
from controlplane.platform.retry import retry_operations
from controlplane.platform.sealing import Sealer
from controlplane.repositories.ports import RepositoryStore
from core.errors import Conflict, Invalid


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


@retry_operations
class Sinks(NamedOperations[Sink]):
    """Operations on sinks."""

    kind = ResourceKind.NOTIFICATION
    noun = "sink"
    port = SinkStore

    def settings_of(self, sink: Sink) -> SinkKind:
        """Returns the settings of a sink, with its secrets: the caller must drop them."""
        return sink_settings(self._context.sealer, sink)

    async def upsert(self, actor: Actor, draft: SinkDraft) -> tuple[Sink, str | None]:
        """Creates or changes a sink; returns a generated signing secret, shown only once."""
        require_member(actor)
        check_text(draft.name, "name")
        async with self._context.change(actor, "upsertNotificationSink") as tx:
            before = await tx[SinkStore].by_name(draft.name)
            sink = before or await self._new_sink(tx, draft)
            authorize_write(tx, sink.target, is_known=before is not None)
            check_not_moved(f"sink {sink.name!r}", sink.project_id, draft.project_id)
            if sink.type != draft.settings.kind:
                raise Conflict(
                    f"sink {draft.name} has the type {sink.type}, which cannot be changed"
                )
            current = sink_settings(self._context.sealer, sink) if before else None
            settings, signing_secret = draft.settings.completed(current)
            sink = await _with_public_fields(tx, actor, sink, draft, settings)
            plain = orjson.dumps(asdict(settings))
            sealed = self._context.sealer.seal(plain, _seal_context(sink.id))
            sink = replace(sink, sealed=sealed, updated_at=self._context.clock.now())
            await (tx[SinkStore].put(sink) if before else tx[SinkStore].add(sink))
            tx.audit(sink.name, sink.id)
        return sink, signing_secret

    async def delete(self, actor: Actor, id: str) -> Sink:
        """Deletes a sink. Conflict: a router still uses it."""
        async with self._context.change(actor, "deleteNotificationSink") as tx:
            sink = await self._find(tx, id)
            tx.authorize(Verb.WRITE, sink.target)
            if sink.audit:
                _authorize_audit(actor)
            all_routers = await tx[RouterStore].all()
            routers = [router.name for router in all_routers if id in router.rule.sinks]
            if routers:
                raise Conflict(f"routers still use this sink: {', '.join(routers[:5])}")
            await tx[SinkStore].remove(id)
            tx.audit(sink.name, id)
        return sink

    async def _new_sink(self, tx: Transaction, draft: SinkDraft) -> Sink:
        now, project = self._context.clock.now(), await project_of(tx, draft.project_id)
        id, kind, sent = self._context.new_id(), draft.settings.kind, await _last_audit_numbers(tx)
        return Sink(id, draft.name, now, now, kind, project, sent=sent)


def sink_settings(sealer: Sealer, sink: Sink) -> SinkKind:
    """Decrypts the settings of a sink."""
    return BY_KIND[sink.type](**orjson.loads(sealer.open(sink.sealed, _seal_context(sink.id))))


def _seal_context(id: str) -> str:
    return f"sink:{id}"


def authorize_write(tx: Change, target: Resource, *, is_known: bool) -> None:
    """Authorizes the change of a new or known object.

    Names are unique in the installation, so an actor who may not see the other object only learns
    that the name is used.
    """
    if is_known and not tx.actor.may(Verb.READ, target):
        raise Conflict("this name is already used: choose another one")
    tx.authorize(Verb.WRITE, target if is_known else replace(target, id=""))


async def project_of(tx: Transaction, project_id: str | None) -> str:
    """Returns the ID of the project of a draft, empty for the installation.

    NotFound: the project does not exist.
    """
    return (await find_project(tx, project_id)).id if project_id else ""


async def _with_public_fields(
    tx: Transaction, actor: Actor, sink: Sink, draft: SinkDraft, settings: SinkKind
) -> Sink:
    """The sink with its public fields. Invalid: a field is missing or wrong."""
    if isinstance(settings, CommitSink):
        return await _with_repository(tx, actor, sink, draft, settings)
    sink = replace(sink, host=settings.host(None))
    if draft.audit or sink.audit:
        _authorize_audit(actor)
    if draft.audit is None:
        return sink
    if draft.audit:
        if not settings.takes_audit or sink.project_id:
            kinds = " or ".join(kind.kind for kind in SINKS if kind.takes_audit)
            raise Invalid(f"needs a {kinds} sink without a project", field="audit")
    last_numbers, audit = await _last_audit_numbers(tx), tuple(dict.fromkeys(draft.audit))
    added = {kind.value: last_numbers[kind.value] for kind in audit if kind not in sink.audit}
    return replace(sink, audit=audit, sent={**sink.sent, **added})


def _authorize_audit(actor: Actor) -> None:
    """Forbidden: the actor may not decide who receives the audit log, and who no longer does."""
    require(actor, Verb.READ, Resource.whole(ResourceKind.AUDIT))


async def _last_audit_numbers(tx: Transaction) -> dict[str, int]:
    """Returns the number of the last audit row by kind."""
    return {chain.kind.value: chain.number for chain in await tx[AuditLog].chains()}


async def _with_repository(
    tx: Transaction, actor: Actor, sink: Sink, draft: SinkDraft, settings: CommitSink
) -> Sink:
    repository = await tx[RepositoryStore].get(settings.repository_id)
    if repository is None or not actor.may(Verb.READ, repository.target):
        raise Invalid("must be the id of a repository that you may see", field="repositoryId")
    require(actor, Verb.WRITE, repository.target)
    host = settings.host(repository)
    new_settings = draft.settings
    if sink.host not in ("", host) and not (
        isinstance(new_settings, CommitSink) and new_settings.token
    ):
        raise Invalid("must be set again for another host", field="token")
    return replace(sink, repository_id=repository.id, host=host)
