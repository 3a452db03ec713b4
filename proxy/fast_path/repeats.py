"""Reads that the native hub serves by a decision of the gateway on the same head."""

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import structlog

from core.errors import TowlineError
from core.native import Ends, NativeHub, OpenRow
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from proxy.domain.audit import EndReason, RequestRecord
from proxy.domain.limits import StreamLimits
from proxy.fast_path.hub_request import HubRequest
from proxy.gateway.authorize.authorizer import (
    AuthorizedRequest,
    CachedAuthorization,
    RequestAuthorizer,
)
from proxy.gateway.connection import UserConnection
from proxy.gateway.error_response import ErrorResponse, encode
from proxy.gateway.forward.agent_request import open_message
from proxy.gateway.parse.parsed_request import ParsedRequest
from proxy.gateway.record.recorder import RequestRecorder
from proxy.tunnel.data_links import DataLinks

log = structlog.get_logger(__name__)

# More reads end meanwhile, so that one call records them together.
ENDS_SECONDS = 0.1
ENDS_AT_ONCE = 500
SWEEP_SECONDS = 5.0
# A decision in use is renewed in the last part of its lifetime. The next read with its head would
# otherwise wait for Python, which may be busy with the API.
RENEW_SECONDS = 0.5
_RENEWAL_FRACTION = 0.6
_RENEWED_AT_ONCE = 100
# The hub asks again after this time, as the Python path does after `verdict_cache`.
_MAX_LIFETIME = 30.0
_NO_ID = "0" * 32
ENDED = 4
END_REASONS = (EndReason.DONE, EndReason.USER_LEFT, EndReason.UPSTREAM, EndReason.TIMEOUT)
_BEFORE_RESPONSE = frozenset({EndReason.TIMEOUT})


@dataclass(frozen=True, slots=True)
class _Decision:
    """A decision that the hub repeats: the request that it was made for, and its record.

    It can be renewed from `renewable` on, and ends at `until`, both in monotonic seconds.
    """

    head: bytes
    parsed: ParsedRequest
    authorized: AuthorizedRequest
    record: RequestRecord
    renewable: float
    until: float


class RepeatedRequest:
    """A request that the hub serves, for the list of open requests."""

    ready, over = True, False

    def __init__(self, repeats: "RepeatedReads", decision: _Decision, row: OpenRow) -> None:
        self.number, _, id, host, port, started_at, self.age, size = row
        self.authorized: AuthorizedRequest | None = decision.authorized
        self.record = _record(decision, id, host, port, started_at)
        self.record.bytes_out = size
        self._repeats = repeats

    def end(self, response: ErrorResponse, reason: EndReason) -> None:
        """Ends the request: with a response if none has begun, otherwise with a reset."""
        if not self.over:
            self.over = True
            self._repeats.end(self.number, response, reason)

    def end_between_events(self) -> bool:
        """Returns False: the hub serves no watch here."""
        return False


class RepeatedReads:
    """Teaches the hub decisions on reads, and records the requests that it serves. `served` counts
    them.
    """

    def __init__(
        self,
        hub: NativeHub,
        links: DataLinks,
        recorder: RequestRecorder,
        authorizer: RequestAuthorizer,
        clock: Clock,
        limits: StreamLimits,
    ) -> None:
        self._hub, self._links, self._recorder = hub, links, recorder
        self._authorizer, self._clock, self._limits = authorizer, clock, limits
        self.served = 0
        self._decisions: dict[int, _Decision] = {}
        self._requested_ends: dict[int, EndReason] = {}
        # Sources of the last requests that repeated a decision.
        self._sources_in_use: dict[int, str] = {}
        self.tasks = Tasks("fast path")
        authorizer.on_change.append(hub.forget)
        recorder.open_requests.further_requests = self.load

    def start(self) -> None:
        """Starts recording the requests that the hub serves."""
        self.tasks.forever("ends", self._record_ends_regularly())
        self.tasks.forever("renew", self._renew_regularly())
        self.tasks.forever("sweep", self._sweep())

    async def stop(self) -> None:
        """Ends the requests that the hub serves, and records them."""
        self._hub.close()
        for request in self.requests():
            request.end(ErrorResponse(503, "the control plane is restarting"), EndReason.DRAINED)
        await self.tasks.stop()
        while self.record_ends():
            pass

    def load(self, user: str, handle: str) -> int:
        """Counts the open requests of a user on a cluster."""
        return self._hub.load(_load_key(user, handle))

    def requests(self) -> list[RepeatedRequest]:
        """Lists the open requests."""
        rows = self._hub.open_requests()
        decided = ((self._decisions.get(row[1]), row) for row in rows)
        return [
            RepeatedRequest(self, decision, row)
            for decision, row in decided
            if decision is not None
        ]

    def end(self, number: int, response: ErrorResponse, reason: EndReason) -> None:
        """Ends an open request; see `RepeatedRequest.end`."""
        self._requested_ends[number] = reason
        HubRequest(self._hub, number).end(encode(response, close=True))

    def learn(self, user: UserConnection) -> None:
        """Teaches the hub the decision on the last request of a connection, if it is a read."""
        last = user.last_request
        if last is None or not _is_plain_read(last[1]):
            return
        head, parsed = last
        cached = self._authorizer.recall(parsed, None)
        if cached is not None:
            self._teach(head, parsed, cached)

    def _teach(self, head: bytes, parsed: ParsedRequest, cached: CachedAuthorization) -> None:
        authorized = cached.authorized
        if authorized.grant.stream_limits:
            # The hub counts open requests of users, and not of projects.
            return
        link = self._links.find_or_offer(authorized.agent)
        if not link:
            return
        user, handle = authorized.identity.name, parsed.route.handle
        now = self._clock.monotonic()
        lifetime = min(cached.until - now, _MAX_LIFETIME)
        message = open_message(parsed, authorized, _NO_ID, recorded=False)
        head_parts = message.split_at_audit_id()
        if lifetime <= 0 or head_parts is None:
            return
        timeout_response = ErrorResponse(504, f'the API server of "{handle}" did not answer')
        limit = self._limits.per_user_and_cluster
        number = self._hub.teach(
            link,
            head,
            message.identity,
            *head_parts,
            lifetime,
            encode(timeout_response, close=True, head_request=parsed.method == "HEAD"),
            _load_key(user, handle),
            limit - self._recorder.open_requests.count(user, handle),
        )
        if number:
            record = RequestRecord(
                id="", at=self._clock.now(), source="", user_agent=parsed.user_agent,
                handle=handle, method=parsed.method, upgrade=False, attributes=parsed.attributes,
            )  # fmt: skip
            self._recorder.add_authorization(record, parsed, authorized)
            until = now + lifetime
            renewable = until - lifetime * _RENEWAL_FRACTION
            self._decisions[number] = _Decision(head, parsed, authorized, record, renewable, until)

    async def renew(self) -> None:
        """Renews the decisions that are in use and end soon."""
        now = self._clock.monotonic()
        due = [
            number
            for number, decision in self._decisions.items()
            if number in self._sources_in_use and decision.renewable <= now < decision.until
        ]
        for number in due[:_RENEWED_AT_ONCE]:
            await self._renew_decision(self._decisions[number], self._sources_in_use.pop(number))

    async def _renew_regularly(self) -> None:
        while True:
            await self._clock.sleep(RENEW_SECONDS)
            await self.renew()

    async def _renew_decision(self, decision: _Decision, source: str) -> None:
        try:
            cached = await self._authorizer.renew(decision.parsed, source)
        except TowlineError:
            # The next request is refused, and recorded, by the gateway.
            return
        if cached is not None:
            self._teach(decision.head, decision.parsed, cached)

    async def _record_ends_regularly(self) -> None:
        while True:
            await self._wait_for_ends()
            await self._clock.sleep(ENDS_SECONDS)
            while self.record_ends():
                # Users that Python serves come first.
                await self._clock.sleep(0)

    async def _wait_for_ends(self) -> None:
        """Waits until requests have ended."""
        loop, descriptor = asyncio.get_running_loop(), self._hub.ends()
        ready = asyncio.Event()
        loop.add_reader(descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(descriptor)

    def record_ends(self) -> bool:
        """Records ended requests; reports whether more may wait."""
        groups = self._hub.take_ends(ENDS_AT_ONCE)
        return sum(self._record_group(group) for group in groups) == ENDS_AT_ONCE

    def _record_group(self, group: Ends) -> int:
        verdict, host, port, status, reason, number, ends = group
        requested_end = self._requested_ends.pop(number, EndReason.DRAINED)
        decision = self._decisions.get(verdict)
        if decision is None:
            log.error("no decision for ended requests", requests=[id for id, _, _ in ends])
            return len(ends)
        self._sources_in_use[verdict] = host
        record = replace(decision.record, source=f"{host}:{port}", status=status or None)
        record.reason = requested_end if reason == ENDED else END_REASONS[reason]
        unanswered = reason == ENDED and not any(size for _, _, size in ends)
        record.refused = record.reason in _BEFORE_RESPONSE or unanswered
        self._recorder.repeated(record, ends)
        self.served += len(ends)
        return len(ends)

    async def _sweep(self) -> None:
        while True:
            await self._clock.sleep(SWEEP_SECONDS)
            self._hub.sweep()
            for peer, problem in self._hub.take_refused():
                log.warning("connection of a load balancer refused", peer=peer, why=problem)
            # In this order: a request that ends meanwhile is recorded before its decision goes.
            requests = self._hub.open_requests()
            needed, numbers = {row[1] for row in requests}, {row[0] for row in requests}
            while self.record_ends():
                pass
            oldest = self._clock.monotonic() - SWEEP_SECONDS
            self._decisions = {
                number: decision
                for number, decision in self._decisions.items()
                if decision.until > oldest or number in needed
            }
            self._sources_in_use = {
                number: source
                for number, source in self._sources_in_use.items()
                if number in self._decisions
            }
            # A request may have ended by itself before the hub could end it.
            self._requested_ends = {
                number: reason
                for number, reason in self._requested_ends.items()
                if number in numbers
            }


def _is_plain_read(parsed: ParsedRequest) -> bool:
    """Reports whether a request is a read that ends by itself, with a head that can repeat."""
    head, attributes = parsed.head, parsed.attributes
    is_finite = attributes is not None and not (attributes.long_running or attributes.writes)
    is_plain = parsed.plain and not head.has_body and not head.values(b"expect")
    is_repeatable = head.keep_alive and not head.values(b"x-forwarded-for")
    return is_finite and is_plain and is_repeatable and parsed.method in {"GET", "HEAD"}


def _record(decision: _Decision, id: str, host: str, port: int, started_at: float) -> RequestRecord:
    return replace(
        decision.record, id=id, source=f"{host}:{port}", at=datetime.fromtimestamp(started_at, UTC)
    )


def _load_key(user: str, handle: str) -> str:
    return f"{handle}/{user}"
