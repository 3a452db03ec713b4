"""One proxied request, from its head to its last byte and its row in the audit log."""

from collections.abc import Callable
from typing import Protocol

import structlog

from core.errors import Forbidden, TowlineError, Unavailable
from core.http1.chunked import BadChunk
from core.http1.response import BadResponse, ResponseObserver
from core.identity import token_kind
from core.mux.codec import (
    END,
    FLAG_HEAD,
    FLAG_NOBODY,
    FLAG_PASSTHROUGH,
    FLAG_UPGRADE,
    PROTOCOL,
    Buffer,
    Open,
)
from core.runtime.clock import Clock
from proxy.domain.access import (
    AuthenticatedUser,
    CredentialKind,
    RecordingPolicy,
    RequestGrant,
    identity_block,
)
from proxy.domain.attributes import RequestAttributes
from proxy.domain.audit import EndReason, RequestRecord
from proxy.domain.terminal import UnrecordableError, terminal_session
from proxy.gateway.authorization import AuthorizedRequest, RequestAuthorizer
from proxy.gateway.bad_head import BadHead
from proxy.gateway.body import body_of
from proxy.gateway.error_response import ErrorResponse, encode, response_for
from proxy.gateway.head import rebuild
from proxy.gateway.parsed_request import ParsedRequest
from proxy.gateway.status import encoding_for
from proxy.ports import RequestStream, TerminalRecording

log = structlog.get_logger(__name__)

LAST_CHUNK = b"0\r\n\r\n"
SPDY = b"spdy/3.1"
_MAX_RENEWALS = 5


class ClientConnection(Protocol):
    """The user's connection, from the point of view of a proxied request."""

    @property
    def write_paused(self) -> bool:
        """Reports whether the socket's buffer is full, so that writes are queued."""
        ...

    @property
    def draining(self) -> bool:
        """Reports whether every response must be the last one of its connection."""
        ...

    def write(self, data: Buffer) -> None: ...

    def abort(self) -> None:
        """Resets the connection, so that no client mistakes a partial response for a
        complete one.
        """
        ...

    def hold(self) -> None:
        """Pauses reading of the request."""
        ...

    def release(self) -> None:
        """Resumes reading."""
        ...

    def on_ready(self) -> None:
        """The request was forwarded: its body may follow, or any bytes after an upgrade."""
        ...

    def on_answered(self, *, keep_alive: bool) -> None:
        """The response was written. `keep_alive`: another request may follow."""
        ...


class ProxiedRequest:
    """A request and its response. It owns its stream; the connection passes it the user's bytes."""

    def __init__(
        self,
        side: ClientConnection,
        authorization: RequestAuthorizer,
        clock: Clock,
        parsed_request: ParsedRequest,
        record: RequestRecord,
    ) -> None:
        self.record = record
        self.raw = self.ready = self.over = False
        self._side, self._authorization, self._clock = side, authorization, clock
        head = parsed_request.head
        self._parsed_request, self._head, self._route = parsed_request, head, parsed_request.route
        self._body = body_of(head)
        self._observer = ResponseObserver(
            head_request=head.method == b"HEAD", upgrade=head.upgrade is not None
        )
        self._started = clock.monotonic()
        self._stream: RequestStream | None = None
        self._recording: TerminalRecording | None = None
        self._admission: AuthorizedRequest | None = None
        self._answering = self._entered = False
        self._owed = 0

    @property
    def request_done(self) -> bool:
        """Reports whether the last byte of the request has arrived."""
        return self._body.done

    @property
    def _last_of_connection(self) -> bool:
        """Reports whether the connection must close; the bytes after a refused upgrade are
        ambiguous.
        """
        return self._side.draining or self._head.upgrade is not None

    @property
    def waiting(self) -> bool:
        """Reports whether a timely response is due and none of its bytes has arrived."""
        attributes = self.record.attributes
        long = attributes is not None and attributes.long_running
        return not (self._answering or self.over or long)

    # Events of the user's side

    def try_start(self) -> bool:
        """Starts a read with a cached admission; False: call `run`."""
        head = self._head
        if head.upgrade is not None or head.impersonation:
            return False
        parsed_request = self._parsed_request
        attributes, shown = parsed_request.attributes, parsed_request.credential
        if attributes is None or shown is None:
            return False
        self.record.attributes = attributes
        cached = parsed_request.cached
        if cached is None or not self._authorization.is_valid(cached):
            cached = self._authorization.find_cached(shown, parsed_request.route.handle, attributes)
            parsed_request.cached = cached
        if cached is None or attributes.writes:
            return False
        try:
            self._enter(cached.admission)
            self._open(cached.admission)
        except TowlineError as error:
            self.refuse(response_for(error))
        return True

    async def run(self) -> None:
        """Authorizes and starts the request; every failure becomes a response."""
        try:
            await self._authorize_and_start()
        except BadHead as error:
            self.refuse(ErrorResponse(error.status, error.message))
        except TowlineError as error:
            self.refuse(response_for(error))
        except Exception:
            log.exception("request failed", request=self.record.id)
            self.refuse(ErrorResponse(500, f"internal error; request {self.record.id}"))

    def receive(self, data: bytes) -> int:
        """Takes bytes from the user and returns the number that belongs to this request."""
        if self.raw:
            self._send(data)
            return len(data)
        try:
            used, payload = self._body.take(data)
        except BadChunk as error:
            self._interrupt(ErrorResponse(400, str(error)), EndReason.REFUSED)
            return len(data)
        self.record.bytes_in += used
        if payload or self._body.done:
            self._send(payload, END if self._body.done else 0)
        return used

    def on_user_lost(self) -> None:
        """Handles the loss of the user's connection."""
        if self._stream is not None:
            self._stream.reset()
        self._finish(EndReason.USER_LEFT, keep_alive=False)

    def on_user_end(self) -> bool:
        """Handles the end of the user's data; True if the response is still wanted."""
        if self.raw and self._stream is not None:
            self._stream.send(b"", END)
            return True
        return False

    def drained(self) -> None:
        """Handles free space in the user's socket buffer."""
        owed, self._owed = self._owed, 0
        if owed and self._stream is not None:
            self._stream.consumed(owed)

    # Decisions of the proxy

    def refuse(self, refusal: ErrorResponse, reason: EndReason = EndReason.REFUSED) -> None:
        """Sends a response of the proxy itself; only before any byte of another response."""
        if self.over:
            return
        head = self._head
        keep = head.keep_alive and head.upgrade is None and not head.values(b"expect")
        answer = encode(
            refusal,
            close=not keep or self._side.draining,
            head_request=head.method == b"HEAD",
            encoding=encoding_for(head.values(b"accept")),
        )
        self.record.status, self.record.refused = refusal.status, True
        self._side.write(answer)
        self._finish(reason, keep_alive=keep and not self._side.draining)

    def end(self, refusal: ErrorResponse, reason: EndReason) -> None:
        """Ends an open request that was revoked, drained or timed out."""
        if not self.over:
            self._interrupt(refusal, reason)

    def end_between_events(self) -> bool:
        """Ends a watch cleanly if it is between two events, so that its client resumes it
        elsewhere.
        """
        attributes = self.record.attributes
        watches = attributes is not None and attributes.watches
        if self.over or not watches or not self._observer.between_events:
            return False
        if self._stream is not None:
            self._stream.reset()
        self._stream = None
        self._side.write(LAST_CHUNK)
        self._finish(EndReason.DRAINED, keep_alive=False)
        return True

    @property
    def age(self) -> float:
        """Seconds since the request head arrived."""
        return self._clock.monotonic() - self._started

    async def reauthorize(self) -> None:
        """Ends the request if its user has lost the permission."""
        admission, attributes = self._admission, self.record.attributes
        if admission is None or attributes is None or not self.ready:
            return
        try:
            await self._authorization.reauthorize(admission, self.record.handle, attributes)
        except Unavailable:
            return
        except TowlineError as error:
            self.end(response_for(error), EndReason.REVOKED)

    # Events of the stream (see `core.mux.stream.StreamOwner`)

    def on_data(self, data: Buffer) -> None:
        if self.over:
            self._on_late_data()
            return
        size = len(data)
        try:
            ready = self._observer.feed(data)
        except BadResponse as error:
            self._on_bad_response(error)
            return
        if ready:
            self._write(ready)
        if self._side.write_paused:
            self._owed += size
        elif self._stream is not None:
            self._stream.consumed(size)
        if self._observer.complete and not self.over:
            self._complete()

    def on_end(self, close: bool) -> None:
        if self.over:
            self._stream = None
            return
        try:
            self._observer.end(close=close)
        except BadResponse as error:
            self._on_bad_response(error)
            return
        self._complete()

    def on_writable(self) -> None:
        self._side.release()

    def on_reset(self, code: int, text: str) -> None:
        status = code if 400 <= code < 600 else 502
        self._stream = None
        if not self.over:
            self._interrupt(ErrorResponse(status, self._agent_error_text(text)), EndReason.UPSTREAM)

    # Inside

    async def _authorize_and_start(self) -> None:
        record, before = self.record, self._authorization.changes
        identity = record.identity
        if identity is None:
            shown = self._parsed_request.read_credential()
            identity = await self._authorization.identify(shown, record.source)
            record.identity = identity
        attributes = record.attributes = self._parsed_request.read_attributes()
        admission = await self._admit(identity, attributes)
        self._enter(admission)
        await self._begin_recording(admission.grant, attributes)
        if attributes.writes or record.upgrade:
            await self._authorization.audit.opened(record)
        self._open(await self._renew_admission(admission, attributes, before))

    async def _admit(
        self, identity: AuthenticatedUser, attributes: RequestAttributes
    ) -> AuthorizedRequest:
        asked = self._head.impersonation
        return await self._authorization.admit(identity, self._route.handle, attributes, asked)

    async def _renew_admission(
        self, admission: AuthorizedRequest, attributes: RequestAttributes, before: int
    ) -> AuthorizedRequest:
        """Renews the admission if permissions changed while the request was being authorized.
        `before`: the desk's `changes` at the first check. Unavailable: the grant differs from the
        recorded one, or permissions keep changing.
        """
        for _ in range(_MAX_RENEWALS):
            if before == self._authorization.changes:
                return admission
            before = self._authorization.changes
            again = await self._admit(admission.identity, attributes)
            if again.grant != admission.grant:
                break
            admission = again
        raise Unavailable("permissions changed while the request was being authorized; try again")

    def _enter(self, admission: AuthorizedRequest) -> None:
        """Records the admission; from here on the request counts as open."""
        record, grant = self.record, admission.grant
        record.identity = admission.identity
        record.cluster_id, record.rule = grant.cluster_id, grant.rule
        record.grant_ids = grant.grant_ids
        record.acting_as = admission.acting_as.user
        if self._head.impersonation:
            record.acting_groups = admission.acting_as.groups
        if not self.over:
            self._authorization.enter(record)
            self._entered = True

    async def _begin_recording(self, grant: RequestGrant, attributes: RequestAttributes) -> None:
        """Starts a recording if the policy requires one."""
        upgrade = self._head.upgrade
        if grant.recording is RecordingPolicy.OFF or upgrade is None:
            return
        session = terminal_session(
            attributes,
            self._route.target.decode("latin-1").partition("?")[2],
            spdy=upgrade.lower() == SPDY,
            keep_input=grant.recording is RecordingPolicy.ALL,
        )
        if session is None:
            return
        tape = await self._authorization.recorder.begin(self.record, session)
        if self.over:
            tape.close()
        else:
            self._recording, self.record.recorded = tape, True

    def _open(self, admission: AuthorizedRequest) -> None:
        if self.over:
            return
        if not admission.link.accepts_streams:
            raise Unavailable(f'the agent of "{self.record.handle}" has just disconnected')
        passthrough = admission.grant.passthrough
        if passthrough:
            self._check_passthrough()
        block = b"" if passthrough else identity_block(admission.acting_as)
        head = self._rebuilt(passthrough)
        flags = self._flags() | (FLAG_PASSTHROUGH if passthrough else 0)
        request = Open(head, block, bytes.fromhex(self.record.id), flags)
        tenant = block or admission.identity.name.encode()
        attributes = self.record.attributes
        if attributes is not None and attributes.long_running and not attributes.writes:
            self._authorization.audit.began(self.record)
        self._stream = admission.link.open(self, request, tenant=tenant)
        self._admission = admission
        self.ready = True
        self._side.on_ready()

    def _rebuilt(self, passthrough: bool) -> bytes:
        if not passthrough and self._recording is None:
            return self._parsed_request.rebuilt(self.record.id)
        return rebuild(
            self._head,
            self._route.target,
            self.record.id,
            passthrough=passthrough,
            recorded=self._recording is not None,
        )

    def _check_passthrough(self) -> None:
        """Checks the token for passthrough. Forbidden: the API server would get one of our
        credentials.
        """
        shown = self._parsed_request.credential
        is_foreign = shown is not None and token_kind(shown.secret) is None
        if shown is None or shown.kind is not CredentialKind.BEARER or not is_foreign:
            raise Forbidden(
                f'cluster "{self.record.handle}" accepts only tokens of your identity provider'
            )

    def _flags(self) -> int:
        flags = FLAG_HEAD if self._head.method == b"HEAD" else 0
        if self._head.upgrade is not None:
            return flags | FLAG_UPGRADE
        return flags | FLAG_NOBODY if self._body.done else flags

    def _send(self, data: bytes, flags: int = 0) -> None:
        if self.raw:
            self.record.bytes_in += len(data)
            if self._recording is not None and not self._keep(self._recording.from_user, data):
                return
        stream = self._stream
        if stream is None or stream.sent_end:
            return
        if not stream.send(data, flags) and not flags and not self.over:
            self._side.hold()

    def _write(self, data: Buffer) -> None:
        observer = self._observer
        if not self._answering and observer.status is not None:
            self._answering = True
            self.record.status = observer.status
            if observer.upgraded:
                self._switch()
                if self._recording is not None and not self._keep(
                    self._recording.from_cluster, _after_upgrade_head(data)
                ):
                    return
            elif self._last_of_connection:
                data = _add_connection_close(data, observer.status)
        elif (
            self.raw
            and self._recording is not None
            and not self._keep(self._recording.from_cluster, data)
        ):
            return
        self.record.bytes_out += len(data)
        self._side.write(data)

    def _keep(self, record: Callable[[Buffer], None], data: Buffer) -> bool:
        """Records bytes of a session, and ends a session that cannot be recorded."""
        try:
            record(data)
        except UnrecordableError as error:
            log.warning("session not recordable", request=self.record.id, why=str(error))
            self._interrupt(ErrorResponse(502, str(error)), EndReason.UNRECORDED)
        return not self.over

    def _switch(self) -> None:
        self.raw = True
        self._authorization.upgraded(self.record)
        self._side.on_ready()

    def _complete(self) -> None:
        """Handles a complete response or the end of an upgraded connection."""
        if self._stream is not None and (self.raw or not self._body.done):
            self._stream.reset()
            self._stream = None
        keep = self._head.keep_alive and self._observer.keep_alive
        self._finish(EndReason.DONE, keep_alive=keep and not self._last_of_connection)

    def _interrupt(self, refusal: ErrorResponse, reason: EndReason) -> None:
        """Ends both sides: with a response if none has begun, otherwise with a reset."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.reset()
        if not self._answering:
            self.refuse(refusal, reason)
        else:
            self._side.abort()
            self._finish(reason, keep_alive=False)

    def _on_bad_response(self, error: BadResponse) -> None:
        record = self.record
        log.warning("bad answer", request=record.id, cluster=record.cluster_id, why=str(error))
        text = f'the API server of "{record.handle}" sent an invalid response: {error}'
        self._interrupt(ErrorResponse(502, text), EndReason.UPSTREAM)

    def _on_late_data(self) -> None:
        """Resets the stream: bytes after the end of a response must not reach the next one."""
        stream, self._stream = self._stream, None
        if stream is not None:
            log.warning("bytes behind an answer", request=self.record.id)
            stream.reset(PROTOCOL, "bytes beyond the end of the answer")

    def _agent_error_text(self, text: str) -> str:
        return f'the agent of "{self.record.handle}" {text or "reset the request"}'

    def _finish(self, reason: EndReason, *, keep_alive: bool) -> None:
        if self.over:
            return
        self.over = True
        record = self.record
        record.seconds = self._clock.monotonic() - self._started
        record.reason = reason
        if self._entered:
            if record.upgrade and not self.raw:
                self._authorization.upgraded(record)
            self._authorization.leave(record)
        if self._recording is not None:
            self._recording.close()
        self._authorization.meters.closed(record, entered=self._entered)
        self._authorization.audit.closed(record)
        self._side.on_answered(keep_alive=keep_alive)


def _add_connection_close(data: Buffer, status: int) -> Buffer:
    """Adds `Connection: close`, to a final head only."""
    text = bytes(data)
    line, end, rest = text.partition(b"\r\n")
    if line[9:12] != b"%d" % status:
        return data
    return line + end + b"Connection: close\r\n" + rest


def _after_upgrade_head(data: Buffer) -> bytes:
    """The bytes that follow the head of a 101 in the same buffer."""
    text = bytes(data)
    return text[text.find(b"\r\n\r\n", text.find(b"HTTP/1.1 101")) + 4 :]
