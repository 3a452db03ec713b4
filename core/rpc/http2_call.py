"""gRPC calls over Towline's own HTTP/2 (gRPC, doc/PROTOCOL-HTTP2.md), client and server."""

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from urllib.parse import quote, unquote

from core.http2.frames import ErrorCode
from core.http2.stream import NOBODY, Buffer, Headers, Http2Stream
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
_OVERHEAD = 64
_PREFIX = struct.Struct(">BI")
_AFTER_RESET: dict[int, CallStatus] = {
    ErrorCode.NO_ERROR: CallStatus.INTERNAL,
    ErrorCode.REFUSED_STREAM: CallStatus.UNAVAILABLE,
    ErrorCode.CANCEL: CallStatus.CANCELLED,
    ErrorCode.CONNECT_ERROR: CallStatus.UNAVAILABLE,
    ErrorCode.ENHANCE_YOUR_CALM: CallStatus.RESOURCE_EXHAUSTED,
    ErrorCode.INADEQUATE_SECURITY: CallStatus.PERMISSION_DENIED,
}
_OF_HTTP = {
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

    def on_room(self) -> None:
        """The call can send again."""
        ...

    def on_over(self, reason: str) -> None:
        """The call has ended; an empty reason means success."""
        ...


class Http2Call(ABC):
    """Base class of both ends of a call. `most`: bytes of the largest accepted message."""

    __slots__ = (
        "_asked",
        "_far_ended",
        "_messages",
        "_most",
        "_news",
        "_over",
        "_owed",
        "_partial",
        "_room",
        "_sink",
        "_stream",
        "_unread",
        "metadata",
        "peer",
    )

    def __init__(
        self, stream: Http2Stream, peer: str, metadata: Mapping[str, str], most: int
    ) -> None:
        self.peer, self.metadata = peer, metadata
        self._stream, self._most = stream, most
        self._partial = bytearray()
        self._messages: list[bytes] = []
        self._unread = self._owed = 0
        self._asked = False
        self._sink: MessageSink | None = None
        self._over: CallFailed | None = None
        self._far_ended = False
        self._news = Flag()
        self._room = Flag()
        stream.receiver = self

    async def read(self) -> bytes | None:
        self._asked = True
        while not self._messages:
            if self._over is not None:
                raise self._over
            if self._far_ended:
                return None
            self._settle()
            self._news.clear()
            await self._news.wait()
        message = self._messages.pop(0)
        self._unread -= len(message) + _OVERHEAD
        self._settle()
        return message

    async def write(self, message: bytes) -> None:
        stream = self._stream
        while self._over is None and not stream.over and stream.blocked:
            self._room.clear()
            await self._room.wait()
        if self._over is not None:
            raise self._over
        if stream.over:
            raise CallFailed(CallStatus.CANCELLED, "the call has ended")
        self.send((message,), len(message))

    async def done(self) -> None:
        self._stream.end()

    def cancel(self) -> None:
        if self._over is None:
            self._stream.reset()
            self._finish(CallFailed(CallStatus.CANCELLED, "the call was cancelled"))

    def release(self) -> None:
        """Drops what refers to the call after its end, so that its memory is free at once."""
        self._sink = None
        self._stream.receiver = NOBODY
        if self._over is not None:
            # The frames of its traceback refer to the call.
            self._over.__traceback__ = None

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
        self._stream.widen(SINK_WINDOW)
        while self._messages and self._over is None:
            sink.on_message(self._messages.pop(0))
        self._stream.consume(self._owed)
        self._unread = self._owed = 0
        if self._over is not None or self._far_ended:
            sink.on_over(self._over.message if self._over else "")

    # Called by the stream (see `core.http2.stream.StreamReceiver`)

    @abstractmethod
    def on_headers(self, headers: Headers, *, end: bool) -> None: ...

    def on_data(self, data: bytes, start: int, stop: int) -> None:
        """Gets parts of messages, mostly one complete message."""
        if self._over is not None:
            return
        size = stop - start
        if not self._partial and size >= PREFIX_SIZE:
            packed, length = _PREFIX.unpack_from(data, start)
            if not packed and length == size - PREFIX_SIZE <= self._most:
                self._deliver(data[start + PREFIX_SIZE : stop])
                self._account(size)
                return
        self._partial += data[start:stop]
        self._assemble()
        self._account(size)

    def on_end(self) -> None:
        self._far_ended = True
        self._wake()

    def on_reset(self, code: int, reason: str) -> None:
        self._finish(CallFailed(_AFTER_RESET.get(code, CallStatus.INTERNAL), reason))

    def on_room(self) -> None:
        self._room.set()
        if self._sink is not None:
            self._sink.on_room()

    # Internal

    def _account(self, size: int) -> None:
        """Grants no new window before the first `read`."""
        if self._sink is not None or (self._asked and self._unread < READ_WINDOW):
            self._stream.consume(size)
        else:
            self._owed += size

    def _settle(self) -> None:
        if self._owed and self._unread < READ_WINDOW:
            self._stream.consume(self._owed)
            self._owed = 0

    def _assemble(self) -> None:
        partial, at = self._partial, 0
        while len(partial) - at >= PREFIX_SIZE and self._over is None:
            packed, length = _PREFIX.unpack_from(partial, at)
            if packed or length > self._most:
                self._refuse(packed, length)
                return
            stop = at + PREFIX_SIZE + length
            if stop > len(partial):
                break
            self._deliver(bytes(partial[at + PREFIX_SIZE : stop]))
            at = stop
        del partial[:at]

    def _refuse(self, packed: int, length: int) -> None:
        self._partial.clear()
        if packed:
            failed = CallFailed(CallStatus.UNIMPLEMENTED, "compressed messages are not supported")
        else:
            text = f"the message has {length:,} bytes; the limit is {self._most:,}"
            failed = CallFailed(CallStatus.RESOURCE_EXHAUSTED, text)
        self._fail(failed)

    def _fail(self, failed: CallFailed) -> None:
        """Ends a call whose peer violated the protocol."""
        self._stream.reset(ErrorCode.CANCEL)
        self._finish(failed)

    def _deliver(self, message: bytes) -> None:
        if self._sink is not None:
            self._sink.on_message(message)
            return
        self._messages.append(message)
        self._unread += len(message) + _OVERHEAD
        self._news.set()

    def _finish(self, failed: CallFailed) -> None:
        if self._over is None:
            self._over = failed
            self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._room.set()
        if self._sink is not None:
            self._sink.on_over(self._over.message if self._over else "")


class ClientCall(Http2Call):
    """The client's end: responses begin with headers and end with a status in trailers."""

    __slots__ = ("_answered",)

    def __init__(self, stream: Http2Stream, peer: str, most: int) -> None:
        super().__init__(stream, peer, {}, most)
        self._answered = False

    def on_headers(self, headers: Headers, *, end: bool) -> None:
        """Gets the response headers or trailers, or both at once if the call was refused."""
        values = dict(headers)
        if not self._answered:
            status = values.get(":status", "")
            if status.startswith("1"):
                return
            self._answered = True
            if status != "200" or not values.get("content-type", "").startswith(CONTENT_TYPE):
                text = f"not a gRPC server: it answered HTTP {status or 'without a status'}"
                self._fail(CallFailed(_OF_HTTP.get(status, CallStatus.UNKNOWN), text))
                return
        elif not end:
            self._fail(CallFailed(CallStatus.INTERNAL, "headers in the middle of a response"))
            return
        if end:
            self._end(values)

    def on_end(self) -> None:
        """Fails the call: the response has no status."""
        self._fail(CallFailed(CallStatus.UNKNOWN, "the call ended without a status"))

    def _end(self, trailers: Mapping[str, str]) -> None:
        status = _STATUS.get(trailers.get("grpc-status", ""), CallStatus.UNKNOWN)
        self._stream.reset(ErrorCode.NO_ERROR)
        if status is CallStatus.OK:
            super().on_end()
        else:
            self._finish(CallFailed(status, unquote(trailers.get("grpc-message", ""))))


class ServerCall(Http2Call):
    """The server's end; the first response raises the limits of the now authenticated caller.

    `finish` sends the final status. `answered` is called before the first response.
    """

    __slots__ = ("_on_answer",)

    def __init__(
        self,
        stream: Http2Stream,
        peer: str,
        metadata: Mapping[str, str],
        most: int,
        answered: Callable[[], None],
    ) -> None:
        super().__init__(stream, peer, metadata, most)
        self._on_answer: Callable[[], None] | None = answered
        self._far_ended = stream.peer_ended

    def on_headers(self, headers: Headers, *, end: bool) -> None:
        """Rejects headers after the first ones; a client has no trailers."""
        if end:
            self.on_end()
        else:
            self._fail(CallFailed(CallStatus.INTERNAL, "headers in the middle of a call"))

    async def done(self) -> None:
        """Does nothing: the end of the handler ends the call."""

    def send(self, pieces: Sequence[Buffer], size: int) -> None:
        if self._on_answer is not None:
            self._on_answer()
            self._on_answer = None
            self._stream.send_headers(_ANSWER)
            self._stream.trust(TRUSTED_FRAME)
            self._stream.widen(READ_WINDOW)
        super().send(pieces, size)

    def refuse(self, http_status: str) -> None:
        """Rejects a request that is not a gRPC call."""
        self._stream.end(((":status", http_status),))
        self._stream.reset(ErrorCode.NO_ERROR)

    def finish(self, status: CallStatus, text: str = "") -> None:
        """Sends the status of the call and ends it."""
        head = () if self._on_answer is None else _ANSWER
        trailers = [*head, ("grpc-status", str(int(status)))]
        if text:
            trailers.append(("grpc-message", quote(text[:_MAX_STATUS_TEXT], safe=_PRINTABLE)))
        self._stream.end(trailers)
        if not self._stream.waiting:
            self._stream.reset(ErrorCode.NO_ERROR)
        self._finish(CallFailed(CallStatus.CANCELLED, "the call has ended"))

    def _fail(self, failed: CallFailed) -> None:
        """Fails the call at once, while its handler still runs."""
        self._finish(failed)
        self.finish(failed.status, failed.message)


_STATUS = {str(int(status)): status for status in CallStatus}
_ANSWER = ((":status", "200"), ("content-type", CONTENT_TYPE))
_PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
