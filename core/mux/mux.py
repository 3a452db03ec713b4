"""Many streams over one link: states, credit, fair turns, liveness, draining.

The control plane opens streams, and the agent accepts them. The mux checks every frame of its
peer: a malformed frame closes the link; data beyond credit or after the end resets its stream.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import ClassVar, Protocol

from core.mux import codec
from core.mux.budget import ReceiveBudget
from core.mux.codec import Buffer, Drain, Hello, Open, ProtocolError
from core.mux.compression import FrameCompressor, decompress
from core.mux.congestion import STEP, AckSchedule, CongestionWindow
from core.mux.frame_limit import SMALL_PAYLOAD_BYTES, FrameRateLimiter
from core.mux.link import CancellableTimer, MuxLink, Timers
from core.mux.send_queue import MESSAGE, QUANTUM, SendQueue
from core.mux.stream import StreamOwner, TunnelStream
from core.runtime.clock import Clock

CONGESTED = 2 << 20
LANE_LIMIT = 4 << 20
MAX_CREDIT = 1 << 30
MAX_MESSAGE_BYTES = 256 << 10
PROTOCOL_ERROR_PREFIX = "protocol error"
"""Prefix of the close reason after a protocol violation of the peer."""
VIOLATIONS = 3
VIOLATION_SECONDS = 60.0
COPY_BELOW = 16 << 10
# Turns of the event loop that frames wait for others: a message costs as much as several frames.
MAX_COALESCING_TURNS = 4
GONE, LATE = 502, 504


@dataclass(frozen=True, slots=True)
class MuxSettings:
    """Settings of a mux, in bytes and seconds.

    `window` is the initial receive window of a stream, `max_window` its maximum.
    `max_unread_seconds` bounds the wait for an owner that consumes no data, `max_stream_seconds`
    the age of a stream.
    """

    window: int = 256 << 10
    small_window: int = 64 << 10
    max_window: int = 8 << 20
    ping_after: float = 10.0
    dead_after: float = 25.0
    max_unread_seconds: float = 600.0
    max_stream_seconds: float = 86_400.0


@dataclass(frozen=True, slots=True)
class MuxTime:
    """The clock of a mux, and the timers of the event loop that it runs in."""

    clock: Clock
    timers: Timers


class MuxOwner(Protocol):
    """Callbacks for events of the link. They must not block."""

    def on_ready(self, hello: Hello) -> None:
        """The peer has sent HELLO; streams may be opened."""
        ...

    def on_open(self, stream: TunnelStream, request: Open) -> None:
        """Agent only: the control plane opened a stream; must set `stream.owner`."""
        ...

    def on_peer_draining(self, drain: Drain) -> None:
        """The peer is draining: reconnect, and let open streams end."""
        ...

    def on_closed(self, reason: str) -> None:
        """The link and all its streams have ended."""
        ...


class Mux:
    """One end of a link; `hub` is true on the side of the control plane."""

    __slots__ = (
        "_ack_is_fast",
        "_ack_timer",
        "_acks",
        "_clock",
        "_compressor",
        "_congestion",
        "_frame_limiter",
        "_hello",
        "_hub",
        "_last_id",
        "_last_posted",
        "_last_received",
        "_link",
        "_owner",
        "_ping_sent",
        "_queue",
        "_sends_at_once",
        "_settings",
        "_tick_scheduled",
        "_timers",
        "_violations",
        "_waited_turns",
        "budget",
        "closed",
        "congested",
        "crowded",
        "draining",
        "max_window",
        "peer",
        "peer_draining",
        "streams",
    )

    def __init__(
        self,
        link: MuxLink,
        owner: MuxOwner,
        *,
        hub: bool,
        hello: Hello,
        time: MuxTime,
        budget: ReceiveBudget,
        settings: MuxSettings,
    ) -> None:
        self.streams: dict[int, TunnelStream] = {}
        self.budget = budget
        self.max_window = settings.max_window
        self.congested = self.crowded = False
        self.closed = False
        self.draining = False
        self.peer_draining = False
        self.peer: Hello | None = None
        self._link, self._owner, self._hub = link, owner, hub
        self._clock, self._timers, self._settings = time.clock, time.timers, settings
        self._hello = hello
        self._queue = SendQueue()
        self._compressor: FrameCompressor | None = None
        self._congestion = CongestionWindow()
        self._acks = AckSchedule()
        self._last_id = 0
        self._last_received = self._clock.monotonic()
        self._frame_limiter = FrameRateLimiter(self._last_received)
        self._ping_sent = False
        self._tick_scheduled = False
        self._sends_at_once = True
        self._waited_turns = self._last_posted = 0
        self._ack_timer: CancellableTimer | None = None
        self._ack_is_fast = False
        self._violations: tuple[float, ...] = ()
        self.post(0, codec.HELLO, hello.pack())

    # Called by the owner

    @property
    def accepts_streams(self) -> bool:
        """True after the peer's HELLO, until either side drains."""
        return not (self.closed or self.draining or self.peer_draining) and self.peer is not None

    @property
    def features(self) -> int:
        """Feature bits of the peer's HELLO."""
        return self.peer.features if self.peer is not None else 0

    def open(self, owner: StreamOwner, request: Open, *, tenant: bytes) -> TunnelStream:
        """Sends a request; `owner` gets the response. Tenants take turns fairly."""
        if self.peer is None or self.closed:
            raise ProtocolError("the link is not open")
        self._last_id = self._last_id + 2 if self._last_id else 1
        grant = self._settings.small_window if self.budget.is_tight else self._settings.window
        now = self._clock.monotonic()
        stream = TunnelStream(
            self, self._last_id, tenant, credit=self.peer.window, grant=grant, opened=now
        )
        stream.owner = owner
        self.streams[stream.id] = stream
        stream.sent_end = bool(request.flags & codec.FLAG_NOBODY)
        stream.last_small = self.post(stream.id, codec.OPEN, request.pack(grant))
        if self._last_id >= codec.MAX_ID:
            self.drain(0, "stream ids are used up")
        return stream

    def drain(self, grace_ms: int, text: str) -> None:
        """Asks the peer to move to another link; open streams may end."""
        if not (self.draining or self.closed):
            self.draining = True
            last_id = self._last_id
            self.post(0, codec.DRAIN, Drain(last_id, grace_ms, text).pack())

    def beat(self) -> None:
        """Pings a silent peer and closes the link of a dead one; call about every second.

        Also ends streams that are too old, or whose data nobody reads.
        """
        now = self._clock.monotonic()
        self._end_unread(now)
        self._end_old(now)
        silent = now - self._last_received
        if silent >= self._settings.dead_after:
            self.close(f"no data from the peer for {silent:.0f} s")
        elif silent >= self._settings.ping_after and not self._ping_sent:
            self._ping_sent = True
            self.post(0, codec.PING, b"\0" * 8)

    def close(self, reason: str) -> None:
        """Closes the link and every stream on it."""
        if not self.closed:
            self._link.close(reason)
            self.on_closed(reason)

    def _end_unread(self, now: float) -> None:
        for holder in self.budget.holders(self):
            stalled = holder.stalled_since
            if not stalled:
                holder.stalled_since = now
            elif now - stalled >= self._settings.max_unread_seconds:
                holder.fail(LATE, f"its data has not been read for {now - stalled:.0f} s")

    def _end_old(self, now: float) -> None:
        """Ends old streams; `streams` is in the order of opening."""
        opened_before = now - self._settings.max_stream_seconds
        for stream in [
            *takewhile(lambda candidate: candidate.opened <= opened_before, self.streams.values())
        ]:
            stream.fail(LATE, f"open for {now - stream.opened:.0f} s, the longest allowed time")

    # Called by the link

    def on_message(self, message: bytes) -> None:
        """Processes a message. A protocol violation closes the link."""
        if self.closed:
            return
        self._last_received = self._clock.monotonic()
        self._ping_sent = False
        self._acks.pending += len(message)
        try:
            if len(message) > MAX_MESSAGE_BYTES:
                raise ProtocolError(f"a message of {len(message)} bytes")
            for stream_id, kind, start, end in codec.frames(message):
                self._on_frame(stream_id, kind, _frame_payload(message, start, end))
                if self.closed:
                    return
        except ProtocolError as error:
            self.close(f"{PROTOCOL_ERROR_PREFIX}: {error}")
            return
        self._acknowledge()

    def on_drain(self) -> None:
        """Continues to send when the link is no longer blocked."""
        if self._tick_scheduled or not self._queue:
            return
        if self._queue.is_trivial:
            self._flush()
        else:
            self._next_turn()

    def on_closed(self, reason: str) -> None:
        """Ends all streams after the end of the link."""
        if self.closed:
            return
        self.closed = True
        if self._ack_timer is not None:
            self._ack_timer.cancel()
        for stream in tuple(self.streams.values()):
            stream.close().on_reset(GONE, reason)
        self._owner.on_closed(reason)

    # Called by streams (see `core.mux.stream.TunnelStreamCarrier`)

    def post(self, stream_id: int, kind: int, payload: Buffer) -> int:
        """Queues a small frame and returns its number in the lane."""
        self._queue.post(stream_id, kind, payload)
        number = self._queue.posted
        if self._queue.lane_size > CONGESTED:
            self.crowded = True
        self._schedule()
        return number

    def post_reset(self, stream_id: int, code: int, text: str) -> None:
        """Queues a RESET."""
        if not self.closed:
            self.post(stream_id, codec.RESET, codec.pack_reset(code, text))

    def offer(self, stream: TunnelStream) -> None:
        """Updates the sendable bytes of a stream."""
        self._queue.offer(stream)
        if self._queue.bulk_size > CONGESTED:
            self.congested = True
        if stream.offered:
            self._schedule()

    def forget(self, stream: TunnelStream) -> None:
        """Removes an ended stream."""
        self.streams.pop(stream.id, None)
        if stream.offered:
            self._queue.offer(stream)
        if stream.counted:
            self.budget.forget(stream)

    # Sending

    def _schedule(self) -> None:
        """Sends at the end of the tick; the first frame of a quiet tick goes at once."""
        if self._tick_scheduled or self.closed:
            return
        self._next_turn()
        if self._sends_at_once and not self._link.blocked:
            self._flush()

    def _next_turn(self) -> None:
        self._tick_scheduled = True
        self._timers.call_soon(self._tick)

    def _tick(self) -> None:
        """Sends the queued frames, or waits one more turn while the loop still adds frames."""
        is_trivial = self._queue.is_trivial
        if not is_trivial and self._still_gathering():
            self._next_turn()
            return
        self._waited_turns = 0
        self._tick_scheduled = False
        self._sends_at_once = is_trivial
        if self._queue and not self.closed:
            self._flush()

    def _still_gathering(self) -> bool:
        previous, self._last_posted = self._last_posted, self._queue.posted
        self._waited_turns += 1
        return (
            previous != self._last_posted
            and self._waited_turns <= MAX_COALESCING_TURNS
            and self._queue.lane_size < MESSAGE
            and not self.closed
        )

    def _flush(self) -> None:
        while self._queue and not self._link.blocked:
            compressor = self._compressor if self._congestion.narrow else None
            message, size = self._queue.next_message(self._congestion.room, compressor)
            if not message:
                break
            self._congestion.on_sent(size, self._clock.monotonic())
            self._link.send(message)
        if self.congested or self.crowded:
            self._clear_congestion()

    def _clear_congestion(self) -> None:
        threshold = CONGESTED // 2
        self.congested = self.congested and self._queue.bulk_size >= threshold
        self.crowded = self.crowded and self._queue.lane_size >= threshold
        if not (self.congested and self.crowded):
            for stream in tuple(self.streams.values()):
                stream.wake()

    def _acknowledge(self) -> None:
        if self._ack_timer is not None:
            if self._acks.pending < STEP or self._ack_is_fast:
                return
            self._ack_timer.cancel()
            self._ack_timer = None
        now = self._clock.monotonic()
        delay = self._acks.ack_delay(now)
        self._ack_is_fast = self._acks.pending >= STEP
        if delay == 0:
            self.post(0, codec.ACK, codec.pack_u32(self._acks.take(now)))
        elif delay is not None:
            self._ack_timer = self._timers.call_later(delay, self._acknowledge_late)

    def _acknowledge_late(self) -> None:
        self._ack_timer = None
        if not self.closed:
            size = self._acks.take(self._clock.monotonic())
            self.post(0, codec.ACK, codec.pack_u32(size))

    # Receiving

    def _on_frame(self, stream_id: int, kind: int, payload: Buffer) -> None:
        type_ = kind & codec.TYPE_MASK
        if kind & codec.COMPRESSED:
            if type_ != codec.DATA or not self._both_support(codec.FEATURE_ZSTD):
                raise ProtocolError("a reserved flag is set")
            payload = decompress(payload)
        if self.peer is None and type_ != codec.HELLO:
            raise ProtocolError("the first frame is not HELLO")
        if stream_id == 0:
            self._frame_limiter.spend(type_, self._last_received)
            self._on_link_frame(type_, kind, payload)
        elif (stream := self.streams.get(stream_id)) is not None:
            if len(payload) < SMALL_PAYLOAD_BYTES and not kind & codec.END:
                self._frame_limiter.spend(type_, self._last_received)
            self._on_stream_frame(stream, type_, kind, payload)
        elif type_ == codec.OPEN and not self._hub:
            self._on_open(stream_id, payload)
        elif not stream_id & 1 or stream_id > self._last_id or type_ not in _STREAM_FRAMES:
            raise ProtocolError(f"frame of type {type_} for stream {stream_id}")
        else:
            self._frame_limiter.spend(type_, self._last_received)

    def _on_link_frame(self, type_: int, kind: int, payload: Buffer) -> None:
        handler = self._ON_LINK.get(type_)
        if handler is not None:
            handler(self, kind, payload)
        elif not codec.UNKNOWN_FIRST <= type_ <= codec.UNKNOWN_LAST:
            raise ProtocolError(f"frame of type {type_} for the link")

    def _on_stream_frame(
        self, stream: TunnelStream, type_: int, kind: int, payload: Buffer
    ) -> None:
        if type_ == codec.DATA:
            if stream.received_end:
                self._on_violation(stream, codec.PROTOCOL, "data after the end of the stream")
            elif len(payload) > stream.granted:
                self._on_violation(stream, codec.FLOW, "data beyond credit")
            else:
                stream.receive(payload, kind)
        elif type_ == codec.CREDIT:
            size = codec.unpack_u32(payload)
            if stream.credit + size > MAX_CREDIT:
                raise ProtocolError("the credit is too large")
            stream.add_credit(size)
        elif type_ == codec.RESET:
            code, text = codec.unpack_reset(payload)
            stream.close().on_reset(code, text)
        else:
            raise ProtocolError(f"frame of type {type_} for stream {stream.id}")

    def _on_violation(self, stream: TunnelStream, code: int, text: str) -> None:
        stream.fail(code, text)
        now = self._clock.monotonic()
        self._violations = (*self._violations, now)[-VIOLATIONS:]
        if len(self._violations) == VIOLATIONS and now - self._violations[0] < VIOLATION_SECONDS:
            raise ProtocolError(f"{text}, again")

    def _on_open(self, stream_id: int, payload: Buffer) -> None:
        if not stream_id & 1 or stream_id <= self._last_id:
            raise ProtocolError(f"OPEN with id {stream_id} after {self._last_id}")
        self._last_id = stream_id
        request = Open.unpack(payload)
        stream = TunnelStream(
            self,
            stream_id,
            request.identity,
            credit=request.window,
            grant=self._hello.window,
            opened=self._last_received,
        )
        stream.received_end = bool(request.flags & codec.FLAG_NOBODY)
        self.streams[stream_id] = stream
        self._owner.on_open(stream, request)

    def _on_hello(self, _: int, payload: Buffer) -> None:
        if self.peer is not None:
            raise ProtocolError("a second HELLO")
        hello = Hello.unpack(payload)
        own = self._hello
        if hello.highest < own.lowest or hello.lowest > own.highest:
            raise ProtocolError(
                f"no common version: {hello.lowest}-{hello.highest} there, "
                f"{own.lowest}-{own.highest} here"
            )
        self.peer = hello
        self._set_frame_sizes()
        if self._both_support(codec.FEATURE_ZSTD):
            self._compressor = FrameCompressor()
        self._owner.on_ready(hello)

    def _both_support(self, feature: int) -> bool:
        return bool(self.features & self._hello.features & feature)

    def _on_ping(self, kind: int, payload: Buffer) -> None:
        if len(payload) != 8:
            raise ProtocolError("the payload of a PING is not 8 bytes")
        if self._queue.lane_size > LANE_LIMIT:
            raise ProtocolError("the peer sends PINGs but reads no data")
        if not kind & codec.END:
            self.post(0, codec.PING | codec.END, bytes(payload))

    def _on_drain_frame(self, _: int, payload: Buffer) -> None:
        self.peer_draining = True
        self._owner.on_peer_draining(Drain.unpack(payload))

    def _on_ack(self, _: int, payload: Buffer) -> None:
        self._congestion.on_ack(codec.unpack_u32(payload), self._clock.monotonic())
        self._set_frame_sizes()
        self.on_drain()

    def _set_frame_sizes(self) -> None:
        """Fits the size of frames and messages to the link."""
        largest = self.peer.largest if self.peer is not None else QUANTUM
        self._queue.message = min(self._congestion.message, MESSAGE)
        self._queue.quantum = min(self._queue.message, QUANTUM, largest)

    # Functions: bound methods would be a cycle, which keeps the memory of an ended link.
    _ON_LINK: ClassVar[Mapping[int, Callable[["Mux", int, Buffer], None]]] = {
        codec.HELLO: _on_hello,
        codec.PING: _on_ping,
        codec.DRAIN: _on_drain_frame,
        codec.ACK: _on_ack,
    }


_STREAM_FRAMES = (codec.DATA, codec.CREDIT, codec.RESET)


def _frame_payload(message: bytes, start: int, end: int) -> Buffer:
    """Copies small payloads, so that they do not keep a large message in memory."""
    if end - start > COPY_BELOW:
        return memoryview(message)[start:end]
    return message[start:end]
