"""Values that only one agent can decrypt."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """A sealed value; `core.sealing` seals and opens it."""

    name: str
    version: str
    """Changes if and only if the plain value does."""
    box: bytes
