"""Implements the port `ExternalSecrets`: Vaults of the settings, Secrets of clusters, the
environment.
"""

import base64
import binascii
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from controlplane.domain.access import Actor
from controlplane.domain.names import is_label
from controlplane.domain.secrets import SecretSource, SourceKind
from controlplane.ports import LiveObjects
from controlplane.secrets.vault import KvStore
from core.errors import Invalid, NotFound, TowlineError, Unavailable

_VARIABLE = re.compile(r"[A-Za-z0-9_]+")
# Names of Kubernetes Secrets: RFC 1123 subdomains.
_SUBDOMAIN = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")

ActorOf = Callable[[str], Awaitable[Actor]]


class ExternalSecretSources:
    """Reads values from their external stores.

    `live` is set with the Kubernetes proxy, if there is one. `prefix` is the required prefix of
    environment variables; empty: none may be read.
    """

    def __init__(
        self,
        vaults: Mapping[str, KvStore],
        environ: Mapping[str, str],
        prefix: str,
        actor_of: ActorOf,
    ) -> None:
        self._vaults = dict(vaults)
        self._environ = environ
        self._prefix = prefix
        self._actor_of = actor_of
        self.live: LiveObjects | None = None
        self._readers: Mapping[SourceKind, Callable[[SecretSource, str], Awaitable[bytes]]] = {
            SourceKind.VAULT: self._vault,
            SourceKind.KUBERNETES: self._kubernetes,
            SourceKind.ENVIRONMENT: self._environment,
        }

    async def read(self, source: SecretSource, project: str) -> bytes:
        try:
            return await self._readers[source.kind](source, project)
        except TowlineError as error:
            raise type(error)(f"{source}: {error.message}") from None

    async def close(self) -> None:
        """Closes all connections."""
        for vault in self._vaults.values():
            await vault.close()

    async def _vault(self, source: SecretSource, project: str) -> bytes:
        store = self._vaults.get(source.store)
        if store is None:
            raise NotFound(f"the settings define no Vault {source.store!r}")
        return await store.value(source.path, source.key, project)

    async def _kubernetes(self, source: SecretSource, project: str) -> bytes:
        namespace, _, name = source.path.partition("/")
        if not is_label(namespace) or not _SUBDOMAIN.fullmatch(name):
            raise Invalid("the path must be namespace/name")
        if self.live is None:
            raise Unavailable("this process has no access to clusters")
        reader = await self._actor_of(source.reader_id)
        path = f"/api/v1/namespaces/{namespace}/secrets/{name}"
        found = await self.live.read(reader, source.store, path)
        return _decoded(found, source.key)

    async def _environment(self, source: SecretSource, project: str) -> bytes:
        if not self._prefix or not _VARIABLE.fullmatch(source.key):
            raise Invalid("environment variables are not readable: see the setting `environment`")
        value = self._environ.get(self._prefix + source.key)
        if value is None:
            raise NotFound(f"the environment has no {self._prefix}{source.key}")
        return value.encode()


def _decoded(found: Mapping[str, Any], key: str) -> bytes:
    data = found.get("data")
    value = data.get(key) if isinstance(data, dict) else None
    if not isinstance(value, str):
        raise NotFound("the Secret has no such key")
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        raise Unavailable("the cluster returned a value that is not base64") from None
