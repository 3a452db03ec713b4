"""Signatures that cosign stores in a registry, beside the artifact that they are about.

Cosign before version 3 tags an image of signatures after the artifact. Later versions store bundles
as referrers (OCI Distribution Specification 1.1: Listing Referrers).
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import orjson
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from core.errors import NotFound, Unavailable
from core.json_object import JsonMapping
from core.outbound.credentials import RegistryAccount
from core.outbound.oci import OciRegistryClient, descriptor_digest
from core.signatures.artifact import ArtifactSignature
from core.signatures.sigstore_bundle import BUNDLE_MEDIA_TYPE, MAX_BUNDLE_BYTES
from core.spec.images import OciRepository

PAYLOAD_MEDIA_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json"
SIGNATURE_ANNOTATION = "dev.cosignproject.cosign/signature"
CERTIFICATE_ANNOTATION = "dev.sigstore.cosign/certificate"
ENTRY_ANNOTATION = "dev.sigstore.cosign/bundle"
_MAX_SIGNATURES = 16
_MAX_PAYLOAD_BYTES = 16384


@dataclass(frozen=True, slots=True)
class SignatureReader:
    """Reads the signatures of artifacts in one repository. `account` None: anonymous."""

    client: OciRegistryClient
    repository: OciRepository
    account: RegistryAccount | None

    async def read(self, digest: str, manifest: bytes = b"") -> list[ArtifactSignature]:
        """Returns the signatures of the manifest with a digest; none for an unsigned one.

        `manifest` becomes part of each. Raises Unavailable.
        """
        signatures = await self._tag_signatures(digest, manifest)
        try:
            signatures += await self._referrer_signatures(digest, manifest)
        except Unavailable:
            # Registries answer variously to requests that they do not know.
            if not signatures:
                raise
        return signatures[:_MAX_SIGNATURES]

    async def _tag_signatures(self, digest: str, manifest: bytes) -> list[ArtifactSignature]:
        signature_manifest = await self._manifest(f"{referrers_tag(digest)}.sig")
        signatures = []
        for layer in _mappings(signature_manifest.get("layers")):
            annotations = layer.get("annotations")
            if layer.get("mediaType") != PAYLOAD_MEDIA_TYPE or not isinstance(annotations, dict):
                continue
            payload = await self._blob(layer, _MAX_PAYLOAD_BYTES)
            signature = _decode_base64(annotations.get(SIGNATURE_ANNOTATION))
            if signature:
                bundle = sigstore_bundle(annotations, signature)
                signatures.append(ArtifactSignature(manifest, payload, signature, bundle))
        return signatures

    async def _referrer_signatures(self, digest: str, manifest: bytes) -> list[ArtifactSignature]:
        client, repository, account = self.client, self.repository, self.account
        try:
            referrers = await client.referrers(repository, digest, account)
        except NotFound:
            # Registries without the API have their index under a tag.
            referrers = await self._manifest(referrers_tag(digest))
        signatures = []
        for referrer in _mappings(referrers.get("manifests")):
            if not str(referrer.get("artifactType")).startswith(BUNDLE_MEDIA_TYPE):
                continue
            artifact = await self._manifest(descriptor_digest(repository, referrer))
            for layer in _mappings(artifact.get("layers")):
                bundle = await self._blob(layer, MAX_BUNDLE_BYTES)
                signatures.append(ArtifactSignature(manifest, b"", b"", bundle))
        return signatures

    async def _manifest(self, reference: str) -> JsonMapping:
        """Returns a manifest or index; empty if there is none."""
        try:
            return await self.client.manifest(self.repository, reference, self.account)
        except NotFound:
            return {}

    async def _blob(self, layer: JsonMapping, limit: int) -> bytes:
        digest = descriptor_digest(self.repository, layer)
        return await self.client.blob(self.repository, digest, self.account, limit)


def sigstore_bundle(annotations: Mapping[str, object], signature: bytes) -> bytes:
    """Returns the Sigstore bundle of a keyless signature, from cosign's annotations; else empty."""
    try:
        pem = str(annotations[CERTIFICATE_ANNOTATION]).encode()
        entry = orjson.loads(str(annotations[ENTRY_ANNOTATION]))
        payload = entry["Payload"]
        certificate = x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
        log_id = bytes.fromhex(payload["logID"])
        log_entry = {
            "logIndex": str(payload["logIndex"]),
            "logId": {"keyId": _base64(log_id)},
            "integratedTime": str(payload["integratedTime"]),
            "inclusionPromise": {"signedEntryTimestamp": entry["SignedEntryTimestamp"]},
            "canonicalizedBody": payload["body"],
        }
    except (ValueError, LookupError, TypeError):
        return b""
    bundle = {
        "mediaType": f"{BUNDLE_MEDIA_TYPE}.v0.3+json",
        "verificationMaterial": {
            "certificate": {"rawBytes": _base64(certificate)},
            "tlogEntries": [log_entry],
        },
        "messageSignature": {"signature": _base64(signature)},
    }
    return orjson.dumps(bundle)


def referrers_tag(digest: str) -> str:
    """Returns the tag of a registry's index of referrers; cosign adds `.sig` for signatures."""
    return digest.replace(":", "-")


def _mappings(value: object) -> Iterator[JsonMapping]:
    items = value[:_MAX_SIGNATURES] if isinstance(value, list) else []
    return (item for item in items if isinstance(item, dict))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode_base64(value: object) -> bytes:
    try:
        return base64.b64decode(str(value), validate=True)
    except (binascii.Error, ValueError):
        return b""
