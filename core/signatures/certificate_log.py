"""Promises of certificate logs to contain a certificate (SCT, RFC 6962 section 3.2)."""

import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from core.errors import Invalid
from core.signatures.cosign_key import CosignKey

_VERSION_1, _OF_CERTIFICATE, _PRECERTIFICATE = b"\0", b"\0", b"\0\1"
_EPOCH = datetime(1970, 1, 1)


def check_certificate_log(
    certificate: x509.Certificate, issuer: x509.Certificate, logs: Iterable[CosignKey]
) -> None:
    """Raises Invalid unless one of these logs promises in the certificate to contain it."""
    logs_by_key_id = {log.fingerprint: log for log in logs}
    for timestamp in _timestamps(certificate):
        log = logs_by_key_id.get(f"sha256:{timestamp.log_id.hex()}")
        if log is not None and log.is_signature_of(
            timestamp.signature, _signed_content(certificate, issuer, timestamp)
        ):
            return
    raise Invalid("no trusted certificate log promises to contain its certificate (SCT)")


def _timestamps(
    certificate: x509.Certificate,
) -> Iterable[x509.certificate_transparency.SignedCertificateTimestamp]:
    kind = x509.PrecertificateSignedCertificateTimestamps
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except (x509.ExtensionNotFound, ValueError):
        return ()


def _signed_content(
    certificate: x509.Certificate,
    issuer: x509.Certificate,
    promise: x509.certificate_transparency.SignedCertificateTimestamp,
) -> bytes:
    key = issuer.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    milliseconds = (promise.timestamp - _EPOCH) // timedelta(milliseconds=1)
    content, extensions = certificate.tbs_precertificate_bytes, promise.extension_bytes
    return b"".join((
        _VERSION_1 + _OF_CERTIFICATE + milliseconds.to_bytes(8, "big") + _PRECERTIFICATE,
        hashlib.sha256(key).digest(),
        len(content).to_bytes(3, "big") + content,
        len(extensions).to_bytes(2, "big") + extensions,
    ))  # fmt: skip
