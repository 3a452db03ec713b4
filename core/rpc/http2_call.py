"""gRPC calls over Towline's own HTTP/2 (gRPC, doc/PROTOCOL-HTTP2.md), client and server."""

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from urllib.parse import quote, unquote

from core.http2.frames import ErrorCode
from core.http2.stream import DISCARDING_RECEIVER, Buffer, Headers, Http2Stream
from core.rpc.calls import CallFailed, CallStatus
from core.runtime.flag import Flag

CONTENT_TYPE = "application/grpc"
PREFIX_SIZE = 5
# Window of a call that is read, and of one with a sink.
READ_WINDOW = 256 << 10
SINK_WINDOW = 1 << 30
TRUSTED_FRAME = 256 << 10
_MAX_STATUS_TEXT = 1000
# Memory of a message besides its bytes.
_MESSAGE_OVERHEAD = 64
_PREFIX = struct.Struct(">BI")
_STATUS_OF_RESET: dict[int, CallStatus] = {
    ErrorCode.NO_ERROR: CallStatus.INTERNAL,
    ErrorCode.REFUSED_STREAM: CallStatus.UNAVAILABLE,
    ErrorCode.CANCEL: CallStatus.CANCELLED,
    ErrorCode.CONNECT_ERROR: CallStatus.UNAVAILABLE,
    ErrorCode.ENHANCE_YOUR_CALM: CallStatus.RESOURCE_EXHAUSTED,
    ErrorCode.INADEQUATE_SECURITY: CallStatus.PERMISSION_DENIED,
}
_STATUS_OF_HTTP = {
    "400": CallStatus.INTERNAL,
    "401": CallStatus.UNAUTHENTICATED,
    "403": CallStatus.PERMISSION_DENIED,
    "404": CallStatus.UNIMPLEMENTED,
    "429": CallStatus.UNAVAILABLE,
    "502": CallStatus.UNAVAILABLE,
    "503": CallStatus.UNAVAILABLE,
    "504": CallStatus.UNAVAILABLE,
}


class MessageSink(Protocol):
    """Gets a call's messages by callback, in place of `read`."""

    def on_message(self, message: bytes) -> None: ...

    def on_writable(self) -> None:
        """The call can send again."""
        ...

    def on_over(self, reason: str) -> None:
        """The call has ended; an empty reason means success."""
        ...


class Http2Call(ABC):
    """Base class of both ends of a call. `max_message`: bytes of the largest accepted message."""

    __slots__ = (
        "_failure",
        "_has_read",
        "_max_message",
        "_messages",
        "_partial",
        "_peer_ended",
        "_readable",
        "_sink",
        "_stream",
        "_unacknowledged",
        "_unread",
        "_writable",
        "metadata",
        "peer",
    )

    def __init__(
        self, stream: Http2Stream, peer: str, metadata: Mapping[str, str], max_message: int
    ) -> None:
        self.peer, self.metadata = peer, metadata
        self._stream, self._max_message = stream, max_message
        self._partial = bytearray()
        self._messages: list[bytes] = []
        self._unread = self._unacknowledged = 0
        self._has_read = False
        self._sink: MessageSink | None = None
        self._failure: CallFailed | None = None
        self._peer_ended = False
        self._readable = Flag()
        self._writable = Flag()
        stream.receiver = self

    async def read(self) -> bytes | None:
        self._has_read = True
        while not self._messages:
            if self._failure is not None:
                raise self._failure
            if self._peer_ended:
                return None
            self._release_window()
            self._readable.clear()
            await self._readable.wait()
        message = self._messages.pop(0)
        self._unread -= len(message) + _MESSAGE_OVERHEAD
        self._release_window()
        return message

    async def write(self, message: bytes) -> None:
        stream = self._stream
        while self._failure is None and not stream.closed and stream.blocked:
            self._writable.clear()
            await self._writable.wait()
        if self._failure is not None:
            raise self._failure
        if stream.closed:
            raise CallFailed(CallStatus.CANCELLED, "the call has ended")
        self.send((message,), len(message))

    async def done(self) -> None:
        self._stream.end()

    def cancel(self) -> None:
        if self._failure is None:
            self._stream.reset()
            self._finish(CallFailed(CallStatus.CANCELLED, "the call was cancelled"))

    def release(self) -> None:
        """Drops what refers to the call after its end, so that its memory is free at once."""
        self._sink = None
        self._stream.receiver = DISCARDING_RECEIVER
        if self._failure is not None:
            # The frames of its traceback refer to the call.
            self._failure.__traceback__ = None

    # For callers with a sink

    @property
    def blocked(self) -> bool:
        """True if a message that is sent now would have to wait."""
        return self._stream.blocked

    def send(self, pieces: Sequence[Buffer], size: int) -> None:
        """Sends one message made of these pieces, `size` bytes in total."""
        self._stream.send((_PREFIX.pack(0, size), *pieces), size + PREFIX_SIZE)

    def set_sink(self, sink: MessageSink) -> None:
        """Passes all messages to `sink` from now on, beginning with the unread ones."""
        self._sink = sink
        self._stream.widen_receive_window(SINK_WINDOW)
        while self._messages and self._failure is None:
            sink.on_message(self._messages.pop(0))
        self._stream.consume(self._unacknowledged)
        self._unread = self._unacknowledged = 0
        if self._failure is not None or self._peer_ended:
            sink.on_over(self._failure.message if self._failure else "")

    # Called by the stream (see `core.http2.stream.StreamReceiver`)

    @abstractmethod
    def on_headers(self, headers: Headers, *, end: bool) -> None: ...

    def on_data(self, data: bytes, start: int, stop: int) -> None:
        """Gets parts of messages, mostly one complete message."""
        if self._failure is not None:
            return
        size = stop - start
        if not self._partial and size >= PREFIX_SIZE:
            compressed, length = _PREFIX.unpack_from(data, start)
            if not compressed and length == size - PREFIX_SIZE <= self._max_message:
                self._deliver(data[start + PREFIX_SIZE : stop])
                self._count_received(size)
                return
        self._partial += data[start:stop]
        self._deliver_complete()
        self._count_received(size)

    def on_end(self) -> None:
        self._peer_ended = True
        self._notify()

    def on_reset(self, code: int, reason: str) -> None:
        self._finish(CallFailed(_STATUS_OF_RESET.get(code, CallStatus.INTERNAL), reason))

    def on_writable(self) -> None:
        self._writable.set()
        if self._sink is not None:
            self._sink.on_writable()

    # Internal

    def _count_received(self, size: int) -> None:
        """Grants no new window before the first `read`."""
        if self._sink is not None or (self._has_read and self._unread < READ_WINDOW):
            self._stream.consume(size)
        else:
            self._unacknowledged += size

    def _release_window(self) -> None:
        if self._unacknowledged and self._unread < READ_WINDOW:
            self._stream.consume(self._unacknowledged)
            self._unacknowledged = 0

    def _deliver_complete(self) -> None:
        partial, position = self._partial, 0
        while len(partial) - position >= PREFIX_SIZE and self._failure is None:
            compressed, length = _PREFIX.unpack_from(partial, position)
            if compressed or length > self._max_message:
                self._refuse_message(compressed, length)
                return
            stop = position + PREFIX_SIZE + length
            if stop > len(partial):
                break
            self._deliver(bytes(partial[position + PREFIX_SIZE : stop]))
            position = stop
        del partial[:position]

    def _refuse_message(self, compressed: int, length: int) -> None:
        self._partial.clear()
        if compressed:
            failure = CallFailed(CallStatus.UNIMPLEMENTED, "compressed messages are not supported")
        else:
            text = f"the message has {length:,} bytes; the limit is {self._max_message:,}"
            failure = CallFailed(CallStatus.RESOURCE_EXHAUSTED, text)
        self._fail(failure)

    def _fail(self, failure: CallFailed) -> None:
        """Ends a call whose peer violated the protocol."""
        self._stream.reset(ErrorCode.CANCEL)
        self._finish(failure)

    def _deliver(self, message: bytes) -> None:
        if self._sink is not None:
            self._sink.on_message(message)
            return
        self._messages.append(message)
        self._unread += len(message) + _MESSAGE_OVERHEAD
        self._readable.set()

    def _finish(self, failure: CallFailed) -> None:
        if self._failure is None:
            self._failure = failure
            self._notify()

    def _notify(self) -> None:
        self._readable.set()
        self._writable.set()
        if self._sink is not None:
            self._sink.on_over(self._failure.message if self._failure else "")


class ClientCall(Http2Call):
    """The client's end: responses begin with headers and end with a status in trailers."""

    __slots__ = ("_has_response",)

    def __init__(self, stream: Http2Stream, peer: str, max_message: int) -> None:
        super().__init__(stream, peer, {}, max_message)
        self._has_response = False

    def on_headers(self, headers: Headers, *, end: bool) -> None:
        """Gets the response headers or trailers, or both at once if the call was refused."""
        values = dict(headers)
        if not self._has_response:
            status = values.get(":status", "")
            if status.startswith("1"):
                return
            self._has_response = True
            if status != "200" or not values.get("content-type", "").startswith(CONTENT_TYPE):
                text = f"not a gRPC server: it answered HTTP {status or 'without a status'}"
                self._fail(CallFailed(_STATUS_OF_HTTP.get(status, CallStatus.UNKNOWN), text))
                return
        elif not end:
            self._fail(CallFailed(CallStatus.INTERNAL, "headers in the middle of a response"))
            return
        if end:
            self._handle_trailers(values)

    def on_end(self) -> None:
        """Fails the call: the response has no status."""
        self._fail(CallFailed(CallStatus.UNKNOWN, "the call ended without a status"))

    def _handle_trailers(self, trailers: Mapping[str, str]) -> None:
        status = _STATUS.get(trailers.get("grpc-status", ""), CallStatus.UNKNOWN)
        self._stream.reset(ErrorCode.NO_ERROR)
        if status is CallStatus.OK:
            super().on_end()
        else:
            self._finish(CallFailed(status, unquote(trailers.get("grpc-message", ""))))


class ServerCall(Http2Call):
    """The server's end; the first response raises the limits of the now authenticated caller.

    `finish` sends the final status. `on_first_response` is called before the first response.
    """

    __slots__ = ("_on_first_response",)

    def __init__(
        self,
        stream: Http2Stream,
        peer: str,
        metadata: Mapping[str, str],
        max_message: int,
        on_first_response: Callable[[], None],
    ) -> None:
        super().__init__(stream, peer, metadata, max_message)
        self._on_first_response: Callable[[], None] | None = on_first_response
        self._peer_ended = stream.peer_ended

    def on_headers(self, headers: Headers, *, end: bool) -> None:
        """Rejects headers after the first ones; a client has no trailers."""
        if end:
            self.on_end()
        else:
            self._fail(CallFailed(CallStatus.INTERNAL, "headers in the middle of a call"))

    async def done(self) -> None:
        """Does nothing: the end of the handler ends the call."""

    def send(self, pieces: Sequence[Buffer], size: int) -> None:
        if self._on_first_response is not None:
            self._on_first_response()
            self._on_first_response = None
            self._stream.send_headers(_RESPONSE_HEADERS)
            self._stream.raise_frame_limit(TRUSTED_FRAME)
            self._stream.widen_receive_window(READ_WINDOW)
        super().send(pieces, size)

    def refuse(self, http_status: str) -> None:
        """Rejects a request that is not a gRPC call."""
        self._stream.end(((":status", http_status),))
        self._stream.reset(ErrorCode.NO_ERROR)

    def finish(self, status: CallStatus, text: str = "") -> None:
        """Sends the status of the call and ends it."""
        head = () if self._on_first_response is None else _RESPONSE_HEADERS
        trailers = [*head, ("grpc-status", str(int(status)))]
        if text:
            trailers.append(("grpc-message", quote(text[:_MAX_STATUS_TEXT], safe=_PRINTABLE)))
        self._stream.end(trailers)
        if not self._stream.has_queued_data:
            self._stream.reset(ErrorCode.NO_ERROR)
        self._finish(CallFailed(CallStatus.CANCELLED, "the call has ended"))

    def _fail(self, failure: CallFailed) -> None:
        """Fails the call at once, while its handler still runs."""
        self._finish(failure)
        self.finish(failure.status, failure.message)


_STATUS = {str(int(status)): status for status in CallStatus}
_RESPONSE_HEADERS = ((":status", "200"), ("content-type", CONTENT_TYPE))
_PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
