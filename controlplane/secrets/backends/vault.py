"""HashiCorp Vault and OpenBao over their HTTP API: the transit engine, and KV version 2."""

import base64
import binascii
from pathlib import Path
from urllib.parse import quote

from controlplane.secrets.backends.http import JsonClient
from controlplane.secrets.model.secret_source import SecretValues
from controlplane.secrets.ports import KeyEncryption
from core.errors import Invalid, NotFound, Unavailable
from core.json_object import JsonObject, JsonValue


class Vault:
    """One Vault, and the token for it."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        title: str = "",
        namespace: str = "",
        ca_file: Path | None = None,
    ) -> None:
        self.title = title or f"Vault at {url}"
        self._client = JsonClient(self.title, url, ca_file)
        self._headers = {"X-Vault-Token": token, "X-Vault-Request": "true"}
        if namespace:
            self._headers["X-Vault-Namespace"] = namespace

    async def read(self, path: str) -> JsonObject:
        """Returns the `data` of a path. Raises NotFound, Forbidden, Unavailable."""
        return await self._ask("GET", path)

    async def write(self, path: str, body: JsonObject) -> JsonObject:
        """Writes to a path and returns the `data` of the response."""
        return await self._ask("POST", path, body)

    async def close(self) -> None:
        """Closes all connections."""
        await self._client.close()

    async def _ask(self, method: str, path: str, body: JsonValue = None) -> JsonObject:
        answer = await self._client.ask(method, f"/v1/{quote(path)}", self._headers, body)
        data = answer.get("data")
        if not isinstance(data, dict):
            raise Unavailable(f"{self.title} sent a response without data")
        return data


class TransitKek(KeyEncryption):
    """Key encryption with a key of the transit engine, which never leaves Vault.

    The context is sent as `associated_data`: the key must be of an AEAD type, as by default.
    """

    def __init__(self, vault: Vault, key: str, mount: str = "transit") -> None:
        self.name = f"vault:{mount}/{key}"[:255]
        self._vault = vault
        self._key = key
        self._mount = mount

    async def wrap(self, key: bytes, context: str) -> bytes:
        body = {"plaintext": _b64(key), "associated_data": _b64(context.encode())}
        answer = await self._vault.write(f"{self._mount}/encrypt/{self._key}", body)
        return str(answer.get("ciphertext", "")).encode()

    async def unwrap(self, wrapped: bytes, context: str) -> bytes:
        body = {"ciphertext": wrapped.decode(), "associated_data": _b64(context.encode())}
        answer = await self._vault.write(f"{self._mount}/decrypt/{self._key}", body)
        try:
            return base64.b64decode(answer.get("plaintext", ""), validate=True)
        except (binascii.Error, TypeError):
            raise Unavailable(f"{self._vault.title} returned no key") from None

    async def close(self) -> None:
        await self._vault.close()


class KvStore(SecretValues):
    """A KV engine of version 2. `prefix` may contain `{project}`, the name of the requesting
    project.
    """

    def __init__(self, vault: Vault, mount: str = "secret", prefix: str = "") -> None:
        self._vault = vault
        self._mount = mount
        self._prefix = prefix

    async def value(self, path: str, key: str, project: str) -> bytes:
        prefix = self._prefix.replace("{project}", project).strip("/")
        full_path = "/".join(part for part in (self._mount, "data", prefix, path) if part)
        values = (await self._vault.read(full_path)).get("data") or {}
        value = values.get(key)
        if value is None:
            raise NotFound(f"{self._vault.title} has no such value")
        if not isinstance(value, str):
            raise Invalid(f"{self._vault.title} holds a value there that is not text")
        return value.encode()

    async def close(self) -> None:
        await self._vault.close()


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
