"""One forwarded request, from its first byte to the last byte of its response."""

from collections.abc import Callable
from typing import Protocol

import structlog

from core.errors import Unavailable
from core.http1.chunked import BadChunk
from core.http1.response import SWITCHING, BadResponse, ResponseObserver, add_fields
from core.mux.codec import END, PROTOCOL, Buffer, Open
from core.runtime.clock import Clock
from proxy.domain.audit import EndReason, RequestRecord
from proxy.domain.terminal import UnrecordableError
from proxy.gateway.authorize.authorizer import AuthorizedRequest
from proxy.gateway.error_response import ErrorResponse, encode
from proxy.gateway.forward.agent_request import open_message, tenant_of
from proxy.gateway.forward.splice import DETACHED, Splice, SpliceEnd
from proxy.gateway.parse.body import body_of
from proxy.gateway.parse.head import RequestHead
from proxy.gateway.parse.parsed_request import ParsedRequest
from proxy.gateway.record.recorder import RequestRecorder
from proxy.gateway.status import encoding_for
from proxy.ports import RequestStream, TerminalRecording

log = structlog.get_logger(__name__)

_BAD_GATEWAY, _UNAVAILABLE = 502, 503
LAST_CHUNK = b"0\r\n\r\n"


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

    def pause_reading(self) -> None:
        """Pauses reading of the request."""
        ...

    def resume_reading(self) -> None:
        """Resumes reading."""
        ...

    def hand_over(self, request: "ProxiedRequest", message: Open) -> bool:
        """Hands the request to native code, and sets its `splice`. False: the client cannot."""
        ...

    def on_forwarded(self) -> None:
        """The request was forwarded: its body may follow, or any bytes after an upgrade."""
        ...

    def on_detached(self) -> None:
        """Native code has begun the response: another request may follow."""
        ...

    def on_response_end(self, *, keep_alive: bool) -> None:
        """The response was written. `keep_alive`: another request may follow."""
        ...


class ProxiedRequest:
    """A request and its response. It owns its stream; the connection passes it the user's bytes.
    `authorized`: set when the request is forwarded. `entered`: the recorder counts the request as
    open. `ready`: the body may follow. `raw`: an upgrade has succeeded, so all bytes are opaque.
    `over`: the response has ended. `splice`: native code moves the bytes instead; from `detached`
    on, nothing of the client is left in Python.
    """

    __slots__ = (
        "_accept_values",
        "_body",
        "_client",
        "_client_lost",
        "_clock",
        "_has_expect",
        "_head_request",
        "_keep_alive",
        "_observer",
        "_recorder",
        "_recording",
        "_requested_end",
        "_response_begun",
        "_started_at",
        "_stream",
        "_unacknowledged",
        "_upgrades",
        "accepts_gzip",
        "authorized",
        "detached",
        "entered",
        "over",
        "raw",
        "ready",
        "record",
        "splice",
    )

    def __init__(
        self,
        client: ClientConnection,
        recorder: RequestRecorder,
        clock: Clock,
        head: RequestHead,
        record: RequestRecord,
    ) -> None:
        self.record = record
        self.raw = self.ready = self.over = self.entered = False
        self.authorized: AuthorizedRequest | None = None
        self._client, self._recorder, self._clock = client, recorder, clock
        # Not the head itself: a watch would keep it for hours.
        self._keep_alive, self._upgrades = head.keep_alive, head.upgrade is not None
        self._has_expect, self._accept_values = bool(head.values(b"expect")), head.values(b"accept")
        self.accepts_gzip = any(b"gzip" in value for value in head.values(b"accept-encoding"))
        self._head_request = head.method == b"HEAD"
        self._body = body_of(head)
        self._observer = ResponseObserver(head_request=self._head_request, upgrade=self._upgrades)
        self._started_at = clock.monotonic()
        self._stream: RequestStream | None = None
        self._recording: TerminalRecording | None = None
        self._response_begun = self._client_lost = self.detached = False
        self._unacknowledged = 0
        self.splice: Splice | None = None
        self._requested_end: tuple[ErrorResponse, EndReason] | None = None

    @property
    def keeps_alive(self) -> bool:
        """Reports whether another request may follow on the connection."""
        return self._keep_alive and not self._last_of_connection

    @property
    def request_done(self) -> bool:
        """Reports whether the last byte of the request has arrived."""
        return self._body.done

    @property
    def _last_of_connection(self) -> bool:
        """Reports whether the connection must close; the bytes after a refused upgrade are
        ambiguous.
        """
        return self._client.draining or self._upgrades

    @property
    def waiting(self) -> bool:
        """Reports whether a timely response is due and none of its bytes has arrived."""
        attributes = self.record.attributes
        long_running = attributes is not None and attributes.long_running
        return not (self._response_begun or self.over or long_running)

    # Start

    def record_session(self, recording: TerminalRecording) -> None:
        """Passes the bytes of the session to a recording, and closes it at the end."""
        if self.over:
            recording.close()
        else:
            self._recording, self.record.recorded = recording, True

    def forward(self, parsed: ParsedRequest, authorized: AuthorizedRequest) -> None:
        """Sends the head to the agent. Unavailable: the agent has disconnected. Also raises the
        errors of `open_message`.
        """
        if self.over:
            return
        agent, record = authorized.agent, self.record
        if not agent.accepts_streams:
            raise Unavailable(f'the agent of "{record.handle}" has just disconnected')
        recorded = self._recording is not None
        message = open_message(parsed, authorized, record.id, recorded=recorded)
        self._recorder.began(record)
        self.authorized = authorized
        self.ready = self._client.hand_over(self, message)
        if not self.ready:
            self._open_stream(message, authorized)

    def _open_stream(self, message: Open, authorized: AuthorizedRequest) -> None:
        tenant = tenant_of(message, authorized)
        self._stream = authorized.agent.open(self, message, tenant=tenant)
        self.ready = True
        self._client.on_forwarded()

    # Events of native code (see `proxy.gateway.forward.splice`)

    def on_splice_begun(self, status: int) -> None:
        """Handles the start of the response. From here on, native code has the client."""
        self.record.status = status
        self._response_begun = self.detached = True
        client, self._client = self._client, DETACHED
        if status == SWITCHING:
            self.raw = True
            self._recorder.upgraded(self.record)
        client.on_detached()

    def on_splice_over(self, end: SpliceEnd) -> None:
        """Handles the end of the request."""
        record = self.record
        record.status = end.status or None
        record.bytes_in, record.bytes_out = end.bytes_in, end.bytes_out
        requested = self._requested_end[1] if self._requested_end is not None else EndReason.DRAINED
        self._finish(end.reason or requested, keep_alive=False)

    def take_back(self, message: Open, *, unsent: bool) -> None:
        """Serves a request that native code has given back before its response. `unsent`: nothing
        was sent to the API server; otherwise only a read is sent again.
        """
        self.splice = None
        attributes, authorized = self.record.attributes, self.authorized
        if self._client_lost:
            self._finish(EndReason.USER_LEFT, keep_alive=False)
        elif self._requested_end is not None:
            self._interrupt(*self._requested_end)
        elif not unsent and attributes is not None and attributes.writes:
            self.on_reset(_BAD_GATEWAY, "lost its data link")
        elif authorized is None or not authorized.agent.accepts_streams:
            self.on_reset(_UNAVAILABLE, "has just disconnected")
        else:
            self._open_stream(message, authorized)

    # Events of the user's side

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
        if self.splice is not None:
            # Native code has the connection, or reports that it has none.
            self._client_lost = True
            return
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
        unacknowledged, self._unacknowledged = self._unacknowledged, 0
        if unacknowledged and self._stream is not None:
            self._stream.consumed(unacknowledged)

    # Decisions of the proxy

    def refuse(self, response: ErrorResponse, reason: EndReason = EndReason.REFUSED) -> None:
        """Sends a response of the proxy itself; only before any byte of another response."""
        if self.over:
            return
        keep_alive = self._keep_alive and not self._upgrades and not self._has_expect
        answer = encode(
            response,
            close=not keep_alive or self._client.draining,
            head_request=self._head_request,
            encoding=encoding_for(self._accept_values),
        )
        self.record.status, self.record.refused = response.status, True
        self._client.write(answer)
        self._finish(reason, keep_alive=keep_alive and not self._client.draining)

    def end(self, response: ErrorResponse, reason: EndReason) -> None:
        """Ends an open request that was revoked, drained or timed out."""
        if self.over:
            return
        if self.splice is None:
            self._interrupt(response, reason)
        elif self._requested_end is None:
            self._requested_end = (response, reason)
            self.splice.end()

    def end_between_events(self) -> bool:
        """Ends a watch cleanly if it is between two events, so that its client resumes it
        elsewhere.
        """
        attributes = self.record.attributes
        watches = attributes is not None and attributes.watches
        if self.splice is not None and watches:
            self.splice.end_between_events()
        if self.over or not watches or not self._observer.between_events:
            return False
        if self._stream is not None:
            self._stream.reset()
        self._stream = None
        self._client.write(LAST_CHUNK)
        self._finish(EndReason.DRAINED, keep_alive=False)
        return True

    @property
    def age(self) -> float:
        """Seconds since the request head arrived."""
        return self._clock.monotonic() - self._started_at

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
        if self._client.write_paused:
            self._unacknowledged += size
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
        self._client.resume_reading()

    def on_reset(self, code: int, text: str) -> None:
        status = code if 400 <= code < 600 else 502
        self._stream = None
        if not self.over:
            self._interrupt(ErrorResponse(status, self._agent_error_text(text)), EndReason.UPSTREAM)

    # Inside

    def _send(self, data: bytes, flags: int = 0) -> None:
        if self.raw:
            self.record.bytes_in += len(data)
            if self._recording is not None and not self._record_bytes(
                self._recording.from_user, data
            ):
                return
        stream = self._stream
        if stream is None or stream.sent_end:
            return
        if not stream.send(data, flags) and not flags and not self.over:
            self._client.pause_reading()

    def _write(self, data: Buffer) -> None:
        observer = self._observer
        if not self._response_begun and observer.status is not None:
            self._response_begun = True
            self.record.status = observer.status
            if observer.upgraded:
                self._on_upgraded()
                if self._recording is not None and not self._record_bytes(
                    self._recording.from_cluster, _after_upgrade_head(data)
                ):
                    return
            elif self._last_of_connection:
                data = add_fields(data, observer.status, b"Connection: close\r\n")
        elif (
            self.raw
            and self._recording is not None
            and not self._record_bytes(self._recording.from_cluster, data)
        ):
            return
        self.record.bytes_out += len(data)
        self._client.write(data)

    def _record_bytes(self, record: Callable[[Buffer], None], data: Buffer) -> bool:
        """Records bytes of a session, and ends a session that cannot be recorded."""
        try:
            record(data)
        except UnrecordableError as error:
            log.warning("session not recordable", request=self.record.id, why=str(error))
            self._interrupt(ErrorResponse(502, str(error)), EndReason.UNRECORDED)
        return not self.over

    def _on_upgraded(self) -> None:
        self.raw = True
        self._recorder.upgraded(self.record)
        self._client.on_forwarded()

    def _complete(self) -> None:
        """Handles a complete response or the end of an upgraded connection."""
        if self._stream is not None and (self.raw or not self._body.done):
            self._stream.reset()
            self._stream = None
        keep_alive = self._keep_alive and self._observer.keep_alive
        self._finish(EndReason.DONE, keep_alive=keep_alive and not self._last_of_connection)

    def _interrupt(self, response: ErrorResponse, reason: EndReason) -> None:
        """Ends both sides: with a response if none has begun, otherwise with a reset."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.reset()
        if not self._response_begun:
            self.refuse(response, reason)
        else:
            self._client.abort()
            self._finish(reason, keep_alive=False)

    def _on_bad_response(self, error: BadResponse) -> None:
        record = self.record
        log.warning("bad response", request=record.id, cluster=record.cluster_id, why=str(error))
        message = f'the API server of "{record.handle}" sent an invalid response: {error}'
        self._interrupt(ErrorResponse(502, message), EndReason.UPSTREAM)

    def _on_late_data(self) -> None:
        """Resets the stream: bytes after the end of a response must not reach the next one."""
        stream, self._stream = self._stream, None
        if stream is not None:
            log.warning("bytes after a response", request=self.record.id)
            stream.reset(PROTOCOL, "bytes beyond the end of the answer")

    def _agent_error_text(self, text: str) -> str:
        return f'the agent of "{self.record.handle}" {text or "reset the request"}'

    def _finish(self, reason: EndReason, *, keep_alive: bool) -> None:
        if self.over:
            return
        self.over, self.splice = True, None
        record = self.record
        record.seconds = self._clock.monotonic() - self._started_at
        record.reason = reason
        # The counts are released first, so that a failing recording cannot keep them.
        self._recorder.end(record, entered=self.entered, upgraded=self.raw)
        if self._recording is not None:
            self._recording.close()
        self._client.on_response_end(keep_alive=keep_alive)


def _after_upgrade_head(data: Buffer) -> bytes:
    """Returns the bytes that follow the head of a 101 in the same buffer."""
    text = bytes(data)
    return text[text.find(b"\r\n\r\n", text.find(b"HTTP/1.1 101")) + 4 :]
