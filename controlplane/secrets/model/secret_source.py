"""The base class of sources: one module a kind, and one line in `secrets.sources.SOURCES`."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, Self

from controlplane.authorization import Actor
from controlplane.platform.context import OperationContext
from controlplane.platform.plugin_settings import Plugin, check_limits, setting_fields
from controlplane.platform.ports import Transaction
from controlplane.services.ports import LiveObjects
from core.errors import Invalid, TowlineError

MAX_PATH_LENGTH = 512


class SecretValues(Protocol):
    """One external store, such as the KV engine of a Vault."""

    async def value(self, path: str, key: str, project: str) -> bytes:
        """Returns one value of a secret. Raises NotFound, Forbidden, Unavailable."""
        ...

    async def close(self) -> None:
        """Closes all connections."""
        ...


@dataclass(frozen=True, slots=True)
class SecretSource(Plugin, ABC):
    """Location of a value in an external store."""

    def __str__(self) -> str:
        values = self.values()
        location = "/".join(values[part] for part in ("store", "path") if values.get(part))
        name = self.kind.lower()
        return f"{name}:{location}#{values['key']}" if location else f"{name}:{values['key']}"

    def values(self) -> dict[str, str]:
        """Returns the settings by their published names, in snake case."""
        members = setting_fields(type(self))
        return {member.public_name: getattr(self, member.name) for member in members}

    def checked(self) -> Self:
        """Returns itself. Raises Invalid, naming the missing or oversized field."""
        check_limits(self, "source")
        parts = self.values().get("path", "x").split("/")
        if not all(part and part not in (".", "..") for part in parts):
            raise Invalid("must not have empty parts, '.' or '..'", field="source.path")
        return self

    @abstractmethod
    async def check_access(self, context: OperationContext, tx: Transaction, actor: Actor) -> None:
        """Checks that the actor may read the source. Raises Forbidden, Invalid."""

    @abstractmethod
    async def read(self, stores: "ExternalSecretStores", project: str) -> bytes:
        """Returns the current value for a project.

        Raises NotFound, Forbidden, Unavailable or Invalid, without the value.
        """


@dataclass(frozen=True, slots=True)
class ExternalSecretStores:
    """Connections of this process to external stores. Implements the port `ExternalSecrets`."""

    vaults: Mapping[str, SecretValues]
    """Vaults of the settings, by name."""
    environ: Mapping[str, str]
    """Environment of the control plane."""
    prefix: str
    """Required prefix of variables. Empty: none can be read."""
    actor_of: Callable[[str], Awaitable[Actor]]
    """Finds the service account that reads."""
    live: LiveObjects | None = None
    """Objects of clusters. None without a Kubernetes proxy."""

    async def read(self, source: SecretSource, project: str) -> bytes:
        try:
            return await source.read(self, project)
        except TowlineError as error:
            raise type(error)(f"{source}: {error.message}") from None

    async def close(self) -> None:
        """Closes all connections."""
        for vault in self.vaults.values():
            await vault.close()
