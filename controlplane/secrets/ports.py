"""Ports for secrets, passwords and keys, as Protocols."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from controlplane.platform.ports import Ids, NamedRows, ProjectRows, Rows
from controlplane.platform.sealing import Sealer
from controlplane.secrets.model.data_keys import DataKey
from controlplane.secrets.model.secret import Secret, SecretVersion
from controlplane.secrets.model.secret_source import SecretSource
from controlplane.services.model.parts import SecretValue
from controlplane.services.model.service import Service


class KeyRing(Sealer, Protocol):
    """A sealer with several keys; it decrypts the values of all of them."""

    def has_key(self, id: str) -> bool:
        """Returns whether the ring has a key."""
        ...

    def add_key(self, id: str, key: bytes) -> None:
        """Adds a key of 32 bytes for decryption."""
        ...

    def seal_with(self, id: str) -> None:
        """Encrypts with this key from now on."""
        ...


class KeyEncryption(Protocol):
    """A key-encryption key: it wraps the data keys, and never leaves its store, or only into this
    process.
    """

    name: str
    """Unique name of the key."""

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
        """Closes its connections. Default: it has none."""
        return


class ExternalSecrets(Protocol):
    """Values in external secret stores."""

    async def read(self, source: SecretSource, project: str) -> bytes:
        """Returns the current value; `project` is the name of the requesting project.

        Raises NotFound, Forbidden, Unavailable or Invalid. Errors name source and reference, never
        the value.
        """
        ...


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


class SecretStore(NamedRows[Secret], ProjectRows[Secret], Protocol):
    """Secrets, without their values."""

    async def set_due(self, id: str, at: datetime) -> None:
        await self.change(id, due_at=at)


class SecretVersionStore(Rows[SecretVersion], Protocol):
    """Sealed values of secrets."""

    async def numbered(self, secret_id: str, number: int) -> SecretVersion | None:
        return await self.find(secret_id=secret_id, number=number)

    async def of_secret(self, secret_id: str) -> list[SecretVersion]:
        return await self.select(secret_id=secret_id)

    async def usable(self, secrets: Ids) -> list[SecretVersion]:
        return await self.select(secret_id=secrets, revoked_at=None)

    async def revoke(self, id: str, at: datetime) -> None:
        await self.change(id, sealed=None, revoked_at=at)


class DataKeyStore(Rows[DataKey], Protocol):
    """Wrapped data keys of the installation."""

    async def set_wrapped(self, id: str, wrapped: bytes, kek: str) -> None:
        await self.change(id, wrapped=wrapped, kek=kek)


class SealedTable(Protocol):
    """A place in the store that contains sealed values."""

    rows: Rows

    @property
    def noun(self) -> str:
        """Noun for the object that contains the value."""
        ...

    def is_behind(self, sealer: Sealer, row: Any) -> bool:
        """True if an older key sealed a value of the row."""
        ...

    def resealed(self, sealer: Sealer, row: Any) -> Mapping[str, object]:
        """The columns of the row, sealed with the current key."""
        ...


class SealedTables(Protocol):
    """All columns of the store that contain encrypted values."""

    def all(self) -> Sequence[SealedTable]:
        """Returns the places, always in the same order."""
        ...
