"""Signatures that cosign stores in a registry, beside the artifact that they are about."""

import base64
import binascii

from core.errors import NotFound
from core.outbound.credentials import RegistryAccount
from core.outbound.oci import OciRegistryClient, descriptor_digest
from core.signatures.artifact import ArtifactSignature
from core.signatures.cosign import PAYLOAD_MEDIA_TYPE, SIGNATURE_ANNOTATION, signature_tag
from core.spec.images import OciRepository

_MAX_SIGNATURES = 16
_MAX_PAYLOAD_BYTES = 16384


async def signatures_in(
    client: OciRegistryClient,
    repository: OciRepository,
    account: RegistryAccount | None,
    digest: str,
    manifest: bytes = b"",
) -> list[ArtifactSignature]:
    """Returns the signatures of the manifest with a digest; none for an unsigned one. Unavailable.

    `manifest` becomes part of each.
    """
    try:
        signed = await client.manifest(repository, signature_tag(digest), account)
    except NotFound:
        return []
    listed = signed.get("layers")
    found = []
    for layer in listed[:_MAX_SIGNATURES] if isinstance(listed, list) else []:
        annotations = layer.get("annotations") if isinstance(layer, dict) else None
        if not isinstance(annotations, dict) or layer.get("mediaType") != PAYLOAD_MEDIA_TYPE:
            continue
        blob = descriptor_digest(repository, layer)
        payload = await client.blob(repository, blob, account, _MAX_PAYLOAD_BYTES)
        if signature := _signature(annotations.get(SIGNATURE_ANNOTATION)):
            found.append(ArtifactSignature(manifest, payload, signature))
    return found


def _signature(text: object) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError):
        return b""
