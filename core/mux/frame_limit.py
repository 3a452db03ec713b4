"""Rate limit on frames with little payload: each costs as much time as a full one."""

from core.mux.codec import DRAIN, PING, ProtocolError
from core.runtime.token_bucket import RatePolicy, TokenBucket

SMALL_PAYLOAD_BYTES = 32
"""Payloads below this size, in bytes, count against the limit."""
FRAME_BURST = 50_000
_FRAMES = RatePolicy(rate=20_000, burst=FRAME_BURST)
# A correct peer sends one PING in ten seconds and a single DRAIN; each costs an answer or a log
# line.
_WEIGHTS = {PING: 500, DRAIN: 5_000}


class FrameRateLimiter:
    """The token bucket of one link, with a burst of `FRAME_BURST`."""

    __slots__ = ("_bucket",)

    def __init__(self, now: float) -> None:
        self._bucket = TokenBucket(_FRAMES, now)

    def spend(self, type_: int, now: float) -> None:
        """Counts a small frame of this type. Raises ProtocolError beyond the limit."""
        if self._bucket.take(now, _WEIGHTS.get(type_, 1)):
            raise ProtocolError("too many frames with little payload")
