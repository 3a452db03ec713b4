"""A request whose bytes the native hub moves, for the gateway to end it."""

from dataclasses import dataclass

from core.native import NativeHub


@dataclass(frozen=True, slots=True)
class HubRequest:
    """Implements the port `Splice` for a request of the hub."""

    hub: NativeHub
    number: int

    def end(self, response: bytes = b"") -> None:
        """Ends the request: with this response if none has begun, otherwise with a reset. The hub
        gives back a request that was handed over, and sends no response.
        """
        self.hub.end(self.number, response)

    def end_between_events(self) -> None:
        self.hub.end_between_events(self.number)
