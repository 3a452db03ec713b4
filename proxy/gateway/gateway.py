"""Sweeps, revokes and drains all connections and requests of the edge."""

import secrets
from typing import Protocol

import structlog

from fleet.identity import ClusterId
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks
from fleet.streams import OpenStream, StreamFilter
from proxy.domain.audit import EndReason, RequestRecord
from proxy.domain.limits import HeadLimits, StreamLimits, Timeouts
from proxy.gateway.answers import Refusal
from proxy.gateway.desk import Desk
from proxy.gateway.exchange import Exchange
from proxy.gateway.inside import InsideReader
from proxy.gateway.meters import kind_of

log = structlog.get_logger(__name__)

SWEEP_SECONDS = 1.0
DRAIN_STEP = 0.05
IDS_AT_ONCE = 256
_LONGEST_TEXT = 512


class OpenConnection(Protocol):
    """A connection, from the point of view of the gateway."""

    @property
    def exchange(self) -> Exchange | None:
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
            digits = secrets.token_hex(16 * IDS_AT_ONCE)
            self._waiting = [digits[at : at + 32] for at in range(0, len(digits), 32)]
        return self._waiting.pop()


class Gateway:
    """State that all connections of the edge share."""

    def __init__(
        self,
        desk: Desk,
        clock: Clock,
        head_limits: HeadLimits,
        timeouts: Timeouts,
        streams: StreamLimits,
    ) -> None:
        self.desk, self.clock = desk, clock
        self.inside = InsideReader(desk, clock, head_limits)
        self.head_limits, self.timeouts = head_limits, timeouts
        self._most_connections = streams.connections
        self.connections: set[OpenConnection] = set()
        self.draining = False
        self.ids = RequestIds()
        self.tasks = Tasks("door")

    @property
    def exchanges(self) -> list[Exchange]:
        """The open requests."""
        found = [connection.exchange for connection in self.connections]
        found += self.inside.exchanges
        return [exchange for exchange in found if exchange is not None and not exchange.over]

    @property
    def full(self) -> bool:
        """Reports whether the maximum number of connections is open."""
        return len(self.connections) >= self._most_connections

    def open_streams(self, wanted: StreamFilter) -> list[OpenStream]:
        """Lists the authorized open requests that match a filter."""
        return wanted.chosen(
            _open_stream(exchange.record) for exchange in self.exchanges if exchange.ready
        )

    def end_stream(self, id: str, by: str) -> bool:
        """Ends an open request on behalf of `by`; False: no request has this id."""
        found = [exchange for exchange in self.exchanges if exchange.record.id == id]
        for exchange in found:
            exchange.end(Refusal(403, f"ended by {by}"), EndReason.ENDED)
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
        self.desk.forget(user=user, token=token, session=session)
        wanted = {("user", user), ("token", token), ("session", session)}
        wanted |= {("cluster", cluster), ("grant", grant)}
        matching = [exchange for exchange in self.exchanges if wanted & _marks(exchange.record)]
        for exchange in matching:
            exchange.end(Refusal(401, "access was revoked"), EndReason.REVOKED)
        return len(matching)

    async def recheck(self, user: str | None = None) -> None:
        """Authorizes open requests again, now: those of one user, or all."""
        self.desk.forget(user=user, token=None, session=None)
        for exchange in tuple(self.exchanges):
            identity = exchange.record.identity
            if user is None or (identity is not None and identity.user_id == user):
                await exchange.check_again()

    async def drain(self) -> None:
        """Closes idle connections, ends watches between events, and ends the rest after the grace
        period.
        """
        self.draining = True
        for connection in tuple(self.connections):
            connection.shutdown()
        limit = self.clock.monotonic() + self.timeouts.grace
        while self.clock.monotonic() < limit:
            if all([exchange.end_between_events() for exchange in self.exchanges]):
                return
            await self.clock.sleep(DRAIN_STEP)
        for exchange in self.exchanges:
            exchange.end(Refusal(503, "the control plane is restarting"), EndReason.DRAINED)

    async def stop(self) -> None:
        """Stops all background tasks."""
        await self.tasks.stop()

    async def _sweep(self) -> None:
        while True:
            await self.clock.sleep(SWEEP_SECONDS)
            now = self.clock.monotonic()
            self.desk.sweep()
            for connection in tuple(self.connections):
                connection.sweep(now)

    async def _recheck(self) -> None:
        """Checks open requests regularly, in case a permission was lost without a call of
        `revoke`.
        """
        while True:
            await self.clock.sleep(self.timeouts.recheck)
            for exchange in self.exchanges:
                if exchange.age > self.timeouts.life:
                    exchange.end(
                        Refusal(504, "the request has reached its maximum age"), EndReason.TOO_OLD
                    )
                else:
                    await exchange.check_again()


def _open_stream(record: RequestRecord) -> OpenStream:
    return OpenStream(
        id=record.id,
        since=record.at,
        cluster_id=record.cluster_id or ClusterId(""),
        handle=record.handle,
        user_id=record.identity.user_id if record.identity else "",
        user=record.identity.name if record.identity else "",
        acting_as=record.acting_as or "",
        what=str(record.attributes)[:_LONGEST_TEXT],
        kind=kind_of(record),
        source=record.source,
        user_agent=record.user_agent[:_LONGEST_TEXT],
        bytes_in=record.bytes_in,
        bytes_out=record.bytes_out,
        recorded=record.recorded,
    )


def _marks(record: RequestRecord) -> set[tuple[str, str | None]]:
    marks: set[tuple[str, str | None]] = {("grant", grant_id) for grant_id in record.grant_ids}
    marks.add(("cluster", record.cluster_id))
    if (who := record.identity) is not None:
        marks |= {("user", who.user_id), ("token", who.token_id), ("session", who.session_id)}
    return {(kind, value) for kind, value in marks if value is not None}
