"""Environment variables of the control plane."""

import re
from dataclasses import dataclass
from typing import Annotated

from controlplane.authorization import Actor, Resource, ResourceKind, Verb, require
from controlplane.platform.context import OperationContext
from controlplane.platform.plugin_settings import Setting
from controlplane.platform.ports import Transaction
from controlplane.secrets.model.secret_source import (
    MAX_PATH_LENGTH,
    ExternalSecretStores,
    SecretSource,
)
from core.errors import Invalid, NotFound

_VARIABLE = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True)
class EnvironmentSource(SecretSource):
    """An environment variable of the control plane."""

    kind = "ENVIRONMENT"
    title = "Environment variable"

    variable: Annotated[str, Setting("Variable", max_length=MAX_PATH_LENGTH, name="key")]
    """Name of the variable without its prefix."""

    async def check_access(self, context: OperationContext, tx: Transaction, actor: Actor) -> None:
        """Requires an administrator: environment variables belong to all projects."""
        require(actor, Verb.ADMINISTER, Resource.whole(ResourceKind.INSTALLATION))

    async def read(self, stores: ExternalSecretStores, project: str) -> bytes:
        if not stores.prefix or not _VARIABLE.fullmatch(self.variable):
            raise Invalid("environment variables are not readable: see the setting `environment`")
        value = stores.environ.get(stores.prefix + self.variable)
        if value is None:
            raise NotFound(f"the environment has no {stores.prefix}{self.variable}")
        return value.encode()
