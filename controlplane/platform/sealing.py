"""Port for sealing values at rest."""

from typing import Protocol


class Sealer(Protocol):
    """Encrypts secrets at rest; decryption needs the same `context`."""

    def seal(self, plain: bytes, context: str) -> bytes: ...

    def open(self, sealed: bytes, context: str) -> bytes: ...

    def is_current(self, sealed: bytes) -> bool:
        """Returns whether the value was encrypted with the current key."""
        ...
