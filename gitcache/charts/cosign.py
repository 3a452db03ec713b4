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
        found = await self._tagged(digest, manifest)
        try:
            found += await self._bundles(digest, manifest)
        except Unavailable:
            # Registries answer variously to requests that they do not know.
            if not found:
                raise
        return found[:_MAX_SIGNATURES]

    async def _tagged(self, digest: str, manifest: bytes) -> list[ArtifactSignature]:
        signed = await self._manifest(f"{tag_of(digest)}.sig")
        found = []
        for layer in _maps(signed.get("layers")):
            annotations = layer.get("annotations")
            if layer.get("mediaType") != PAYLOAD_MEDIA_TYPE or not isinstance(annotations, dict):
                continue
            payload = await self._blob(layer, _MAX_PAYLOAD_BYTES)
            signature = _decoded(annotations.get(SIGNATURE_ANNOTATION))
            if signature:
                bundle = bundle_of(annotations, signature)
                found.append(ArtifactSignature(manifest, payload, signature, bundle))
        return found

    async def _bundles(self, digest: str, manifest: bytes) -> list[ArtifactSignature]:
        client, repository, account = self.client, self.repository, self.account
        try:
            referrers = await client.referrers(repository, digest, account)
        except NotFound:
            # Registries without the API have their index under a tag.
            referrers = await self._manifest(tag_of(digest))
        found = []
        for referrer in _maps(referrers.get("manifests")):
            if not str(referrer.get("artifactType")).startswith(BUNDLE_MEDIA_TYPE):
                continue
            artifact = await self._manifest(descriptor_digest(repository, referrer))
            for layer in _maps(artifact.get("layers")):
                bundle = await self._blob(layer, MAX_BUNDLE_BYTES)
                found.append(ArtifactSignature(manifest, b"", b"", bundle))
        return found

    async def _manifest(self, reference: str) -> JsonMapping:
        """A manifest or index; empty if there is none."""
        try:
            return await self.client.manifest(self.repository, reference, self.account)
        except NotFound:
            return {}

    async def _blob(self, layer: JsonMapping, limit: int) -> bytes:
        digest = descriptor_digest(self.repository, layer)
        return await self.client.blob(self.repository, digest, self.account, limit)


def bundle_of(annotations: Mapping[str, object], signature: bytes) -> bytes:
    """The Sigstore bundle of a signature without a key, from cosign's annotations; else empty."""
    try:
        pem = str(annotations[CERTIFICATE_ANNOTATION]).encode()
        entry = orjson.loads(str(annotations[ENTRY_ANNOTATION]))
        payload = entry["Payload"]
        certificate = x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
        log = bytes.fromhex(payload["logID"])
        logged = {
            "logIndex": str(payload["logIndex"]),
            "logId": {"keyId": _text(log)},
            "integratedTime": str(payload["integratedTime"]),
            "inclusionPromise": {"signedEntryTimestamp": entry["SignedEntryTimestamp"]},
            "canonicalizedBody": payload["body"],
        }
    except (ValueError, LookupError, TypeError):
        return b""
    bundle = {
        "mediaType": f"{BUNDLE_MEDIA_TYPE}.v0.3+json",
        "verificationMaterial": {
            "certificate": {"rawBytes": _text(certificate)},
            "tlogEntries": [logged],
        },
        "messageSignature": {"signature": _text(signature)},
    }
    return orjson.dumps(bundle)


def tag_of(digest: str) -> str:
    """The tag of a registry's index of referrers; cosign adds `.sig` for signatures."""
    return digest.replace(":", "-")


def _maps(value: object) -> Iterator[JsonMapping]:
    listed = value[:_MAX_SIGNATURES] if isinstance(value, list) else []
    return (item for item in listed if isinstance(item, dict))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: object) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError):
        return b""
