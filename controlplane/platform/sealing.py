"""Port for sealing values at rest."""

from typing import Protocol

from core.sealing import SealingKey


class Sealer(Protocol):
    """Encrypts secrets at rest; decryption needs the same `context`."""

    def seal(self, plain: bytes, context: str) -> bytes: ...

    def open(self, sealed: bytes, context: str) -> bytes: ...

    @property
    def manifest_key(self) -> SealingKey:
        """Returns the key pair that opens sealed values in manifests."""
        ...

    def is_current(self, sealed: bytes) -> bool:
        """Returns whether the value was encrypted with the current key."""
        ...
