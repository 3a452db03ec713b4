"""The cap on bytes in flight of a link: enough to fill it, few enough to keep turns short.

gRPC gives no usable backpressure, and sockets buffer megabytes. So each side acknowledges the
bytes that it received, and the other derives rate and round-trip time from that.
"""

from bisect import bisect_right
from operator import itemgetter

from core.mux.codec import ProtocolError

# Lower bounds of the cap: bytes for a fast link, seconds of its rate for a slow one.
FLOOR, FLOOR_SECONDS = 96 << 10, 0.5
MIN_CAP = 8 << 10
INITIAL_CAP = 12 << 10
STEP = 32 << 10
GAIN = 1.25
QUEUE_FLOOR, QUEUE_FLOOR_SECONDS = 64 << 10, 0.25
QUEUE_SECONDS = 0.005
MIN_MESSAGE_BYTES = 2 << 10
ROUND_TRIP_MEMORY = 15.0
MIN_ROUND_TRIP_SECONDS = 1e-4
MIN_RATE_MEMORY_SECONDS = 0.2
NARROW_BYTES_PER_SECOND = 60e6


class CongestionWindow:
    """Bytes sent and not yet acknowledged, and the cap on them (both in bytes).

    `narrow` means a measured rate below 60 MB/s, even if nobody sent more.

    An ACK is timed against the last message that it covers, so that pauses of the sender do not
    look like a slow link.
    """

    __slots__ = (
        "_messages",
        "_recent_rates",
        "_round_trip",
        "_round_trip_at",
        "acked",
        "cap",
        "narrow",
        "sent",
    )

    def __init__(self) -> None:
        self.cap = INITIAL_CAP
        self.narrow = False
        self.sent = 0
        self.acked = 0
        self._messages: list[tuple[int, float, int]] = []
        self._recent_rates: list[tuple[float, float]] = []
        self._round_trip = float("inf")
        self._round_trip_at = 0.0

    @property
    def room(self) -> int:
        """Bytes that may still be sent; at zero or below, bulk data waits."""
        return self.cap - (self.sent - self.acked)

    @property
    def message(self) -> int:
        """Maximum size of a message, in bytes; ACKs cover whole messages."""
        return max(MIN_MESSAGE_BYTES, self.cap >> 2)

    def on_sent(self, size: int, now: float) -> None:
        """Records that a message of `size` bytes was sent."""
        self.sent += size
        self._messages.append((self.sent, now, self.acked))

    def on_ack(self, size: int, now: float) -> None:
        """Records that the peer has received `size` more bytes."""
        self.acked += size
        if self.acked > self.sent:
            raise ProtocolError("ACK for more than was sent")
        count = bisect_right(self._messages, self.acked, key=itemgetter(0))
        if count:
            _, sent_at, acked = self._messages[count - 1]
            del self._messages[:count]
            self._update_cap(now, max(now - sent_at, MIN_ROUND_TRIP_SECONDS), self.acked - acked)

    def _update_cap(self, now: float, round_trip: float, delivered: int) -> None:
        if round_trip < self._round_trip or now - self._round_trip_at > ROUND_TRIP_MEMORY:
            self._round_trip, self._round_trip_at = round_trip, now
        rate = self._best_rate(now, delivered / round_trip)
        self.narrow = rate < NARROW_BYTES_PER_SECOND
        queue = max(min(QUEUE_FLOOR, rate * QUEUE_FLOOR_SECONDS), rate * QUEUE_SECONDS)
        floor = max(MIN_CAP, min(FLOOR, rate * FLOOR_SECONDS))
        self.cap = int(max(floor, GAIN * rate * self._round_trip + queue))

    def _best_rate(self, now: float, rate: float) -> float:
        """Returns the best of the recent rates; drops those that a newer one exceeds."""
        while self._recent_rates and self._recent_rates[-1][1] <= rate:
            self._recent_rates.pop()
        self._recent_rates.append((now, rate))
        horizon = now - max(10 * self._round_trip, MIN_RATE_MEMORY_SECONDS)
        while self._recent_rates[0][0] < horizon:
            self._recent_rates.pop(0)
        return self._recent_rates[0][1]


class AckSchedule:
    """Schedule of acknowledgements: at 32 KiB if the last was 1 ms ago, at 256 KiB at once.

    Slow links get one sooner: at 2 KiB if the last was 100 ms ago.
    """

    __slots__ = ("_last", "pending")

    PACE = 0.001
    LIMIT = 256 << 10
    SLOW_STEP, SLOW_PACE = 2 << 10, 0.1

    def __init__(self) -> None:
        self.pending = 0
        self._last = float("-inf")

    def ack_delay(self, now: float) -> float | None:
        """Returns the seconds until the next ACK, None if too few bytes are pending."""
        if self.pending < self.SLOW_STEP:
            return None
        if self.pending >= self.LIMIT:
            return 0.0
        pace = self.PACE if self.pending >= STEP else self.SLOW_PACE
        return max(0.0, self._last + pace - now)

    def take(self, now: float) -> int:
        """Returns and resets the bytes to acknowledge."""
        size, self.pending, self._last = self.pending, 0, now
        return size
