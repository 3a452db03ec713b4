"""Masking of a service's secrets in the logs and events of its containers."""

import base64
from collections.abc import Iterator

import structlog

from core.errors import NotFound, TowlineError
from core.sealing import SealingKey, is_placeholder, mask_secrets
from core.spec.desired import BundleSpec
from syncagent.domain.field_change import is_secret
from syncagent.domain.sealed_values import SealedValue, with_sealed_values
from syncagent.domain.sops_values import EncryptedValue
from syncagent.ports import BundleStore, DecryptionKeys
from syncagent.reconcile.bundle_plan import object_of
from syncagent.reconcile.registry import ServiceState

log = structlog.get_logger(__name__)


class Masking:
    """Masks the secrets of the applied and the desired bundle: values sealed to this agent, values
    encrypted by SOPS, and plain values of Secrets.
    """

    def __init__(self, bundles: BundleStore, key: SealingKey, identities: DecryptionKeys) -> None:
        self._bundles = bundles
        self._key = key
        self._identities = identities

    async def masked(self, service: ServiceState, text: str) -> str:
        """Returns the text without these values; empty if they cannot be read."""
        if not text:
            return ""
        try:
            values = [
                value
                for target in self._specs(service)
                for value in await self._secret_values(service, target)
            ]
        except TowlineError as error:
            log.warning("container output withheld", service=service.id, reason=str(error))
            return ""
        return mask_secrets(text, values)

    def _specs(self, service: ServiceState) -> list[BundleSpec]:
        """Returns the applied and desired specs. NotFound: no applied spec is known."""
        desired = service.desired.spec
        current = service.current.spec if service.current is not None else None
        if current is None:
            raise NotFound("the applied bundle is not known")
        if desired is None or desired == current or not self._bundles.has(desired.digest):
            return [current]
        return [current, desired]

    async def _secret_values(self, service: ServiceState, spec: BundleSpec) -> list[str]:
        """Reads the secret values of a bundle. NotFound: it is not stored here. Invalid: a value
        cannot be opened.
        """
        data = await self._bundles.load(spec.digest)
        secrets = (line for line in data.splitlines() if b'"Secret"' in line)
        return [value for line in secrets for value in self._values_of_secret(service, spec, line)]

    def _values_of_secret(
        self, service: ServiceState, spec: BundleSpec, line: bytes
    ) -> Iterator[str]:
        raw = object_of(line)
        if not is_secret(raw):
            return
        plain, sealed_values = with_sealed_values(raw, line, spec)
        for sealed in sealed_values:
            yield from _encodings(open_sealed(self._key, self._identities, sealed, service.id))
        for text in _plain_texts(plain.get("stringData")):
            yield from _encodings(text.encode(errors="replace"))
        for text in _plain_texts(plain.get("data")):
            yield from _encodings(_decoded(text))


def open_sealed(
    key: SealingKey, identities: DecryptionKeys, sealed: SealedValue, service_id: str
) -> bytes:
    """Opens a sealed value. Invalid: it cannot be opened."""
    if isinstance(sealed, EncryptedValue):
        return identities.open(sealed)
    return key.open(sealed, service_id)


def _encodings(value: bytes) -> Iterator[str]:
    """Returns a value as text and in base64, as in a Secret."""
    yield value.decode(errors="replace")
    yield base64.b64encode(value).decode()


def _plain_texts(part: object) -> Iterator[str]:
    """Iterates over texts of a Secret that are not placeholders."""
    for text in part.values() if isinstance(part, dict) else ():
        if isinstance(text, str) and not is_placeholder(text):
            yield text


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except ValueError:
        return b""
