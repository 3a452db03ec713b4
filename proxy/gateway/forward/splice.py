"""A forwarded request whose bytes native code moves, until it ends."""

from dataclasses import dataclass
from typing import Protocol

from core.mux.codec import Buffer, Open
from proxy.domain.audit import EndReason


class Splice(Protocol):
    """The native code that moves the bytes."""

    def end(self) -> None:
        """Ends the request. Resets it if its response has begun; otherwise gives it back."""
        ...

    def end_between_events(self) -> None:
        """Ends a watch cleanly as soon as it is between two events."""
        ...


@dataclass(frozen=True, slots=True)
class SpliceEnd:
    """The end of a spliced request. `status` 0: no response has begun. `reason` None: `Splice.end`
    or `Splice.end_between_events` has ended it.
    """

    status: int
    bytes_in: int
    bytes_out: int
    reason: EndReason | None


class DetachedClient:
    """Client of a request whose connection now belongs to native code."""

    write_paused = draining = False

    def write(self, data: Buffer) -> None: ...

    def abort(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def hand_over(self, request: object, message: Open) -> bool:
        """Returns False: the request was handed over before."""
        return False

    def on_forwarded(self) -> None: ...

    def on_detached(self) -> None: ...

    def on_response_end(self, *, keep_alive: bool) -> None: ...


DETACHED = DetachedClient()
