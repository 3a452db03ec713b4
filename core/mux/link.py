"""Ports of the mux: a link that transports messages, and timers."""

from collections.abc import Callable, Sequence
from typing import Protocol

from core.mux.codec import Buffer


class MuxLink(Protocol):
    """Transports messages to one peer, in order.

    Calls `Mux.on_message` for each received message, `Mux.on_drain` when it is no longer
    blocked, and `Mux.on_closed` once at its end.
    """

    @property
    def blocked(self) -> bool:
        """True while a message is being sent; the mux keeps its frames until `on_drain`."""
        ...

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Sends one message made of these buffers; never called while blocked."""
        ...

    def close(self, reason: str) -> None:
        """Ends the link; need not call `Mux.on_closed`."""
        ...


class CancellableTimer(Protocol):
    """A timer that can be cancelled."""

    def cancel(self) -> None: ...


class Timers(Protocol):
    """The part of an asyncio event loop that the mux uses."""

    def call_soon(self, callback: Callable[..., object], /, *args: object) -> CancellableTimer: ...

    def call_later(
        self, delay: float, callback: Callable[..., object], /, *args: object
    ) -> CancellableTimer: ...
