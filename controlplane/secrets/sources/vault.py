"""Vaults of the settings."""

from dataclasses import dataclass
from typing import Annotated

from controlplane.authorization import Actor
from controlplane.platform.context import OperationContext
from controlplane.platform.plugin_settings import Setting
from controlplane.platform.ports import Transaction
from controlplane.secrets.model.secret_source import (
    MAX_PATH_LENGTH,
    ExternalSecretStores,
    SecretSource,
)
from core.errors import NotFound


@dataclass(frozen=True, slots=True)
class VaultSource(SecretSource):
    """A HashiCorp Vault named in the settings."""

    kind = "VAULT"
    title = "Vault"

    vault: Annotated[str, Setting("Vault", max_length=MAX_PATH_LENGTH, name="store")]
    """Name of the Vault in the settings."""
    path: Annotated[str, Setting("Path", max_length=MAX_PATH_LENGTH)]
    """Path below the configured prefix."""
    data_key: Annotated[str, Setting("Key", max_length=MAX_PATH_LENGTH, name="key")]
    """Key in the Vault secret."""

    async def check_access(self, context: OperationContext, tx: Transaction, actor: Actor) -> None:
        """The prefix of a Vault limits each project, so this needs no further permission."""

    async def read(self, stores: ExternalSecretStores, project: str) -> bytes:
        store = stores.vaults.get(self.vault)
        if store is None:
            raise NotFound(f"the settings define no Vault {self.vault!r}")
        return await store.value(self.path, self.data_key, project)
