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
_WINDOW_UPDATE_BYTES = 1 << 29
_MAX_UNREAD_REPLIES = 1000
# Budget and costs of frames without a body.
_FRAME_RATE = RatePolicy.per(seconds=1.0, tokens=20_000)
_FRAME_COSTS = {WINDOW_UPDATE: 1, RST_STREAM: 40}
_FRAME_COST = 10
# Headers are expensive to decode: every 64 bytes of them (2^6) cost one more.
_HEADER_COST_SHIFT = 6
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
        "_awaited_preface",
        "_clock",
        "_decoder",
        "_frame_bucket",
        "_frame_limit",
        "_has_peer_settings",
        "_header_block",
        "_initial_window",
        "_last_peer_id",
        "_limits",
        "_next_frame_size",
        "_next_id",
        "_partial",
        "_partial_size",
        "_table_update",
        "_transport",
        "_unread_replies",
        "_unreported",
        "_window_waiters",
        "closed",
        "frame_size",
        "frames_in",
        "going_away",
        "paused",
        "reason",
        "send_window",
        "streams",
    )

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        limits: Http2Limits,
        accept: Callable[["Http2Connection", Http2Stream, Headers], None] | None = None,
    ) -> None:
        self.streams: dict[int, Http2Stream] = {}
        self.send_window, self.frame_size = DEFAULT_WINDOW, DEFAULT_FRAME_BYTES
        self.paused = self.closed = self.going_away = False
        self.reason = ""
        self.frames_in = 0
        self._transport, self._clock = transport, clock
        self._limits, self._frame_limit = limits, limits.frame
        self._accept = accept
        self._decoder: hpack.Decoder | None = None
        self._table_update = b""
        self._initial_window = DEFAULT_WINDOW
        self._next_id, self._last_peer_id = 1, 0
        self._unreported = 0
        self._awaited_preface = PREFACE if accept else b""
        self._has_peer_settings = False
        self._next_frame_size = HEAD_SIZE
        self._partial: list[bytes] = []
        self._partial_size = 0
        self._header_block: tuple[int, int, bytearray] | None = None
        self._window_waiters: dict[int, Http2Stream] = {}
        self._frame_bucket = TokenBucket(_FRAME_RATE, clock.monotonic())
        self._unread_replies = 0

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
        preface = b"" if self._accept else PREFACE
        window_update = frames.window_update(0, MAX_WINDOW - DEFAULT_WINDOW)
        self.write(preface + frames.settings(values) + window_update)

    def receive(self, data: bytes) -> None:
        """Processes received bytes. A protocol violation ends the connection."""
        if self.closed:
            return
        if self._partial:
            self._partial.append(data)
            self._partial_size += len(data)
            if self._partial_size < self._next_frame_size:
                return
            data = b"".join(self._partial)
            self._partial.clear()
        try:
            rest = self._process_frames(self._strip_preface(data))
        except Http2ProtocolError as breach:
            self.fail(breach.code, str(breach))
        except hpack.HPACKError:
            # The error's message quotes the headers, tokens included.
            self.fail(ErrorCode.COMPRESSION_ERROR, "malformed headers")
        else:
            if rest:
                self._partial.append(rest)
                self._partial_size = len(rest)

    def pause(self) -> None:
        """Marks the transport as full."""
        self.paused = True

    def resume(self) -> None:
        """Marks the transport as writable again, and resumes the streams."""
        self.paused = False
        self._unread_replies = 0
        streams = list(self.streams.values())
        # The first stream may fill the transport: choose another one each time.
        random.shuffle(streams)
        for stream in streams:
            if not stream.blocked and not stream.closed:
                stream.receiver.on_writable()

    def lost(self, reason: str) -> None:
        """Ends every stream after the loss of the transport."""
        self.closed = True
        self.reason = self.reason or reason
        self._close_streams(tuple(self.streams.values()), ErrorCode.CONNECT_ERROR)

    # Called by the layer above

    @property
    def usable(self) -> bool:
        """True if new streams may be opened."""
        return not (self.closed or self.going_away) and self._next_id < ID_MASK

    def open(self, headers: Headers) -> Http2Stream:
        """Opens a stream; the caller sets its receiver at once. Requires `usable`."""
        stream = Http2Stream(self, self._next_id, self._limits.window, self._initial_window)
        self._next_id += 2
        self.streams[stream.id] = stream
        self.write_headers(stream.id, headers, end=False)
        return stream

    def raise_frame_limit(self, frame_size: int) -> None:
        """Raises the frame size limit after the peer has authenticated."""
        if frame_size > self._frame_limit and not self.closed:
            self._frame_limit = frame_size
            self.write(frames.settings({Setting.MAX_FRAME_SIZE: frame_size}))

    def ping(self) -> None:
        """Sends a PING, which the peer must answer."""
        self.write(frames.frame(PING, 0, 0, bytes(8)))

    def go_away(self, text: str) -> None:
        """Refuses new streams and closes the connection after the last open one."""
        if not self.closed and not self.going_away:
            self.going_away = True
            self.write(frames.goaway(self._last_peer_id, ErrorCode.NO_ERROR, text))
            self._close_if_done()

    def fail(self, code: ErrorCode, text: str) -> None:
        """Closes the connection with an error code and a reason."""
        if self.closed:
            return
        self.write(frames.goaway(self._last_peer_id, code, text))
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
        self._window_waiters[stream.id] = stream

    def remove_stream(self, stream: Http2Stream) -> None:
        self.streams.pop(stream.id, None)
        self._window_waiters.pop(stream.id, None)
        if self.going_away:
            self._close_if_done()

    # Frames

    def _strip_preface(self, data: bytes) -> bytes:
        if not self._awaited_preface:
            return data
        size = min(len(self._awaited_preface), len(data))
        if data[:size] != self._awaited_preface[:size]:
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "this port accepts only HTTP/2")
        self._awaited_preface = self._awaited_preface[size:]
        return data[size:]

    def _process_frames(self, data: bytes) -> bytes:
        """Processes all complete frames and returns the remaining bytes."""
        offset, size = 0, len(data)
        while size - offset >= HEAD_SIZE:
            length = data[offset] << 16 | data[offset + 1] << 8 | data[offset + 2]
            if length > self._frame_limit:
                raise _too_large(data, offset, length)
            stop = offset + HEAD_SIZE + length
            if stop > size:
                self._next_frame_size = stop - offset
                return data[offset:]
            kind, flags = data[offset + 3], data[offset + 4]
            stream_id = int.from_bytes(data[offset + 5 : offset + 9], "big") & ID_MASK
            if kind == DATA and self._header_block is None and self._has_peer_settings:
                self._on_data(data, offset + HEAD_SIZE, stop, flags, stream_id)
            else:
                self._on_control(kind, flags, stream_id, data[offset + HEAD_SIZE : stop])
            self.frames_in += 1
            offset = stop
            if self.closed:
                return b""
        self._next_frame_size = HEAD_SIZE
        return data[offset:]

    def _on_data(self, data: bytes, start: int, stop: int, flags: int, stream_id: int) -> None:
        flow_size = stop - start
        self._unreported += flow_size
        if self._unreported > _WINDOW_UPDATE_BYTES:
            self.write(frames.window_update(0, self._unreported))
            self._unreported = 0
        if flow_size < HEAD_SIZE:
            self._spend(1)
        stream = self.streams.get(stream_id)
        if stream is None:
            self._check_was_open(stream_id)
            return
        if stream.peer_ended:
            self._reset(stream, ErrorCode.STREAM_CLOSED, "data after the end of the stream")
            return
        if flags & PADDED:
            start, stop = _without_padding(data, start, stop)
        stream.on_data(data, start, stop, flow_size)
        if flags & END_STREAM and not stream.closed:
            stream.on_peer_end()
            stream.receiver.on_end()

    def _on_control(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        self._spend(_FRAME_COSTS.get(kind, _FRAME_COST))
        if not self._has_peer_settings and kind != SETTINGS:
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")
        if self._header_block is not None and kind != CONTINUATION:
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "a header block was not finished")
        control = self._CONTROLS.get(kind)
        if control is not None:
            control(self, flags, stream_id, payload)
        elif kind == DATA:
            # Other kinds are ignored, also the deprecated PRIORITY (RFC 9113, 4.1 and 5.3).
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "unexpected data")

    def _spend(self, cost: int) -> None:
        """Limits frames that carry no payload of calls."""
        if self._frame_bucket.take(self._clock.monotonic(), cost):
            raise Http2ProtocolError(ErrorCode.ENHANCE_YOUR_CALM, "too many frames without payload")

    def _on_push_promise(self, flags: int, stream_id: int, payload: bytes) -> None:
        raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE is disabled")

    def _on_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        start, stop = 0, len(payload)
        if flags & PADDED:
            start, stop = _without_padding(payload, start, stop)
        if flags & PRIORITIZED:
            start += 5
        if start > stop or not stream_id:
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "malformed HEADERS frame")
        block = bytearray(payload[start:stop])
        self._add_to_header_block(stream_id, flags, block, is_complete=bool(flags & END_HEADERS))

    def _on_continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        if self._header_block is None or self._header_block[0] != stream_id:
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "CONTINUATION without HEADERS")
        _, first_flags, block = self._header_block
        block += payload
        is_complete = bool(flags & END_HEADERS)
        self._add_to_header_block(stream_id, first_flags, block, is_complete=is_complete)

    def _add_to_header_block(
        self, stream_id: int, flags: int, block: bytearray, *, is_complete: bool
    ) -> None:
        """Keeps the received part of a header block until it is complete."""
        if len(block) > MAX_HEADER_BYTES:
            raise Http2ProtocolError(
                ErrorCode.ENHANCE_YOUR_CALM, f"more than {MAX_HEADER_BYTES} bytes of headers"
            )
        self._header_block = None if is_complete else (stream_id, flags, block)
        if is_complete:
            self._on_header_block(stream_id, flags, block)

    def _on_header_block(self, stream_id: int, flags: int, block: bytearray) -> None:
        self._spend(len(block) >> _HEADER_COST_SHIFT)
        if _has_too_many_resizes(block):
            raise Http2ProtocolError(
                ErrorCode.COMPRESSION_ERROR, "too many header table size updates"
            )
        # Decode every block, even one that is dropped: it updates the header table of both sides.
        headers = self._decode(bytes(block))
        stream = self.streams.get(stream_id)
        end = bool(flags & END_STREAM)
        if stream is None:
            self._on_new_stream(stream_id, headers, end=end)
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

    def _on_new_stream(self, stream_id: int, headers: Headers, *, end: bool) -> None:
        if self._accept is None or stream_id <= self._last_peer_id:
            self._check_was_open(stream_id)
            return
        if not stream_id % 2:
            raise Http2ProtocolError(
                ErrorCode.PROTOCOL_ERROR, f"a client opened stream {stream_id}"
            )
        if self.going_away or len(self.streams) >= self._limits.streams:
            self._last_peer_id = stream_id
            self._reply(frames.rst_stream(stream_id, ErrorCode.REFUSED_STREAM))
            return
        self._last_peer_id = stream_id
        self._count_reply()
        stream = Http2Stream(self, stream_id, self._limits.window, self._initial_window)
        self.streams[stream_id] = stream
        stream.peer_ended = end
        self._accept(self, stream, headers)

    def _on_rst_stream(self, flags: int, stream_id: int, payload: bytes) -> None:
        code = frames.read_u32(payload, "RST_STREAM")
        stream = self.streams.get(stream_id)
        if stream is None:
            self._check_was_open(stream_id)
            return
        stream.close()
        stream.receiver.on_reset(code, f"the peer reset the stream: {frames.error_name(code)}")

    def _on_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id or (flags & ACK and not self._has_peer_settings):
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "malformed SETTINGS frame")
        if flags & ACK and payload:
            raise Http2ProtocolError(
                ErrorCode.FRAME_SIZE_ERROR, "SETTINGS acknowledgement with a payload"
            )
        self._has_peer_settings = True
        if flags & ACK:
            return
        for name, value in frames.read_settings(payload):
            self._spend(_FRAME_COST)
            self._apply_setting(name, value)
        self._reply(frames.frame(SETTINGS, ACK, 0))
        self._send_waiting()

    def _apply_setting(self, name: int, value: int) -> None:
        if name == Setting.MAX_FRAME_SIZE:
            self.frame_size = value
        elif name == Setting.HEADER_TABLE_SIZE:
            # A smaller table must be announced (RFC 7541, 4.2): none is used.
            self._table_update = _NO_TABLE if value < MAX_TABLE_BYTES else self._table_update
        elif name == Setting.ENABLE_PUSH and value and self._accept is None:
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "the server enables push")
        elif name == Setting.INITIAL_WINDOW_SIZE:
            grown, self._initial_window = value - self._initial_window, value
            for stream in self.streams.values():
                stream.grow_send_window(grown)

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
        self.going_away = True
        self.reason = (
            self.reason or text or f"the peer closes the connection: {frames.error_name(code)}"
        )
        if self._accept is None:
            unserved = [stream for stream in self.streams.values() if stream.id > last]
            self._close_streams(unserved, ErrorCode.REFUSED_STREAM)
        self._close_if_done()

    def _on_window_update(self, flags: int, stream_id: int, payload: bytes) -> None:
        grown = frames.read_u32(payload, "WINDOW_UPDATE") & ID_MASK
        if not grown:
            raise Http2ProtocolError(
                ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE with a zero increment"
            )
        if not stream_id:
            self.send_window += grown
            if self.send_window > MAX_WINDOW:
                raise Http2ProtocolError(
                    ErrorCode.FLOW_CONTROL_ERROR, "the connection's window exceeds 2^31-1"
                )
        elif (stream := self.streams.get(stream_id)) is not None:
            stream.grow_send_window(grown)
        else:
            self._check_was_open(stream_id)
        if self._window_waiters:
            self._send_waiting()

    # Functions: bound methods would be a cycle, which keeps the memory of an ended connection.
    _CONTROLS: ClassVar[Mapping[int, Callable[["Http2Connection", int, int, bytes], None]]] = {
        HEADERS: _on_headers,
        CONTINUATION: _on_continuation,
        RST_STREAM: _on_rst_stream,
        SETTINGS: _on_settings,
        PUSH_PROMISE: _on_push_promise,
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
        self._unread_replies += self.paused
        if self._unread_replies > _MAX_UNREAD_REPLIES:
            raise Http2ProtocolError(
                ErrorCode.ENHANCE_YOUR_CALM, "too many requests, and the peer reads no answer"
            )

    def _send_waiting(self) -> None:
        """Sends one frame of each waiting stream in turn, until the windows are full."""
        sending: Iterable[Http2Stream] = tuple(self._window_waiters.values())
        while sending:
            sending = [
                stream
                for stream in sending
                if stream.has_queued_data and stream.send_queued_frame()
            ]
        for stream in tuple(self._window_waiters.values()):
            if not stream.has_queued_data:
                self._window_waiters.pop(stream.id, None)
                if not stream.closed and not stream.blocked:
                    stream.receiver.on_writable()

    def _check_was_open(self, stream_id: int) -> None:
        """Refuses a frame of a stream that was never opened; closed streams may still get some."""
        last_id = self._next_id - 1 if self._accept is None else self._last_peer_id
        if not stream_id % 2 or stream_id > last_id:
            raise Http2ProtocolError(
                ErrorCode.PROTOCOL_ERROR, f"stream {stream_id} was never opened"
            )

    def _close_streams(self, streams: Iterable[Http2Stream], code: ErrorCode) -> None:
        """Closes streams without a frame; their receivers may end other streams in turn."""
        for stream in streams:
            if not stream.closed:
                stream.close()
                stream.receiver.on_reset(code, self.reason)

    def _reset(self, stream: Http2Stream, code: ErrorCode, reason: str) -> None:
        stream.reset(code)
        stream.receiver.on_reset(code, reason)

    def _close_if_done(self) -> None:
        if not self.streams and not self.closed:
            self.closed = True
            self._transport.close()


def _too_large(data: bytes, offset: int, length: int) -> Http2ProtocolError:
    if data.startswith(b"HTTP/1.", offset):
        return Http2ProtocolError(ErrorCode.HTTP_1_1_REQUIRED, "the peer speaks only HTTP/1")
    return Http2ProtocolError(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {length} bytes")


def _has_too_many_resizes(block: bytearray) -> bool:
    """Detects more than the two table size updates that a block may have (RFC 7541, 4.2)."""
    offset = 0
    for _ in range(3):
        if offset >= len(block) or block[offset] >> 5 != 1:
            return False
        offset += 1
        if block[offset - 1] & 0x1F == 0x1F:
            while offset < len(block) and block[offset] & 0x80:
                offset += 1
            offset += 1
    return True


def _without_padding(data: bytes, start: int, stop: int) -> tuple[int, int]:
    """Finds the payload of a padded frame (RFC 9113, 6.1)."""
    if stop == start or data[start] > stop - start - 1:
        raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "the padding is longer than the frame")
    return start + 1, stop - data[start]
