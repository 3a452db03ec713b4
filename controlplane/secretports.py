"""Ports for secrets, passwords and keys, as Protocols."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from controlplane.domain.secrets import SecretSource
from controlplane.domain.services import Service


class Sealer(Protocol):
    """Encrypts secrets at rest; decryption needs the same `context`."""

    def seal(self, plain: bytes, context: str) -> bytes: ...

    def open(self, sealed: bytes, context: str) -> bytes: ...

    def is_current(self, sealed: bytes) -> bool:
        """Returns whether the value was encrypted with the current key."""
        ...


class KeyRing(Sealer, Protocol):
    """A sealer with several keys; it decrypts the values of all of them."""

    def holds(self, id: str) -> bool:
        """Returns whether the ring has a key."""
        ...

    def take(self, id: str, key: bytes) -> None:
        """Adds a key of 32 bytes for decryption."""
        ...

    def seal_with(self, id: str) -> None:
        """Encrypts with this key from now on."""
        ...


class KeyEncryption(Protocol):
    """A key-encryption key: it wraps the data keys, and never leaves its store, or only into this
    process.
    """

    @property
    def name(self) -> str:
        """Returns the unique name of the key."""
        ...

    async def wrap(self, key: bytes, context: str) -> bytes:
        """Wraps a key. Raises Unavailable if the holder of the
        key-encryption key does not answer.
        """
        ...

    async def unwrap(self, wrapped: bytes, context: str) -> bytes:
        """Unwraps a key.

        Raises Unavailable, or Invalid if another key wrapped it or it was altered.
        """
        ...

    async def close(self) -> None:
        """Closes its connections, if it has any."""
        ...


class ExternalSecrets(Protocol):
    """Values in external secret stores."""

    async def read(self, source: SecretSource, project: str) -> bytes:
        """Returns the current value; `project` is the name of the requesting project.

        Raises NotFound, Forbidden, Unavailable or Invalid. Errors name source and reference, never
        the value.
        """
        ...


class Passwords(Protocol):
    """Password hashes. Slow by design, with limited concurrency."""

    async def hash(self, password: str) -> str: ...

    async def verify(self, hash: str | None, password: str) -> bool:
        """Checks a password; takes the same time without a hash. Raises LimitExceeded if
        busy.
        """
        ...


@dataclass(frozen=True, slots=True, repr=False)
class SecretValue:
    """A value that objects reference; `version` changes exactly when `plain` does. Has no repr."""

    version: str
    plain: bytes


class ServiceSecrets(Protocol):
    """Values of the placeholders `${towline.secret:NAME}` in the objects of services.

    A change of a value raises the `sequence` of each service that references it; only that notifies
    its agent.
    """

    async def of(self, service: Service) -> Mapping[str, SecretValue]:
        """Returns all values of a service by name. Raises Unavailable
        if they cannot be read now.
        """
        ...
