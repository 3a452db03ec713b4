"""Connects the Kubernetes proxy to the control plane: authentication, authorization, audit."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Protocol

import structlog

from controlplane.access.operations.identity import CredentialAuthenticator as Identities
from controlplane.access.operations.refusal_aggregation import RefusalAggregator
from controlplane.authorization import SYSTEM
from controlplane.authorization.policy import ClusterIdentity as Entry
from controlplane.authorization.roles import KubernetesRequest
from controlplane.clusters.operations.kubernetes_access import ProxyAccess
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict, RepeatedEntry
from core.errors import LimitExceeded, TowlineError, Unauthenticated
from core.identity import ClusterId, TokenId, TokenKind, UserId, token_kind
from core.open_streams import RequestEnd
from core.runtime.batcher import Batcher
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from proxy.domain.access import (
    AuthenticatedUser,
    Credential,
    CredentialKind,
    Impersonation,
    ImpersonationRule,
    LastContact,
    RecordingPolicy,
    RequestGrant,
)
from proxy.domain.attributes import READS, RequestAttributes
from proxy.domain.audit import EndReason, RequestRecord

log = structlog.get_logger(__name__)

_WRITE_INTERVAL_S = 0.5
# Fewer cost more each: a block of rows has a fixed price, and a commit has one, too.
_MANY_ROWS = 8_192
MAX_WAITING_ROWS = 20_000
_REFUSALS_LISTED = 60
_DETAIL_FIELDS = (
    "user_agent", "acting_as", "acting_groups", "recorded", "rule", "upgrade", "bytes_in",
    "bytes_out",
)  # fmt: skip
_detail_values = attrgetter(*_DETAIL_FIELDS)
_DISCOVERY = frozenset({"api", "apis", "openapi", "version"})
_SELF_REVIEWS = frozenset({
    ("create", "authentication.k8s.io", "selfsubjectreviews"),
    ("create", "authorization.k8s.io", "selfsubjectaccessreviews"),
    ("create", "authorization.k8s.io", "selfsubjectrulesreviews"),
})  # fmt: skip


class ProxyAuthenticator:
    """The Kubernetes proxy's `Authenticator`: users of the control plane."""

    def __init__(self, identities: Identities) -> None:
        self._identities = identities

    async def authenticate(self, credential: Credential, *, source: str) -> AuthenticatedUser:
        kind = token_kind(credential.secret)
        if (kind is TokenKind.SESSION) != (credential.kind is CredentialKind.SESSION):
            raise Unauthenticated(
                "a browser session must use its cookie, and a token the Authorization header"
            )
        actor = await self._identities.authenticate(credential.secret, _address(source))
        return AuthenticatedUser(
            user_id=UserId(actor.id),
            name=actor.email,
            token_id=TokenId(actor.token_id) if actor.token_id else None,
            session_id=actor.token_id if kind is TokenKind.SESSION else None,
            expires_at=actor.expires_at,
        )


class ProxyAuthorizer:
    """The Kubernetes proxy's `Authorizer` and `AgentPresence`."""

    def __init__(self, access: ProxyAccess) -> None:
        self._access = access

    async def authorize(
        self, identity: AuthenticatedUser, handle: str, attributes: RequestAttributes
    ) -> RequestGrant:
        request = _rbac_request(attributes)
        grant = await self._access.connect(
            identity.user_id, handle, request, token_id=identity.token_id
        )
        return RequestGrant(
            cluster_id=grant.cluster_id,
            impersonate=Impersonation(grant.user, grant.groups, grant.uid),
            may_impersonate=ImpersonationRule.of(grant.cluster_identity.impersonate),
            rule=grant.rule,
            recording=_recording(grant.cluster_identity),
            grant_ids=grant.cluster_identity.binding_ids,
            stream_limits=grant.stream_limits,
            expires_at=grant.expires_at,
        )

    async def last_seen(self, cluster_id: ClusterId) -> LastContact | None:
        contact = await self._access.last_seen(cluster_id)
        return LastContact(*contact) if contact is not None else None


class AuditStore(Protocol):
    """Storage of audit rows."""

    async def append(self, entries: Iterable[AuditEntry]) -> None:
        """Commits rows. Raises Unavailable if the store is not reachable."""
        ...


class ProxyAuditLog:
    """The Kubernetes proxy's `AuditLog`.

    Commits a row for a write request before the request starts. Requests that start together share
    a commit. Writes ends and reads in batches, twice a second or when many wait. Aggregates
    unauthenticated refusals by source. While the store is not reachable, rows wait in a bounded
    queue; rows over the bound are dropped, and one row records their number.
    """

    def __init__(self, records: AuditStore, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._start_batcher: Batcher[AuditEntry, None] = Batcher(self._commit_rows)
        self._queued: list[AuditEntry] = []
        self._queued_rows = 0
        self._has_many = asyncio.Event()
        self._dropped = 0
        self._anonymous_refusals = RefusalAggregator(clock)
        self._user_refusals = RefusalAggregator(clock, max_entries=_REFUSALS_LISTED)
        self.tasks = Tasks("proxy-audit")

    def start(self) -> None:
        """Starts writing in the background."""
        self.tasks.forever("write", self._write_queued())

    async def stop(self) -> None:
        """Writes all waiting rows."""
        await self.tasks.stop()
        self._queue(
            [
                *self._anonymous_refusals.pop_summaries(include_current=True),
                *self._user_refusals.pop_summaries(include_current=True),
            ]
        )
        await self._flush()

    async def opened(self, record: RequestRecord) -> None:
        if self._queued_rows >= MAX_WAITING_ROWS:
            raise LimitExceeded("the audit log cannot keep up; try again", retry_after=1.0)
        await self._start_batcher.submit(_audit_entry(record, self._clock.now()))

    def began(self, record: RequestRecord) -> None:
        self._queue([_audit_entry(record, self._clock.now())])

    def closed(self, record: RequestRecord) -> None:
        entry: AuditEntry | None = _audit_entry(record, self._clock.now())
        if record.identity is None:
            entry = self._anonymous_refusals.record(entry)
        elif record.refused and record.reason is EndReason.REFUSED:
            entry = self._user_refusals.record(entry, entry.actor_id)
        if entry is not None:
            self._queue([entry])

    def repeated(self, record: RequestRecord, ends: Sequence[RequestEnd]) -> None:
        self._queue([_repeated_entry(_audit_entry(record, self._clock.now()), ends)])

    async def _commit_rows(self, entries: Sequence[AuditEntry]) -> list[None]:
        await self._records.append(entries)
        return [None] * len(entries)

    def _queue(self, entries: list[AuditEntry]) -> None:
        for entry in entries:
            free_rows, lost = MAX_WAITING_ROWS - self._queued_rows, entry
            if free_rows:
                queued, lost = entry.split(free_rows)
                self._queued.append(queued)
                self._queued_rows += queued.row_count
            self._dropped += lost.row_count if lost is not None else 0
        if self._queued_rows >= _MANY_ROWS:
            self._has_many.set()

    async def _write_queued(self) -> None:
        while True:
            await self._wait_for_rows()
            self._queue(
                [*self._anonymous_refusals.pop_summaries(), *self._user_refusals.pop_summaries()]
            )
            if not await self._flush():
                await self._clock.sleep(_WRITE_INTERVAL_S)

    async def _wait_for_rows(self) -> None:
        """Waits for the next time to write, or until many rows wait."""
        pause = self.tasks.spawn("pause", self._clock.sleep(_WRITE_INTERVAL_S))
        many = self.tasks.spawn("many rows", self._has_many.wait())
        try:
            await asyncio.wait((pause, many), return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
            many.cancel()

    async def _flush(self) -> bool:
        """Writes all waiting rows; False: the store is not reachable."""
        self._has_many.clear()
        entries, dropped = list(self._queued), self._dropped
        lost = [_dropped_entry(dropped, self._clock.now())] if dropped else []
        if not entries and not lost:
            return True
        try:
            await self._records.append(entries + lost)
        except TowlineError as error:
            log.error("audit rows wait for the store", rows=self._queued_rows, error=error.message)
            return False
        del self._queued[: len(entries)]
        self._queued_rows -= sum(entry.row_count for entry in entries)
        self._dropped -= dropped
        return True


def _recording(cluster_identity: Entry) -> RecordingPolicy:
    if cluster_identity.record_input:
        return RecordingPolicy.ALL
    return RecordingPolicy.OUTPUT if cluster_identity.record else RecordingPolicy.OFF


def _rbac_request(attributes: RequestAttributes) -> KubernetesRequest:
    """Names a request as the API server's RBAC does: `pods/exec` is a resource of its own.

    Opening a terminal has the verb `create`, also if a WebSocket opens it with a GET request.
    """
    parts = (attributes.resource, attributes.subresource)
    opens = attributes.writes and attributes.verb in READS
    return KubernetesRequest(
        verb="create" if opens else attributes.verb,
        group=attributes.group,
        resource="/".join(part for part in parts if part),
        namespace=attributes.namespace,
        name=attributes.name,
        describes=_is_discovery(attributes),
    )


def _is_discovery(attributes: RequestAttributes) -> bool:
    """True for requests that `system:discovery` and `system:basic-user` allow every user."""
    if attributes.resource:
        request = (attributes.verb, attributes.group, attributes.resource)
        return request in _SELF_REVIEWS and not attributes.subresource
    first = attributes.path.lstrip("/").partition("/")[0]
    return attributes.verb in {"get", "head"} and first in _DISCOVERY


def _audit_entry(record: RequestRecord, now: datetime) -> AuditEntry:
    identity = record.identity
    action, target = _action_and_target(record.handle, record.method, record.attributes)
    refused = record.refused and record.reason is EndReason.REFUSED
    return AuditEntry(
        at=now,
        actor=identity.name if identity else "",
        actor_id=identity.user_id if identity else "",
        token_id=identity.token_id if identity else None,
        source=_address(record.source)[:64],
        action=action,
        verdict=AuditVerdict.REFUSED if refused else AuditVerdict.ALLOWED,
        target=target,
        target_id=record.cluster_id or "",
        status=record.status,
        request_id=record.id[:64],
        detail=_audit_detail(record),
    )


def _repeated_entry(entry: AuditEntry, ends: Sequence[RequestEnd]) -> RepeatedEntry:
    """Returns one entry for all of these ends."""
    return RepeatedEntry(
        entry.at, entry.actor, entry.action, entry.verdict, entry.actor_id, entry.token_id,
        entry.source, entry.target, entry.target_id, entry.status, detail=entry.detail, ends=ends,
    )  # fmt: skip


def _address(source: str) -> str:
    """Address of a source, without the port."""
    return source.rpartition(":")[0] or source


def _action_and_target(
    handle: str, method: str, attributes: RequestAttributes | None
) -> tuple[str, str]:
    """Action and target of a request for its audit row."""
    verb = attributes.verb if attributes else method.lower()
    return f"kubernetes.{verb}"[:128], f"{handle}: {attributes.text if attributes else method}"[
        :320
    ]


def _dropped_entry(rows: int, now: datetime) -> AuditEntry:
    return AuditEntry(
        at=now,
        actor=SYSTEM.name,
        actor_id=SYSTEM.id,
        action="audit.dropped",
        verdict=AuditVerdict.ALLOWED,
        target="requests to clusters",
        detail={"rows": rows},
    )


def _audit_detail(record: RequestRecord) -> dict[str, object]:
    """Details of a request; leaves out empty values and zeros."""
    # Without `strict`, which costs as much as the rest: the getter returns one value for each name.
    values = zip(_DETAIL_FIELDS, _detail_values(record))  # noqa: B905
    detail: dict[str, object] = {name: value for name, value in values if value}
    if record.grant_ids:
        detail["grants"] = record.grant_ids
    if record.reason is None:
        detail["phase"] = "started"
    else:
        detail["reason"] = record.reason.value
        detail["seconds"] = round(record.seconds, 6)
    return detail
