"""A request whose bytes the native hub moves, as its gateway ends it."""

from dataclasses import dataclass

from core.native import NativeHub


@dataclass(frozen=True, slots=True)
class HubRequest:
    """Implements the port `Splice` for a request of the hub."""

    hub: NativeHub
    number: int

    def end(self, response: bytes = b"") -> None:
        """Ends the request: with this response if none has begun, otherwise with a reset. One that
        was handed over is given back instead of a response.
        """
        self.hub.end(self.number, response)

    def end_between_events(self) -> None:
        self.hub.end_between_events(self.number)
