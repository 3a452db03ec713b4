"""One stream: its two windows, what waits for room, and how it ends (RFC 9113, 5 and 6.9)."""

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from fleet.http2.frames import (
    DATA,
    END_STREAM,
    MOST_WINDOW,
    Breach,
    ErrorCode,
    head,
    rst_stream,
    window_update,
)

Buffer = bytes | bytearray | memoryview
Header = tuple[str, str]
Headers = Sequence[Header]


class Receiver(Protocol):
    """Who reads a stream. After `on_reset`, or when both sides have ended, nothing more comes."""

    def on_headers(self, headers: Headers, *, end: bool) -> None:
        """The first headers, or the last ones: trailers."""
        ...

    def on_data(self, data: bytes, start: int, stop: int) -> None:
        """A piece of the body; what is taken of it is to be told to `Stream.consume`."""
        ...

    def on_end(self) -> None:
        """The far side has said all, without trailers."""
        ...

    def on_reset(self, code: int, reason: str) -> None:
        """The stream was cut off, by the far side or with its connection."""
        ...

    def on_room(self) -> None:
        """The stream is no longer blocked."""
        ...


class Carrier(Protocol):
    """What a stream needs of its connection."""

    window: int
    frame_size: int
    paused: bool

    def write(self, data: bytes) -> None: ...
    def wait_for_window(self, stream: "Stream") -> None: ...
    def write_headers(self, stream_id: int, headers: Headers, *, end: bool) -> None: ...
    def forget(self, stream: "Stream") -> None: ...
    def trust(self, frame_size: int) -> None: ...


class Stream:
    """`granted` bytes may come in, `window` bytes may go out, at first."""

    __slots__ = (
        "_carrier",
        "_granted",
        "_left",
        "_queue",
        "_taken",
        "_trailers",
        "far_ended",
        "id",
        "near_ended",
        "over",
        "receiver",
        "window",
    )

    def __init__(self, carrier: Carrier, stream_id: int, granted: int, window: int) -> None:
        self.id, self.window = stream_id, window
        self.receiver: Receiver
        self.near_ended = self.far_ended = self.over = False
        self._carrier = carrier
        self._granted = self._left = granted
        self._taken = 0
        self._queue: deque[memoryview] = deque()
        self._trailers: Headers | None = None

    # Out

    @property
    def blocked(self) -> bool:
        """Whether what is sent now would only wait."""
        return bool(self._queue) or self._carrier.paused

    def send_headers(self, headers: Headers) -> None:
        """The first headers of this side."""
        if not self.over:
            self._carrier.write_headers(self.id, headers, end=False)

    def send(self, pieces: Sequence[Buffer], size: int) -> None:
        """A part of the body, of `size` bytes in all. What no window has room for waits here."""
        if self.over or self.near_ended or not size:
            return
        carrier = self._carrier
        if not self._queue and size <= min(self.window, carrier.window, carrier.frame_size):
            self.window -= size
            carrier.window -= size
            carrier.write(b"".join((head(size, DATA, 0, self.id), *pieces)))
            return
        self._queue.append(memoryview(b"".join(pieces)))
        self._pump()

    def end(self, trailers: Headers = ()) -> None:
        """Nothing more comes from this side but what waits, and these trailers."""
        if self.over or self.near_ended:
            return
        self.near_ended = True
        self._trailers = trailers
        if not self._queue:
            self._write_end()

    def reset(self, code: ErrorCode = ErrorCode.CANCEL) -> None:
        """Cut the stream off; the receiver is not told."""
        if not self.over:
            self._carrier.write(rst_stream(self.id, code))
            self.leave()

    def turn(self) -> bool:
        """Send one frame of what waits, if windows allow; whether there was room."""
        carrier, waiting = self._carrier, self._queue[0]
        size = min(len(waiting), carrier.frame_size, self.window, carrier.window)
        if size <= 0:
            return False
        self.window -= size
        carrier.window -= size
        carrier.write(head(size, DATA, 0, self.id) + waiting[:size])
        if size == len(waiting):
            self._queue.popleft()
        else:
            self._queue[0] = waiting[size:]
        if not self._queue and self.near_ended:
            self._write_end()
        return True

    def grow(self, grown: int) -> None:
        """The far side takes more. Breach: more than there can be."""
        self.window += grown
        if self.window > MOST_WINDOW:
            raise Breach(ErrorCode.FLOW_CONTROL_ERROR, "a window grew too wide")

    @property
    def waiting(self) -> bool:
        """Whether something waits for a window."""
        return bool(self._queue)

    # In

    def on_data(self, data: bytes, start: int, stop: int, flow: int) -> None:
        """A frame came in; `flow` counts its padding too. Breach: more than was granted."""
        self._left -= flow
        if self._left < 0:
            raise Breach(ErrorCode.FLOW_CONTROL_ERROR, f"stream {self.id} sent beyond its window")
        if flow > stop - start:
            self.consume(flow - (stop - start))
        if stop > start:
            self.receiver.on_data(data, start, stop)

    def consume(self, size: int) -> None:
        """So much of what came was taken, and may be followed by as much."""
        self._taken += size
        if self._taken >= self._granted >> 1 and not self.far_ended and not self.over:
            self._left += self._taken
            self._carrier.write(window_update(self.id, self._taken))
            self._taken = 0

    def widen(self, granted: int) -> None:
        """Let the far side send up to `granted` bytes ahead from now on."""
        grown = granted - self._granted
        if grown > 0 and not self.far_ended and not self.over:
            self._granted = granted
            self._left += grown
            self._carrier.write(window_update(self.id, grown))

    def trust(self, frame_size: int) -> None:
        """Who the far side is has been shown: it may send frames of this size."""
        self._carrier.trust(frame_size)

    def on_far_end(self) -> None:
        """The far side has said its last; with this side's end the stream is over."""
        self.far_ended = True
        if self.near_ended and not self._queue:
            self.leave()

    def leave(self) -> None:
        """The stream is over."""
        if not self.over:
            self.over = True
            self._queue.clear()
            self._carrier.forget(self)

    # Inside

    def _pump(self) -> None:
        while self._queue and self.turn():
            pass
        if self._queue:
            self._carrier.wait_for_window(self)

    def _write_end(self) -> None:
        if self._trailers:
            self._carrier.write_headers(self.id, self._trailers, end=True)
        else:
            self._carrier.write(head(0, DATA, END_STREAM, self.id))
        if self.far_ended:
            self.leave()
