"""What use cases about secrets and keys need of the world, as Protocols."""

from typing import Protocol

from controlplane.domain.secrets import SecretSource
from controlplane.ports import Sealer


class KeyRing(Sealer, Protocol):
    """A sealer whose keys come and go; what any of them has sealed can be opened."""

    def holds(self, id: str) -> bool:
        """Whether it has a key."""
        ...

    def take(self, id: str, key: bytes) -> None:
        """Have one more key, of 32 bytes, to open with."""
        ...

    def seal_with(self, id: str) -> None:
        """Seal with this key from now on."""
        ...


class KeyEncryption(Protocol):
    """A key that leaves its place never, or only into this process: it wraps the data keys."""

    @property
    def name(self) -> str:
        """What names the key; no other has the same name."""
        ...

    async def wrap(self, key: bytes, context: str) -> bytes:
        """A key, wrapped. Unavailable: whoever has the key-encryption key does not answer."""
        ...

    async def unwrap(self, wrapped: bytes, context: str) -> bytes:
        """The key again. Unavailable; Invalid: wrapped with another one, or altered."""
        ...

    async def close(self) -> None:
        """Close its connections, if it has any."""
        ...


class ExternalSecrets(Protocol):
    """Values that are kept elsewhere."""

    async def read(self, source: SecretSource, project: str) -> bytes:
        """The value now; `project` is the name of the project that asks.

        NotFound, Forbidden, Unavailable, Invalid: name the source and the reference, no value.
        """
        ...
