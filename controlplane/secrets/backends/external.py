"""Connections to external stores of secrets. Implements the port `ExternalSecrets`."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from controlplane.authorization import Actor
from controlplane.secrets.backends.vault import KvStore
from controlplane.secrets.model.secret_source import SecretSource
from controlplane.services.ports import LiveObjects
from core.errors import TowlineError


@dataclass(frozen=True, slots=True)
class ExternalSecretSources:
    """Reads values from their external stores.

    Without `live`, the process cannot reach clusters. `prefix` is the required prefix of
    environment variables; empty: none may be read.
    """

    vaults: Mapping[str, KvStore]
    environ: Mapping[str, str]
    prefix: str
    actor_of: Callable[[str], Awaitable[Actor]]
    live: LiveObjects | None = None

    async def read(self, source: SecretSource, project: str) -> bytes:
        try:
            return await source.read(self, project)
        except TowlineError as error:
            raise type(error)(f"{source}: {error.message}") from None

    async def close(self) -> None:
        """Closes all connections."""
        for vault in self.vaults.values():
            await vault.close()
