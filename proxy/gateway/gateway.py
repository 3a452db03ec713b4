"""Sweeps, revokes and drains all connections and open requests."""

from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from core.identity import ClusterId
from core.open_streams import OpenStream, StreamFilter
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from proxy.domain.audit import EndReason, RequestRecord
from proxy.domain.limits import Timeouts
from proxy.gateway.authorize.authorizer import RequestAuthorizer
from proxy.gateway.error_response import ErrorResponse
from proxy.gateway.forward.open_request import OpenRequest
from proxy.gateway.forward.proxied_request import ProxiedRequest
from proxy.gateway.handler import RequestHandler
from proxy.gateway.internal_requests import InternalClient
from proxy.gateway.record.metrics import kind_of

log = structlog.get_logger(__name__)

SWEEP_SECONDS = 1.0
DRAIN_STEP = 0.05
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


class Gateway:
    """All connections of users, and their open requests.
    `native` lists the open requests whose bytes native code moves.
    """

    def __init__(
        self,
        handler: RequestHandler,
        authorizer: RequestAuthorizer,
        internal_requests: InternalClient,
        clock: Clock,
        timeouts: Timeouts,
        max_connections: int,
    ) -> None:
        self.authorizer, self.clock, self.timeouts = authorizer, clock, timeouts
        self._handler, self._internal_requests = handler, internal_requests
        self._max_connections = max_connections
        self.connections: set[OpenConnection] = set()
        self.draining = False
        self.native: Callable[[], Sequence[OpenRequest]] = tuple
        self.tasks = Tasks("proxy")

    @property
    def proxied_requests(self) -> list[ProxiedRequest]:
        """The open requests."""
        requests = [connection.proxied_request for connection in self.connections]
        requests += self._internal_requests.proxied_requests
        return [
            request
            for request in requests
            if request is not None and not (request.over or request.detached)
        ]

    @property
    def open_requests(self) -> list[OpenRequest]:
        """All open requests, also those whose bytes native code moves."""
        return [*self.proxied_requests, *self.native()]

    @property
    def full(self) -> bool:
        """Reports whether the maximum number of connections is open."""
        return len(self.connections) >= self._max_connections

    def open_streams(self, stream_filter: StreamFilter) -> list[OpenStream]:
        """Lists the authorized open requests that match a filter."""
        return stream_filter.select(
            _open_stream(request.record) for request in self.open_requests if request.ready
        )

    def end_stream(self, id: str, by: str) -> bool:
        """Ends an open request on behalf of `by`; False: no request has this id."""
        matching = [request for request in self.open_requests if request.record.id == id]
        for request in matching:
            request.end(ErrorResponse(403, f"ended by {by}"), EndReason.ENDED)
        return bool(matching)

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
        self.authorizer.forget(user=user, token=token, session=session)
        revoked_keys = {("user", user), ("token", token), ("session", session)}
        revoked_keys |= {("cluster", cluster), ("grant", grant)}
        matching = [
            request
            for request in self.open_requests
            if revoked_keys & _revocation_keys(request.record)
        ]
        for request in matching:
            request.end(ErrorResponse(401, "access was revoked"), EndReason.REVOKED)
        return len(matching)

    async def recheck(self, user: str | None = None) -> None:
        """Authorizes open requests again, now: those of one user, or all."""
        self.authorizer.forget(user=user, token=None, session=None)
        for request in tuple(self.open_requests):
            identity = request.record.identity
            if user is None or (identity is not None and identity.user_id == user):
                await self._handler.reauthorize(request)

    async def drain(self) -> None:
        """Closes idle connections, ends watches between events, and ends the rest after the grace
        period.
        """
        self.draining = True
        for connection in tuple(self.connections):
            connection.shutdown()
        deadline = self.clock.monotonic() + self.timeouts.grace
        while self.clock.monotonic() < deadline:
            if all([request.end_between_events() for request in self.open_requests]):
                return
            await self.clock.sleep(DRAIN_STEP)
        for request in self.open_requests:
            request.end(ErrorResponse(503, "the control plane is restarting"), EndReason.DRAINED)

    async def stop(self) -> None:
        """Stops all background tasks."""
        await self.tasks.stop()

    async def _sweep(self) -> None:
        while True:
            await self.clock.sleep(SWEEP_SECONDS)
            now = self.clock.monotonic()
            self.authorizer.sweep()
            for connection in tuple(self.connections):
                connection.sweep(now)

    async def _recheck(self) -> None:
        """Checks open requests regularly, in case a permission was lost without a call of
        `revoke`.
        """
        while True:
            await self.clock.sleep(self.timeouts.recheck)
            for request in self.open_requests:
                if request.age > self.timeouts.life:
                    request.end(
                        ErrorResponse(504, "the request has reached its maximum age"),
                        EndReason.TOO_OLD,
                    )
                else:
                    await self._handler.reauthorize(request)


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
    keys: set[tuple[str, str | None]] = {("grant", grant_id) for grant_id in record.grant_ids}
    keys.add(("cluster", record.cluster_id))
    if (identity := record.identity) is not None:
        keys |= {
            ("user", identity.user_id),
            ("token", identity.token_id),
            ("session", identity.session_id),
        }
    return {(kind, value) for kind, value in keys if value is not None}
