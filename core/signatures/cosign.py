"""Signatures of OCI artifacts by cosign with keys (sigstore: cosign signature specification)."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import orjson
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from core.errors import Invalid
from core.signatures.artifact import ArtifactSignature
from core.signatures.kind import ArtifactSigners, SignerText
from core.signatures.signer import VerifiedSigner

PAYLOAD_MEDIA_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json"
SIGNATURE_ANNOTATION = "dev.cosignproject.cosign/signature"
_TYPE = "cosign container image signature"
_PUBLIC_KEY = "PUBLIC KEY"
_MIN_RSA_BITS = 2048
_HASHES = {256: hashes.SHA256, 384: hashes.SHA384, 521: hashes.SHA512}

_Public = Ed25519PublicKey | ec.EllipticCurvePublicKey | rsa.RSAPublicKey


@dataclass(frozen=True, slots=True)
class CosignKey:
    """A public key of cosign; `fingerprint` is the sha256 of its DER form."""

    key: _Public
    fingerprint: str

    def made(self, signature: ArtifactSignature) -> bool:
        """Reports whether the key made a signature."""
        data, payload = signature.signature, signature.payload
        try:
            if isinstance(self.key, Ed25519PublicKey):
                self.key.verify(data, payload)
            elif isinstance(self.key, rsa.RSAPublicKey):
                self.key.verify(data, payload, padding.PKCS1v15(), hashes.SHA256())
            else:
                self.key.verify(data, payload, ec.ECDSA(_HASHES[self.key.key_size]()))
        except InvalidSignature:
            return False
        return True


def read_cosign_key(pem: str) -> CosignKey:
    """Reads a public key in PEM. Raises Invalid for another kind of key."""
    try:
        key = serialization.load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise Invalid("a public key is malformed") from None
    ecdsa = isinstance(key, ec.EllipticCurvePublicKey) and key.key_size in _HASHES
    long = isinstance(key, rsa.RSAPublicKey) and key.key_size >= _MIN_RSA_BITS
    if not (ecdsa or long or isinstance(key, Ed25519PublicKey)):
        raise Invalid("a public key must be ECDSA, Ed25519 or RSA of 2,048 bits and more")
    der = key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    assert isinstance(key, _Public)
    return CosignKey(key, "sha256:" + hashlib.sha256(der).hexdigest())


class CosignSigners(ArtifactSigners[CosignKey]):
    """Keys of cosign."""

    method = "cosign"

    @classmethod
    def read(cls, text: SignerText) -> Self:
        return cls(tuple(read_cosign_key(block.text) for block in text.take_blocks(_PUBLIC_KEY)))

    def names(self) -> Iterator[str]:
        return (f"cosign key {key.fingerprint}" for key in self.keys)

    def verify(self, content: str, signatures: Sequence[ArtifactSignature]) -> VerifiedSigner:
        about = [signature for signature in signatures if _is_about(signature, content)]
        if not about:
            raise Invalid("it is not signed, or its signature is of another artifact")
        for signature in about:
            for key in self.keys:
                if key.made(signature):
                    return VerifiedSigner("", key.fingerprint, self.method)
        raise Invalid("the signer is not allowed")


def _is_about(signature: ArtifactSignature, content: str) -> bool:
    try:
        critical = orjson.loads(signature.payload)["critical"]
        signed = critical["image"]["docker-manifest-digest"]
        return critical["type"] == _TYPE and signed == signature.subject(content)
    except (ValueError, LookupError, TypeError):
        return False


def signature_tag(digest: str) -> str:
    """The tag under which cosign stores the signatures of a manifest."""
    return f"{digest.replace(':', '-')}.sig"
