"""One stream of a link, for one proxied request: two directions of bytes, each with credit."""

from typing import Protocol

from core.mux.budget import ReceiveBudget
from core.mux.codec import CANCELLED, CLOSE, CREDIT, DATA, END, STARVED, Buffer, pack_u32
from core.mux.send_queue import SMALL

# Factor by which a window grows in a round trip.
GROWTH = 4


class StreamOwner(Protocol):
    """Callbacks for events of a stream. They must not block; they may reset the stream."""

    def on_data(self, data: Buffer) -> None:
        """Gets bytes; calls `TunnelStream.consumed` once they are written to the next socket."""
        ...

    def on_end(self, close: bool) -> None:
        """The peer sends no more; `close`: the end of its source's connection was the delimiter."""
        ...

    def on_writable(self) -> None:
        """There is room again after `TunnelStream.send` returned False."""
        ...

    def on_reset(self, code: int, text: str) -> None:
        """The peer or the end of the link has ended the stream.

        `code` is from `core.mux.codec`, or an HTTP status for the client.
        """
        ...


class NoOwner:
    """Owner of a stream that nobody listens to: an ended one must not keep its owner."""

    def on_data(self, data: Buffer) -> None:
        pass

    def on_end(self, close: bool) -> None:
        pass

    def on_writable(self) -> None:
        pass

    def on_reset(self, code: int, text: str) -> None:
        pass


NO_OWNER = NoOwner()


class TunnelStreamCarrier(Protocol):
    """The mux, as a stream uses it.

    `max_window` is the maximum receive window in bytes. `congested`: too much bulk data waits.
    `crowded`: even small frames wait.
    """

    budget: ReceiveBudget
    max_window: int
    congested: bool
    crowded: bool

    def post(self, stream_id: int, kind: int, payload: Buffer) -> int:
        """Queues a small frame and returns its number in the lane."""
        ...

    def post_reset(self, stream_id: int, code: int, text: str) -> None: ...

    def offer(self, stream: "TunnelStream") -> None:
        """Updates the sendable bytes of a stream."""
        ...

    def forget(self, stream: "TunnelStream") -> None:
        """Removes an ended stream."""
        ...


class TunnelStream:
    """A stream; closed after the end of both directions or after a reset.

    `opened` and `stalled_since` are monotonic seconds. `stalled_since` is the time when the mux
    first saw unconsumed data; consuming resets it to 0.
    """

    __slots__ = (
        "_backlog",
        "_end_flags",
        "_mux",
        "_owner_waits",
        "_unreported",
        "backlogged",
        "closed",
        "compression_skips",
        "counted",
        "credit",
        "granted",
        "held",
        "id",
        "last_small",
        "offered",
        "opened",
        "owner",
        "received_end",
        "sent_end",
        "stalled_since",
        "starved",
        "tenant",
        "window",
    )

    def __init__(
        self,
        mux: TunnelStreamCarrier,
        stream_id: int,
        tenant: bytes,
        *,
        credit: int,
        grant: int,
        opened: float,
    ) -> None:
        self._mux = mux
        self.opened, self.stalled_since = opened, 0.0
        self.id = stream_id
        self.owner: StreamOwner = NO_OWNER
        self.tenant = tenant
        self.credit = credit
        self.window = self.granted = grant
        self.held = self.counted = self._unreported = 0
        self.backlogged = self.offered = self.last_small = self.compression_skips = 0
        self.starved = self.sent_end = self.received_end = self.closed = False
        self._backlog: list[Buffer] = []
        self._end_flags = 0
        self._owner_waits = False

    @property
    def link(self) -> object:
        """The link whose share of the budget the stream uses."""
        return self._mux

    @property
    def writable(self) -> bool:
        """True if the peer has granted credit and the link is not congested."""
        if self.closed or self.backlogged >= self.credit or self._mux.crowded:
            return False
        return not (self.backlogged and self._mux.congested)

    @property
    def sendable(self) -> int:
        """Bytes of the backlog that have credit."""
        return min(self.backlogged, self.credit)

    def send(self, data: Buffer, flags: int = 0) -> bool:
        """Sends bytes in order, with END (and CLOSE) if they are the last.

        Returns False if the caller must wait for `on_writable`; the given bytes are sent anyway.
        """
        if self.closed or self.sent_end or self._end_flags:
            return False
        size = len(data)
        if not self.backlogged and size <= SMALL and size <= self.credit:
            self._send_small(data, size, flags)
        else:
            self._end_flags = flags
            if size:
                self._backlog.append(data)
                self.backlogged += size
                self._mux.offer(self)
        self._owner_waits = not self.writable
        return not self._owner_waits

    def cut(self, quantum: int) -> tuple[int, Buffer]:
        """Takes the next frame (type with flags, payload) off the backlog, for the send queue."""
        data = self._backlog[0]
        size = min(len(data), quantum, self.credit)
        if size < len(data):
            view = memoryview(data)
            data, self._backlog[0] = view[:size], view[size:]
        else:
            del self._backlog[0]
        self.backlogged -= size
        self.credit -= size
        kind = DATA if self.credit else DATA | STARVED
        if self._end_flags and not self._backlog:
            kind |= self._end_flags
            self._on_end_sent()
        return kind, data

    def reset(self, code: int = CANCELLED, text: str = "") -> None:
        """Ends both directions at once and sends the reason to the peer."""
        if not self.closed:
            self.close()
            self._mux.post_reset(self.id, code, text)

    def fail(self, code: int, text: str) -> None:
        """Resets the stream and also calls its owner's `on_reset`."""
        if not self.closed:
            owner = self.owner
            self.reset(code, text)
            owner.on_reset(code, text)

    def receive(self, data: Buffer, flags: int) -> None:
        """Takes a DATA frame that the mux has checked."""
        self.starved = bool(flags & STARVED)
        if size := len(data):
            self.granted -= size
            self.held += size
            self.owner.on_data(data)
            if self.held and not self.closed:
                self._mux.budget.update(self)
        if flags & END and not self.closed:
            owner = self.owner
            self.received_end = True
            if self.sent_end:
                self.close()
            owner.on_end(bool(flags & CLOSE))

    def consumed(self, size: int) -> None:
        """Reports `size` written bytes, and grants the peer new credit in time: for each quarter of
        the window, and for all that was read if the peer has used up its credit.
        """
        if self.closed:
            return
        self.held -= size
        self.stalled_since = 0.0
        if self.counted:
            self._mux.budget.update(self)
        self._unreported += size
        is_due = self._unreported * 4 >= self.window or (self.starved and not self.held)
        if is_due and not self.received_end:
            self._grant()

    def add_credit(self, size: int) -> None:
        """Takes a CREDIT frame that the mux has checked."""
        self.credit += size
        self._mux.offer(self)
        self.wake()

    def wake(self) -> None:
        """Calls the owner's `on_writable` if it waits and there is room again."""
        if self._owner_waits and self.writable:
            self._owner_waits = False
            self.owner.on_writable()

    def close(self) -> StreamOwner:
        """Leaves the mux without a frame or a callback; returns the former owner."""
        owner, self.owner = self.owner, NO_OWNER
        self.closed = True
        self._backlog.clear()
        self.backlogged = self._end_flags = 0
        self._mux.forget(self)
        return owner

    def _send_small(self, data: Buffer, size: int, flags: int) -> None:
        self.credit -= size
        starved = 0 if self.credit else STARVED
        self.last_small = self._mux.post(self.id, DATA | starved | flags, data)
        if flags & END:
            self._on_end_sent()

    def _on_end_sent(self) -> None:
        self.sent_end = True
        self._end_flags = 0
        if self.received_end:
            self.close()

    def _grant(self) -> None:
        grant = self._unreported
        # The window of a reader that has unread data is large enough.
        if self.starved and not self.held and not self._mux.budget.is_tight:
            self.starved = False
            extra = min(GROWTH * self.window, self._mux.max_window) - self.window
            grant += extra
            self.window += extra
        self._unreported = 0
        self.granted += grant
        self._mux.post(self.id, CREDIT, pack_u32(grant))
