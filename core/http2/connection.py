"""An HTTP/2 connection: frames, streams, and limits on everything that a client may send."""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import hpack

from core.http2 import frames
from core.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    DEFAULT_FRAME_BYTES,
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEAD_SIZE,
    HEADERS,
    ID_MASK,
    MAX_WINDOW,
    PADDED,
    PING,
    PREFACE,
    PRIORITIZED,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    ErrorCode,
    Http2ProtocolError,
    Setting,
)
from core.http2.stream import Headers, Http2Stream
from core.runtime.clock import Clock
from core.runtime.token_bucket import RatePolicy, TokenBucket

MAX_HEADER_BYTES = 16 << 10
MAX_TABLE_BYTES = 4096
_TOP_UP = 1 << 29
_MAX_UNREAD_REPLIES = 1000
# Costs of frames without a body.
_ALLOWANCE = RatePolicy.per(seconds=1.0, tokens=20_000)
_COSTS = {WINDOW_UPDATE: 1, RST_STREAM: 40}
_COST = 10
# Headers are expensive to decode: every 64 bytes cost one more.
_COSTLY_HEADERS = 6
# Indexes no header, so that all connections share it, and no hop keeps a secret (RFC 7541, 7.1.3).
_ENCODER = hpack.Encoder()
_NO_TABLE = b"\x20"


class Transport(Protocol):
    """The part of an asyncio transport that a connection uses."""

    def write(self, data: bytes, /) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Http2Limits:
    """Limits on the peer. `streams`: concurrent streams; `window`: unread bytes of one stream;
    `frame`: bytes of the largest frame."""

    streams: int = 64
    window: int = DEFAULT_WINDOW
    frame: int = DEFAULT_FRAME_BYTES


class Http2Connection:
    """One end of a connection: a server with `accept`, a client without.

    `accept` gets each stream that the peer opens, with its headers, and must set the stream's
    receiver. The owner reports received bytes (`receive`), a full and a writable transport
    (`pause`, `resume`) and its loss (`lost`).
    """

    __slots__ = (
        "_accept",
        "_allowance",
        "_block",
        "_clock",
        "_decoder",
        "_first_window",
        "_frame_limit",
        "_greeted",
        "_last_id",
        "_limits",
        "_next_id",
        "_pieces",
        "_preface",
        "_replies",
        "_size",
        "_table_update",
        "_taken",
        "_transport",
        "_waiting",
        "_wanted",
        "closed",
        "frame_size",
        "frames_in",
        "going",
        "paused",
        "reason",
        "streams",
        "window",
    )

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        limits: Http2Limits,
        accept: Callable[["Http2Connection", Http2Stream, Headers], None] | None = None,
    ) -> None:
        self.streams: dict[int, Http2Stream] = {}
        self.window, self.frame_size = DEFAULT_WINDOW, DEFAULT_FRAME_BYTES
        self.paused = self.closed = self.going = False
        self.reason = ""
        self.frames_in = 0
        self._transport, self._clock = transport, clock
        self._limits, self._frame_limit = limits, limits.frame
        self._accept = accept
        self._decoder: hpack.Decoder | None = None
        self._table_update = b""
        self._first_window = DEFAULT_WINDOW
        self._next_id, self._last_id = 1, 0
        self._taken = 0
        self._preface = PREFACE if accept else b""
        self._greeted = False
        self._wanted = HEAD_SIZE
        self._pieces: list[bytes] = []
        self._size = 0
        self._block: tuple[int, int, bytearray] | None = None
        self._waiting: dict[int, Http2Stream] = {}
        self._allowance = TokenBucket(_ALLOWANCE, clock.monotonic())
        self._replies = 0

    # Called by the owner

    def begin(self) -> None:
        """Sends preface and settings, and opens the connection's window as far as possible."""
        limits = self._limits
        values = {
            Setting.INITIAL_WINDOW_SIZE: limits.window,
            Setting.MAX_FRAME_SIZE: limits.frame,
            Setting.MAX_HEADER_LIST_SIZE: MAX_HEADER_BYTES,
        }
        if self._accept:
            values[Setting.MAX_CONCURRENT_STREAMS] = limits.streams
        else:
            values[Setting.ENABLE_PUSH] = 0
        first = b"" if self._accept else PREFACE
        wide = frames.window_update(0, MAX_WINDOW - DEFAULT_WINDOW)
        self.write(first + frames.settings(values) + wide)

    def receive(self, data: bytes) -> None:
        """Processes received bytes. A protocol violation ends the connection."""
        if self.closed:
            return
        if self._pieces:
            self._pieces.append(data)
            self._size += len(data)
            if self._size < self._wanted:
                return
            data = b"".join(self._pieces)
            self._pieces.clear()
        try:
            rest = self._frames(self._after_preface(data))
        except Http2ProtocolError as breach:
            self.fail(breach.code, str(breach))
        except hpack.HPACKError:
            # The error's message quotes the headers, tokens included.
            self.fail(ErrorCode.COMPRESSION_ERROR, "malformed headers")
        else:
            if rest:
                self._pieces.append(rest)
                self._size = len(rest)

    def pause(self) -> None:
        """Notes that the transport is full."""
        self.paused = True

    def resume(self) -> None:
        """Notes that the transport is writable again, and resumes the streams."""
        self.paused = False
        self._replies = 0
        streams = list(self.streams.values())
        # The first stream may take all the room: choose another one each time.
        random.shuffle(streams)
        for stream in streams:
            if not stream.blocked and not stream.over:
                stream.receiver.on_room()

    def lost(self, reason: str) -> None:
        """Ends every stream after the loss of the transport."""
        self.closed = True
        self.reason = self.reason or reason
        self._drop(tuple(self.streams.values()), ErrorCode.CONNECT_ERROR)

    # Called by the layer above

    @property
    def usable(self) -> bool:
        """True if new streams may be opened."""
        return not (self.closed or self.going) and self._next_id < ID_MASK

    def open(self, headers: Headers) -> Http2Stream:
        """Opens a stream; the caller sets its receiver at once. Requires `usable`."""
        stream = Http2Stream(self, self._next_id, self._limits.window, self._first_window)
        self._next_id += 2
        self.streams[stream.id] = stream
        self.write_headers(stream.id, headers, end=False)
        return stream

    def trust(self, frame_size: int) -> None:
        """Raises the frame size limit after the peer has authenticated."""
        if frame_size > self._frame_limit and not self.closed:
            self._frame_limit = frame_size
            self.write(frames.settings({Setting.MAX_FRAME_SIZE: frame_size}))

    def ping(self) -> None:
        """Sends a PING, which the peer must answer."""
        self.write(frames.frame(PING, 0, 0, bytes(8)))

    def go_away(self, text: str) -> None:
        """Refuses new streams and closes the connection after the last open one."""
        if not self.closed and not self.going:
            self.going = True
            self.write(frames.goaway(self._last_id, ErrorCode.NO_ERROR, text))
            self._close_if_done()

    def fail(self, code: ErrorCode, text: str) -> None:
        """Closes the connection with an error code and a reason."""
        if self.closed:
            return
        self.write(frames.goaway(self._last_id, code, text))
        self.reason = text
        self._transport.close()
        self.lost(text)

    # Called by streams (see `core.http2.stream.Http2StreamCarrier`)

    def write(self, data: bytes) -> None:
        if not self.closed:
            self._transport.write(data)

    def write_headers(self, stream_id: int, headers: Headers, *, end: bool) -> None:
        block = self._table_update + _ENCODER.encode(
            [hpack.NeverIndexedHeaderTuple(*header) for header in headers], huffman=False
        )
        self._table_update = b""
        kind, flags = HEADERS, END_STREAM if end else 0
        while len(block) > self.frame_size:
            self.write(frames.frame(kind, flags, stream_id, block[: self.frame_size]))
            block, kind, flags = block[self.frame_size :], CONTINUATION, 0
        self.write(frames.frame(kind, flags | END_HEADERS, stream_id, block))

    def wait_for_window(self, stream: Http2Stream) -> None:
        self._waiting[stream.id] = stream

    def forget(self, stream: Http2Stream) -> None:
        self.streams.pop(stream.id, None)
        self._waiting.pop(stream.id, None)
        if self.going:
            self._close_if_done()

    # Frames

    def _after_preface(self, data: bytes) -> bytes:
        if not self._preface:
            return data
        size = min(len(self._preface), len(data))
        if data[:size] != self._preface[:size]:
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "this port accepts only HTTP/2")
        self._preface = self._preface[size:]
        return data[size:]

    def _frames(self, data: bytes) -> bytes:
        """Processes all complete frames and returns the remaining bytes."""
        at, size = 0, len(data)
        while size - at >= HEAD_SIZE:
            length = data[at] << 16 | data[at + 1] << 8 | data[at + 2]
            if length > self._frame_limit:
                raise _too_large(data, at, length)
            stop = at + HEAD_SIZE + length
            if stop > size:
                self._wanted = stop - at
                return data[at:]
            kind, flags = data[at + 3], data[at + 4]
            stream_id = int.from_bytes(data[at + 5 : at + 9], "big") & ID_MASK
            if kind == DATA and self._block is None and self._greeted:
                self._on_data(data, at + HEAD_SIZE, stop, flags, stream_id)
            else:
                self._on_control(kind, flags, stream_id, data[at + HEAD_SIZE : stop])
            self.frames_in += 1
            at = stop
            if self.closed:
                return b""
        self._wanted = HEAD_SIZE
        return data[at:]

    def _on_data(self, data: bytes, start: int, stop: int, flags: int, stream_id: int) -> None:
        flow = stop - start
        self._taken += flow
        if self._taken > _TOP_UP:
            self.write(frames.window_update(0, self._taken))
            self._taken = 0
        if flow < HEAD_SIZE:
            self._spend(1)
        stream = self.streams.get(stream_id)
        if stream is None:
            self._must_be_past(stream_id)
            return
        if stream.peer_ended:
            self._reset(stream, ErrorCode.STREAM_CLOSED, "data after the end of the stream")
            return
        if flags & PADDED:
            start, stop = _without_padding(data, start, stop)
        stream.on_data(data, start, stop, flow)
        if flags & END_STREAM and not stream.over:
            stream.on_peer_end()
            stream.receiver.on_end()

    def _on_control(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        self._spend(_COSTS.get(kind, _COST))
        if not self._greeted and kind != SETTINGS:
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")
        if self._block is not None and kind != CONTINUATION:
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "a header block was not finished")
        control = self._CONTROLS.get(kind)
        if control is not None:
            control(self, flags, stream_id, payload)
        elif kind == DATA:
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "unexpected data")

    def _spend(self, cost: int) -> None:
        """Limits frames without payload."""
        if self._allowance.take(self._clock.monotonic(), cost):
            raise Http2ProtocolError(ErrorCode.ENHANCE_YOUR_CALM, "too many frames without payload")

    def _on_nothing(self, flags: int, stream_id: int, payload: bytes) -> None:
        """Ignores PRIORITY, which is deprecated (RFC 9113, 5.3)."""

    def _on_push(self, flags: int, stream_id: int, payload: bytes) -> None:
        raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE is disabled")

    def _on_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        start, stop = 0, len(payload)
        if flags & PADDED:
            start, stop = _without_padding(payload, start, stop)
        if flags & PRIORITIZED:
            start += 5
        if start > stop or not stream_id:
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "malformed HEADERS frame")
        self._gather(stream_id, flags, bytearray(payload[start:stop]))
        if flags & END_HEADERS:
            self._on_block()

    def _on_continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        if self._block is None or self._block[0] != stream_id:
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "CONTINUATION without HEADERS")
        _, first_flags, block = self._block
        self._gather(stream_id, first_flags, block + payload)
        if flags & END_HEADERS:
            self._on_block()

    def _gather(self, stream_id: int, flags: int, block: bytearray) -> None:
        if len(block) > MAX_HEADER_BYTES:
            raise Http2ProtocolError(
                ErrorCode.ENHANCE_YOUR_CALM, f"more than {MAX_HEADER_BYTES} bytes of headers"
            )
        self._block = (stream_id, flags, block)

    def _on_block(self) -> None:
        if self._block is None:
            return
        stream_id, flags, block = self._block
        self._block = None
        self._spend(len(block) >> _COSTLY_HEADERS)
        if _resizes_on_and_on(block):
            raise Http2ProtocolError(
                ErrorCode.COMPRESSION_ERROR, "too many header table size updates"
            )
        # Decode every block, even one that is dropped: it updates the header table of both sides.
        headers = self._decode(bytes(block))
        stream = self.streams.get(stream_id)
        end = bool(flags & END_STREAM)
        if stream is None:
            self._on_new(stream_id, headers, end=end)
        elif stream.peer_ended:
            self._reset(stream, ErrorCode.STREAM_CLOSED, "headers after the end of the stream")
        else:
            if end:
                stream.on_peer_end()
            stream.receiver.on_headers(headers, end=end)

    def _decode(self, block: bytes) -> Headers:
        """Decodes a block. A decoder without state is not kept: most peers index nothing."""
        decoder = self._decoder or hpack.Decoder(MAX_HEADER_BYTES)
        headers = [(str(name), str(value)) for name, value in decoder.decode(block)]
        table = decoder.header_table
        is_used = table.dynamic_entries or table.maxsize != MAX_TABLE_BYTES
        self._decoder = decoder if is_used else None
        return headers

    def _on_new(self, stream_id: int, headers: Headers, *, end: bool) -> None:
        if self._accept is None or stream_id <= self._last_id:
            self._must_be_past(stream_id)
            return
        if not stream_id % 2:
            raise Http2ProtocolError(
                ErrorCode.PROTOCOL_ERROR, f"a client opened stream {stream_id}"
            )
        if self.going or len(self.streams) >= self._limits.streams:
            self._last_id = stream_id
            self._reply(frames.rst_stream(stream_id, ErrorCode.REFUSED_STREAM))
            return
        self._last_id = stream_id
        self._count_reply()
        stream = Http2Stream(self, stream_id, self._limits.window, self._first_window)
        self.streams[stream_id] = stream
        stream.peer_ended = end
        self._accept(self, stream, headers)

    def _on_rst_stream(self, flags: int, stream_id: int, payload: bytes) -> None:
        code = frames.read_u32(payload, "RST_STREAM")
        stream = self.streams.get(stream_id)
        if stream is None:
            self._must_be_past(stream_id)
            return
        stream.leave()
        stream.receiver.on_reset(code, f"the peer reset the stream: {frames.error_name(code)}")

    def _on_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id or (flags & ACK and not self._greeted):
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "malformed SETTINGS frame")
        if flags & ACK and payload:
            raise Http2ProtocolError(
                ErrorCode.FRAME_SIZE_ERROR, "SETTINGS acknowledgement with a payload"
            )
        self._greeted = True
        if flags & ACK:
            return
        for name, value in frames.read_settings(payload):
            self._spend(_COST)
            self._set(name, value)
        self._reply(frames.frame(SETTINGS, ACK, 0))
        self._serve_waiting()

    def _set(self, name: int, value: int) -> None:
        if name == Setting.MAX_FRAME_SIZE:
            self.frame_size = value
        elif name == Setting.HEADER_TABLE_SIZE:
            # A smaller table must be announced (RFC 7541, 4.2): none is used.
            self._table_update = _NO_TABLE if value < MAX_TABLE_BYTES else self._table_update
        elif name == Setting.ENABLE_PUSH and value and self._accept is None:
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "the server enables push")
        elif name == Setting.INITIAL_WINDOW_SIZE:
            grown, self._first_window = value - self._first_window, value
            for stream in self.streams.values():
                stream.grow(grown)

    def _on_ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "PING with a stream id")
        if len(payload) != 8:
            raise Http2ProtocolError(ErrorCode.FRAME_SIZE_ERROR, f"PING of {len(payload)} bytes")
        if not flags & ACK:
            self._reply(frames.frame(PING, ACK, 0, payload))

    def _on_goaway(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "GOAWAY with a stream id")
        last, code, text = frames.read_goaway(payload)
        self.going = True
        self.reason = (
            self.reason or text or f"the peer closes the connection: {frames.error_name(code)}"
        )
        if self._accept is None:
            unserved = [stream for stream in self.streams.values() if stream.id > last]
            self._drop(unserved, ErrorCode.REFUSED_STREAM)
        self._close_if_done()

    def _on_window_update(self, flags: int, stream_id: int, payload: bytes) -> None:
        grown = frames.read_u32(payload, "WINDOW_UPDATE") & ID_MASK
        if not grown:
            raise Http2ProtocolError(
                ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE with a zero increment"
            )
        if not stream_id:
            self.window += grown
            if self.window > MAX_WINDOW:
                raise Http2ProtocolError(
                    ErrorCode.FLOW_CONTROL_ERROR, "the connection's window exceeds 2^31-1"
                )
        elif (stream := self.streams.get(stream_id)) is not None:
            stream.grow(grown)
        else:
            self._must_be_past(stream_id)
        if self._waiting:
            self._serve_waiting()

    # Functions: bound methods would be a cycle, which keeps the memory of an ended connection.
    _CONTROLS: ClassVar[Mapping[int, Callable[["Http2Connection", int, int, bytes], None]]] = {
        HEADERS: _on_headers,
        CONTINUATION: _on_continuation,
        PRIORITY: _on_nothing,
        RST_STREAM: _on_rst_stream,
        SETTINGS: _on_settings,
        PUSH_PROMISE: _on_push,
        PING: _on_ping,
        GOAWAY: _on_goaway,
        WINDOW_UPDATE: _on_window_update,
    }

    # Internal

    def _reply(self, data: bytes) -> None:
        self._count_reply()
        self.write(data)

    def _count_reply(self) -> None:
        """Limits replies to a peer that does not read them; they would fill the memory."""
        self._replies += self.paused
        if self._replies > _MAX_UNREAD_REPLIES:
            raise Http2ProtocolError(
                ErrorCode.ENHANCE_YOUR_CALM, "too many requests, and the peer reads no answer"
            )

    def _serve_waiting(self) -> None:
        """Sends frames of waiting streams in turn, until none waits or the windows are full."""
        going: Iterable[Http2Stream] = tuple(self._waiting.values())
        while going:
            going = [stream for stream in going if stream.waiting and stream.turn()]
        for stream in tuple(self._waiting.values()):
            if not stream.waiting:
                self._waiting.pop(stream.id, None)
                if not stream.over and not stream.blocked:
                    stream.receiver.on_room()

    def _must_be_past(self, stream_id: int) -> None:
        """Allows a frame for a closed stream. Raises Breach if the stream was never opened."""
        past = self._next_id - 1 if self._accept is None else self._last_id
        if not stream_id % 2 or stream_id > past:
            raise Http2ProtocolError(
                ErrorCode.PROTOCOL_ERROR, f"stream {stream_id} was never opened"
            )

    def _drop(self, streams: Iterable[Http2Stream], code: ErrorCode) -> None:
        """Resets streams; their receivers may end other streams in turn."""
        for stream in streams:
            if not stream.over:
                stream.leave()
                stream.receiver.on_reset(code, self.reason)

    def _reset(self, stream: Http2Stream, code: ErrorCode, reason: str) -> None:
        stream.reset(code)
        stream.receiver.on_reset(code, reason)

    def _close_if_done(self) -> None:
        if not self.streams and not self.closed:
            self.closed = True
            self._transport.close()


def _too_large(data: bytes, at: int, length: int) -> Http2ProtocolError:
    if data.startswith(b"HTTP/1.", at):
        return Http2ProtocolError(ErrorCode.HTTP_1_1_REQUIRED, "the peer speaks only HTTP/1")
    return Http2ProtocolError(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {length} bytes")


def _resizes_on_and_on(block: bytearray) -> bool:
    """Detects more than the two table size updates that a block may have (RFC 7541, 4.2)."""
    at = 0
    for _ in range(3):
        if at >= len(block) or block[at] >> 5 != 1:
            return False
        at += 1
        if block[at - 1] & 0x1F == 0x1F:
            while at < len(block) and block[at] & 0x80:
                at += 1
            at += 1
    return True


def _without_padding(data: bytes, start: int, stop: int) -> tuple[int, int]:
    """Finds the payload of a padded frame (RFC 9113, 6.1)."""
    if stop == start or data[start] > stop - start - 1:
        raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "the padding is longer than the frame")
    return start + 1, stop - data[start]
