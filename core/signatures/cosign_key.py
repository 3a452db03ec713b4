"""Public keys of cosign and of transparency logs."""

import hashlib
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

from core.errors import Invalid

_MIN_RSA_BITS = 2048
_HASHES = {256: hashes.SHA256, 384: hashes.SHA384, 521: hashes.SHA512}

_Public = Ed25519PublicKey | ec.EllipticCurvePublicKey | rsa.RSAPublicKey


@dataclass(frozen=True, slots=True)
class CosignKey:
    """A public key of cosign; `fingerprint` is the sha256 of its DER form."""

    key: _Public
    fingerprint: str

    def is_signature_of(self, data: bytes, payload: bytes) -> bool:
        """Reports whether the key made the signature `data` of a payload."""
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
        return cosign_key(serialization.load_pem_public_key(pem.encode()))
    except (ValueError, UnsupportedAlgorithm):
        raise Invalid("a public key is malformed") from None


def cosign_key(key: PublicKeyTypes) -> CosignKey:
    """Returns a public key for signatures of cosign. Raises Invalid for another kind of key."""
    is_ecdsa = isinstance(key, ec.EllipticCurvePublicKey) and key.key_size in _HASHES
    is_long_rsa = isinstance(key, rsa.RSAPublicKey) and key.key_size >= _MIN_RSA_BITS
    if not (is_ecdsa or is_long_rsa or isinstance(key, Ed25519PublicKey)):
        raise Invalid("a public key must be ECDSA, Ed25519 or RSA of 2,048 bits and more")
    der = key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    assert isinstance(key, _Public)
    return CosignKey(key, "sha256:" + hashlib.sha256(der).hexdigest())
