"""Sweeps, revokes and drains all connections and requests of the edge."""

import secrets
from typing import Protocol

import structlog

from core.identity import ClusterId
from core.open_streams import OpenStream, StreamFilter
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from proxy.domain.audit import EndReason, RequestRecord
from proxy.domain.limits import HeadLimits, StreamLimits, Timeouts
from proxy.gateway.authorization import RequestAuthorizer
from proxy.gateway.error_response import ErrorResponse
from proxy.gateway.internal_reads import InternalReader
from proxy.gateway.metrics import kind_of
from proxy.gateway.proxied_request import ProxiedRequest

log = structlog.get_logger(__name__)

SWEEP_SECONDS = 1.0
DRAIN_STEP = 0.05
IDS_PER_BATCH = 256
_MAX_TEXT = 512


class OpenConnection(Protocol):
    """A connection, from the point of view of the gateway."""

    @property
    def proxied_request(self) -> ProxiedRequest | None:
        """The current request to a cluster."""
        ...

    def sweep(self, now: float) -> None:
        """Ends requests and connections past their deadline."""
        ...

    def shutdown(self) -> None:
        """Closes the connection if it is idle."""
        ...


class RequestIds:
    """Random ids of 32 hex digits, read from the system in batches."""

    def __init__(self) -> None:
        self._waiting: list[str] = []

    def next(self) -> str:
        """Returns an unused id."""
        if not self._waiting:
            digits = secrets.token_hex(16 * IDS_PER_BATCH)
            self._waiting = [digits[at : at + 32] for at in range(0, len(digits), 32)]
        return self._waiting.pop()


class Gateway:
    """State that all connections of the edge share."""

    def __init__(
        self,
        authorization: RequestAuthorizer,
        clock: Clock,
        head_limits: HeadLimits,
        timeouts: Timeouts,
        streams: StreamLimits,
    ) -> None:
        self.authorization, self.clock = authorization, clock
        self.inside = InternalReader(authorization, clock, head_limits)
        self.head_limits, self.timeouts = head_limits, timeouts
        self._max_connections = streams.connections
        self.connections: set[OpenConnection] = set()
        self.draining = False
        self.ids = RequestIds()
        self.tasks = Tasks("proxy")

    @property
    def proxied_requests(self) -> list[ProxiedRequest]:
        """The open requests."""
        found = [connection.proxied_request for connection in self.connections]
        found += self.inside.proxied_requests
        return [
            proxied_request
            for proxied_request in found
            if proxied_request is not None and not proxied_request.over
        ]

    @property
    def full(self) -> bool:
        """Reports whether the maximum number of connections is open."""
        return len(self.connections) >= self._max_connections

    def open_streams(self, wanted: StreamFilter) -> list[OpenStream]:
        """Lists the authorized open requests that match a filter."""
        return wanted.chosen(
            _open_stream(proxied_request.record)
            for proxied_request in self.proxied_requests
            if proxied_request.ready
        )

    def end_stream(self, id: str, by: str) -> bool:
        """Ends an open request on behalf of `by`; False: no request has this id."""
        found = [
            proxied_request
            for proxied_request in self.proxied_requests
            if proxied_request.record.id == id
        ]
        for proxied_request in found:
            proxied_request.end(ErrorResponse(403, f"ended by {by}"), EndReason.ENDED)
        return bool(found)

    def start(self) -> None:
        """Starts the background checks of deadlines and permissions."""
        self.tasks.forever("sweep", self._sweep())
        self.tasks.forever("recheck", self._recheck())

    def revoke(
        self,
        *,
        user: str | None = None,
        token: str | None = None,
        session: str | None = None,
        cluster: ClusterId | None = None,
        grant: str | None = None,
    ) -> int:
        """Ends every open request that matches one of these values, and returns their number."""
        self.authorization.forget(user=user, token=token, session=session)
        wanted = {("user", user), ("token", token), ("session", session)}
        wanted |= {("cluster", cluster), ("grant", grant)}
        matching = [
            proxied_request
            for proxied_request in self.proxied_requests
            if wanted & _revocation_keys(proxied_request.record)
        ]
        for proxied_request in matching:
            proxied_request.end(ErrorResponse(401, "access was revoked"), EndReason.REVOKED)
        return len(matching)

    async def recheck(self, user: str | None = None) -> None:
        """Authorizes open requests again, now: those of one user, or all."""
        self.authorization.forget(user=user, token=None, session=None)
        for proxied_request in tuple(self.proxied_requests):
            identity = proxied_request.record.identity
            if user is None or (identity is not None and identity.user_id == user):
                await proxied_request.reauthorize()

    async def drain(self) -> None:
        """Closes idle connections, ends watches between events, and ends the rest after the grace
        period.
        """
        self.draining = True
        for connection in tuple(self.connections):
            connection.shutdown()
        limit = self.clock.monotonic() + self.timeouts.grace
        while self.clock.monotonic() < limit:
            if all(
                [proxied_request.end_between_events() for proxied_request in self.proxied_requests]
            ):
                return
            await self.clock.sleep(DRAIN_STEP)
        for proxied_request in self.proxied_requests:
            proxied_request.end(
                ErrorResponse(503, "the control plane is restarting"), EndReason.DRAINED
            )

    async def stop(self) -> None:
        """Stops all background tasks."""
        await self.tasks.stop()

    async def _sweep(self) -> None:
        while True:
            await self.clock.sleep(SWEEP_SECONDS)
            now = self.clock.monotonic()
            self.authorization.sweep()
            for connection in tuple(self.connections):
                connection.sweep(now)

    async def _recheck(self) -> None:
        """Checks open requests regularly, in case a permission was lost without a call of
        `revoke`.
        """
        while True:
            await self.clock.sleep(self.timeouts.recheck)
            for proxied_request in self.proxied_requests:
                if proxied_request.age > self.timeouts.life:
                    proxied_request.end(
                        ErrorResponse(504, "the request has reached its maximum age"),
                        EndReason.TOO_OLD,
                    )
                else:
                    await proxied_request.reauthorize()


def _open_stream(record: RequestRecord) -> OpenStream:
    return OpenStream(
        id=record.id,
        since=record.at,
        cluster_id=record.cluster_id or ClusterId(""),
        handle=record.handle,
        user_id=record.identity.user_id if record.identity else "",
        user=record.identity.name if record.identity else "",
        acting_as=record.acting_as or "",
        what=str(record.attributes)[:_MAX_TEXT],
        kind=kind_of(record),
        source=record.source,
        user_agent=record.user_agent[:_MAX_TEXT],
        bytes_in=record.bytes_in,
        bytes_out=record.bytes_out,
        recorded=record.recorded,
    )


def _revocation_keys(record: RequestRecord) -> set[tuple[str, str | None]]:
    marks: set[tuple[str, str | None]] = {("grant", grant_id) for grant_id in record.grant_ids}
    marks.add(("cluster", record.cluster_id))
    if (who := record.identity) is not None:
        marks |= {("user", who.user_id), ("token", who.token_id), ("session", who.session_id)}
    return {(kind, value) for kind, value in marks if value is not None}
