"""How many slight frames a peer may send: each costs as much time as one that carries something."""

from fleet.mux.codec import DRAIN, PING, ProtocolError

SLIGHT = 32
"""Payloads below are slight, in bytes."""
A_SECOND, AT_ONCE = 20_000, 50_000
# An honest peer sends one in ten seconds, and one in all; each of them is answered or logged.
_WEIGHTS = {PING: 500, DRAIN: 5_000}


class Ration:
    """Of one link. What is not used is saved, up to `AT_ONCE`."""

    __slots__ = ("_left", "_since")

    def __init__(self, now: float) -> None:
        self._left, self._since = AT_ONCE, now

    def spend(self, type_: int, now: float) -> None:
        """A slight frame of this type has come. ProtocolError: one too many."""
        self._left -= _WEIGHTS.get(type_, 1)
        if self._left < 0:
            saved = int((now - self._since) * A_SECOND)
            self._left, self._since = min(self._left + saved, AT_ONCE), now
            if self._left < 0:
                raise ProtocolError("a flood of frames that carry next to nothing")
