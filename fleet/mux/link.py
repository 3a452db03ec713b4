"""What the mux asks of its surroundings: a link that carries messages, and timers."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from fleet.mux.codec import Buffer


class Link(Protocol):
    """Carries messages to one peer, in order.

    It hands what arrives to `Mux.on_message`, says `Mux.on_drain` when it is no longer blocked
    and `Mux.on_closed` once when it has ended.
    """

    @property
    def blocked(self) -> bool:
        """True while a message is on its way; the mux keeps its frames until `on_drain`."""
        ...

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Send one message made of these buffers; never called while blocked."""
        ...

    def close(self, reason: str) -> None:
        """End the link; `Mux.on_closed` need not be called for this."""
        ...


class Handle(Protocol):
    """A timer that can be called off."""

    def cancel(self) -> None: ...


class Timers(Protocol):
    """The part of an event loop that the mux uses; any asyncio loop is one."""

    def call_soon(self, callback: Callable[..., object], /, *args: Any) -> Handle: ...

    def call_later(
        self, delay: float, callback: Callable[..., object], /, *args: Any
    ) -> Handle: ...
