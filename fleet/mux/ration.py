"""Rate limit on frames with little payload: each costs as much time as a full one."""

from fleet.mux.codec import DRAIN, PING, ProtocolError

SLIGHT = 32
"""Payloads below this size, in bytes, count against the limit."""
A_SECOND, AT_ONCE = 20_000, 50_000
# A correct peer sends one PING in ten seconds and a single DRAIN; each costs an answer or a log
# line.
_WEIGHTS = {PING: 500, DRAIN: 5_000}


class Ration:
    """The token bucket of one link, with a burst of `AT_ONCE`."""

    __slots__ = ("_left", "_since")

    def __init__(self, now: float) -> None:
        self._left, self._since = AT_ONCE, now

    def spend(self, type_: int, now: float) -> None:
        """Counts a small frame of this type. Raises ProtocolError beyond the limit."""
        self._left -= _WEIGHTS.get(type_, 1)
        if self._left < 0:
            saved = int((now - self._since) * A_SECOND)
            self._left, self._since = min(self._left + saved, AT_ONCE), now
            if self._left < 0:
                raise ProtocolError("too many frames with little payload")
