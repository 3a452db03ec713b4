"""A service's secrets as they are in the clear, to take them out of what its containers say."""

import base64
from collections.abc import Iterator

import structlog

from fleet.errors import NotFound, TowlineError
from fleet.sealing import SealingKey, is_placeholder, masked
from syncagent.domain.changes import is_secret
from syncagent.domain.encrypted import EncryptedValue
from syncagent.domain.sealed import Box, with_boxes
from syncagent.domain.services import ServiceSpec
from syncagent.ports import Bundles, Identities
from syncagent.reconcile.manifests import object_of
from syncagent.reconcile.registry import Service

log = structlog.get_logger(__name__)


class Masking:
    """Knows the values of what is applied and of what is wanted: those sealed to this agent, those
    that SOPS has encrypted, and plain ones of the bundle's Secrets."""

    def __init__(self, bundles: Bundles, key: SealingKey, identities: Identities) -> None:
        self._bundles = bundles
        self._key = key
        self._identities = identities

    async def masked(self, service: Service, text: str) -> str:
        """The text without these values; empty where it cannot be told what they are."""
        if not text:
            return ""
        try:
            words = [
                word for one in self._specs(service) for word in await self._words(service, one)
            ]
        except TowlineError as error:
            log.warning("what containers say is kept back", service=service.id, reason=str(error))
            return ""
        return masked(text, words)

    def _specs(self, service: Service) -> list[ServiceSpec]:
        """NotFound: nothing of it was applied that is known."""
        desired = service.desired.spec
        current = service.current.spec if service.current is not None else None
        if current is None:
            raise NotFound("what was applied is not known")
        if desired is None or desired == current or not self._bundles.has(desired.digest):
            return [current]
        return [current, desired]

    async def _words(self, service: Service, spec: ServiceSpec) -> list[str]:
        """NotFound: the bundle is not here; Invalid: a value in it does not open."""
        data = await self._bundles.load(spec.digest)
        secrets = (line for line in data.splitlines() if b'"Secret"' in line)
        return [word for line in secrets for word in self._values(service, spec, line)]

    def _values(self, service: Service, spec: ServiceSpec, line: bytes) -> Iterator[str]:
        raw = object_of(line)
        if not is_secret(raw):
            return
        plain, boxes = with_boxes(raw, line, spec)
        for box in boxes:
            yield from _forms(opened(self._key, self._identities, box, service.id))
        for text in _plain(plain.get("stringData")):
            yield from _forms(text.encode(errors="replace"))
        for text in _plain(plain.get("data")):
            yield from _forms(_decoded(text))


def opened(key: SealingKey, identities: Identities, box: Box, service_id: str) -> bytes:
    """The plain value of a box. Invalid: it does not open."""
    if isinstance(box, EncryptedValue):
        return identities.open(box)
    return key.open(box, service_id)


def _forms(value: bytes) -> Iterator[str]:
    """A value as text, and as a Secret has it."""
    yield value.decode(errors="replace")
    yield base64.b64encode(value).decode()


def _plain(part: object) -> Iterator[str]:
    """Texts of a Secret that are no placeholders."""
    for text in part.values() if isinstance(part, dict) else ():
        if isinstance(text, str) and not is_placeholder(text):
            yield text


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except ValueError:
        return b""
