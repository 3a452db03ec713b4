"""A hand-driven event loop with its clock, and a link between two muxes in memory."""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import Any

from core.mux import codec
from core.mux.budget import ReceiveBudget
from core.mux.codec import Buffer, Drain, Hello, Open
from core.mux.mux import Mux, MuxSettings, MuxTime
from core.mux.stream import TunnelStream


class ManualHandle:
    """A timer of `ManualLoop`."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualLoop:
    """Timers and Clock in one: time moves only by `advance`, callbacks run only by `run`."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._soon: deque[ManualHandle] = deque()
        self._later: list[tuple[float, int, ManualHandle]] = []
        self._order = count()

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self._now)

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def call_soon(self, callback: Callable[..., object], /, *args: Any) -> ManualHandle:
        handle = ManualHandle(partial(callback, *args))
        self._soon.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], /, *args: Any
    ) -> ManualHandle:
        handle = ManualHandle(partial(callback, *args))
        heapq.heappush(self._later, (self._now + delay, next(self._order), handle))
        return handle

    @property
    def idle(self) -> bool:
        return not self._soon

    def run(self) -> None:
        """Run what is due, and what that makes due."""
        while self._soon:
            self.turn()

    def turn(self) -> None:
        """Run what is due, once."""
        for _ in range(len(self._soon)):
            handle = self._soon.popleft()
            if not handle.cancelled:
                handle.callback()

    def advance(self, seconds: float) -> None:
        """Move time, and queue the timers that fall due."""
        self._now += seconds
        while self._later and self._later[0][0] <= self._now:
            self._soon.append(heapq.heappop(self._later)[2])


class MemoryLink:
    """One end of a link; `deliver` moves one message to the other end's mux."""

    def __init__(self) -> None:
        self.sent: deque[bytes] = deque()
        self.depth = 1
        self.closed_for: str | None = None
        self.mux: Mux | None = None

    @property
    def blocked(self) -> bool:
        return len(self.sent) >= self.depth

    def send(self, buffers: Sequence[Buffer]) -> None:
        assert not self.blocked
        self.sent.append(b"".join(buffers))

    def close(self, reason: str) -> None:
        self.closed_for = reason

    def deliver(self, other: Mux) -> None:
        """The oldest message arrives there."""
        message = self.sent.popleft()
        other.on_message(message)
        if self.mux is not None:
            self.mux.on_drain()


class RecordingOwner:
    """A stream's owner that records its events and consumes data only on request."""

    def __init__(self) -> None:
        self.stream: TunnelStream | None = None
        self.received = bytearray()
        self.unconsumed = 0
        self.ended: bool | None = None
        self.reset: tuple[int, str] | None = None
        self.may_send = True

    def on_data(self, data: Buffer) -> None:
        self.received += data
        self.unconsumed += len(data)

    def on_end(self, close: bool) -> None:
        assert self.ended is None
        self.ended = close

    def on_writable(self) -> None:
        self.may_send = True

    def on_reset(self, code: int, text: str) -> None:
        assert self.reset is None
        self.reset = (code, text)

    def consume(self, size: int) -> None:
        size = min(size, self.unconsumed)
        self.unconsumed -= size
        if self.stream is not None:
            self.stream.consumed(size)


class RecordingMuxOwner:
    """A mux's owner that accepts every stream with a `RecordingOwner`."""

    def __init__(self) -> None:
        self.ready: Hello | None = None
        self.accepted: dict[int, RecordingOwner] = {}
        self.requests: dict[int, Open] = {}
        self.hand_over: Drain | None = None
        self.closed_for: str | None = None

    def on_ready(self, hello: Hello) -> None:
        self.ready = hello

    def on_open(self, stream: TunnelStream, request: Open) -> None:
        owner = RecordingOwner()
        owner.stream = stream
        stream.owner = owner
        self.accepted[stream.id] = owner
        self.requests[stream.id] = request

    def on_peer_draining(self, drain: Drain) -> None:
        self.hand_over = drain

    def on_closed(self, reason: str) -> None:
        assert self.closed_for is None
        self.closed_for = reason


def greeted_link(loop: ManualLoop, instance: bytes, line: MemoryLink | None = None) -> Mux:
    """The hub's end of a link whose agent has said hello; `instance`: one byte that names it."""
    link = Mux(
        line or MemoryLink(),
        RecordingMuxOwner(),
        hub=True,
        hello=Hello(b"h" * 16, 1024),
        time=MuxTime(loop, loop),
        budget=ReceiveBudget(1 << 20),
        settings=MuxSettings(),
    )
    hello = Hello(instance * 16, 1024).pack()
    link.on_message(codec.header(0, codec.HELLO, len(hello)) + hello)
    return link
