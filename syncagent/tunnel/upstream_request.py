"""One stream of the tunnel, forwarded over one connection to the API server."""

import asyncio
from collections.abc import Callable

import structlog

from core.errors import TowlineError
from core.http1.connection import UpstreamConnection
from core.http1.response import BadResponse, ResponseObserver, add_fields
from core.mux.codec import (
    CLOSE,
    END,
    FLAG_HEAD,
    FLAG_NOBODY,
    FLAG_UPGRADE,
    Buffer,
    Open,
)
from core.mux.stream import TunnelStream
from syncagent.tunnel.framing import RequestFraming
from syncagent.tunnel.guard import ForwardingRefused
from syncagent.tunnel.upstream import UpstreamPool

log = structlog.get_logger(__name__)

BAD_GATEWAY = 502
UNAUTHORIZED = 401
DIAL_SECONDS = 10.0
_REPEATABLE = (b"GET ", b"HEAD ")


class UpstreamRequest:
    """Owner of a stream at the agent, and user of an upstream connection.
    Bytes of the client wait until there is a connection and, after an upgrade request, until the
    API server has accepted the upgrade. ForwardingRefused: see `RequestFraming`.
    `response_fields`: header lines to add to the response, unless it is an upgrade.
    """

    __slots__ = (
        "_added_fields",
        "_connection",
        "_ended",
        "_framing",
        "_observer",
        "_pool",
        "_queued",
        "_request",
        "_response_begun",
        "_retried",
        "_stream",
        "_unacknowledged",
        "_upgrade",
        "on_retry",
    )

    def __init__(
        self,
        stream: TunnelStream,
        request: Open,
        pool: UpstreamPool,
        response_fields: bytes = b"",
    ) -> None:
        self._stream, self._request, self._pool = stream, request, pool
        self._connection: UpstreamConnection | None = None
        self._observer = self._new_observer()
        self._queued: list[Buffer] = []
        self._added_fields = response_fields
        self._unacknowledged = 0
        self._ended = bool(request.flags & FLAG_NOBODY)
        self._upgrade = bool(request.flags & FLAG_UPGRADE)
        self._response_begun = self._retried = False
        self._framing = RequestFraming(request.head) if pool.trusts_connections else None

    # Starting

    def try_start(self) -> bool:
        """Starts if an idle connection and a token are available."""
        fields = self._pool.fields
        connection = self._pool.take() if fields is not None else None
        if connection is None or fields is None:
            return False
        self._begin(connection, fields)
        return True

    async def start(self) -> None:
        """Starts over a new connection, with a new token if needed."""
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                fields = self._pool.fields or await self._pool.refresh()
                connection = await self._pool.dial()
        except TowlineError as error:
            self._fail(f"cannot sign in to its API server: {error.message}")
        except TimeoutError:
            self._fail(f"cannot reach its API server: no response within {DIAL_SECONDS:g} s")
        except OSError as error:
            self._fail(f"cannot reach its API server: {_reason(error)}")
        except Exception:
            log.exception("request not started")
            self._fail("has no credential for its API server")
        else:
            if self._stream.closed:
                connection.close()
            else:
                self._begin(connection, fields)

    def _begin(self, connection: UpstreamConnection, fields: bytes) -> None:
        self._connection = connection
        connection.user = self
        connection.write(self._pool.complete_head(self._request, fields))
        if not self._upgrade:
            self._send_queued()

    # Events of the stream (see `core.mux.stream.StreamOwner`)

    def on_data(self, data: Buffer) -> None:
        if self._framing is not None and not self._upgrade and not self._is_framed(data):
            return
        if self._connection is None or (self._upgrade and not self._observer.upgraded):
            self._queued.append(data)
        else:
            self._write(data)

    def on_end(self, close: bool) -> None:
        self._ended = True
        if self._observer.upgraded and self._connection is not None:
            self._connection.write_eof()

    def on_writable(self) -> None:
        if self._connection is not None:
            self._connection.resume_reading()

    def on_reset(self, code: int, text: str) -> None:
        self._queued.clear()
        if self._connection is not None:
            self._connection.abort()
            self._connection = None

    # Events of the connection (see `core.http1.connection.ConnectionUser`)

    def on_upstream_data(self, data: bytes) -> None:
        self._response_begun = True
        try:
            ready = self._observer.feed(data)
        except BadResponse as error:
            self._abort(f"got an invalid response from its API server: {error}")
            return
        if self._observer.status == UNAUTHORIZED:
            self._pool.forget_token()
        if self._added_fields and ready and self._observer.status is not None:
            ready = self._with_added_fields(ready, self._observer.status)
        if self._observer.complete:
            self._finish(ready)
        else:
            self._forward(ready)

    def on_upstream_closed(self) -> None:
        connection, self._connection = self._connection, None
        if self._observer.upgraded:
            self._stream.send(b"", END | CLOSE)
        elif not self._response_begun and self._can_retry(connection):
            self._retried = True
            self._retry()
        else:
            self._on_connection_lost()

    def on_upstream_drained(self) -> None:
        unacknowledged, self._unacknowledged = self._unacknowledged, 0
        if unacknowledged:
            self._stream.consumed(unacknowledged)

    # Inside

    def _forward(self, ready: Buffer) -> None:
        if ready and not self._stream.send(ready) and self._connection is not None:
            self._connection.pause_reading()
        if self._upgrade and self._observer.upgraded:
            self._send_queued()
        elif self._upgrade and self._observer.status is not None:
            self._drop_queued()

    def _with_added_fields(self, ready: Buffer, status: int) -> Buffer:
        fields, self._added_fields = self._added_fields, b""
        return ready if self._observer.upgraded else add_fields(ready, status, fields)

    def _finish(self, ready: Buffer) -> None:
        """Handles a complete response; the connection is reused if the request is complete too."""
        connection, self._connection = self._connection, None
        request_complete = self._ended and (self._framing is None or self._framing.done)
        reusable = self._observer.keep_alive and request_complete and not self._unacknowledged
        self._drop_queued()
        self._stream.send(ready, END)
        if connection is None:
            return
        if reusable and not self._upgrade:
            self._pool.give_back(connection)
        else:
            connection.close()

    def _on_connection_lost(self) -> None:
        try:
            self._observer.end(close=True)
        except BadResponse:
            self._fail("lost the connection to its API server")
        else:
            self._stream.send(b"", END | CLOSE)

    def _can_retry(self, connection: UpstreamConnection | None) -> bool:
        """Reports whether to retry: a reused connection may be stale, and reads are safe to
        repeat.
        """
        may_be_stale = connection is not None and connection.used and not self._retried
        has_no_body = bool(self._request.flags & FLAG_NOBODY)
        return may_be_stale and has_no_body and self._request.head.startswith(_REPEATABLE)

    def _retry(self) -> None:
        self._observer = self._new_observer()
        self.on_retry(self)

    on_retry: Callable[["UpstreamRequest"], None]

    def _is_framed(self, data: Buffer) -> bool:
        """Checks bytes of the body; ends the request if they do not belong to it."""
        framing = self._framing
        try:
            if framing is not None:
                framing.check(data)
        except ForwardingRefused as refused:
            log.warning("request refused", why=str(refused))
            self._abort(f"refused the request: {refused}")
            return False
        return True

    def _write(self, data: Buffer) -> None:
        connection = self._connection
        if connection is None:
            return
        connection.write(data)
        if connection.write_paused:
            self._unacknowledged += len(data)
        else:
            self._stream.consumed(len(data))

    def _send_queued(self) -> None:
        queued, self._queued = self._queued, []
        for data in queued:
            self._write(data)
        if self._ended and self._observer.upgraded and self._connection is not None:
            self._connection.write_eof()

    def _drop_queued(self) -> None:
        if self._queued:
            dropped = sum(len(data) for data in self._queued)
            self._queued.clear()
            self._stream.consumed(dropped)

    def _abort(self, text: str) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
        self._fail(text)

    def _fail(self, text: str) -> None:
        self._queued.clear()
        self._stream.reset(BAD_GATEWAY, text)

    def _new_observer(self) -> ResponseObserver:
        flags = self._request.flags
        return ResponseObserver(
            head_request=bool(flags & FLAG_HEAD), upgrade=bool(flags & FLAG_UPGRADE)
        )


def _reason(error: OSError) -> str:
    return (error.strerror or str(error) or type(error).__name__).lower()
