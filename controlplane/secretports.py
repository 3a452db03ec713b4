"""What use cases about secrets, passwords and keys need of the world, as Protocols."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from controlplane.domain.secrets import SecretSource
from controlplane.domain.services import Service


class Sealer(Protocol):
    """Encrypts secrets at rest; `context` must be the same for opening."""

    def seal(self, plain: bytes, context: str) -> bytes: ...

    def open(self, sealed: bytes, context: str) -> bytes: ...

    def is_current(self, sealed: bytes) -> bool:
        """Whether that was sealed with the key that seals now."""
        ...


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


class Passwords(Protocol):
    """Hashes of passwords. Slow by intent, few at a time."""

    async def hash(self, password: str) -> str: ...

    async def verify(self, hash: str | None, password: str) -> bool:
        """Whether it is the password; takes the same time without a hash. LimitExceeded: busy."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class SecretValue:
    """A value that objects name; `version` changes when and only when `plain` does. No repr."""

    version: str
    plain: bytes


class ServiceSecrets(Protocol):
    """What the objects of services name as `${towline.secret:NAME}`.

    Who changes a value raises the `sequence` of each service that names it; its agent hears of it
    no sooner.
    """

    async def of(self, service: Service) -> Mapping[str, SecretValue]:
        """All values of a service by name. Unavailable: they cannot be asked for now."""
        ...
