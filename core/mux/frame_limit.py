"""Rate limit on frames with little payload: each costs as much time as a full one."""

from core.mux.codec import DRAIN, PING, ProtocolError

SMALL_PAYLOAD_BYTES = 32
"""Payloads below this size, in bytes, count against the limit."""
FRAMES_PER_SECOND, FRAME_BURST = 20_000, 50_000
# A correct peer sends one PING in ten seconds and a single DRAIN; each costs an answer or a log
# line.
_WEIGHTS = {PING: 500, DRAIN: 5_000}


class FrameRateLimiter:
    """The token bucket of one link, with a burst of `FRAME_BURST`."""

    __slots__ = ("_left", "_since")

    def __init__(self, now: float) -> None:
        self._left, self._since = FRAME_BURST, now

    def spend(self, type_: int, now: float) -> None:
        """Counts a small frame of this type. Raises ProtocolError beyond the limit."""
        self._left -= _WEIGHTS.get(type_, 1)
        if self._left < 0:
            saved = int((now - self._since) * FRAMES_PER_SECOND)
            self._left, self._since = min(self._left + saved, FRAME_BURST), now
            if self._left < 0:
                raise ProtocolError("too many frames with little payload")
