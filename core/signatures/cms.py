"""Detached CMS signatures (RFC 5652) with signed attributes, as gpgsm, smimesign and OpenSSL make.

It accepts less than CMS permits: one signer, SHA-2, RSA (PKCS #1 v1.5) and ECDSA.
"""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from hmac import compare_digest

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from core.errors import Invalid
from core.signatures.ber import (
    GENERALIZED_TIME,
    INTEGER,
    OBJECT_ID,
    OCTET_STRING,
    SEQUENCE,
    SET,
    UTC_TIME,
    BerValue,
    read_values,
)

_MAX_CERTIFICATES = 16
# Of the signed data and of a signer (RFC 5652 sections 5.1 and 5.3).
_VERSIONS = frozenset({b"\1", b"\3"})
_FIRST, _SECOND = 0xA0, 0xA1
_KEY_ID = 0x80
_HASHES: dict[bytes, tuple[str, type[hashes.HashAlgorithm]]] = {
    bytes.fromhex("608648016503040201"): ("sha256", hashes.SHA256),
    bytes.fromhex("608648016503040202"): ("sha384", hashes.SHA384),
    bytes.fromhex("608648016503040203"): ("sha512", hashes.SHA512),
}
_SIGNED_DATA = bytes.fromhex("2a864886f70d010702")
_DATA = bytes.fromhex("2a864886f70d010701")
_CONTENT_TYPE = bytes.fromhex("2a864886f70d010903")
_MESSAGE_DIGEST = bytes.fromhex("2a864886f70d010904")
_SIGNING_TIME = bytes.fromhex("2a864886f70d010905")
_RSA_PSS = bytes.fromhex("2a864886f70d01010a")
_TIMES = {UTC_TIME: "%y%m%d%H%M%SZ", GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}


@dataclass(frozen=True, slots=True)
class CmsSignature:
    """A parsed signature. `attributes` are the signed attributes as the signature covers them."""

    signer: x509.Certificate
    others: tuple[x509.Certificate, ...]
    hash_id: bytes
    attributes: bytes
    message_digest: bytes
    signed_at: datetime | None
    signature: bytes

    def check(self, message: bytes) -> None:
        """Raises Invalid unless the signer's key signed the message."""
        name, hash_kind = _HASHES[self.hash_id]
        digest = hashlib.new(name, message).digest()
        wrong = Invalid("the signature is not of this content")
        if not compare_digest(digest, self.message_digest):
            raise wrong
        try:
            key = self.signer.public_key()
            if isinstance(key, rsa.RSAPublicKey):
                key.verify(self.signature, self.attributes, padding.PKCS1v15(), hash_kind())
            elif isinstance(key, ec.EllipticCurvePublicKey):
                key.verify(self.signature, self.attributes, ec.ECDSA(hash_kind()))
            else:
                raise Invalid("the key of the certificate is neither RSA nor ECDSA")
        except (InvalidSignature, UnsupportedAlgorithm, ValueError):
            raise wrong from None


def read_cms(data: bytes) -> CmsSignature:
    """Reads a detached signature with its certificates. Raises Invalid."""
    try:
        return _parse_signed_data(data)
    except (ValueError, LookupError, UnsupportedAlgorithm):
        raise Invalid("the CMS signature is malformed") from None


def _parse_signed_data(data: bytes) -> CmsSignature:
    (info,) = read_values(data)
    kind, wrapped = _children(info, SEQUENCE)
    (signed_data,) = _children(wrapped, _FIRST)
    version, hash_kinds, content, *optional, signers = _children(signed_data, SEQUENCE)
    _children(hash_kinds, SET)
    types = [(part.tag, part.content) for part in (kind, *_children(content, SEQUENCE))]
    # Content inside of the signature would be signed instead of the commit.
    if types != [(OBJECT_ID, _SIGNED_DATA), (OBJECT_ID, _DATA)]:
        raise Invalid("the CMS signature is not detached")
    certificates = _certificates(optional)
    (signer,) = _children(signers, SET)
    signer_version, name, digest, attributes, *rest = _children(signer, SEQUENCE)
    if not {_content(part, INTEGER) for part in (version, signer_version)} <= _VERSIONS:
        raise Invalid("the CMS signature is of a version that is not supported")
    signed_attributes = _attributes(attributes)
    algorithm, signature, *_ = rest
    hash_id, signature_algorithm = (
        _children(part, SEQUENCE)[0].content for part in (digest, algorithm)
    )
    if hash_id not in _HASHES or signature_algorithm == _RSA_PSS:
        raise Invalid("the CMS signature uses an algorithm that is not supported")
    (message_digest,) = _children(signed_attributes[_MESSAGE_DIGEST], SET)
    if signed_attributes[_CONTENT_TYPE].split()[0].content != _DATA:
        raise Invalid("the CMS signature is of another type of content")
    signer_certificate = next(
        (each for each in certificates if _names_certificate(each, name)), None
    )
    if signer_certificate is None:
        raise Invalid("the CMS signature came without the certificate of its signer")
    return CmsSignature(
        signer_certificate,
        tuple(each for each in certificates if each is not signer_certificate),
        hash_id,
        bytes([SET]) + attributes.raw[1:],
        _content(message_digest, OCTET_STRING),
        _signing_time(signed_attributes.get(_SIGNING_TIME)),
        _content(signature, OCTET_STRING),
    )


def _certificates(optional: list[BerValue]) -> list[x509.Certificate]:
    """The certificates; the signature may also have revocation lists, which decide nothing."""
    values = next((part.split() for part in optional if part.tag == _FIRST), [])
    if len(values) > _MAX_CERTIFICATES or any(
        part.tag not in {_FIRST, _SECOND} for part in optional
    ):
        raise Invalid("the CMS signature is malformed")
    return [x509.load_der_x509_certificate(part.raw) for part in values]


def _attributes(value: BerValue) -> dict[bytes, BerValue]:
    """The signed attributes by their type. Without them, attributes could pass for content."""
    if value.tag != _FIRST:
        raise Invalid("the CMS signature has no signed attributes")
    attributes: dict[bytes, BerValue] = {}
    for part in value.split():
        kind, values = _children(part, SEQUENCE)
        if _content(kind, OBJECT_ID) in attributes:
            raise Invalid("the CMS signature has an attribute twice")
        attributes[kind.content] = values
    return attributes


def _names_certificate(certificate: x509.Certificate, name: BerValue) -> bool:
    """Reports whether the signature names a certificate as that of its signer."""
    if name.tag == _KEY_ID:
        try:
            kind = x509.SubjectKeyIdentifier
            return certificate.extensions.get_extension_for_class(kind).value.digest == name.content
        except x509.ExtensionNotFound:
            return False
    issuer, serial = _children(name, SEQUENCE)
    number = int.from_bytes(_content(serial, INTEGER), signed=True)
    return certificate.issuer.public_bytes() == issuer.raw and certificate.serial_number == number


def _signing_time(values: BerValue | None) -> datetime | None:
    if values is None:
        return None
    (value,) = values.split()
    text = value.content.decode("ascii")
    return datetime.strptime(text, _TIMES[value.tag]).replace(tzinfo=UTC)


def _children(value: BerValue, tag: int) -> list[BerValue]:
    if value.tag != tag:
        raise ValueError("another value is expected")
    return value.split()


def _content(value: BerValue, tag: int) -> bytes:
    if value.tag != tag:
        raise ValueError("another value is expected")
    return value.content
